import { unpackEnvelope } from '../a2a/codec.js';
import type { A2AObservability } from '../a2a/observability.js';
import type { Mail } from '../mail/mail.js';
import { EclipticError } from '../runtime/errors.js';
import type { InboxRow, OutboxRow } from '../store/tables.js';
import { Params } from './params.js';
import type { CallContext, ControlMethod } from './server.js';

/** A durable message as the owner sees it. */
export interface MailRow {
  readonly id: string;
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
}

/** The owner's operations on durable mail. */
export function mailMethods(node: MailNode): Readonly<Record<string, ControlMethod>> {
  const mail = () => {
    if (node.mail) return node.mail;
    throw new EclipticError('STORE_REQUIRED', 'this node was started without a store');
  };
  const describe = async (row: OutboxRow | InboxRow): Promise<MailRow> => {
    const { type, payload, correlationId } = unpackEnvelope(JSON.parse(row.envelope));
    const { state } = await mail().receipt(row.id);
    const at = 'storedAt' in row ? row.storedAt : row.arrivedAt;
    const { id, sender: from, recipient: to, expiresAt } = row;
    return { id, from, to, type, thread: correlationId ?? null, payload, at, expiresAt, state };
  };
  return {
    async outbox() {
      return Promise.all((await mail().outbox()).map(describe));
    },
    async inbox(params, context) {
      const read = new Params(params);
      const agent = read.string('as');
      const { waitMs } = read.optional({ waitMs: 'number' });
      node.agentById(agent);
      const list = async () => Promise.all((await mail().inbox(agent)).map(describe));
      const rows = await list();
      if (rows.length > 0 || waitMs === undefined) return rows;
      await nextArrival(node.observability, context);
      return list();
    },
    async receipt(params) {
      const id = new Params(params).string('id');
      return { id, ...(await mail().receipt(id)) };
    },
  };
}

/** Resolves with the next durable message that arrives here, or when the caller goes away. */
function nextArrival(observability: A2AObservability, { signal }: CallContext): Promise<void> {
  return new Promise((resolve) => {
    const stop = observability.subscribe((event) => {
      if (event.type === 'receipt' && event.receiptState === 'arrived') end();
    });
    const end = () => {
      stop();
      resolve();
    };
    signal.addEventListener('abort', end, { once: true });
  });
}
