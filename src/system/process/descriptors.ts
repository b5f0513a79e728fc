import { readdirSync, readFileSync } from 'node:fs';
import { describeError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';

let known: number | undefined;

/** How many files and connections this process may have open at once; Infinity where the system does not tell. */
export function descriptorLimit(): number {
  known ??= readLimit();
  return known;
}

/** How many it has open; undefined where not even one more can be opened to count them. */
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
  // Looking up names of open connections may take seconds.
  report.excludeNetwork = true;
  const { userLimits } = report.getReport() as { userLimits?: { open_files?: { soft?: number | string } } };
  report.excludeNetwork = excludeNetwork;
  const soft = Number(userLimits?.open_files?.soft);
  return soft > 0 ? soft : Number.POSITIVE_INFINITY;
}

const REPORT_MS = 60_000;

/** Counts the connections that a server could not accept. While descriptors are used up there may be thousands a second, so the log tells of them once a minute. */
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
