const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const PAIRS: readonly string[] = Array.from({ length: 1024 }, (_, n) => ALPHABET[n >> 5]! + ALPHABET[n & 31]!);
const COUNTER_LIMIT = 2 ** 30;

/**
 * Makes ULIDs that strictly increase. The 80 random bits of each millisecond are 50 fresh random bits and a 30-bit
 * counter that starts in its lower half; time never runs backwards, whatever the clock does.
 */
export class UlidSource {
  readonly #random: () => number;
  #time = -1;
  /** Time and random bits: 20 characters. */
  #millisecond = '';
  /** The above and the counter's upper 20 bits: 24 characters, good for 1,024 ids. */
  #prefix = '';
  #counter = 0;

  constructor(random: () => number) {
    this.#random = random;
  }

  next(time: number): string {
    const now = Math.floor(time);
    if (now > this.#time) this.#startMillisecond(now);
    else if (this.#counter === COUNTER_LIMIT) this.#startMillisecond(this.#time + 1);
    else if ((this.#counter & 1023) === 0) this.#startBlock();
    return this.#prefix + PAIRS[this.#counter++ & 1023]!;
  }

  /** The next id in the millisecond of the last one; for a caller that knows that the clock has not moved. */
  again(): string {
    const counter = this.#counter;
    if ((counter & 1023) === 0) return this.next(this.#time);
    this.#counter = counter + 1;
    return this.#prefix + PAIRS[counter & 1023]!;
  }

  #startMillisecond(time: number): void {
    this.#time = time;
    let prefix = '';
    for (let shift = 2 ** 40; shift >= 1; shift /= 1024) prefix += PAIRS[Math.floor(time / shift) % 1024];
    for (let pair = 0; pair < 5; pair++) prefix += PAIRS[Math.floor(this.#random() * 1024)];
    this.#millisecond = prefix;
    this.#counter = Math.floor((this.#random() * COUNTER_LIMIT) / 2);
    this.#startBlock();
  }

  #startBlock(): void {
    this.#prefix = this.#millisecond + PAIRS[this.#counter >> 20]! + PAIRS[(this.#counter >> 10) & 1023]!;
  }
}

/** When a ULID was made, in either case of letters; null for a text that is none. */
export function timeOfUlid(id: string): number | null {
  if (!/^[0-7][0-9a-hjkmnp-tv-z]{25}$/i.test(id)) return null;
  let time = 0;
  for (const letter of id.slice(0, 10).toUpperCase()) time = time * 32 + ALPHABET.indexOf(letter);
  return time;
}
