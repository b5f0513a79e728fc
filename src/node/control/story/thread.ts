import type { StoryEvent } from '../../../http/dashboard/facts.js';
import { CANDIDATES } from '../../../runtime/short-ids.js';
import { approvalEvents, approvalsIn, approvalWait } from './approval.js';
import { auditedAbout, decisionEvent, decisionWord } from './decisions.js';
import { ALONE, eventOf, MAX_EVENTS, type StoryContext, type StorySource, type Told } from './told.js';

/** Conversations: every message in them. */
export function threadSource(context: StoryContext): StorySource {
  const { node } = context;
  return {
    kind: 'thread',
    async ids(given) {
      const found = (await node.records?.journal.idsBeginning(given, CANDIDATES)) ?? [];
      return found.filter(({ isThread }) => isThread).map(({ id }) => id);
    },
    tell: (id) => tell(id, context),
  };
}

async function tell(id: string, context: StoryContext): Promise<Told | undefined> {
  const { node, key, on } = context;
  const rows = (await node.records?.journal.search({ thread: id, limit: MAX_EVENTS })) ?? [];
  const first = rows[0];
  if (!first) return undefined;
  const refused = rows.some(({ code }) => code !== null);
  const [audited, count, approvals, worked] = await Promise.all([
    refused ? auditedAbout(id, first.at, context) : [],
    rows.length < MAX_EVENTS ? rows.length : node.records!.journal.countIn(id),
    approvalsIn([id], context),
    workEvents(id, context),
  ]);
  const messages = rows.map((row) => ({ ...decisionEvent(row, audited, key), link: row.envelopeId }));
  const waits = approvalWait(approvals);
  return {
    id,
    kind: 'thread',
    title: `conversation between ${first.sender} and ${first.recipient}`,
    state: waits ? 'input required' : decisionWord(rows.at(-1)!),
    // A conversation has no end: any of its agents may write again.
    over: false,
    waits,
    events: [...messages, ...worked, ...approvals.flatMap((one) => approvalEvents(one, key))],
    left: count - rows.length,
    related: [...approvals.map((one) => ({ id: one.id, kind: 'approval' as const })), ...(await callsIn(id))],
  };

  async function callsIn(thread: string) {
    const calls = (await on.invocations({}, ALONE)).filter((one) => one.thread === thread);
    return calls.map((call) => ({ id: call.id, kind: 'tool call' as const }));
  }
}

/** What providers did in a conversation, as far as this process remembers it. */
export async function workEvents(thread: string, { on, key }: StoryContext): Promise<StoryEvent[]> {
  const events = await on['thread.events']({ id: thread }, ALONE);
  return events.map(({ timestamp: at, topic = '', sender, provider, code = null, reason = null }) => {
    const word = topic.replace(/^provider\./, '').replaceAll(/[.-]/g, ' ');
    const proof = { kind: 'record', text: `event ${topic} of worker ${provider ?? 'unknown'}` } as const;
    return eventOf(key, { at, from: sender ?? provider ?? null, word, text: reason, code, rule: null, proof });
  });
}
