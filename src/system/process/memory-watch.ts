import { callGuarded, logCallback } from '../../runtime/callbacks.js';
import { describeError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { childrenOf, groupMembers, memoryOf } from './process-table.js';

interface Watched {
  readonly limitBytes: number;
  readonly onExceeded: (bytes: number) => void;
  bytes: number | undefined;
  /** All members of the group that a look at every process found. */
  members: readonly number[];
}

/** How often it looks: a program that grows by a gigabyte a second is seen a few hundred megabytes too late. */
const INTERVAL_MS = 250;
/** In one look of so many, every process of the system is asked for its group; else only those that are known, and theirs. */
const THOROUGH = 8;

/**
 * Looks at the memory of process groups, all of them in one round. While nothing is watched it does nothing. On systems
 * without /proc nothing is known, and nobody is told.
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

  /** Tells, once, when a group takes up more than that. Returns the way to stop. */
  watch(group: number, limitBytes: number, onExceeded: (bytes: number) => void): () => void {
    const own: Watched = { limitBytes, onExceeded, bytes: undefined, members: [] };
    this.#watched.set(group, own);
    this.#timer ??= this.#runtime.setTimer(() => void this.#look(), this.#intervalMs);
    return () => {
      // Its number may be another's by now.
      if (this.#watched.get(group) === own) this.#watched.delete(group);
    };
  }

  /** What a group took up when last looked at. */
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
      this.#runtime.logger.error(
        { error: describeError(error) },
        'the memory of child processes could not be looked at',
      );
    }
    this.#timer =
      this.#watched.size === 0 ? undefined : this.#runtime.setTimer(() => void this.#look(), this.#intervalMs);
  }
}

/** What a group takes up: its first process and what that has started, and whoever else is known. */
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
