import { OWNER } from '../../coding-agents/mailbox/letter.js';
import { unpackEnvelope } from '../../mesh/codec.js';
import type { Recipient } from '../../mesh/schemas.js';
import { type A2AEnvelope, type A2ALogEvent, A2ALogEventSchema } from '../../mesh/schemas.js';
import { type ObjectRef, withAttachments } from '../../objects/reference.js';
import { planThreads } from '../../plans/dispatcher.js';
import { aborted } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import { CANDIDATES } from '../../runtime/short-ids.js';
import { agentRows } from './agent-rows.js';
import { wrongParameter } from './api.js';
import { type ControlContext, completeId, type Handlers, inFull } from './context.js';
import { fitting } from './protocol.js';

/** The owner's operations on agents and their messages; the owner may act as any agent of this node. */
export function messageMethods(context: ControlContext) {
  const { node, codingAgents, telemetry } = context;
  const { registry, router, observability } = node;
  const recipient = ({ to, capability }: { to?: string; capability?: string }): Recipient => {
    if (capability !== undefined) return { capability };
    if (!to) throw wrongParameter('to', 'must be a non-empty string');
    return inFull(to, node);
  };
  const sender = (as: string) => (as === OWNER ? node.operator() : node.agentById(as));
  return {
    agents({ capability, tier, sandbox }) {
      const cards = capability === undefined ? registry.listAll() : registry.findByCapability(capability);
      const wanted = cards
        .filter((card) => tier === undefined || card.tier === tier)
        .filter((card) => sandbox === undefined || card.sandboxId === sandbox);
      return agentRows(wanted, context);
    },
    card: ({ id }) => registry.requireById(inFull(id, node)),
    policy: ({ from, to, type = 'request', justification }) =>
      router.explain(inFull(from, node), inFull(to, node), type, justification),
    async tail({ type, agent: wanted, messages = false }, { emit, signal }) {
      const agent = wanted === undefined ? undefined : inFull(wanted, node);
      if (type !== undefined) requireEventType(type);
      if (agent !== undefined && agent !== OWNER && !codingAgents.mailboxes.has(agent)) registry.requireById(agent);
      const stop = observability.subscribeWithPayload((event, payload) => {
        if (type !== undefined && event.type !== type && event.topic !== type) return;
        if (agent !== undefined && event.sender !== agent && event.recipient !== agent) return;
        if (messages && isPartOfMessage(event)) return;
        emit(payload === undefined ? event : { ...event, payload });
      });
      await aborted(signal);
      stop();
    },
    metrics: () => observability.getMetrics(),
    'metrics.text': () => node.metricsText(),
    'metrics.history': ({ points }) => telemetry.history(points),
    async send({ as, to, capability, payload, attach = [], ...options }) {
      const [agent, addressee] = [sender(as), recipient({ to, capability })];
      if (attach.length === 0) return agent.send(addressee, payload, options);
      if (typeof addressee !== 'string') throw wrongParameter('attach', 'needs a recipient by its address');
      const { ttlMs } = options;
      const refs: ObjectRef[] = [];
      for (const path of attach) refs.push(await agent.objects.put(path, { to: addressee, ttlMs }));
      return agent.send(addressee, withAttachments(payload, refs), options);
    },
    request: ({ as, to, capability, payload, timeoutMs }, { signal }) =>
      sender(as).request(recipient({ to, capability }), payload, { timeoutMs, signal }),
    broadcast: ({ as, payload }) => sender(as).broadcast(payload),
    thread: async ({ id, from = 0, limit }) => {
      const end = limit === undefined || from + limit === 0 ? undefined : from + limit;
      return fitting((await conversation(id, context)).slice(from, end));
    },
    'thread.events': ({ id }) => node.providerEvents.of(id),
  } satisfies Partial<Handlers>;
}

/** An event's type, or a topic of the types that have topics. */
function requireEventType(type: string): void {
  const types = A2ALogEventSchema.shape.type.options;
  if (types.some((known) => known === type) || /^(provider|credential|action)\.[\w.-]+$/.test(type)) return;
  const known = [...types, 'provider.health.changed and other topics of provider, credential and action'];
  throw new EclipticError('USAGE', `there are no events of type "${type}"; there are ${known.join(', ')}`, {
    parameter: 'type',
    types,
  });
}

/** Does another event report the same message? Exactly one `routing-decision` reports each message. */
function isPartOfMessage({ type, code, envelopeId }: A2ALogEvent): boolean {
  if (type === 'message-sent' || type === 'message-received' || type === 'tier-audit') return true;
  if (type === 'security') return envelopeId !== undefined;
  return type === 'routing-decision' && code === 'DELIVERY_FAILED';
}

/** The longest conversation that is shown. */
const MAX_MESSAGES = 1_000;

/** A conversation by its own id, or by the id of a proposal, a run or a message in it; the id may be shortened. */
async function conversation(given: string, context: ControlContext): Promise<readonly A2AEnvelope[]> {
  let found = await messagesAbout(given, context);
  if (found.length === 0) {
    const id = await completed(given, context);
    if (id !== given) found = await messagesAbout(id, context);
  }
  return Promise.all(found.map((envelope) => withPayload(envelope, context)));
}

async function messagesAbout(id: string, { node }: ControlContext): Promise<readonly A2AEnvelope[]> {
  const proposed = (wanted: (proposal: Thread) => boolean) =>
    threadsOfProposals(node)
      .filter(wanted)
      .map(({ correlationId }) => correlationId);
  const remembered = async (threads: Iterable<string>) =>
    (await Promise.all([...new Set(threads)].map((thread) => node.thread(thread)))).flat();
  const journal = node.records?.journal;
  const own = await node.thread(id);
  if (own.length > 0) return own;
  const known = await remembered(proposed(({ proposalId }) => proposalId === id));
  if (known.length > 0) return known;
  const prefix = planThreads(id);
  const ofRun = await remembered(proposed(({ correlationId }) => correlationId.startsWith(prefix)));
  if (ofRun.length > 0 || !journal) return ofRun;
  const [found] = await journal.about(id);
  const whole = found?.thread ? await node.thread(found.thread) : [];
  if (whole.some((envelope) => envelope.id === id)) return whole;
  const thread = found?.thread ?? id;
  const rows = found && found.thread === null ? [found] : await journal.search({ thread, limit: MAX_MESSAGES });
  const all = rows.length > 0 ? rows : await journal.beginningWith(prefix, MAX_MESSAGES);
  return all.map(({ envelope, at }) => ({ ...unpackEnvelope(JSON.parse(envelope)), timestamp: at }));
}

type Thread = { readonly proposalId: string; readonly correlationId: string };

function threadsOfProposals({ agents }: ControlContext['node']): Thread[] {
  return agents.flatMap(({ proposalSides }) => proposalSides.map(({ proposal }) => proposal));
}

/** The id that a shortened id stands for. Ids of one conversation are not ambiguous. */
async function completed(given: string, { node, loop }: ControlContext): Promise<string> {
  const [journalled = [], runs] = await Promise.all([
    node.records?.journal.idsBeginning(given, CANDIDATES),
    loop.idsBeginning(given, CANDIDATES),
  ]);
  const known = [
    ...threadsOfProposals(node).map(({ proposalId: id, correlationId: thread }) => ({ id, thread })),
    ...journalled,
    ...runs.map((id) => ({ id, thread: id })),
  ].filter(({ id }) => id.startsWith(given));
  const byThread = new Map(known.map(({ id, thread }) => [thread, id]));
  return completeId(given, byThread.values());
}

/** The journal has no payloads of durable messages: they are in the store of mail, or among the messages of coding agents. */
export async function withPayload(
  envelope: A2AEnvelope,
  { node, codingAgents }: Pick<ControlContext, 'node' | 'codingAgents'>,
): Promise<A2AEnvelope> {
  const { id, sender, recipient, payload, metadata } = envelope;
  if (payload !== null || !metadata?.durable) return envelope;
  const waiting = await node.mail?.waiting(id);
  if (waiting !== undefined) return { ...envelope, payload: unpackEnvelope(JSON.parse(waiting)).payload };
  for (const member of [sender, recipient]) {
    const text = await codingAgents.textOf(member, id);
    if (text !== undefined) return { ...envelope, payload: { text } };
  }
  return { ...envelope, payload: undefined };
}
