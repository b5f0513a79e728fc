/** Items and their bytes. */
export interface Amount {
  readonly items: number;
  readonly bytes: number;
}

/**
 * Shares one limited table among its owners. An owner may use all free room. Once there is none, an owner with less than an
 * equal part may still add to it, so no owner can shut out the others; the table then holds at most twice the limit.
 */
export class FairShares {
  readonly #limit: Amount;
  readonly #owners = new Map<string, { items: number; bytes: number }>();
  readonly #total = { items: 0, bytes: 0 };

  constructor(limit: Amount) {
    this.#limit = limit;
  }

  hasRoom(owner: string): boolean {
    if (!this.#exceeds(this.#total, 1)) return true;
    const held = this.#owners.get(owner);
    return !held || !this.#exceeds(held, this.#owners.size);
  }

  add(owner: string, bytes: number): void {
    const held = this.#owners.get(owner);
    if (held) {
      held.items++;
      held.bytes += bytes;
    } else {
      this.#owners.set(owner, { items: 1, bytes });
    }
    this.#total.items++;
    this.#total.bytes += bytes;
  }

  remove(owner: string, bytes: number): void {
    const held = this.#owners.get(owner);
    if (!held) return;
    this.#total.items--;
    this.#total.bytes -= bytes;
    held.bytes -= bytes;
    if (--held.items === 0) this.#owners.delete(owner);
  }

  #exceeds({ items, bytes }: Amount, parts: number): boolean {
    return items >= this.#limit.items / parts || bytes >= this.#limit.bytes / parts;
  }
}
