import type { Store, Write } from '../store/store.js';
import { type Receipt, type ReceiptStep, stepOf } from './receipt.js';
import { type OutboxRow, type RelayRow, relays as relayTable } from './tables.js';

/** Messages that were given to a custodian at once. */
interface Relayed {
  readonly first: number;
  readonly last: number;
  readonly step: ReceiptStep;
}

/** Which messages of the outbox a custodian keeps, since when, and who it is. */
export class Relays {
  /** In the order of their numbers. */
  readonly #byNode = new Map<string, Relayed[]>();

  static async open(store: Store): Promise<Relays> {
    const relays = new Relays();
    for (const row of await store.read(relayTable)) relays.#add(row);
    return relays;
  }

  get nodes(): string[] {
    return [...this.#byNode.keys()];
  }

  /** The receipt of a message that is in the outbox. */
  receiptOf({ node, number, storedAt }: Pick<OutboxRow, 'node' | 'number' | 'storedAt'>): Receipt {
    const stored = stepOf('stored', storedAt);
    const step = this.#byNode.size === 0 ? undefined : this.#find(node, number);
    return step ? [stored, step] : [stored];
  }

  /** The first of these numbers that was not relayed before; undefined if all were. */
  firstNew(node: string, numbers: readonly number[]): number | undefined {
    const last = this.#byNode.get(node)?.at(-1)?.last ?? 0;
    return numbers.find((number) => number > last);
  }

  /** The write that records a batch. Once it is made, `added` must be called with the row. */
  add(row: RelayRow): Write {
    return relayTable.put(row);
  }

  added(row: RelayRow): void {
    this.#add(row);
  }

  /** Forgets batches whose messages have left the outbox: all below the lowest number that waits there. */
  forget(node: string, below = Number.POSITIVE_INFINITY): Write[] {
    const known = this.#byNode.get(node) ?? [];
    const kept = known.filter(({ last }) => last >= below);
    if (kept.length === known.length) return [];
    if (kept.length > 0) this.#byNode.set(node, kept);
    else this.#byNode.delete(node);
    return [kept.length > 0 ? relayTable.delete({ node }, { number: below }) : relayTable.delete({ node })];
  }

  #add({ node, number, first, at, custodian }: RelayRow): void {
    const known = this.#byNode.get(node) ?? [];
    this.#byNode.set(node, known);
    known.push({ first, last: number, step: stepOf('relayed', at, custodian) });
  }

  #find(node: string, number: number): ReceiptStep | undefined {
    const known = this.#byNode.get(node);
    if (!known) return undefined;
    let [low, high] = [0, known.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (known[middle]!.last < number) low = middle + 1;
      else high = middle;
    }
    const found = known[low];
    return found && found.first <= number ? found.step : undefined;
  }
}
