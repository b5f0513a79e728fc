/** Reads an input as a list of decisions, so that a mutation of few bytes is a small change of what they decide. */
export class Decisions {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isOver(): boolean {
    return this.#at >= this.#bytes.length;
  }

  byte(): number {
    return this.#bytes[this.#at++] ?? 0;
  }

  below(count: number): number {
    return count <= 256 ? this.byte() % count : (this.byte() * 256 + this.byte()) % count;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }

  bytes(most: number): Buffer {
    const length = this.below(most + 1);
    const taken = this.#bytes.subarray(this.#at, this.#at + length);
    this.#at += length;
    return taken;
  }

  text(most: number): string {
    return this.bytes(most).toString('utf8');
  }

  rest(): Buffer {
    return this.#bytes.subarray(this.#at);
  }
}

/** Values that parsers get wrong. */
const ODD: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1,
  1,
  0.5,
  2 ** 31,
  2 ** 53,
  -(2 ** 53),
  1e308,
  '',
  ' ',
  '\0',
  '\ud800',
  '__proto__',
  'constructor',
  '*',
  '../..',
  'a'.repeat(300),
  [],
  {},
  [null],
  [[]],
  { '': '' },
  { toString: 1, valueOf: 1 },
  JSON.parse('{"__proto__":{"polluted":true}}'),
  Array.from({ length: 40 }, () => 0),
  nested(70),
];

const KEYS = ['__proto__', 'constructor', 'toString', 'length', '', 'id', 'kind', 'type', 'params', 'data'];

function nested(levels: number): unknown {
  let value: unknown = 0;
  for (let level = 0; level < levels; level++) value = level % 2 === 0 ? [value] : { a: value };
  return value;
}

/** The first byte of an input that is the text of the document itself. */
const RAW = 0xff;

/**
 * A JSON document: one of the seeds with the changes that the input decides on, or the input itself. So nearly every
 * input is read beyond its first member. Undefined where the input is no JSON.
 */
export function jsonOf(input: Buffer, seeds: readonly unknown[]): unknown {
  if (input[0] === RAW || input[0] === 0x7b || input[0] === 0x5b) {
    const text = input.subarray(input[0] === RAW ? 1 : 0).toString('utf8');
    try {
      return JSON.parse(text) as unknown;
    } catch {
      return undefined;
    }
  }
  const decisions = new Decisions(input);
  const document = { root: JSON.parse(JSON.stringify(decisions.pick(seeds))) as unknown };
  for (let count = 0; count < 24 && !decisions.isOver; count++) change(document, decisions);
  return document.root;
}

function change(document: { root: unknown }, decisions: Decisions): void {
  let at = document as Record<string, unknown>;
  let key = 'root';
  for (let depth = decisions.below(8); depth > 0; depth--) {
    const next = at[key];
    if (typeof next !== 'object' || next === null) break;
    const keys = Object.keys(next);
    if (keys.length === 0) break;
    at = next as Record<string, unknown>;
    key = decisions.pick(keys);
  }
  switch (decisions.below(7)) {
    case 0:
      set(at, key, copyOf(decisions.pick(ODD)));
      break;
    case 1:
      if (at === (document as object)) break;
      if (Array.isArray(at)) at.splice(Number(key), 1);
      else delete at[key];
      break;
    case 2:
      set(at, key, decisions.text(64));
      break;
    case 3:
      set(at, key, decisions.below(65_536) - 100);
      break;
    case 4:
      if (Array.isArray(at)) at.push(copyOf(at[Number(key)]));
      else if (at !== (document as object)) set(at, decisions.pick(KEYS), copyOf(decisions.pick(ODD)));
      break;
    case 5:
      if (typeof at[key] === 'string') set(at, key, `${at[key]}${decisions.text(16)}`);
      break;
    default:
      if (typeof at[key] === 'string') set(at, key, (at[key] as string).slice(decisions.below(64)));
  }
}

/** Nothing is there twice: a document of a few bytes must neither become a circle nor grow without end. */
function copyOf(value: unknown): unknown {
  const text = JSON.stringify(value);
  return text.length > 2_000 ? null : (JSON.parse(text) as unknown);
}

/** Also the key `__proto__` becomes a member, as `JSON.parse` makes it. */
function set(at: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(at, key, { value, writable: true, enumerable: true, configurable: true });
}
