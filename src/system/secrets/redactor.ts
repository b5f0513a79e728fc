/** What is shorter than this is no secret, and would be found everywhere. */
const MIN_CHARS = 6;
/** Of those that come and go, as tokens do, the latest are looked for. */
const MAX_PASSING = 32;

/** Takes a provider's secrets out of what is said about it. */
export class Redactor {
  readonly #lasting: readonly string[];
  #passing: readonly string[] = [];
  #secrets: readonly string[] = [];

  constructor(secrets: Iterable<string> = []) {
    this.#lasting = [...secrets];
    this.add();
  }

  /** Adds some that will be replaced by others one day. */
  add(...secrets: readonly string[]): void {
    this.#passing = [...new Set([...this.#passing, ...secrets])].slice(-MAX_PASSING);
    // Longer ones first: one may begin with another.
    this.#secrets = [...new Set([...this.#lasting, ...this.#passing])]
      .filter(({ length }) => length >= MIN_CHARS)
      .sort((a, b) => b.length - a.length);
  }

  readonly clean = (text: string): string => {
    let clean = text;
    for (const secret of this.#secrets) clean = clean.replaceAll(secret, '[secret]');
    return clean;
  };

  /** The same for every text in a plain value. */
  cleanAll<T>(value: T): T {
    if (typeof value === 'string') return this.clean(value) as T;
    if (Array.isArray(value)) return value.map((one) => this.cleanAll(one)) as T;
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, this.cleanAll(one)])) as T;
  }
}
