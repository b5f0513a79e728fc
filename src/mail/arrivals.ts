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
import { baseOf, isLaterEpoch } from './store-epoch.js';

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
  /** That node's store gave a number a second time, to another message. */
  onReused: (node: string, store: string, upTo: number) => void;
  /** That node's store is in an epoch that was not seen before. */
  onNewEpoch: (node: string) => void;
}

/** Stores of one node whose progress is kept: a node has one, and another after each loss of its disk. */
const MAX_STORES = 64;

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

  /** Forgets how far that node's mail was taken. */
  forget(node: string): void {
    for (const name of this.#cursors.keys()) if (name.startsWith(cursorsOf(node))) this.#cursors.delete(name);
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
    const reused = new Map<string, string>();
    const known: string[] = [];
    const prepared: Prepared[] = [];
    const seen = await this.#seenBefore(node, items);
    for (const { store, before, messages } of items) {
      const name = cursorOf(node, store);
      let cursor = reached.get(name) ?? this.#cursors.get(name) ?? 0;
      // Something is missing before these: they come again.
      if (before > cursor) continue;
      for (const message of messages) {
        const { id } = message.envelope;
        if (seen.has(id)) {
          known.push(id);
          cursor = Math.max(cursor, message.number);
          continue;
        }
        if (incoming.full) break;
        if (message.number <= cursor) reused.set(name, store);
        prepared.push(this.#judge(node, message));
        seen.add(id);
        cursor = Math.max(cursor, message.number);
      }
      reached.set(name, cursor);
    }
    const fresh = items.filter(({ store }) => !this.#cursors.has(cursorOf(node, store)));
    const stores = fresh.length === 0 ? [] : this.progress(node);
    if (prepared.length > 0) {
      const writes: Write[] = prepared.flatMap((one) => one.writes);
      for (const [name, value] of reached) writes.push({ put: 'cursors', row: { name, value } });
      const surplus = stores.slice(0, Math.max(0, stores.length + fresh.length - MAX_STORES));
      const forgotten = surplus.map(([store]) => cursorOf(node, store));
      if (forgotten.length > 0) writes.push({ delete: 'cursors', where: { name: forgotten } });
      const written = () => {
        for (const name of forgotten) this.#cursors.delete(name);
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
    if (stores.length > 0 && fresh.some(({ store }) => isLaterEpoch(store))) this.#components.onNewEpoch(node);
    for (const [name, store] of reused) this.#components.onReused(node, store, this.#cursors.get(name) ?? 0);
  }

  /**
   * The ids of those of these messages that have been here before. A number that was never reached needs no look: only
   * what comes again, or is older than its store's epoch, is compared by its id.
   */
  async #seenBefore(node: string, items: readonly MailItem[]): Promise<Set<string>> {
    const doubtful: string[] = [];
    for (const { store, messages } of items) {
      const reached = Math.max(this.#cursors.get(cursorOf(node, store)) ?? 0, baseOf(store));
      for (const { number, envelope } of messages) if (number <= reached) doubtful.push(envelope.id);
    }
    return doubtful.length === 0 ? new Set() : this.#components.incoming.known(node, doubtful);
  }

  /** How far the mail of each store of that node has come. */
  progress(node: string): (readonly [store: string, upTo: number])[] {
    const prefix = cursorsOf(node);
    const own = [...this.#cursors].filter(([name]) => name.startsWith(prefix));
    return own.map(([name, upTo]) => [name.slice(prefix.length), upTo] as const);
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
  return `${cursorsOf(node)}${store}`;
}

/** How the names of all cursors of one node's mail begin. */
export function cursorsOf(node: string): string {
  return `in ${node} `;
}
