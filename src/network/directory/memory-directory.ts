import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { Directory, DirectoryEntry, DirectoryListener } from './directory.js';

const CONFIRM_MS = 1_000;

/** Where the nodes of one process publish their entries. */
export class MemoryDirectories {
  readonly entries = new Map<string, string>();
  readonly listeners = new Set<{ node: string; listener: DirectoryListener }>();
  readonly runtime: Runtime;

  constructor(runtime: Runtime) {
    this.runtime = runtime;
  }

  join(node: string): Directory {
    return new MemoryDirectory(this, node);
  }

  tell(from: string, news: (listener: DirectoryListener) => void): void {
    this.runtime.defer(() => {
      for (const { node, listener } of this.listeners) if (node !== from) news(listener);
    });
  }
}

class MemoryDirectory implements Directory {
  readonly needsNeighbours = false;
  readonly #shared: MemoryDirectories;
  readonly #node: string;
  #own: { node: string; listener: DirectoryListener } | undefined;
  #confirming: Timer | undefined;

  constructor(shared: MemoryDirectories, node: string) {
    this.#shared = shared;
    this.#node = node;
  }

  async start(listener: DirectoryListener): Promise<void> {
    const own = { node: this.#node, listener };
    this.#own = own;
    this.#shared.listeners.add(own);
    for (const [node, text] of this.#shared.entries) {
      if (node !== this.#node) this.#shared.runtime.defer(() => this.#own === own && listener.onEntry(text));
    }
  }

  publish({ text }: DirectoryEntry): void {
    if (!this.#own) return;
    this.#shared.entries.set(this.#node, text);
    this.#shared.tell(this.#node, (listener) => listener.onEntry(text));
    this.#confirm();
  }

  forget(node: string): void {
    this.#shared.entries.delete(node);
  }

  async stop(): Promise<void> {
    this.#confirming?.cancel();
    if (this.#own) this.#shared.listeners.delete(this.#own);
    this.#own = undefined;
    if (!this.#shared.entries.delete(this.#node)) return;
    this.#shared.tell(this.#node, (listener) => listener.onGone(this.#node));
  }

  #confirm(): void {
    this.#confirming?.cancel();
    this.#shared.tell(this.#node, (listener) => listener.onHeard(this.#node));
    this.#confirming = this.#shared.runtime.setTimer(() => this.#confirm(), CONFIRM_MS);
  }
}
