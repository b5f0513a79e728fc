import { crc32 } from 'node:zlib';

/** So many pages' checksums are written at once. */
const BLOCK = 1024;

/**
 * A checksum for each page of the database file, numbered from 1, as the last checkpoint left it. SQLite has none, and
 * a flipped bit in a page can make rows vanish without an error: a smaller count of cells, an index entry that sorts
 * elsewhere. 0 stands for a page of which nothing is known.
 */
export class PageSums {
  #sums: Uint32Array;
  readonly #changed = new Set<number>();

  constructor(bytes: Buffer = Buffer.alloc(0)) {
    this.#sums = new Uint32Array(Math.ceil(bytes.length / 4 / BLOCK) * BLOCK);
    for (let index = 0; index < bytes.length >> 2; index++) this.#sums[index] = bytes.readUInt32LE(index * 4);
  }

  /** The highest page of which something is known. */
  get last(): number {
    let index = this.#sums.length;
    while (index > 0 && this.#sums[index - 1] === 0) index--;
    return index;
  }

  set(page: number, content: Buffer): void {
    if (page > this.#sums.length) {
      const grown = new Uint32Array(Math.ceil((page * 1.5) / BLOCK) * BLOCK);
      grown.set(this.#sums);
      this.#sums = grown;
    }
    this.#sums[page - 1] = sumOf(content);
    this.#changed.add(Math.floor((page - 1) / BLOCK));
  }

  /** Is this what the page was? A page of which nothing is known is taken as it is. */
  check(page: number, content: Buffer): boolean {
    const known = this.#sums[page - 1] ?? 0;
    return known === 0 || known === sumOf(content);
  }

  /** What is to be written, and at which place behind the beginning of the sums. */
  *takeChanges(): Iterable<readonly [place: number, bytes: Buffer]> {
    for (const block of this.#changed) {
      const bytes = Buffer.alloc(BLOCK * 4);
      for (let index = 0; index < BLOCK; index++) bytes.writeUInt32LE(this.#sums[block * BLOCK + index]!, index * 4);
      yield [block * BLOCK * 4, bytes];
    }
    this.#changed.clear();
  }
}

function sumOf(content: Buffer): number {
  return crc32(content) || 1;
}
