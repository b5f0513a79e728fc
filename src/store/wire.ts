import type { EclipticError } from '../runtime/errors.js';
import { type Fault, fromFault, toFault } from './faults.js';
import type { Change, Selection } from './plan.js';
import { TABLE_NAMES } from './shapes.js';
import type { LogName } from './tables.js';

export interface EngineOptions {
  /** How long another process may take to release the file. */
  readonly busyMs?: number;
  /** Bytes of the database that are checked before it is opened; the rest is checked afterwards. */
  readonly checkBytes?: number;
  /** Length of the write-ahead log, in frames, at which a checkpoint moves its pages into the database. */
  readonly checkpointFrames?: number;
  /** Number of pending changes at which they are written to their tables. */
  readonly pendingChanges?: number;
  /** Size limit of the database in pages: simulates a full disk in tests. */
  readonly maxPages?: number;
}

export interface WriteCall {
  readonly kind: 'write';
  readonly changes: readonly Change[];
}

/** The calls of the store's thread. */
export type Call =
  | WriteCall
  | { readonly kind: 'read' | 'count'; readonly selection: Selection }
  | { readonly kind: 'figures'; readonly log: LogName }
  | { readonly kind: 'integrity' | 'counters' };

export type Outcome = { readonly value: unknown } | { readonly error: EclipticError };

export interface Damage {
  readonly file: string;
  /** The damaged table or index, where it is known. */
  readonly table: string | undefined;
  readonly what: string;
}

export interface Counters {
  readonly writes: number;
  /** Transactions of these writes, each synced to disk once. */
  readonly transactions: number;
  readonly checkpoints: number;
  /** Are the files protected by checksums? Not where the file system cannot link files, or the mark was lost. */
  readonly marked: boolean;
}

export interface ThreadData {
  readonly folder: string;
  readonly options: EngineOptions;
}

/** To the thread: the calls of one turn of the event loop, or the request to close. */
export type Request = string | { readonly close: true };

/** From the thread: whether the store is open, then outcomes of calls in their order, finally that it is closed. */
export type Response = string | { readonly opened: true } | { readonly refused: Fault } | { readonly closed: true };

/**
 * Calls and outcomes are sent between threads as JSON with rows as lists: structured cloning of the objects takes four
 * times as long. Calls are also stored on disk in this form until their rows are in the tables, so a store that was not
 * closed may be opened by a later release: another form needs a migration.
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

/** 0 stands for a call without a result. */
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
