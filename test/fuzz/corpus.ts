import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FuzzTarget } from './fuzz-target.js';

const FOLDER = join(process.cwd(), 'test', 'fuzz');

/** A line of a corpus: text, or bytes that are none. */
type Line = string | { readonly base64: string };

/** Inputs that reach different parts of a target: its own, those that the fuzzer found, and those that once broke it. */
export function seedsOf({ name, seeds }: FuzzTarget): Buffer[] {
  return [
    ...seeds.map((seed) => Buffer.from(seed as string)),
    ...['corpus', 'regressions'].flatMap((kind) => linesOf(kind, name)),
  ];
}

function linesOf(kind: string, name: string): Buffer[] {
  const file = join(FOLDER, kind, `${name}.jsonl`);
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean);
  return lines.map((line) => {
    const one = JSON.parse(line) as Line;
    return typeof one === 'string' ? Buffer.from(one) : Buffer.from(one.base64, 'base64');
  });
}
