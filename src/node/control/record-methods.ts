import { OWNER } from '../../coding-agents/mailbox/letter.js';
import { presentState } from '../../mail/receipt.js';
import { receiptOf } from '../../mail/receipts.js';
import type { InboxRow, OutboxRow } from '../../mail/tables.js';
import type { JournalSearch } from '../../mesh/audit/journal-log.js';
import type { JournalRow } from '../../mesh/audit/tables.js';
import { unpackEnvelope } from '../../mesh/codec.js';
import { EclipticError } from '../../runtime/errors.js';
import { CANDIDATES } from '../../runtime/short-ids.js';
import { wrongParameter } from './api.js';
import { type ControlContext, completeId, type Handlers, storeRequired } from './context.js';
import { excerpt, journalled, textIn } from './message-lines.js';
import { withPayload } from './message-methods.js';
import { fitting } from './protocol.js';
import type { MailRow, ThreadRow } from './rows.js';

const PAGE = 100;
/** The latest messages, whose conversations are listed. */
const THREAD_ROWS = 1_000;
const MAX_THREADS = 100;
/** Further participants of a conversation are not named. */
const MAX_NAMED = 20;
/** Decisions among which a shortened thread id is searched. */
const MAX_SEARCHED = 1_000;
/** Messages of coding agents and the owner that a search for words finds, the latest ones. */
const MOST_FOUND = 1_000;

/** The owner's operations on durable mail, the journal and the audit log. Lists come in pages. */
export function recordMethods(context: Pick<ControlContext, 'node' | 'codingAgents'>) {
  const { node, codingAgents } = context;
  const mail = () => {
    if (node.mail) return node.mail;
    throw storeRequired();
  };
  const records = () => {
    if (node.records) return node.records;
    throw storeRequired();
  };
  /** The journal has no bodies of mail: those of coding agents and the owner are found among their messages. */
  const searchAll = async (wanted: JournalSearch, signal: AbortSignal): Promise<JournalRow[]> => {
    const { journal } = records();
    const rows = await journal.search(wanted, signal);
    const { text, limit = PAGE } = wanted;
    if (!text) return rows;
    const found = new Map(rows.map((row) => [row.seq, row]));
    let added = 0;
    for (const { id } of await codingAgents.mentioning(text, MOST_FOUND)) {
      if (signal.aborted || added >= limit) break;
      for (const row of await journal.about(id)) {
        if (found.has(row.seq) || !fits(row, wanted)) continue;
        found.set(row.seq, row);
        added++;
      }
    }
    return [...found.values()].sort((a, b) => a.seq - b.seq).slice(-limit);
  };
  /** The text of a message from or to the owner. */
  const bodyOf = async ({ sender, recipient, envelopeId }: JournalRow) => {
    const isOwners = sender === OWNER || recipient === OWNER;
    const text = isOwners ? await codingAgents.textOf(OWNER, envelopeId) : undefined;
    return text === undefined ? {} : { text };
  };
  const threadInFull = async (given: string) => {
    const rows = await records().journal.beginningWith(given, MAX_SEARCHED);
    return completeId(
      given,
      rows.flatMap(({ thread }) => thread ?? []),
    );
  };
  return {
    outbox: async ({ after = 0 }) =>
      fitting(await mail().outbox(after, PAGE), sizeOf).map((row) => mailRow(row, mail().stateOf(row), row.storedAt)),
    async inbox({ as, after = 0, waitMs }, { signal }) {
      if (as === OWNER) node.operator();
      else node.agentById(as);
      const list = async () => fitting(await mail().inbox(as, after, PAGE), sizeOf).map(arrivedRow);
      const next = waitMs === undefined ? undefined : nextArrival(node, as, signal);
      const rows = await list();
      if (rows.length > 0 || !next) return rows;
      await next;
      return list();
    },
    async receipt({ id: given }) {
      const id = completeId(given, await mail().receiptIdsBeginning(given, CANDIDATES));
      return { id, ...(await mail().receipt(id)) };
    },
    async log({ limit = PAGE, ...wanted }, { signal }) {
      const search = (thread?: string) => searchAll({ ...wanted, thread, limit: Math.min(limit, PAGE) }, signal);
      let rows = await search(wanted.thread);
      if (rows.length === 0 && wanted.thread !== undefined) rows = await search(await threadInFull(wanted.thread));
      const shown = fitting(rows.reverse(), ({ envelope }) => envelope.length).reverse();
      return Promise.all(shown.map(async (row) => ({ ...row, ...(await bodyOf(row)) })));
    },
    async messages({ limit = PAGE, before, ...wanted }, { signal }) {
      const rows = await searchAll({ ...wanted, before, limit }, signal);
      return rows.map(journalled);
    },
    async threads({ before, ...wanted }, { signal }) {
      const rows = await searchAll({ ...wanted, before, limit: THREAD_ROWS }, signal);
      const found = conversations(rows).slice(0, MAX_THREADS);
      return {
        threads: await Promise.all(found.map((row) => described(row, context))),
        read: rows.length,
        before: rows.length < THREAD_ROWS ? null : rows[0]!.seq,
      };
    },
    async export(_params, { emit, drained, signal }) {
      for await (const row of records().journal.export()) {
        if (signal.aborted) return;
        emit({ ...row, ...(await bodyOf(row)) });
        await drained();
      }
    },
    async replay({ id, rows }) {
      const { journal, replay } = records();
      if (id === undefined) {
        if (!rows) throw wrongParameter('rows', 'must be given');
        return replay(rows);
      }
      let found = await journal.about(id);
      if (found.length === 0) found = await journal.about(await threadInFull(id));
      if (found.length === 0) throw new EclipticError('USAGE', `the journal knows no message or thread "${id}"`);
      return replay(found);
    },
    'audit.verify': () => records().audit.check(),
  } satisfies Partial<Handlers>;
}

function fits({ seq, at, sender, recipient, ...row }: JournalRow, wanted: JournalSearch): boolean {
  const { thread, agent, since = 0, before = Number.POSITIVE_INFINITY, refused } = wanted;
  if (seq >= before || at < since || (refused && row.code === null)) return false;
  return (thread === undefined || row.thread === thread) && (!agent || sender === agent || recipient === agent);
}

type Conversation = Omit<ThreadRow, 'last' | 'subject'> & { readonly oldest: JournalRow; readonly newest: JournalRow };

/** The conversations of rows in their order, the one with the newest message first. */
function conversations(rows: readonly JournalRow[]): Conversation[] {
  const found = new Map<string, Conversation>();
  for (const row of rows) {
    const thread = row.thread ?? row.envelopeId;
    const known = found.get(thread);
    // Moved to the end, so that the order is that of the newest messages.
    found.delete(thread);
    found.set(thread, {
      thread,
      messages: (known?.messages ?? 0) + 1,
      refused: (known?.refused ?? 0) + (row.code === null ? 0 : 1),
      participants: [...new Set([...(known?.participants ?? []), row.sender, row.recipient])].slice(0, MAX_NAMED),
      since: known?.since ?? row.at,
      oldest: known?.oldest ?? row,
      newest: row,
    });
  }
  return [...found.values()].reverse();
}

async function described(
  { oldest, newest, ...row }: Conversation,
  context: Pick<ControlContext, 'node' | 'codingAgents'>,
): Promise<ThreadRow> {
  const text = async ({ envelope }: JournalRow) =>
    excerpt(textIn((await withPayload(unpackEnvelope(JSON.parse(envelope)), context)).payload));
  const last = await text(newest);
  return {
    ...row,
    subject: oldest === newest ? last : await text(oldest),
    last: { ...journalled(newest), text: last },
  };
}

function arrivedRow(row: InboxRow): MailRow {
  const receipt = receiptOf(row);
  const arrived = receipt.find(({ state }) => state === 'arrived');
  return mailRow(row, presentState(receipt) ?? 'arrived', arrived?.at ?? 0);
}

function mailRow({ id, number, envelope, expiresAt }: OutboxRow | InboxRow, state: string, at: number): MailRow {
  const { sender: from, recipient: to, type, payload, correlationId } = unpackEnvelope(JSON.parse(envelope));
  return { id, number, from, to, type, thread: correlationId ?? null, payload, at, expiresAt, state };
}

function sizeOf({ envelope }: OutboxRow | InboxRow): number {
  return envelope.length;
}

/** Resolves with the next durable message for that agent, or when the caller disconnects. */
function nextArrival({ observability }: ControlContext['node'], agent: string, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const stop = observability.subscribe(({ type, receiptState, recipient }) => {
      if (type === 'receipt' && receiptState === 'arrived' && recipient === agent) end();
    });
    const end = () => {
      stop();
      resolve();
    };
    signal.addEventListener('abort', end, { once: true });
  });
}
