import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

const at = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
export const RESULTS = at('docs/evidence.json');
/** Outputs of the runs, and how far an interrupted one came. Not in git. */
export const WORK = at('.evidence');
const STATE = `${WORK}/state.json`;

export type Mode = 'full' | 'quick';

/** How much a test tried: `what` is a noun in the plural. */
export interface Tried {
  readonly what: string;
  readonly count: number;
  /** Of seeds. */
  readonly first?: number;
  readonly last?: number;
}

interface Run {
  /** An ISO time. */
  readonly at: string;
  readonly commit: string;
  readonly seconds: number;
}

/** What the tests of one file gave. */
export interface FileResult extends Run {
  readonly passed: number;
  readonly skipped: number;
  /** The titles of the tests that failed. */
  readonly failed: readonly string[];
  readonly tried: readonly Tried[];
}

export interface PartResult extends Run {
  readonly command: string;
  readonly passed: boolean;
  /** In the order in which the page shows them. */
  readonly figures: Readonly<Record<string, number | string>>;
  readonly failures: readonly string[];
  /** How often it checked each line of the contract, by its subject. */
  readonly checks?: Readonly<Record<string, number>>;
}

export interface ModeResults {
  readonly tests: Record<string, FileResult>;
  readonly parts: Record<string, PartResult>;
}

export type Results = Record<Mode, ModeResults>;

export function readResults(): Results {
  const empty = (): ModeResults => ({ tests: {}, parts: {} });
  if (!existsSync(RESULTS)) return { full: empty(), quick: empty() };
  return JSON.parse(readFileSync(RESULTS, 'utf8')) as Results;
}

export function writeResults(results: Results): void {
  const sorted = ({ tests, parts }: ModeResults): ModeResults => ({ tests: byName(tests), parts: byName(parts) });
  replace(RESULTS, { full: sorted(results.full), quick: sorted(results.quick) });
}

/** The units that an interrupted run has behind it. */
export interface Progress {
  readonly mode: Mode;
  readonly commit: string;
  readonly done: string[];
}

export function readProgress(): Progress | undefined {
  return existsSync(STATE) ? (JSON.parse(readFileSync(STATE, 'utf8')) as Progress) : undefined;
}

export function writeProgress(progress: Progress): void {
  replace(STATE, progress);
}

export function forgetProgress(): void {
  rmSync(STATE, { force: true });
}

/** A run may be killed at any moment. */
function replace(path: string, content: unknown): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(`${path}.new`, `${JSON.stringify(content, null, 1)}\n`);
  renameSync(`${path}.new`, path);
}

function byName<T>(entries: Record<string, T>): Record<string, T> {
  return Object.fromEntries(Object.entries(entries).sort(([a], [b]) => (a < b ? -1 : 1)));
}
