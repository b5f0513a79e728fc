import type { EclipticError } from '../../runtime/errors.js';
import type { Child } from '../../system/process/child.js';
import type { Program } from '../../system/process/children.js';
import type { RestartPolicy, SupervisedState } from '../../system/process/supervision.js';
import type { Connection } from './connection.js';

/** What keeps a server connected: connects it, and again when the connection ends by itself. */
export interface Keeper {
  readonly state: SupervisedState;
  /** The connection, while there is one. */
  readonly subject: Connection | undefined;
  start(): void;
  /** Ends what there is, and begins without delay. */
  restart(): void;
  /** Starts another with the credentials of now; calls go there, and the old one ends when its calls are over. */
  renew?(): void;
  /** Resolves when nothing of it is left. */
  stop(): Promise<void>;
}

/** A server that is a program, for whoever keeps it running. */
export interface KeptProgram {
  /** What to start; asked for each start. */
  readonly program: () => Promise<Program>;
  /** Makes a connection of a child that was started; rejects when that ends, or when the signal aborts. */
  readonly connect: (child: Child, signal: AbortSignal) => Promise<Connection>;
  readonly restart: Partial<RestartPolicy>;
  /** After what it makes no sense to start again, until somebody says so. */
  readonly isFinal: (reason: EclipticError) => boolean;
  readonly onState: (state: SupervisedState) => void;
}

export type KeepProgram = (kept: KeptProgram) => Keeper;
