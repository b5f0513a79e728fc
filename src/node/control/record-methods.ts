import { OWNER } from '../../coding-agents/mailbox/letter.js';
import { presentState } from '../../mail/receipt.js';
import { receiptOf } from '../../mail/receipts.js';
import type { InboxRow, OutboxRow } from '../../mail/tables.js';
import { unpackEnvelope } from '../../mesh/codec.js';
import { EclipticError } from '../../runtime/errors.js';
import { CANDIDATES } from '../../runtime/short-ids.js';
import { wrongParameter } from './api.js';
import { type ControlContext, completeId, type Handlers, storeRequired } from './context.js';
import { journalled } from './message-lines.js';
import { fitting } from './protocol.js';
import type { MailRow } from './rows.js';

const PAGE = 100;
const MAX_MESSAGES = 500;
/** Decisions among which a shortened thread id is searched. */
const MAX_SEARCHED = 1_000;

/** The owner's operations on durable mail, the journal and the audit log. Lists come in pages. */
export function recordMethods({ node, codingAgents }: Pick<ControlContext, 'node' | 'codingAgents'>) {
  const mail = () => {
    if (node.mail) return node.mail;
    throw storeRequired();
  };
  const records = () => {
    if (node.records) return node.records;
    throw storeRequired();
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
      fitting(await mail().outbox(after, PAGE), sizeOf).map((row) => mailRow(row, 'stored', row.storedAt)),
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
    async log({ limit = PAGE, ...wanted }) {
      const { journal } = records();
      const search = (thread?: string) => journal.search({ ...wanted, thread, limit: Math.min(limit, PAGE) });
      let rows = await search(wanted.thread);
      if (rows.length === 0 && wanted.thread !== undefined) rows = await search(await threadInFull(wanted.thread));
      return fitting(rows.reverse(), ({ envelope }) => envelope.length).reverse();
    },
    async messages({ limit = PAGE, before, ...wanted }) {
      const { journal } = records();
      const rows = await journal.search({ ...wanted, before, limit: Math.min(limit, MAX_MESSAGES) });
      return rows.map(journalled);
    },
    async export(_params, { emit, drained, signal }) {
      for await (const row of records().journal.export()) {
        if (signal.aborted) return;
        // The journal has no payloads, except of messages from and to the owner.
        const isOwners = row.sender === OWNER || row.recipient === OWNER;
        const text = isOwners ? await codingAgents.textOf(OWNER, row.envelopeId) : undefined;
        emit(text === undefined ? row : { ...row, text });
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
