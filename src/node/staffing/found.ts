/** What can do the work of a role, by the key that `ecliptic.json` has for it. */
export const WORKER_KINDS = ['acp', 'model', 'exec'] as const;
export type WorkerKind = (typeof WORKER_KINDS)[number];

/** A worker as `ecliptic.json` has it. */
export type WorkerConfig =
  | { readonly acp: AcpWorkerConfig }
  | { readonly model: ModelWorkerConfig }
  | { readonly exec: string };

export interface AcpWorkerConfig {
  readonly command: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly mode?: string;
}

export interface ModelWorkerConfig {
  readonly baseUrl: string;
  readonly model: string;
  readonly apiKey?: string;
  /** The folder that it works on: that of `ecliptic.json`. */
  readonly cwd: '.';
}

export interface FoundWorker {
  readonly kind: WorkerKind;
  readonly title: string;
  /** Why it can be used. */
  readonly why: string;
  readonly config: WorkerConfig;
  /** The only role that it serves. Default: any. */
  readonly role?: string;
}

/** Something on this machine that could be a worker, but is not yet. */
export interface UnusableWorker {
  readonly kind: WorkerKind;
  readonly title: string;
  readonly reason: string;
  /** The command that would change it. */
  readonly fix: string;
}

export interface FoundWorkers {
  /** In order of preference within a kind. */
  readonly workers: readonly FoundWorker[];
  readonly unusable: readonly UnusableWorker[];
}
