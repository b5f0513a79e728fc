import { crc32 } from 'node:zlib';
import { ByteReader, ByteWriter } from '../runtime/bytes.js';
import type { NewFile, ReadableFile } from '../system/files/disk.js';
import { Block, BlockWriter } from './block.js';
import { storeDamaged } from './faults.js';
import type { Entry, KeyState, Layer } from './memtable.js';
import type { Table, Tree } from './table.js';

const BLOCK_BYTES = 8_192;
/** Bytes that are written at once; also how much work a merge does before other tasks have their turn. */
const WRITE_BYTES = 131_072;
const CACHE_BYTES = 8 * 1_048_576;

/** A block in a file. */
interface BlockRef {
  readonly offset: number;
  readonly length: number;
  readonly sum: number;
}

/** A tree in a run. */
interface RunTree {
  readonly first: string;
  readonly last: string;
  /** The block with the first key of, and a reference to, each block of the tree. */
  readonly index: BlockRef;
}

/** A run, as the manifest has it: from here on, each block is reached through a checksum of it. */
export interface RunRecord {
  readonly name: string;
  readonly size: number;
  readonly trees: Readonly<Record<string, RunTree>>;
}

/** Recently used blocks of all runs of a store. */
export class BlockCache {
  readonly #blocks = new Map<string, Block>();
  #bytes = 0;

  get(key: string, load: () => Block): Block {
    let block = this.#blocks.get(key);
    if (block) this.#blocks.delete(key);
    else {
      block = load();
      this.#bytes += block.buffer.length;
    }
    this.#blocks.set(key, block);
    for (const [oldest, { buffer }] of this.#blocks) {
      if (this.#bytes <= CACHE_BYTES || oldest === key) break;
      this.#blocks.delete(oldest);
      this.#bytes -= buffer.length;
    }
    return block;
  }
}

/**
 * An immutable sorted file: the rows and index keys of one flushed memtable, or of several merged runs. It has the blocks of
 * each tree, and behind them an index block. Every block is checked against its checksum when it is read.
 */
export class Run implements Layer {
  readonly record: RunRecord;
  readonly #file: ReadableFile;
  readonly #cache: BlockCache;
  readonly #indexes = new Map<string, Block>();

  constructor(record: RunRecord, file: ReadableFile, cache: BlockCache) {
    this.record = record;
    this.#file = file;
    this.#cache = cache;
    if (file.size === record.size) return;
    file.close();
    throw storeDamaged(file.path, `it has ${file.size} bytes, but had ${record.size}`);
  }

  get path(): string {
    return this.#file.path;
  }

  get(table: Table, key: string): Entry {
    const tree = this.record.trees[table.name];
    if (!tree || key < tree.first || key > tree.last) return undefined;
    const index = this.#index(table.name, tree);
    const at = index.lowerBound(key);
    const block = this.#block(index, index.has(at, key) ? at : at - 1);
    const place = block.lowerBound(key);
    if (!block.has(place, key)) return undefined;
    return block.value(place) ?? null;
  }

  *scan(tree: Tree, from: string, to: string | undefined, descending: boolean): Generator<KeyState, undefined> {
    const found = this.record.trees[tree.name];
    if (!found || (to !== undefined && found.first >= to) || found.last < from) return;
    const index = this.#index(tree.name, found);
    const step = descending ? -1 : 1;
    const bound = descending ? to : from;
    let at = bound === undefined ? index.count - 1 : index.lowerBound(bound);
    if (bound !== undefined && (descending || !index.has(at, bound))) at = Math.max(0, at - 1);
    for (let isFirst = true; at >= 0 && at < index.count; at += step, isFirst = false) {
      const block = this.#block(index, at);
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
  *blocks(name: string): Generator<Block, undefined> {
    const tree = this.record.trees[name];
    if (!tree) return;
    const index = this.#load(tree.index);
    for (let at = 0; at < index.count; at++) yield this.#load(refAt(index, at));
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

  #block(index: Block, place: number): Block {
    const ref = refAt(index, place);
    return this.#cache.get(`${this.record.name} ${ref.offset}`, () => this.#load(ref));
  }

  #load({ offset, length, sum }: BlockRef): Block {
    const bytes = this.#file.readAt(offset, length);
    if (bytes.length < length || crc32(bytes) !== sum) {
      throw storeDamaged(this.path, `the block at ${offset} has a wrong checksum`);
    }
    return new Block(bytes);
  }
}

/** Writes a run: trees one after the other, the keys of each in order. */
export class RunWriter {
  readonly #file: NewFile;
  readonly #pending = new ByteWriter();
  readonly #block = new BlockWriter();
  readonly #index = new BlockWriter();
  readonly #trees: Record<string, RunTree> = {};
  #first: string | undefined;
  #last = '';
  /** Bytes that were written or wait to be. */
  #size = 0;

  constructor(file: NewFile) {
    this.#file = file;
  }

  /** Is there enough to write? Then call `write` before adding more. */
  get isFull(): boolean {
    return this.#pending.length >= WRITE_BYTES;
  }

  /** Without a value, the key is deleted. */
  add(key: string, value: Buffer | undefined): void {
    this.#block.add(key, value);
    if (this.#block.length >= BLOCK_BYTES) this.#endBlock();
  }

  /** Adds a whole block of another run, whose keys follow all keys so far. */
  addBlock(block: Block): void {
    this.#endBlock();
    this.#append(block);
  }

  /** Ends the tree that the keys since the last call belong to. */
  endTree(name: string): void {
    this.#endBlock();
    if (this.#first === undefined) return;
    this.#trees[name] = { first: this.#first, last: this.#last, index: this.#place(this.#index.finish()) };
    this.#first = undefined;
  }

  async write(): Promise<void> {
    if (this.#pending.length > 0) await this.#file.append(this.#pending.take());
  }

  /** Resolves when the run is on disk. */
  async finish(name: string): Promise<RunRecord> {
    await this.write();
    await this.#file.finish();
    return { name, size: this.#size, trees: this.#trees };
  }

  #endBlock(): void {
    if (!this.#block.isEmpty) this.#append(this.#block.finish());
  }

  #append(block: Block): void {
    const first = block.key(0);
    this.#index.add(first, refBytes(this.#place(block)));
    this.#first ??= first;
    this.#last = block.key(block.count - 1);
  }

  #place({ buffer }: Block): BlockRef {
    const ref = { offset: this.#size, length: buffer.length, sum: crc32(buffer) };
    this.#pending.copy(buffer);
    this.#size += buffer.length;
    return ref;
  }
}

function refBytes({ offset, length, sum }: BlockRef): Buffer {
  const bytes = Buffer.allocUnsafe(16);
  bytes.writeDoubleLE(offset, 0);
  bytes.writeUInt32LE(length, 8);
  bytes.writeUInt32LE(sum, 12);
  return bytes;
}

function refAt(index: Block, place: number): BlockRef {
  const reader = new ByteReader(index.buffer, index.valueStart(place));
  return { offset: reader.double(), length: reader.uint32(), sum: reader.uint32() };
}
