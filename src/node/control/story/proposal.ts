import { type AgentSide, proposalSides, stateOfProposal } from '../../../agent/proposal-sides.js';
import type { StoryEvent, StoryWait } from '../../../http/dashboard/facts.js';
import type { JournalRow } from '../../../mesh/audit/tables.js';
import { cutText } from '../../../runtime/text.js';
import { timeOfUlid } from '../../../runtime/ulid.js';
import { NOT_AWARDED } from '../../../work/proposals/machine.js';
import { PROPOSAL } from '../../../work/proposals/proposal-wire.js';
import { approvalEvents, approvalsIn, approvalWait } from './approval.js';
import { auditedAbout, decisionEvent, envelopeOf } from './decisions.js';
import { stateWord } from './task.js';
import { workEvents } from './thread.js';
import { eventOf, type StoryContext, type StorySource, type Told } from './told.js';

const MAX_MESSAGES = 200;
const SLACK_MS = 60_000;
const REASON_CHARS = 1_000;

/** Proposals of work between agents; ended ones that no agent remembers are in the journal. */
export function proposalSource(context: StoryContext): StorySource {
  const sides = () => proposalSides(context.node.agents);
  return {
    kind: 'proposal',
    ids: (given) => sides().flatMap(({ proposal: { proposalId: id } }) => (id.startsWith(given) ? [id] : [])),
    async tell(id) {
      const side = sides().find(({ proposal }) => proposal.proposalId === id);
      const rows = await messagesOf(id, side?.proposal.correlationId, context);
      if (!side && rows.length === 0) return undefined;
      return side ? tellSide(id, side, rows, context) : tellJournal(id, rows, context);
    },
  };
}

async function tellSide(
  id: string,
  side: AgentSide,
  rows: readonly JournalRow[],
  context: StoryContext,
): Promise<Told> {
  const { proposal, state } = side;
  const { taskDescription, correlationId: thread, rejectionReason, deadlineMs, acceptedBy } = proposal;
  const [events, approvals, worked] = await Promise.all([
    eventsOf(rows, context),
    approvalsIn([thread], context),
    workEvents(thread, context),
  ]);
  const [proposer, worker] = side.side === 'sent' ? [side.agent, side.peer] : [side.peer, side.agent];
  const createdAt = timeOfUlid(id) ?? rows[0]?.at ?? null;
  const word = stateWord(stateOfProposal(side));
  const over = word !== 'submitted' && word !== 'working';
  const { reason = null, error } = state;
  const why = error
    ? { code: error.code, text: error.message, rule: null }
    : { text: reason, rule: rejectionReason ?? null };
  const proof = {
    kind: 'record',
    text: `the ${side.side} side of ${side.agent}${side.durable ? ', on disk' : ''}`,
  } as const;
  const now = eventOf(context.key, { at: null, from: worker, word, ...why, proof });
  // The last message tells it, with its time.
  const isTold = events.at(-1)?.word === word;
  const asks: StoryWait = {
    for: worker,
    since: createdAt,
    until: createdAt === null ? null : createdAt + deadlineMs,
    reason: `${worker} accepts or rejects it`,
  };
  return {
    id,
    kind: 'proposal',
    title: taskDescription,
    state: word,
    over,
    startedAt: createdAt,
    waits: word === 'submitted' ? asks : approvalWait(approvals),
    events: [
      ...events,
      ...worked,
      ...approvals.flatMap((one) => approvalEvents(one, context.key)),
      ...(isTold ? [] : [now]),
    ],
    parties: [proposer, worker, acceptedBy],
    payload: { proposal, ...(side.input !== undefined && { input: side.input }), result: state.result },
    related: [{ id: thread, kind: 'thread' }, ...approvals.map((one) => ({ id: one.id, kind: 'approval' as const }))],
  };
}

/** No agent has it any more: its messages say how far it came. */
async function tellJournal(id: string, rows: readonly JournalRow[], context: StoryContext): Promise<Told> {
  const events = await eventsOf(rows, context);
  const { payload } = envelopeOf(rows[0]!);
  const thread = rows[0]!.thread;
  return {
    id,
    kind: 'proposal',
    title: String((payload as { taskDescription?: unknown } | null)?.taskDescription ?? `proposal ${id}`),
    state: events.at(-1)!.word,
    over: true,
    events,
    payload,
    related: thread === null ? [] : [{ id: thread, kind: 'thread' }],
  };
}

/** The messages about one proposal; a thread may have several. */
async function messagesOf(id: string, thread: string | undefined, { node }: StoryContext): Promise<JournalRow[]> {
  const journal = node.records?.journal;
  if (!journal) return [];
  const isAbout = (row: JournalRow) => proposalIn(envelopeOf(row).payload) === id;
  if (thread !== undefined) return (await journal.search({ thread, limit: MAX_MESSAGES })).filter(isAbout);
  const at = timeOfUlid(id);
  if (at === null) return [];
  return (await journal.mentioning(id, at - SLACK_MS, MAX_MESSAGES)).filter(isAbout);
}

function proposalIn(payload: unknown): unknown {
  const fields = payload as { proposalId?: unknown; [PROPOSAL]?: unknown } | null;
  if (typeof fields !== 'object' || fields === null) return undefined;
  return fields.proposalId ?? fields[PROPOSAL];
}

const WORDS: Readonly<Record<string, string>> = {
  'task-proposal': 'submitted',
  'task-accept': 'accepted',
  'task-reject': 'rejected',
  response: 'completed',
  error: 'failed',
};

async function eventsOf(rows: readonly JournalRow[], context: StoryContext): Promise<StoryEvent[]> {
  const [first] = rows;
  const audited = first?.code ? await auditedAbout(first.envelopeId, first.at, context) : [];
  return rows.map((row) => {
    const decision = decisionEvent(row, audited, context.key);
    const word = row.code === null ? (WORDS[row.type] ?? decision.word) : decision.word;
    const { payload } = envelopeOf(row);
    const failed = row.type === 'error' && row.code === null ? failureIn(payload) : undefined;
    const rejected = row.type === 'task-reject' ? (payload as { rejectionReason?: string }).rejectionReason : undefined;
    return {
      ...decision,
      word,
      link: row.envelopeId,
      ...failed,
      ...(rejected !== undefined && { rule: rejected, text: rejected }),
    };
  });
}

/** An error ends a proposal; from its proposer, it takes the proposal back. */
function failureIn(payload: unknown): Partial<StoryEvent> {
  const { code, message } = payload as { code?: unknown; message?: unknown };
  if (typeof code !== 'string' || typeof message !== 'string') return {};
  const text = cutText(message, REASON_CHARS);
  if (code === 'CANCELLED') return { word: 'canceled', code, text };
  if (code === 'PROPOSAL_REJECTED') return { word: message === NOT_AWARDED ? 'rejected' : 'canceled', code, text };
  return { code, text };
}
