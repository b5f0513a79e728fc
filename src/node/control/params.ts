import { EclipticError } from '../../runtime/errors.js';

interface Kinds {
  string: string;
  number: number;
  boolean: boolean;
}

/** Reads a call's parameters, and says which is missing or of the wrong kind. */
export class Params {
  readonly #values: Readonly<Record<string, unknown>>;

  constructor(values: Readonly<Record<string, unknown>>) {
    this.#values = values;
  }

  string(name: string): string {
    const value = this.value(name);
    if (typeof value !== 'string' || value === '') throw wrong(name, 'a non-empty string');
    return value;
  }

  /** Any JSON value that is there. */
  value(name: string): unknown {
    if (!Object.hasOwn(this.#values, name)) throw wrong(name, 'given');
    return this.#values[name];
  }

  optional<const Shape extends Record<string, keyof Kinds>>(
    shape: Shape,
  ): { [Name in keyof Shape]: Kinds[Shape[Name]] | undefined } {
    const found: Record<string, unknown> = {};
    for (const [name, kind] of Object.entries(shape)) {
      const value = Object.hasOwn(this.#values, name) ? this.#values[name] : undefined;
      if (value !== undefined && typeof value !== kind) throw wrong(name, `a ${kind}`);
      found[name] = value;
    }
    return found as { [Name in keyof Shape]: Kinds[Shape[Name]] | undefined };
  }

  /** A list whose members are all one of `allowed`; undefined when it is not given. */
  listOf<T>(name: string, isMember: (value: unknown) => value is T, wanted: string): T[] | undefined {
    const value = Object.hasOwn(this.#values, name) ? this.#values[name] : undefined;
    if (value === undefined) return undefined;
    if (!Array.isArray(value) || value.length === 0 || !value.every(isMember)) throw wrong(name, wanted);
    return value;
  }

  oneOf<T extends string>(name: string, value: string, allowed: readonly T[]): T {
    const found = allowed.find((option) => option === value);
    if (found === undefined) throw wrong(name, `one of ${allowed.join(', ')}`);
    return found;
  }
}

function wrong(name: string, wanted: string): EclipticError {
  return new EclipticError('USAGE', `"${name}" must be ${wanted}`, { parameter: name });
}
