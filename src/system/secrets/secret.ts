import { inspect } from 'node:util';

const SHOWN = '[secret]';

/**
 * A value that shows itself to nobody by accident: not in text, JSON, logs or errors. Whoever needs it reveals it where it
 * is sent, and each time anew, for it may have ended meanwhile.
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
