import type { Proof, StoryAgain, StoryEvent, StoryWait } from '../../../http/dashboard/facts.js';
import type { ReceiptState, ReceiptStep } from '../../../mail/receipt.js';
import type { JournalRow } from '../../../mesh/audit/tables.js';
import { unpackEnvelope } from '../../../mesh/codec.js';
import type { A2AEnvelope } from '../../../mesh/schemas.js';
import { EclipticError } from '../../../runtime/errors.js';
import { CANDIDATES } from '../../../runtime/short-ids.js';
import { timeOfUlid } from '../../../runtime/ulid.js';
import { auditedAbout, decisionEvent, envelopeOf, failureEvents } from './decisions.js';
import { signatureEvents } from './signature.js';
import { ALONE, eventOf, type ReadReceipt as Receipt, type StoryContext, type StorySource, type Told } from './told.js';

/** Messages in one thread that are searched for an answer. */
const MAX_SEARCHED = 200;

/** Messages: decisions of the router, and receipts of durable ones. */
export function messageSource(context: StoryContext): StorySource {
  const { node } = context;
  return {
    kind: 'message',
    async ids(given) {
      const [decided = [], durable = []] = await Promise.all([
        node.records?.journal.idsBeginning(given, CANDIDATES),
        node.mail?.receiptIdsBeginning(given, CANDIDATES),
      ]);
      return [...decided.filter(({ isThread }) => !isThread).map(({ id }) => id), ...durable];
    },
    tell: (id) => tell(id, context),
  };
}

async function tell(id: string, context: StoryContext): Promise<Told | undefined> {
  const { node, key } = context;
  const [about = [], receipt] = await Promise.all([node.records?.journal.about(id), receiptOf(id, context)]);
  const rows = about.filter(({ envelopeId }) => envelopeId === id);
  const since = rows[0]?.at ?? timeOfUlid(id);
  const audited = since === null ? [] : await auditedAbout(id, since, context);
  const failures = failureEvents(id, audited, rows, key);
  if (rows.length === 0 && failures.length === 0 && !receipt) return undefined;
  const envelope = await envelopeWithPayload(id, rows, context);
  const { sender = failures[0]?.from ?? null, recipient = failures[0]?.to ?? null } = rows[0] ?? envelope ?? {};
  const reply = await replyTo(rows[0], context);
  const decisions = [...rows.map((row) => decisionEvent(row, audited, key)), ...failures];
  const ends = { sender, recipient, reply: reply?.envelopeId };
  const steps = (receipt?.story ?? []).map((step) => receiptEvent(step, ends, key));
  const signed = envelope ? signatureEvents({ ...envelope, recipient: recipient ?? '' }, key) : [];
  const answered = reply && !receipt ? [replyEvent(reply, key)] : [];
  const type = rows[0]?.type ?? envelope?.type ?? failures[0]?.text ?? 'message';
  const thread = rows[0]?.thread ?? envelope?.correlationId;
  return {
    id,
    kind: 'message',
    title: `${type} from ${sender ?? 'an unknown sender'} to ${recipient ?? 'an unknown recipient'}`,
    state: receipt?.state ?? (reply ? 'replied' : (decisions.at(-1)?.word ?? 'stored')),
    over: receipt?.over ?? true,
    waits: receipt && !receipt.over ? await waitOf(id, receipt, context) : null,
    events: [...signed, ...decisions, ...steps, ...answered],
    parties: [sender, recipient],
    payload: envelope?.payload,
    again: envelope ? againOf(envelope, recipient, context) : null,
    related: [
      ...(thread === undefined || thread === null ? [] : [{ id: thread, kind: 'thread' as const }]),
      ...(reply ? [{ id: reply.envelopeId, kind: 'message' as const }] : []),
    ],
  };
}

/** Only an agent of this node can send it again, and only what opens a conversation makes sense again. */
function againOf(
  { sender: as, type, metadata }: A2AEnvelope,
  to: string | null,
  { node }: StoryContext,
): StoryAgain | null {
  const isOwn = node.agents.some(({ id }) => id === as);
  if (!isOwn || to === null || (type !== 'request' && type !== 'notification')) return null;
  return { as, to, type, durable: metadata?.durable === true };
}

async function receiptOf(id: string, { node, on }: StoryContext): Promise<Receipt | undefined> {
  if (!node.mail) return undefined;
  try {
    const receipt = await on.receipt({ id }, ALONE);
    return receipt.id === id ? receipt : undefined;
  } catch (error) {
    if (error instanceof EclipticError && (error.code === 'RECEIPT_NOT_FOUND' || error.code === 'AMBIGUOUS_ID')) {
      return undefined;
    }
    throw error;
  }
}

async function envelopeWithPayload(
  id: string,
  [row]: readonly JournalRow[],
  context: StoryContext,
): Promise<A2AEnvelope | undefined> {
  if (row) return context.withPayload(envelopeOf(row));
  const waiting = await context.node.mail?.waiting(id);
  return waiting === undefined ? undefined : unpackEnvelope(JSON.parse(waiting));
}

/** The first answer to a message: in its thread, in the other direction, and later. */
async function replyTo(row: JournalRow | undefined, { node }: StoryContext): Promise<JournalRow | undefined> {
  if (!row?.thread || row.code !== null) return undefined;
  const rows =
    (await node.records?.journal.search({ thread: row.thread, agent: row.recipient, limit: MAX_SEARCHED })) ?? [];
  const isBack = (one: JournalRow) => one.sender === row.recipient && one.recipient === row.sender;
  return rows.find((one) => one.seq > row.seq && one.code === null && isBack(one));
}

function replyEvent(
  { at, sender: from, recipient: to, seq, type, envelopeId: link }: JournalRow,
  key: string,
): StoryEvent {
  const proof: Proof = { kind: 'row', text: `row ${seq} of the journal` };
  return eventOf(key, { at, from, to, word: 'replied', text: type, proof, link });
}

interface Ends {
  readonly sender: string | null;
  readonly recipient: string | null;
  readonly reply: string | undefined;
}

const AT_SENDER: ReadonlySet<ReceiptState> = new Set<ReceiptState>(['stored', 'relayed', 'expired', 'undeliverable']);
const BACK: ReadonlySet<ReceiptState> = new Set<ReceiptState>(['replied', 'declined', 'refused']);

function receiptEvent({ state, at, reason }: ReceiptStep, { sender, recipient, reply }: Ends, key: string): StoryEvent {
  const ways = { from: AT_SENDER.has(state) ? sender : recipient, to: BACK.has(state) ? sender : null };
  const way = state === 'arrived' ? { from: sender, to: recipient } : ways;
  const proof: Proof = { kind: 'receipt', text: `receipt: ${state}` };
  const code = state === 'refused' ? codeIn(reason) : null;
  const link = state === 'replied' && reply !== undefined ? { link: reply } : {};
  return eventOf(key, { at, ...way, word: state, text: reason, code, rule: code && reason, proof, ...link });
}

/** A refusing node writes `CODE: reason`. */
function codeIn(reason: string | null): string | null {
  return /^([A-Z][A-Z_]+)\b/.exec(reason ?? '')?.[1] ?? null;
}

/** What a durable message waits for, by its place and its receipt. */
async function waitOf(id: string, { state, story }: Receipt, { node }: StoryContext): Promise<StoryWait | null> {
  const pending = await node.mail!.pending(id);
  const since = story.at(-1)?.at ?? null;
  const until = pending?.expiresAt ?? null;
  if (pending?.place === 'outbox') {
    const away = node.network?.peers.reachable(pending.node) !== true;
    const name = node.network?.peers.get(pending.node)?.name ?? pending.node.slice(0, 12);
    const reason = away ? `node ${name} is away` : `node ${name} has not acknowledged it yet`;
    return { for: pending.node, since, until, reason };
  }
  if (!pending) {
    const reason = 'the recipient’s node has it and has not reported its end';
    return { for: 'the recipient', since, until: null, reason };
  }
  const { recipient } = pending;
  if (state === 'held') return { for: 'operator', since, until, reason: 'the owner lets its sender in, or not' };
  const card = node.registry.getById(recipient);
  const status = card?.status;
  if (!card) return { for: recipient, since, until, reason: 'the recipient is away' };
  if (status && status.state !== 'ready') {
    const why = status.reason === undefined ? '' : `: ${status.reason}`;
    return { for: recipient, since, until, reason: `the recipient is ${status.state}${why}` };
  }
  if (node.mail!.isUnhandled(recipient, id)) {
    return { for: recipient, since, until, reason: 'no handler of the recipient takes it' };
  }
  const reason = state === 'arrived' ? 'the recipient has not read it' : 'the recipient has not finished it';
  return { for: recipient, since, until, reason };
}
