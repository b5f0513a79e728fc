import { readdirSync, readFileSync } from 'node:fs';
import { describeError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';

let known: number | undefined;

/** The limit of open files and connections of this process; Infinity where it is unknown. */
export function descriptorLimit(): number {
  known ??= readLimit();
  return known;
}

/** Number of open descriptors; undefined where none is left to count them with. */
export function openDescriptors(): number | undefined {
  try {
    // The folder itself is open while it is read.
    return readdirSync('/dev/fd').length - 1;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'EMFILE' || code === 'ENFILE' ? undefined : 0;
  }
}

function readLimit(): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? [];
    if (soft !== undefined) return Number(soft);
  } catch {
    // Not Linux.
  }
  const report: (NodeJS.ProcessReport & { excludeNetwork?: boolean }) | undefined = process.report;
  if (!report) return Number.POSITIVE_INFINITY;
  const { excludeNetwork = false } = report;
  // Resolving the names of open connections may take seconds.
  report.excludeNetwork = true;
  const { userLimits } = report.getReport() as { userLimits?: { open_files?: { soft?: number | string } } };
  report.excludeNetwork = excludeNetwork;
  const soft = Number(userLimits?.open_files?.soft);
  return soft > 0 ? soft : Number.POSITIVE_INFINITY;
}

const REPORT_MS = 60_000;

/** Counts connections that a server could not accept. There may be thousands per second, so they are logged once a minute. */
export class RefusedConnections {
  readonly #runtime: Runtime;
  readonly #server: string;
  #count = 0;
  #reportedAt = Number.NEGATIVE_INFINITY;

  constructor(runtime: Runtime, server: string) {
    this.#runtime = runtime;
    this.#server = server;
  }

  get count(): number {
    return this.#count;
  }

  note(reason: unknown): void {
    this.#count++;
    const now = this.#runtime.stopwatch();
    if (now - this.#reportedAt < REPORT_MS) return;
    this.#reportedAt = now;
    const about = { server: this.#server, refused: this.#count, reason: describeError(reason) };
    this.#runtime.logger.warn(about, 'connections refused');
  }
}
