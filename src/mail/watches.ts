import { type A2AObservability, callbackReport } from '../mesh/observability.js';
import { callGuarded } from '../runtime/callbacks.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Store, Write } from '../store/store.js';
import type { WatchRow } from '../store/tables.js';
import { isFinal, presentState } from './receipt.js';
import type { Receipts } from './receipts.js';

export interface WatchesComponents {
  runtime: Runtime;
  store: Store;
  receipts: Receipts;
  observability: A2AObservability;
}

/** Told of a message that was not read in time: once, also across restarts. */
export type UnreadHandler = (notice: { messageId: string; state: string; reason: string }) => void;

/** A watch that is due, but whose sender is not there to be told. */
const TELL_LATER = Number.MAX_SAFE_INTEGER;
const PAGE = 100;

/** Watches over messages that must be read by some time, and tells their senders of those that were not. */
export class Watches {
  readonly #components: WatchesComponents;
  readonly #handlers = new Map<string, UnreadHandler>();

  constructor(components: WatchesComponents) {
    this.#components = components;
  }

  /** What to write so that a message is watched over. */
  set(id: string, sender: string, withinMs: number): Write {
    return { put: 'watches', row: { id, sender, dueAt: this.#components.runtime.now() + withinMs } };
  }

  /** From now on this is told of that agent's messages, and first of those that were due while nobody listened. */
  async attach(agent: string, handler: UnreadHandler): Promise<void> {
    this.#handlers.set(agent, handler);
    const { store, runtime } = this.#components;
    try {
      const waiting = await store.read({ from: 'watches', where: { sender: agent, dueAt: TELL_LATER } });
      for (const watch of waiting) await this.#look(watch);
    } catch (error) {
      runtime.logger.error({ agent, err: error }, 'watches cannot be read');
    }
  }

  /** The agent is not there any more. */
  detach(agent: string): void {
    this.#handlers.delete(agent);
  }

  async sweep(): Promise<void> {
    const { store, runtime } = this.#components;
    const due = await store.read({ from: 'watches', below: { dueAt: runtime.now() }, limit: PAGE });
    for (const watch of due) await this.#look(watch);
  }

  async #look({ id, sender, dueAt }: WatchRow): Promise<void> {
    const { store, runtime, receipts, observability } = this.#components;
    const receipt = await receipts.read(id).catch(() => undefined);
    const state = receipt && presentState(receipt)!;
    const overdue = state !== undefined && state !== 'read' && !isFinal(state);
    const handler = this.#handlers.get(sender);
    if (overdue && !handler) await store.write([{ update: 'watches', where: { id }, set: { dueAt: TELL_LATER } }]);
    else await store.write([{ delete: 'watches', where: { id } }]);
    if (!overdue) return;
    const reason = `it was to be read by now, and is ${state}`;
    if (dueAt !== TELL_LATER) {
      const about = { envelopeId: id, sender, receiptState: 'overdue', reason, timestamp: runtime.now() };
      observability.emit({ type: 'receipt', ...about });
    }
    const failed = (error: unknown) => callbackReport(runtime, observability)(`onUnread of ${sender}`, error);
    if (handler) callGuarded(handler, [{ messageId: id, state, reason }], failed);
  }
}
