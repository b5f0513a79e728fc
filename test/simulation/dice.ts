/** Randomness of a scenario, apart from the fabric's own: a change in what the fabric draws leaves the scenario as it is. */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = Math.imul(seed, 0x9e3779b1) ^ 0x5bf03635;
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  between(least: number, most: number): number {
    return least + (most - least) * this.next();
  }

  whole(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  pick<T>(from: readonly T[]): T {
    return from[Math.floor(this.next() * from.length)]!;
  }

  pickMaybe<T>(from: readonly T[]): T | undefined {
    return from.length === 0 ? undefined : this.pick(from);
  }

  /** One of several, as often as its weight says. */
  weighted<T extends { readonly weight: number }>(from: readonly T[]): T {
    const total = from.reduce((sum, { weight }) => sum + weight, 0);
    const drawn = this.next() * total;
    let sum = 0;
    for (const one of from) {
      sum += one.weight;
      if (drawn < sum) return one;
    }
    return from.at(-1)!;
  }

  shuffled<T>(from: readonly T[]): T[] {
    return from
      .map((item) => ({ item, at: this.next() }))
      .sort((a, b) => a.at - b.at)
      .map(({ item }) => item);
  }

  /** The seed of another source of randomness. */
  seed(): number {
    return Math.floor(this.next() * 2 ** 31);
  }
}
