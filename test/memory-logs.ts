import { wait } from '../src/runtime/async.js';
import { EclipticError } from '../src/runtime/errors.js';
import type { Runtime } from '../src/runtime/runtime.js';
import type { SharedLogs, SharedLogValue } from '../src/store/shared/record-log.js';

/** Logs that the simulated nodes of a test share. Calls and answers take time, can be lost, and nodes can be cut off. */
export class MemoryLogs {
  latencyMs: readonly [number, number] = [1, 5];
  loss = 0;
  readonly #logs = new Map<string, SharedLogValue[]>();
  readonly #watching = new Set<(log: string) => void>();
  readonly #cut = new Set<string>();
  #sequence = 0;

  cut(node: string): void {
    this.#cut.add(node);
  }

  heal(): void {
    this.#cut.clear();
  }

  /** Every value of a log, oldest first. */
  values(log: string): readonly SharedLogValue[] {
    return this.#logs.get(log) ?? [];
  }

  /** Writes as a node without the key of any other. */
  forge(log: string, writer: string, value: unknown): void {
    const values = this.#logs.get(log) ?? [];
    this.#logs.set(log, values);
    values.push({ sequence: ++this.#sequence, writer, value: JSON.parse(JSON.stringify(value)) });
    for (const report of this.#watching) report(log);
  }

  /** Loses a value, as only a broker can. */
  lose(log: string, sequence: number): void {
    this.#logs.set(
      log,
      this.values(log).filter((value) => value.sequence !== sequence),
    );
  }

  /** The logs as one process of a node has them: its calls end with its runtime. */
  of(node: string, runtime: Runtime): SharedLogs {
    return {
      append: async (log, expectedLast, value) => {
        const text = JSON.stringify(value);
        await this.#pass(node, runtime);
        const isLast = (this.values(log).at(-1)?.sequence ?? 0) === expectedLast;
        if (isLast) this.forge(log, node, JSON.parse(text));
        const sequence = isLast ? this.#sequence : undefined;
        await this.#pass(node, runtime);
        return sequence;
      },
      read: async (log, above) => {
        await this.#pass(node, runtime);
        const values = this.values(log).filter(({ sequence }) => sequence > above);
        await this.#pass(node, runtime);
        return { values, last: values.at(-1)?.sequence ?? above, isCut: false };
      },
      watch: (log, listener) => {
        const report = (grown: string) => {
          if (grown === log && !this.#cut.has(node)) runtime.setTimer(listener, this.#latency(runtime));
        };
        this.#watching.add(report);
        return () => this.#watching.delete(report);
      },
    };
  }

  async #pass(node: string, runtime: Runtime): Promise<void> {
    await wait(runtime, this.#latency(runtime));
    if (this.#cut.has(node) || runtime.random() < this.loss)
      throw new EclipticError('BROKER_UNREACHABLE', 'the logs cannot be reached');
  }

  #latency(runtime: Runtime): number {
    const [least, most] = this.latencyMs;
    return least + (most - least) * runtime.random();
  }
}
