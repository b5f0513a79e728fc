import type { Block } from './block.js';
import { storeClosed } from './faults.js';
import type { BlockRef, Run, RunWriter } from './run.js';

/** Fewer similar runs are left alone. */
const MIN_RUNS = 6;
const MAX_RUNS = 12;

/**
 * How many of the newest runs to merge: all up to the first that is more than twice as large as the newer ones together.
 * So each row is rewritten a number of times that grows with the logarithm of the data.
 */
export function runsToMerge(runs: readonly { readonly size: number }[]): number {
  let total = runs[0]?.size ?? 0;
  let count = 1;
  while (count < runs.length && runs[count]!.size <= 2 * total) total += runs[count++]!.size;
  if (count >= MIN_RUNS) return count;
  return runs.length > MAX_RUNS ? MIN_RUNS : 0;
}

/** Merges these trees of runs, newest first. Deleted keys are left out when no older run can have them. */
export async function mergeRuns(
  runs: readonly Run[],
  trees: readonly string[],
  writer: RunWriter,
  { isOldest, isStopped }: { readonly isOldest: boolean; readonly isStopped: () => boolean },
): Promise<void> {
  for (const name of trees) {
    writer.begin(name);
    const sources = runs.map((run) => new Source(run.blocks(name))).filter((source) => source.key !== undefined);
    while (sources.length > 0) {
      mergeNext(sources, writer, isOldest);
      for (let place = sources.length - 1; place >= 0; place--) {
        if (sources[place]!.key === undefined) sources.splice(place, 1);
      }
      if (!writer.isFull) continue;
      if (isStopped()) throw storeClosed();
      await writer.write();
    }
    writer.endTree();
  }
}

/** Writes the smallest key, or its whole block where the block lies before the keys of all other runs. */
function mergeNext(sources: readonly Source[], writer: RunWriter, isOldest: boolean): void {
  let first = sources[0]!;
  for (const source of sources) if (source.key! < first.key!) first = source;
  const isAhead = sources.every((source) => source === first || first.last < source.key!);
  if (first.place === 0 && isAhead && !(isOldest && first.ref!.hasDeleted)) {
    writer.addBlock(first.block!, first.ref!);
    first.nextBlock();
    return;
  }
  const { key } = first;
  const value = first.block!.value(first.place);
  if (value || !isOldest) writer.add(key!, value?.bytes);
  for (const source of sources) if (source.key === key) source.next();
}

/** The keys of one tree of a run, in order. */
class Source {
  readonly #blocks: ReturnType<Run['blocks']>;
  block: Block | undefined;
  ref: BlockRef | undefined;
  place = 0;
  key: string | undefined;
  /** The last key of the block. */
  last = '';

  constructor(blocks: ReturnType<Run['blocks']>) {
    this.#blocks = blocks;
    this.nextBlock();
  }

  next(): void {
    if (++this.place < this.block!.count) this.key = this.block!.key(this.place);
    else this.nextBlock();
  }

  nextBlock(): void {
    const { value } = this.#blocks.next();
    this.block = value?.block;
    this.ref = value?.ref;
    this.place = 0;
    this.key = this.block?.key(0);
    this.last = this.block ? this.block.key(this.block.count - 1) : '';
  }
}
