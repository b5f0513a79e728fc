import { OWNER } from '../../coding-agents/mailbox/letter.js';
import type { Mail } from '../../mail/mail.js';
import { presentState } from '../../mail/receipt.js';
import { receiptOf } from '../../mail/receipts.js';
import { unpackEnvelope } from '../../mesh/codec.js';
import type { A2AObservability } from '../../mesh/observability.js';
import { EclipticError } from '../../runtime/errors.js';
import type { InboxRow, OutboxRow } from '../../store/tables.js';
import { fitting } from './page.js';
import { Params } from './params.js';
import type { CallContext, ControlMethod } from './server.js';
import { CANDIDATES, completeId } from './short-ids.js';

/** A durable message as the owner sees it. */
export interface MailRow {
  readonly id: string;
  /** Later ones have higher numbers; the next page begins behind the last. */
  readonly number: number;
  readonly from: string;
  readonly to: string;
  readonly type: string;
  readonly thread: string | null;
  readonly payload: unknown;
  /** When it was stored, or when it arrived. */
  readonly at: number;
  readonly expiresAt: number | null;
  readonly state: string;
}

interface MailNode {
  readonly mail: Mail | undefined;
  readonly observability: A2AObservability;
  agentById(id: string): unknown;
  /** The owner, as an agent of this node. */
  operator(): unknown;
}

const PAGE = 100;

/** The owner's operations on durable mail. Lists come in pages: what does not fit is asked for with `after`. */
export function mailMethods(node: MailNode): Readonly<Record<string, ControlMethod>> {
  const mail = () => {
    if (node.mail) return node.mail;
    throw new EclipticError('STORE_REQUIRED', 'this node was started without a store');
  };
  return {
    async outbox(params) {
      const { after = 0 } = new Params(params).optional({ after: 'number' });
      return fitting(await mail().outbox(after, PAGE), sizeOf).map((row) => describe(row, 'stored', row.storedAt));
    },
    async inbox(params, context) {
      const read = new Params(params);
      const agent = read.string('as');
      const { after = 0, waitMs } = read.optional({ after: 'number', waitMs: 'number' });
      if (agent === OWNER) node.operator();
      else node.agentById(agent);
      const list = async () => fitting(await mail().inbox(agent, after, PAGE), sizeOf).map(describeArrived);
      const next = waitMs === undefined ? undefined : nextArrival(node.observability, agent, context);
      const rows = await list();
      if (rows.length > 0 || !next) return rows;
      await next;
      return list();
    },
    async receipt(params) {
      const given = new Params(params).string('id');
      const id = completeId(given, await mail().receiptIdsBeginning(given, CANDIDATES));
      return { id, ...(await mail().receipt(id)) };
    },
  };
}

function describeArrived(row: InboxRow): MailRow {
  const receipt = receiptOf(row);
  const arrived = receipt.find(({ state }) => state === 'arrived');
  return describe(row, presentState(receipt) ?? 'arrived', arrived?.at ?? 0);
}

function describe({ id, number, envelope, expiresAt }: OutboxRow | InboxRow, state: string, at: number): MailRow {
  const { sender: from, recipient: to, type, payload, correlationId } = unpackEnvelope(JSON.parse(envelope));
  return { id, number, from, to, type, thread: correlationId ?? null, payload, at, expiresAt, state };
}

function sizeOf({ envelope }: OutboxRow | InboxRow): number {
  return envelope.length;
}

/** Resolves with the next durable message that arrives here for that agent, or when the caller goes away. */
function nextArrival(observability: A2AObservability, agent: string, { signal }: CallContext): Promise<void> {
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
