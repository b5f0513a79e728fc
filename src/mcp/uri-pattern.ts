import { EclipticError } from '../runtime/errors.js';

const EXPRESSION = /\{([^{}]*)\}/g;
const VARIABLE = /^(\+?)([A-Za-z0-9_]+)$/;

interface Variable {
  readonly name: string;
  /** `{+name}` may contain slashes. */
  readonly reserved: boolean;
  /** The text between this variable and the next one, or the end. */
  readonly then: string;
}

/**
 * Matches URIs against a template (RFC 6570, `{name}` and `{+name}`) and extracts the values. Each value ends at the
 * first occurrence of the text after it, so that matching takes linear time.
 */
export class UriPattern {
  readonly #start: string;
  readonly #variables: readonly Variable[];

  constructor(template: string) {
    const found = [...template.matchAll(EXPRESSION)];
    if (found.length === 0) throw unusable(template, 'it has no variable; offer a resource with this URI instead');
    this.#start = template.slice(0, found[0]!.index);
    this.#variables = found.map((match, index) => {
      const [, reserved, name] = VARIABLE.exec(match[1]!) ?? [];
      if (name === undefined) throw unusable(template, `{${match[1]}} is not {name} or {+name}`);
      const next = found[index + 1]?.index;
      const then = template.slice(match.index + match[0].length, next);
      if (then === '' && next !== undefined) throw unusable(template, 'two variables stand side by side');
      return { name, reserved: reserved === '+', then };
    });
    if (new Set(this.names).size < found.length) throw unusable(template, 'a variable stands in it twice');
  }

  get names(): readonly string[] {
    return this.#variables.map(({ name }) => name);
  }

  match(uri: string): Record<string, string> | undefined {
    if (!uri.startsWith(this.#start)) return undefined;
    const values: Record<string, string> = {};
    let at = this.#start.length;
    for (const [index, { name, reserved, then }] of this.#variables.entries()) {
      const last = index === this.#variables.length - 1;
      const end = last ? uri.length - then.length : uri.indexOf(then, at + 1);
      if (end <= at || !uri.startsWith(then, end)) return undefined;
      const value = uri.slice(at, end);
      if (!reserved && value.includes('/')) return undefined;
      values[name] = decode(value);
      at = end + then.length;
    }
    return values;
  }
}

function decode(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}

function unusable(template: string, reason: string): EclipticError {
  return new EclipticError('INVALID_TOOL', `the URI template "${template}" cannot be used: ${reason}`, { template });
}
