import type { SharedDocument } from '../documents/document.js';
import { fullAddress, splitAddress } from '../mesh/address.js';
import { type CollectionName, type Entry, readStored, type Share, type Stored } from './entry.js';
import { type Bag, bagOf, rank } from './ranking.js';

/** The map of the document that has the entries, by id. */
const ENTRIES = 'entries';

interface Indexed {
  readonly entry: Entry;
  readonly bag: Bag;
}

/** The value of a key, as it was last written. */
interface Value {
  readonly version: string;
  readonly stored: Stored | undefined;
  indexed?: Indexed;
}

export interface OpenCollectionInit {
  readonly document: SharedDocument;
  readonly collection: CollectionName;
  readonly sandbox: string | null;
  /** What is read of one node's entries. */
  readonly share: Share;
  /** Did the owner of this node write what this agent signed under that name? */
  readonly isOwners: (author: string, origin: string) => boolean;
}

/** One agent's replica of a collection: its valid entries, read again after a change, and ready to be searched. */
export class OpenCollection {
  readonly document: SharedDocument;
  readonly collection: CollectionName;
  readonly #init: OpenCollectionInit;
  #indexed: readonly Indexed[] = [];
  #values: ReadonlyMap<string, Value> = new Map();
  #isStale = true;
  #ignored = 0;

  constructor(init: OpenCollectionInit) {
    this.#init = init;
    this.document = init.document;
    this.collection = init.collection;
    init.document.onChange(() => {
      this.#isStale = true;
    });
  }

  /** In the order of their ids, which is that of time. */
  get entries(): readonly Entry[] {
    return this.#read().map(({ entry }) => entry);
  }

  /** Values that are no entries, and entries beyond the share of their node. */
  get ignored(): number {
    this.#read();
    return this.#ignored;
  }

  get(id: string): Entry | undefined {
    return this.#read().find(({ entry }) => entry.id === id)?.entry;
  }

  search(query: string): { readonly item: Entry; readonly score: number }[] {
    // Newer entries stand before older ones of the same score.
    const found = rank(this.#read().toReversed(), query);
    return found.map(({ item, score }) => ({ item: item.entry, score }));
  }

  set(id: string, entry: Stored): Promise<void> {
    this.document.map(ENTRIES).set(id, entry);
    return this.document.stored();
  }

  delete(id: string): Promise<void> {
    this.document.map(ENTRIES).delete(id);
    return this.document.stored();
  }

  #read(): readonly Indexed[] {
    if (!this.#isStale) return this.#indexed;
    const { document, share } = this.#init;
    const map = document.map(ENTRIES);
    const shares = new Shares(share);
    const indexed: Indexed[] = [];
    const values = new Map<string, Value>();
    let ignored = 0;
    for (const id of map.keys().sort()) {
      const { by: origin, version } = map.written(id) ?? { by: '', version: '' };
      const before = this.#values.get(id);
      const value = before?.version === version ? before : { version, stored: readStored(id, map.get(id)) };
      values.set(id, value);
      const { stored } = value;
      const { node } = splitAddress(origin);
      if (!stored || node === undefined || !shares.take(node, sizeOf(stored))) {
        ignored++;
        continue;
      }
      value.indexed ??= this.#index(id, stored, origin);
      indexed.push(value.indexed);
    }
    this.#values = values;
    this.#indexed = indexed;
    this.#ignored = ignored;
    this.#isStale = false;
    return indexed;
  }

  #index(id: string, stored: Stored, origin: string): Indexed {
    const { collection, sandbox, isOwners } = this.#init;
    const author = fullAddress(stored.author, splitAddress(origin).node);
    const entry: Entry = {
      ...{ ...stored, author, id, collection, origin, sandbox },
      // Not kept: which nodes are the owner's is learned later, and changes.
      get owner() {
        return isOwners(author, origin);
      },
    };
    return { entry, bag: bagOf(`${stored.text}\n${stored.tags.join(' ')}`) };
  }
}

/** What each owner has used, in entries and bytes. */
export class Shares {
  readonly #limit: Share;
  readonly #used = new Map<string, { entries: number; bytes: number }>();

  constructor(limit: Share) {
    this.#limit = limit;
  }

  /** Counts an entry, unless its owner's share is used up. */
  take(owner: string, bytes: number): boolean {
    const used = this.#used.get(owner) ?? { entries: 0, bytes: 0 };
    if (used.entries + 1 > this.#limit.entries || used.bytes + bytes > this.#limit.bytes) return false;
    this.#used.set(owner, { entries: used.entries + 1, bytes: used.bytes + bytes });
    return true;
  }
}

/** Text and tags, in UTF-8. */
export function sizeOf({ text, tags }: Pick<Stored, 'text' | 'tags'>): number {
  return Buffer.byteLength(text) + tags.reduce((sum, tag) => sum + Buffer.byteLength(tag), 0);
}
