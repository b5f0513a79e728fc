import v8 from 'node:v8';
import { EclipticError } from '../../src/runtime/errors.js';

/** A parser or boundary, and what must hold of it for every input. */
export interface FuzzTarget {
  /** The same as the name of its file. */
  readonly name: string;
  /** What it reads. */
  readonly about: string;
  /** Inputs that it begins with, beside those in `corpus/`. */
  readonly seeds: readonly (string | Uint8Array)[];
  /** Words that the fuzzer puts into inputs. */
  readonly words?: readonly string[];
  /** Bytes of one input. Default 4,096. */
  readonly maxBytes?: number;
  /** Time for one input, in milliseconds. Default 100. */
  readonly maxMs?: number;
  /** Loads what it needs, and returns more seeds. */
  prepare?(): Promise<readonly Uint8Array[]>;
  /** Throws an error of the catalogue where the input is refused, and any other where something is wrong. */
  run(input: Buffer): void | Promise<void>;
}

const MAX_MS = 100;
/** What the heap may grow by during one input. */
const MAX_HEAP_BYTES = 64 * 1_048_576;
/** On a busy machine an attempt may take long for no reason of its own. */
const ATTEMPTS = 4;

/** Something that must hold did not. */
export class Broken extends Error {
  override readonly name = 'Broken';
}

export function must(holds: boolean, what: () => string): asserts holds {
  if (!holds) throw new Broken(what());
}

export function mustEqual(found: unknown, expected: unknown, what: string): void {
  const [a, b] = [JSON.stringify(found), JSON.stringify(expected)];
  must(a === b, () => `${what}: ${a?.slice(0, 500)} instead of ${b?.slice(0, 500)}`);
}

/** One input to a target, within its bounds. Throws for anything but a refusal with an error of the catalogue. */
export function attempt(target: FuzzTarget, input: Buffer): void | Promise<void> {
  const least = { ms: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY };
  const again = (count: number): void | Promise<void> => {
    const used = measured(target, input, least);
    const judge = () =>
      isWithin(target, least) || count === ATTEMPTS ? conclude(target, input, least) : again(count + 1);
    return used ? used.then(judge) : judge();
  };
  return again(1);
}

interface Use {
  ms: number;
  bytes: number;
}

function isWithin({ maxMs = MAX_MS }: FuzzTarget, { ms, bytes }: Use): boolean {
  return ms <= maxMs && bytes <= MAX_HEAP_BYTES;
}

function conclude(target: FuzzTarget, { length }: Buffer, least: Use): void {
  // Members that every object has are what is looked for.
  for (const key in {}) {
    delete (Object.prototype as Record<string, unknown>)[key];
    throw new Broken(`every object has got a member "${key}"`);
  }
  if (isWithin(target, least)) return;
  const { ms, bytes } = least;
  throw new Broken(`${target.name} needs ${Math.round(ms)} ms and ${bytes} bytes of heap for ${length} bytes`);
}

/** Notes what this attempt took, where that is less than before. */
function measured(target: FuzzTarget, input: Buffer, least: Use): void | Promise<void> {
  const heap = v8.getHeapStatistics().used_heap_size;
  const start = process.hrtime.bigint();
  const end = () => {
    least.ms = Math.min(least.ms, Number(process.hrtime.bigint() - start) / 1e6);
    least.bytes = Math.min(least.bytes, v8.getHeapStatistics().used_heap_size - heap);
  };
  const refused = (error: unknown) => {
    if (!(error instanceof EclipticError)) throw error;
    end();
  };
  try {
    const done = target.run(input);
    if (done) return done.then(end, refused);
  } catch (error) {
    return refused(error);
  }
  end();
}

/** Runs something that may refuse. Undefined where it did; anything but an error of the catalogue passes on. */
export function unlessRefused<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch (error) {
    if (error instanceof EclipticError) return undefined;
    throw error;
  }
}
