/** A first-in, first-out queue on a ring, so that a queue that is filled and emptied all day allocates nothing. */
export class Fifo<T> {
  #slots: (T | undefined)[] = new Array(8);
  #head = 0;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  push(item: T): void {
    if (this.#length === this.#slots.length) this.#resize(this.#length * 2);
    this.#slots[(this.#head + this.#length++) & (this.#slots.length - 1)] = item;
  }

  peek(): T | undefined {
    return this.#length === 0 ? undefined : this.#slots[this.#head];
  }

  /** The item that is `index` places behind the first. */
  at(index: number): T | undefined {
    return index < this.#length ? this.#slots[(this.#head + index) & (this.#slots.length - 1)] : undefined;
  }

  shift(): T | undefined {
    if (this.#length === 0) return undefined;
    const item = this.#slots[this.#head];
    this.#slots[this.#head] = undefined;
    this.#head = (this.#head + 1) & (this.#slots.length - 1);
    this.#length--;
    if (this.#length === 0 && this.#slots.length > 1024) this.#resize(8);
    return item;
  }

  /** Removes and returns everything, first to last. */
  drain(): T[] {
    const items: T[] = [];
    while (this.#length > 0) items.push(this.shift() as T);
    return items;
  }

  #resize(capacity: number): void {
    const slots: (T | undefined)[] = new Array(capacity);
    for (let i = 0; i < this.#length; i++) slots[i] = this.#slots[(this.#head + i) & (this.#slots.length - 1)];
    this.#slots = slots;
    this.#head = 0;
  }
}
