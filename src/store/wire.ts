import type { EclipticError } from '../runtime/errors.js';
import { type Fault, fromFault, toFault } from './faults.js';
import type { Change, Selection } from './plan.js';
import { TABLE_NAMES } from './shapes.js';
import type { LogName } from './tables.js';

export interface EngineOptions {
  /** How long another process may take to let the file go. */
  readonly busyMs?: number;
  /** How many bytes of the database are checked before it is opened; the rest is checked afterwards. */
  readonly checkBytes?: number;
  /** How long the write-ahead log grows, in frames, before its pages are moved into the database. */
  readonly checkpointFrames?: number;
  /** How many changes wait, at least, before they are written to their tables. */
  readonly pendingChanges?: number;
  /** How large the database may become, in pages: a disk that is full, for tests. */
  readonly maxPages?: number;
}

export interface WriteCall {
  readonly kind: 'write';
  readonly changes: readonly Change[];
}

/** What the store's thread can be asked. */
export type Call =
  | WriteCall
  | { readonly kind: 'read' | 'count'; readonly selection: Selection }
  | { readonly kind: 'figures'; readonly log: LogName }
  | { readonly kind: 'integrity' | 'counters' };

export type Outcome = { readonly value: unknown } | { readonly error: EclipticError };

/** Something that `integrity` found to be wrong. */
export interface Damage {
  readonly file: string;
  /** The table or index it is in, where that can be told. */
  readonly table: string | undefined;
  readonly what: string;
}

export interface Counters {
  /** Calls of `write` that were kept. */
  readonly writes: number;
  /** Transactions they were kept in, each synced to disk once. */
  readonly transactions: number;
  readonly checkpoints: number;
  /** Is what is on disk watched by checksums? Not where the file system cannot link files, or the mark was lost. */
  readonly marked: boolean;
}

/** What the store's thread starts with. */
export interface ThreadData {
  readonly folder: string;
  readonly options: EngineOptions;
}

/** To the thread: calls of one turn of the event loop, as text; or the wish to end. */
export type Request = string | { readonly close: true };

/** From the thread: first whether the store is open, then outcomes of calls in their order, at last that it is closed. */
export type Response = string | { readonly opened: true } | { readonly refused: Fault } | { readonly closed: true };

/**
 * Calls and outcomes go between threads as JSON, and rows in it as bare lists: copying the objects themselves takes
 * four times as long. Calls are also kept on disk in this form until their rows are in the tables, so a store that was
 * not closed may be opened by a later release: another form needs a migration.
 */
export function encodeCalls(calls: readonly Call[]): string {
  return JSON.stringify(
    calls.map((call) =>
      call.kind === 'write'
        ? call.changes.map((change) =>
            'values' in change
              ? [change.kind === 'put' ? 1 : 0, TABLE_NAMES.indexOf(change.table), change.values]
              : change,
          )
        : call,
    ),
  );
}

export function decodeCalls(text: string): Call[] {
  const calls: unknown[] = JSON.parse(text);
  return calls.map((call) => {
    if (!Array.isArray(call)) return call as Call;
    const changes = call.map((change) =>
      Array.isArray(change)
        ? { kind: change[0] === 1 ? 'put' : 'insert', table: TABLE_NAMES[change[1]], values: change[2] }
        : change,
    );
    return { kind: 'write', changes } as Call;
  });
}

/** 0 for a call that has nothing to say but that it is done. */
export function encodeOutcomes(outcomes: readonly Outcome[]): string {
  return JSON.stringify(
    outcomes.map((outcome) =>
      'error' in outcome ? { fault: toFault(outcome.error) } : outcome.value === undefined ? 0 : outcome,
    ),
  );
}

export function decodeOutcomes(text: string): Outcome[] {
  const outcomes: (0 | { value: unknown } | { fault: Fault })[] = JSON.parse(text);
  return outcomes.map((outcome) => {
    if (outcome === 0) return DONE;
    return 'fault' in outcome ? { error: fromFault(outcome.fault) } : outcome;
  });
}

const DONE: Outcome = { value: undefined };
