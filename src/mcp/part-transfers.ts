import { ITEM, type Item, malformed } from '../network/peers/wire.js';

/** The longest item, and the transfers in parts that may be open from one node. */
export const MAX_PARTS = 64;
const MAX_TRANSFERS = 4;

/** Items of one node that arrive in parts. */
export class PartTransfers {
  readonly #parts = new Map<number, string[]>();

  take(transfer: number, part: string): void {
    const known = this.#parts.get(transfer) ?? [];
    if (known.length === 0 && this.#parts.size >= MAX_TRANSFERS) throw malformed('it sends too much in parts at once');
    if (known.push(part) > MAX_PARTS) throw malformed('it sends too many parts');
    this.#parts.set(transfer, known);
  }

  /** The item whose parts have all arrived. */
  join(transfer: number): Item {
    const known = this.#parts.get(transfer);
    this.#parts.delete(transfer);
    let item: unknown;
    try {
      item = JSON.parse(known?.join('') ?? '');
    } catch {
      throw malformed('its parts do not make an item');
    }
    if (!Array.isArray(item) || item[0] !== ITEM.tools || item[1] === 'whole')
      throw malformed('its parts do not make an item');
    return item as unknown as Item;
  }
}
