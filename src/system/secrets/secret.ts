import { inspect } from 'node:util';

const SHOWN = '[secret]';

/**
 * A value that does not appear in text, JSON, logs or errors by accident. Callers reveal it at the moment of each use,
 * because it may have been revoked meanwhile.
 */
export class Secret {
  readonly #value: string;
  readonly #check: () => void;

  /** `check` throws when the value may not be used any more. */
  constructor(value: string, check: () => void = () => {}) {
    this.#value = value;
    this.#check = check;
  }

  /** The value itself; `CREDENTIAL_DENIED` when it was revoked, or the grace after its rotation is over. */
  reveal(): string {
    this.#check();
    return this.#value;
  }

  toString(): string {
    return SHOWN;
  }

  toJSON(): string {
    return SHOWN;
  }

  [inspect.custom](): string {
    return SHOWN;
  }
}

/** Shorter texts are no secrets, and would match everywhere. */
const MIN_CHARS = 6;
/** Short-lived secrets, such as tokens, that are removed: the latest ones. */
const MAX_PASSING = 32;

/** Removes a provider's secrets from texts. */
export class Redactor {
  readonly #lasting: readonly string[];
  #passing: readonly string[] = [];
  #secrets: readonly string[] = [];

  constructor(secrets: Iterable<string> = []) {
    this.#lasting = [...secrets];
    this.add();
  }

  add(...secrets: readonly string[]): void {
    this.#passing = [...new Set([...this.#passing, ...secrets])].slice(-MAX_PASSING);
    // Longer ones first: a secret may begin with another.
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
