import { crc32 } from 'node:zlib';
import { Block, BlockWriter } from './block.js';
import { ByteReader, ByteWriter } from './bytes.js';
import type { NewFile, ReadableFile } from './disk.js';
import { storeDamaged } from './faults.js';
import type { Tree } from './key.js';
import type { Entry, KeyState, Layer } from './memtable.js';
import type { Table } from './table.js';

const MAGIC = 'ECLRUN01';
const TRAILER_BYTES = 24;
const REF_BYTES = 17;
const BLOCK_BYTES = 8_192;
/** Bytes that are written at once; also how much work a merge does before other tasks have their turn. */
const WRITE_BYTES = 131_072;
const CACHE_BYTES = 8 * 1_048_576;

/** A block in a file. */
export interface BlockRef {
  readonly offset: number;
  readonly length: number;
  readonly sum: number;
  /** Does the block contain deleted keys? */
  readonly hasDeleted: boolean;
}

/** A tree in a run. */
interface RunTree {
  readonly first: string;
  readonly last: string;
  readonly keys: number;
  /** The block with the first key of, and a reference to, each block of the tree. */
  readonly index: BlockRef;
}

/** A tree is known by its table and columns, so an index with other columns is another tree. */
export function treeName({ table, index }: Tree): string {
  if (index < 0) return table.name;
  return `${table.name}(${table.indexes[index]!.map((column) => table.columns[column]).join()})`;
}

const names = new WeakMap<Tree, string>();

function nameOf(tree: Tree): string {
  let name = names.get(tree);
  if (name === undefined) {
    name = treeName(tree);
    names.set(tree, name);
  }
  return name;
}

/** Recently used blocks of all runs of a store. */
export class BlockCache {
  readonly #blocks = new Map<string, Block>();
  #bytes = 0;

  get(file: string, ref: BlockRef, load: () => Block): Block {
    const key = `${file} ${ref.offset}`;
    let block = this.#blocks.get(key);
    if (block) this.#blocks.delete(key);
    else {
      block = load();
      this.#bytes += block.bytes.length;
    }
    this.#blocks.set(key, block);
    for (const [oldest, { bytes }] of this.#blocks) {
      if (this.#bytes <= CACHE_BYTES || oldest === key) break;
      this.#blocks.delete(oldest);
      this.#bytes -= bytes.length;
    }
    return block;
  }
}

/**
 * An immutable sorted file: the rows and index keys of one flushed memtable, or of several merged runs. Blocks of each tree,
 * an index block for each tree, a directory of the trees, and a trailer that says where the directory is. Every block is
 * checked against its checksum when it is read.
 */
export class Run implements Layer {
  readonly name: string;
  readonly size: number;
  /** The checksum of its directory, which has the checksums of all that is in it. */
  readonly sum: number;
  readonly trees: ReadonlyMap<string, RunTree>;
  readonly #file: ReadableFile;
  readonly #cache: BlockCache;
  readonly #indexes = new Map<string, Block>();

  constructor(name: string, file: ReadableFile, cache: BlockCache) {
    this.name = name;
    this.#file = file;
    this.#cache = cache;
    this.size = file.size;
    const { sum, trees } = this.#directory();
    this.sum = sum;
    this.trees = trees;
  }

  get path(): string {
    return this.#file.path;
  }

  get(table: Table, key: string): Entry {
    const tree = this.trees.get(table.name);
    if (!tree || key < tree.first || key > tree.last) return undefined;
    const index = this.#index(table.name, tree);
    const at = index.lowerBound(key);
    const block = this.#block(this.#ref(index, index.has(at, key) ? at : at - 1));
    const place = block.lowerBound(key);
    if (!block.has(place, key)) return undefined;
    return block.value(place) ?? null;
  }

  *scan(tree: Tree, from: string, to: string | undefined, descending: boolean): Generator<KeyState, undefined> {
    const name = nameOf(tree);
    const found = this.trees.get(name);
    if (!found || (to !== undefined && found.first >= to) || found.last < from) return;
    const index = this.#index(name, found);
    const step = descending ? -1 : 1;
    const bound = descending ? to : from;
    let at = bound === undefined ? index.count - 1 : index.lowerBound(bound);
    if (bound !== undefined && (descending || !index.has(at, bound))) at = Math.max(0, at - 1);
    for (let isFirst = true; at >= 0 && at < index.count; at += step, isFirst = false) {
      const block = this.#block(this.#ref(index, at));
      let place = descending ? block.count - 1 : 0;
      if (isFirst && bound !== undefined) place = block.lowerBound(bound) - (descending ? 1 : 0);
      for (; place >= 0 && place < block.count; place += step) {
        const key = block.key(place);
        if (descending ? key < from : to !== undefined && key >= to) return;
        const row = block.value(place);
        yield { key, live: row !== undefined, row: tree.index < 0 ? row : undefined };
      }
    }
  }

  /** The blocks of a tree in order, not through the cache. */
  *blocks(name: string): Generator<{ readonly block: Block; readonly ref: BlockRef }, undefined> {
    const tree = this.trees.get(name);
    if (!tree) return;
    const index = this.#load(tree.index);
    for (let at = 0; at < index.count; at++) {
      const ref = this.#ref(index, at);
      yield { block: this.#load(ref), ref };
    }
  }

  close(): void {
    this.#file.close();
  }

  #index(name: string, tree: RunTree): Block {
    let index = this.#indexes.get(name);
    if (!index) {
      index = this.#load(tree.index);
      this.#indexes.set(name, index);
    }
    return index;
  }

  #ref(index: Block, place: number): BlockRef {
    return readRef(new ByteReader(index.bytes, index.valueStart(place)));
  }

  #block(ref: BlockRef): Block {
    return this.#cache.get(this.name, ref, () => this.#load(ref));
  }

  #load(ref: BlockRef): Block {
    return new Block(this.#read(ref.offset, ref.length, ref.sum));
  }

  #read(offset: number, length: number, sum: number): Buffer {
    const bytes = this.#file.readAt(offset, length);
    if (bytes.length < length) throw storeDamaged(this.#file.path, `it ends at ${offset + bytes.length} bytes`);
    if (crc32(bytes) !== sum) throw storeDamaged(this.#file.path, `the block at ${offset} has a wrong checksum`);
    return bytes;
  }

  #directory(): { sum: number; trees: Map<string, RunTree> } {
    const trailer = this.#file.readAt(Math.max(0, this.size - TRAILER_BYTES), TRAILER_BYTES);
    if (trailer.length < TRAILER_BYTES || trailer.toString('latin1', 16) !== MAGIC) {
      throw storeDamaged(this.#file.path, 'its end is missing or damaged');
    }
    const place = new ByteReader(trailer);
    const offset = place.double();
    const length = this.size - TRAILER_BYTES - offset;
    if (!(Number.isSafeInteger(length) && length >= 0 && length <= this.size)) {
      throw storeDamaged(this.#file.path, 'its end is damaged');
    }
    const sum = place.uint32();
    const reader = new ByteReader(this.#read(offset, length, sum));
    const trees = new Map<string, RunTree>();
    for (let left = reader.uint32(); left > 0; left--) {
      const name = reader.latin1(reader.uint32());
      const first = reader.latin1(reader.uint32());
      const last = reader.latin1(reader.uint32());
      trees.set(name, { first, last, keys: reader.double(), index: readRef(reader) });
    }
    return { sum, trees };
  }
}

/** Writes a run: trees one after the other, the keys of each in order. */
export class RunWriter {
  readonly #file: NewFile;
  readonly #pending = new ByteWriter();
  readonly #block = new BlockWriter();
  readonly #index = new BlockWriter();
  readonly #trees: (RunTree & { readonly name: string })[] = [];
  #name = '';
  #first: string | undefined;
  #last = '';
  #keys = 0;
  /** Bytes that were written or wait to be. */
  #offset = 0;

  constructor(file: NewFile) {
    this.#file = file;
  }

  /** Is there enough to write? Then call `write` before adding more. */
  get isFull(): boolean {
    return this.#pending.length >= WRITE_BYTES;
  }

  begin(name: string): void {
    this.#name = name;
    this.#first = undefined;
    this.#keys = 0;
  }

  /** Without a value, the key is deleted. */
  add(key: string, value: Buffer | undefined): void {
    this.#block.add(key, value);
    if (this.#block.length >= BLOCK_BYTES) this.#endBlock();
  }

  /** Adds a whole block of another run, whose keys follow all keys so far. */
  addBlock(block: Block, { hasDeleted, sum }: BlockRef): void {
    this.#endBlock();
    this.#append(block.bytes, {
      hasDeleted,
      sum,
      first: block.key(0),
      last: block.key(block.count - 1),
      count: block.count,
    });
  }

  endTree(): void {
    this.#endBlock();
    if (this.#first === undefined) return;
    const index = this.#place(this.#index.finish());
    this.#index.clear();
    this.#trees.push({ name: this.#name, first: this.#first, last: this.#last, keys: this.#keys, index });
  }

  async write(): Promise<void> {
    if (this.#pending.length > 0) await this.#file.append(this.#pending.take());
  }

  /** Resolves when the run is on disk. */
  async finish(): Promise<void> {
    const directory = new ByteWriter();
    directory.uint32(this.#trees.length);
    for (const { name, first, last, keys, index } of this.#trees) {
      for (const text of [name, first, last]) {
        directory.uint32(text.length);
        directory.latin1(text);
      }
      directory.double(keys);
      writeRef(directory, index);
    }
    const { offset, sum } = this.#place(directory.bytes);
    this.#pending.double(offset);
    this.#pending.uint32(sum);
    this.#pending.uint32(0);
    this.#pending.latin1(MAGIC);
    await this.write();
    await this.#file.finish();
  }

  #endBlock(): void {
    if (this.#block.count === 0) return;
    const bytes = this.#block.finish();
    const { hasDeleted, first, last, count } = this.#block;
    this.#append(bytes, { hasDeleted, first, last, count, sum: crc32(bytes) });
    this.#block.clear();
  }

  #append(bytes: Buffer, about: Pick<BlockWriter, 'hasDeleted' | 'first' | 'last' | 'count'> & { sum: number }): void {
    const ref = this.#place(bytes, about.sum, about.hasDeleted);
    this.#index.add(about.first, refBytes(ref));
    this.#first ??= about.first;
    this.#last = about.last;
    this.#keys += about.count;
  }

  #place(bytes: Buffer, sum = crc32(bytes), hasDeleted = false): BlockRef {
    const ref = { offset: this.#offset, length: bytes.length, sum, hasDeleted };
    this.#pending.copy(bytes);
    this.#offset += bytes.length;
    return ref;
  }
}

function writeRef(bytes: ByteWriter, { offset, length, sum, hasDeleted }: BlockRef): void {
  bytes.double(offset);
  bytes.uint32(length);
  bytes.uint32(sum);
  bytes.byte(hasDeleted ? 1 : 0);
}

function refBytes(ref: BlockRef): Buffer {
  const bytes = new ByteWriter(REF_BYTES);
  writeRef(bytes, ref);
  return bytes.bytes;
}

function readRef(bytes: ByteReader): BlockRef {
  return { offset: bytes.double(), length: bytes.uint32(), sum: bytes.uint32(), hasDeleted: bytes.byte() === 1 };
}
