import { wait } from '../src/runtime/async.js';
import { EclipticError } from '../src/runtime/errors.js';
import type { Runtime } from '../src/runtime/runtime.js';
import type { Registered, Registers } from '../src/store/shared/registers.js';

interface View {
  readonly reachable: Set<() => void>;
  readonly watching: Set<(key: string, entry: Registered) => void>;
}

/** Registers that the simulated nodes of a test share. Calls and answers take time, can be lost, and nodes can be cut off. */
export class MemoryRegisters {
  latencyMs: readonly [number, number] = [0, 0];
  loss = 0;
  /** How long a node that is cut off waits for an answer. */
  hangMs = 0;
  /** Answers to writes name a revision that is later by this. */
  falseBy = 0;
  /** Nodes whose watch is behind by that much. */
  readonly lagMs = new Map<string, number>();
  readonly #runtime: Runtime;
  readonly #entries = new Map<string, Registered>();
  readonly #views = new Map<string, View>();
  readonly #cut = new Set<string>();
  #revision = 0;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  cut(node: string): void {
    this.#cut.add(node);
  }

  heal(): void {
    const cut = [...this.#cut];
    this.#cut.clear();
    for (const node of cut) {
      const { reachable, watching } = this.#view(node);
      for (const listener of reachable) listener();
      for (const report of watching) for (const [key, entry] of this.#entries) report(key, entry);
    }
  }

  /** Writes as a node that knows the broker's credentials, without the key of the writer. */
  forge(key: string, value: unknown, writer: string | undefined): void {
    const entry = { revision: ++this.#revision, writer, value };
    this.#entries.set(key, entry);
    this.#tell(key, entry);
  }

  /** Shows all watchers a later revision that is not there, as a broker that lies can. */
  pretend(key: string, value: unknown): void {
    this.#tell(key, { revision: this.#revision + 1_000_000, writer: undefined, value });
  }

  get keys(): string[] {
    return [...this.#entries.keys()];
  }

  /** The registers as one node has them. */
  of(node: string): Registers {
    const view = this.#view(node);
    return {
      scope: 'memory',
      place: 'memory',
      read: async (key) => {
        await this.#pass(node);
        const entry = this.#entries.get(key) ?? { revision: 0, writer: undefined, value: undefined };
        await this.#pass(node);
        return entry;
      },
      write: async (key, value, expected) => {
        const text = JSON.stringify(value);
        await this.#pass(node);
        const written = this.#put(key, node, text, expected);
        await this.#pass(node);
        return written === undefined ? undefined : written + this.falseBy;
      },
      watch: (listener) => {
        const report = (key: string, entry: Registered) => {
          const ms = this.#latency() + (this.lagMs.get(node) ?? 0);
          if (!this.#cut.has(node)) this.#runtime.setTimer(() => listener(key, entry), ms);
        };
        for (const [key, entry] of this.#entries) report(key, entry);
        view.watching.add(report);
        return () => view.watching.delete(report);
      },
      onReachable: (listener) => {
        view.reachable.add(listener);
        if (!this.#cut.has(node)) listener();
        return () => view.reachable.delete(listener);
      },
    };
  }

  #put(key: string, writer: string, text: string, expected: number): number | undefined {
    if ((this.#entries.get(key)?.revision ?? 0) !== expected) return undefined;
    const entry = { revision: ++this.#revision, writer, value: JSON.parse(text) as unknown };
    this.#entries.set(key, entry);
    this.#tell(key, entry);
    return entry.revision;
  }

  #tell(key: string, entry: Registered): void {
    for (const { watching } of this.#views.values()) for (const report of watching) report(key, entry);
  }

  async #pass(node: string): Promise<void> {
    const latency = this.#latency();
    if (latency > 0) await wait(this.#runtime, latency);
    const isLost = this.#cut.has(node) || this.#runtime.random() < this.loss;
    if (isLost && this.hangMs > 0) await wait(this.#runtime, this.hangMs);
    if (isLost) throw new EclipticError('BROKER_UNREACHABLE', 'the registers cannot be reached');
  }

  #latency(): number {
    const [least, most] = this.latencyMs;
    return least + (most - least) * this.#runtime.random();
  }

  #view(node: string): View {
    let view = this.#views.get(node);
    if (!view) {
      view = { reachable: new Set(), watching: new Set() };
      this.#views.set(node, view);
    }
    return view;
  }
}
