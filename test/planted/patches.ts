import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOLDER = join(ROOT, 'test/planted');

/** What must find a planted bug. */
export type Finder =
  | { readonly kind: 'simulate'; readonly seeds: number; readonly events: number }
  | { readonly kind: 'test'; readonly file: string; readonly title: string | undefined };

export interface Planted {
  /** The patch without its ending, such as `03-torn-write`. */
  readonly name: string;
  readonly file: string;
  readonly capability: string;
  readonly breaks: string;
  readonly finder: Finder;
}

/** All planted bugs, in the order of their numbers. */
export function plantedBugs(): Planted[] {
  const names = readdirSync(FOLDER).filter((name) => name.endsWith('.patch'));
  return names.sort().map((name) => readPatch(name.slice(0, -'.patch'.length)));
}

/** A patch begins with lines `capability:`, `breaks:` and `found by:`. Throws if it does not. */
function readPatch(name: string): Planted {
  const file = join(FOLDER, `${name}.patch`);
  const head = readFileSync(file, 'utf8').split('\ndiff ')[0]!;
  const line = (key: string): string => {
    const found = new RegExp(`^${key}: (.+)$`, 'm').exec(head)?.[1];
    if (found === undefined) throw new Error(`${name}.patch has no line "${key}: …" before its first file`);
    return found;
  };
  return {
    name,
    file,
    capability: line('capability'),
    breaks: line('breaks'),
    finder: readFinder(name, line('found by')),
  };
}

/** `simulate SEEDS x EVENTS`, or `test FILE`, or `test FILE: TITLE`. */
function readFinder(name: string, text: string): Finder {
  const simulation = /^simulate (\d+) x (\d+)$/.exec(text);
  if (simulation) return { kind: 'simulate', seeds: Number(simulation[1]), events: Number(simulation[2]) };
  const test = /^test (\S+?\.test\.ts)(?:: (.+))?$/.exec(text);
  if (test) return { kind: 'test', file: test[1]!, title: test[2] };
  throw new Error(`${name}.patch says "found by: ${text}"; write "simulate SEEDS x EVENTS" or "test FILE: TITLE"`);
}
