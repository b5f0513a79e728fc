import { callGuarded, logCallback } from '../../runtime/callbacks.js';
import { describeError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { childrenOf, groupMembers, memoryOf } from './process-table.js';

interface Watched {
  readonly limitBytes: number;
  readonly onExceeded: (bytes: number) => void;
  bytes: number | undefined;
  /** Members of the group found by the last full scan. */
  members: readonly number[];
}

/** A program that grows by a gigabyte a second is noticed a few hundred megabytes late. */
const INTERVAL_MS = 250;
/** Every how many rounds all processes of the system are scanned; the other rounds look at known members and their children. */
const THOROUGH = 8;

/**
 * Watches the memory of process groups, all in one round. Idle while nothing is watched. On systems without /proc it
 * reports nothing.
 */
export class MemoryWatch {
  readonly #runtime: Runtime;
  readonly #intervalMs: number;
  readonly #watched = new Map<number, Watched>();
  #timer: Timer | undefined;
  #looks = 0;

  constructor(runtime: Runtime, intervalMs = INTERVAL_MS) {
    this.#runtime = runtime;
    this.#intervalMs = intervalMs;
  }

  /** Calls back once when a group exceeds the limit. Returns the function that stops watching. */
  watch(group: number, limitBytes: number, onExceeded: (bytes: number) => void): () => void {
    const own: Watched = { limitBytes, onExceeded, bytes: undefined, members: [] };
    this.#watched.set(group, own);
    this.#timer ??= this.#runtime.setTimer(() => void this.#look(), this.#intervalMs);
    return () => {
      // The pid may have been reused.
      if (this.#watched.get(group) === own) this.#watched.delete(group);
    };
  }

  /** Memory of a group in the last round. */
  bytesOf(group: number): number | undefined {
    return this.#watched.get(group)?.bytes;
  }

  async #look(): Promise<void> {
    const before = new Map(this.#watched);
    try {
      const found = ++this.#looks % THOROUGH === 0 && (await groupMembers(this.#runtime, new Set(before.keys())));
      for (const [group, own] of before) {
        if (found) own.members = found.get(group) ?? [];
        own.bytes = memoryOfGroup(group, own.members);
        if (own.bytes === undefined || own.bytes <= own.limitBytes || this.#watched.get(group) !== own) continue;
        this.#watched.delete(group);
        callGuarded(own.onExceeded, [own.bytes], (error) => {
          logCallback(this.#runtime.logger)(`memory watch of process group ${group}`, error);
        });
      }
    } catch (error) {
      this.#runtime.logger.error({ error: describeError(error) }, 'memory of child processes could not be read');
    }
    this.#timer =
      this.#watched.size === 0 ? undefined : this.#runtime.setTimer(() => void this.#look(), this.#intervalMs);
  }
}

/** Memory of a group's leader, its descendants and further known members. */
function memoryOfGroup(group: number, members: readonly number[]): number | undefined {
  let total: number | undefined;
  const known = new Set([group, ...members]);
  for (const pid of known) {
    const bytes = memoryOf(pid, group);
    if (bytes === undefined) continue;
    total = (total ?? 0) + bytes;
    for (const child of childrenOf(pid)) known.add(child);
  }
  return total;
}
