import { createHash } from 'node:crypto';
import type { Confirmation } from './directory-entry.js';
import { MAX_ENTRIES } from './gossip-items.js';

export interface Kept {
  readonly version: number;
  readonly text: string;
  /** When it was taken, and when the node was last heard of, by the stopwatch. */
  readonly takenAt: number;
  heardAt: number;
  confirmation: Confirmation;
  /** When neighbours were last asked for a later confirmation. */
  soughtAt?: number;
}

/** The entries that gossip has brought, and the last word of nodes that are gone. */
export class GossipEntries {
  readonly #kept = new Map<string, Kept>();
  /** The last confirmations of nodes that are gone: what is older is a replay. */
  readonly #past = new Map<string, Confirmation>();
  #chars = 0;
  #digest: string | undefined;

  get size(): number {
    return this.#kept.size;
  }

  /** Characters of all entries together. */
  get chars(): number {
    return this.#chars;
  }

  get nodes(): Iterable<string> {
    return this.#kept.keys();
  }

  [Symbol.iterator](): Iterator<[string, Kept]> {
    return this.#kept.entries();
  }

  get(node: string): Kept | undefined {
    return this.#kept.get(node);
  }

  /** The last confirmation of a node that is gone. */
  pastOf(node: string): Confirmation | undefined {
    return this.#past.get(node);
  }

  keep(node: string, kept: Kept): void {
    this.#chars += kept.text.length - (this.#kept.get(node)?.text.length ?? 0);
    this.#kept.set(node, kept);
    this.#past.delete(node);
    this.#digest = undefined;
  }

  bury(node: string): void {
    const kept = this.#kept.get(node);
    if (!kept) return;
    this.#kept.delete(node);
    this.#chars -= kept.text.length;
    put(this.#past, node, kept.confirmation);
    this.#digest = undefined;
  }

  clear(): void {
    this.#kept.clear();
    this.#chars = 0;
    this.#digest = undefined;
  }

  /** The same for all nodes that have the same versions of the same entries. */
  get digest(): string {
    if (this.#digest === undefined) {
      const lines = [...this.#kept.keys()].sort().map((node) => `${node} ${this.#kept.get(node)!.version}\n`);
      this.#digest = createHash('sha256').update(lines.join('')).digest('base64url');
    }
    return this.#digest;
  }
}

/** Adds to a table whose oldest entry makes room for a new one. */
export function put<T>(table: Map<string, T>, node: string, value: T): void {
  table.delete(node);
  const [oldest] = table.keys();
  if (oldest !== undefined && table.size >= MAX_ENTRIES) table.delete(oldest);
  table.set(node, value);
}
