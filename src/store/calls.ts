import type { EclipticError } from '../runtime/errors.js';
import type { Change, Selection } from './plan.js';
import type { LogName } from './tables.js';

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
