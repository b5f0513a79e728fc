import type { ValidEnvelope } from '../a2a/envelope.js';
import type { StoredAdmission } from '../a2a/router.js';
import type { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Write } from '../store/store.js';
import type { GroupWriter, Prepared } from './group-writer.js';
import type { IncomingMail } from './incoming-mail.js';
import type { MailItem, SentMessage } from './mail-wire.js';
import type { Permits } from './permits.js';
import { type Receipt, stepOf } from './receipt.js';
import type { Receipts } from './receipts.js';

export interface ArrivalsComponents {
  runtime: Runtime;
  writer: GroupWriter;
  receipts: Receipts;
  incoming: IncomingMail;
  permits: Permits;
  /** Throws why a message of that node may not be kept. */
  admit: (wire: ValidEnvelope, node: string) => StoredAdmission;
  /** How far each other store's mail has been taken, by `cursorOf`. */
  cursors: ReadonlyMap<string, number>;
  permitMs: number;
}

/** What one node sends. */
interface Source {
  waiting: MailItem[];
  busy: boolean;
}

/**
 * Takes the mail of other nodes into the inbox: what of it is new is judged, written together with how far that store's
 * mail has come, and only then counts. One write at a time for each node, so that nothing overtakes what failed.
 */
export class Arrivals {
  readonly #components: ArrivalsComponents;
  readonly #cursors: Map<string, number>;
  readonly #sources = new Map<string, Source>();

  constructor(components: ArrivalsComponents) {
    this.#components = components;
    this.#cursors = new Map(components.cursors);
  }

  take(node: string, item: MailItem): void {
    const source = this.#sources.get(node) ?? { waiting: [], busy: false };
    this.#sources.set(node, source);
    source.waiting.push(item);
    if (!source.busy) void this.#run(node, source);
  }

  async #run(node: string, source: Source): Promise<void> {
    source.busy = true;
    while (source.waiting.length > 0) {
      try {
        await this.#keep(node, source.waiting.splice(0));
      } catch (error) {
        // What follows is not taken either, for something is missing before it; all of it comes again.
        this.#components.runtime.logger.error({ node, err: error }, 'durable mail cannot be kept');
      }
    }
    source.busy = false;
  }

  async #keep(node: string, items: readonly MailItem[]): Promise<void> {
    const { writer, incoming } = this.#components;
    const reached = new Map<string, number>();
    const known: string[] = [];
    const prepared: Prepared[] = [];
    for (const { store, before, messages } of items) {
      const name = cursorOf(node, store);
      let cursor = reached.get(name) ?? this.#cursors.get(name) ?? 0;
      // Something is missing before these: they come again.
      if (before > cursor) continue;
      for (const message of messages) {
        if (message.number <= cursor) known.push(message.envelope.id);
        else if (incoming.full) break;
        else {
          prepared.push(this.#judge(node, message));
          cursor = message.number;
        }
      }
      reached.set(name, cursor);
    }
    if (prepared.length > 0) {
      const writes: Write[] = prepared.flatMap((one) => one.writes);
      for (const [name, value] of reached) writes.push({ put: 'cursors', row: { name, value } });
      const written = () => {
        for (const [name, value] of reached) this.#cursors.set(name, value);
        for (const one of prepared) one.written();
      };
      const failed = (error: unknown) => {
        for (const one of prepared) one.failed?.(error);
      };
      await writer.write({ writes, written, failed });
    }
    // The other side has not heard that it has these.
    if (known.length > 0) await incoming.retell(node, known);
  }

  #judge(node: string, { envelope: wire, storedAt, expiresAt }: SentMessage): Prepared {
    const { runtime, incoming, permits, admit, permitMs } = this.#components;
    const stored = stepOf('stored', storedAt);
    const now = runtime.now();
    if (expiresAt !== null && expiresAt < now) {
      return this.#decline(wire.id, node, [stored, stepOf('expired', now, 'its time to live ran out on the way')]);
    }
    let admitted: StoredAdmission;
    try {
      admitted = admit(wire, node);
    } catch (error) {
      const { code, message } = error as EclipticError;
      return this.#decline(wire.id, node, [stored, stepOf('refused', now, `${code}: ${message}`)]);
    }
    const { envelope, target, report } = admitted;
    const { writes, written, failed } = incoming.prepare(envelope, node, storedAt, expiresAt);
    const { correlationId, sender } = envelope;
    const permit = permits.grant(correlationId, sender, target.address, expiresAt ?? now + permitMs);
    return {
      writes: permit.length === 0 ? writes : [...writes, ...permit],
      written: () => {
        report();
        written();
      },
      failed,
    };
  }

  #decline(id: string, node: string, receipt: Receipt): Prepared {
    const { receipts } = this.#components;
    const writes: Write[] = [];
    const { write, written } = receipts.settle(id, node, 'received', receipt, writes);
    return {
      writes: [...writes, write],
      written: () => {
        receipts.emit(id, receipt.slice(1));
        written();
      },
    };
  }
}

/** The name under which the store keeps how far another store's mail was taken. */
function cursorOf(node: string, store: string): string {
  return `in ${node} ${store}`;
}
