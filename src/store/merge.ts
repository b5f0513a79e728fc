import type { Block } from './block.js';
import { storeClosed } from './faults.js';
import type { Run, RunWriter } from './run.js';
import type { Tree } from './table.js';

/** Fewer similar runs are left alone. */
const MIN_RUNS = 6;
const MAX_RUNS = 12;

/**
 * How many of the newest runs to merge: all up to the first that is more than twice as large as the newer ones together.
 * So each row is rewritten a number of times that grows with the logarithm of the data.
 */
export function runsToMerge(runs: readonly Run[]): number {
  const sizes = runs.map(({ record }) => record.size);
  let total = sizes[0] ?? 0;
  let count = 1;
  while (count < sizes.length && sizes[count]! <= 2 * total) total += sizes[count++]!;
  if (count >= MIN_RUNS) return count;
  return sizes.length > MAX_RUNS ? MIN_RUNS : 0;
}

/** Merges these trees of runs, newest first. Deleted keys are left out when no older run can have them. */
export async function mergeRuns(
  runs: readonly Run[],
  trees: readonly Tree[],
  writer: RunWriter,
  { isOldest, isStopped }: { readonly isOldest: boolean; readonly isStopped: () => boolean },
): Promise<void> {
  for (const { name } of trees) {
    let sources = runs.map((run) => new Source(run.blocks(name))).filter(({ block }) => block);
    while (sources.length > 0) {
      mergeNext(sources, writer, isOldest);
      if (sources.some(({ block }) => !block)) sources = sources.filter(({ block }) => block);
      if (!writer.isFull) continue;
      if (isStopped()) throw storeClosed();
      await writer.write();
    }
    writer.endTree(name);
  }
}

/** Writes the smallest key, or its whole block where the block lies before the keys of all other runs. */
function mergeNext(sources: readonly Source[], writer: RunWriter, isOldest: boolean): void {
  let first = sources[0]!;
  for (const source of sources) if (source.key < first.key) first = source;
  const { block, place, key } = first;
  const isAhead = place === 0 && sources.every((source) => source === first || first.last < source.key);
  if (isAhead && !(isOldest && block!.hasDeleted)) {
    writer.addBlock(block!);
    first.nextBlock();
    return;
  }
  const value = block!.value(place);
  if (value || !isOldest) writer.add(key, value?.bytes);
  for (const source of sources) if (source.key === key) source.next();
}

/** The keys of one tree of a run, in order. */
class Source {
  readonly #blocks: Iterator<Block, undefined>;
  /** Undefined at the end. */
  block: Block | undefined;
  place = 0;
  key = '';
  /** The last key of the block. */
  last = '';

  constructor(blocks: Iterator<Block, undefined>) {
    this.#blocks = blocks;
    this.nextBlock();
  }

  next(): void {
    if (++this.place < this.block!.count) this.key = this.block!.key(this.place);
    else this.nextBlock();
  }

  nextBlock(): void {
    this.block = this.#blocks.next().value;
    this.place = 0;
    if (!this.block) return;
    this.key = this.block.key(0);
    this.last = this.block.key(this.block.count - 1);
  }
}
