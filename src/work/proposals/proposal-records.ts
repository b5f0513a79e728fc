import { GroupWriter } from '../../mail/group-writer.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Store } from '../../store/store.js';
import type { ProposalRow } from '../../store/tables.js';

/** Finished proposals that are kept, and for how long: long enough to answer whoever asks again. */
const MAX_FINISHED = 10_000;
const MAX_AGE_MS = 7 * 86_400_000;
/** Finished ones are counted once in so many writes. */
const RETAIN_EVERY = 1_000;

/** Durable proposals of one node's agents, both those they made and those they got. */
export class ProposalRecords {
  readonly #runtime: Runtime;
  readonly #store: Store;
  readonly #writer: GroupWriter;
  /** What an earlier run left, by agent, until that agent is there. */
  readonly #left = new Map<string, ProposalRow[]>();
  #writes = 0;

  private constructor(runtime: Runtime, store: Store) {
    this.#runtime = runtime;
    this.#store = store;
    this.#writer = new GroupWriter(runtime, store);
  }

  static async open(runtime: Runtime, store: Store): Promise<ProposalRecords> {
    const records = new ProposalRecords(runtime, store);
    await records.#retain();
    for (const row of await store.read({ from: 'proposals', orderBy: 'at' })) {
      const rows = records.#left.get(row.agent);
      if (rows) rows.push(row);
      else records.#left.set(row.agent, [row]);
    }
    return records;
  }

  /** What that agent left in an earlier run, oldest change first; the first time it is asked for. */
  take(agent: string): readonly ProposalRow[] {
    const rows = this.#left.get(agent) ?? [];
    this.#left.delete(agent);
    return rows;
  }

  has(agent: string): boolean {
    return this.#left.has(agent);
  }

  /** Gives back what an agent that leaves has not finished, for when it comes back. */
  giveBack(agent: string, rows: readonly ProposalRow[]): void {
    if (rows.length > 0) this.#left.set(agent, [...rows]);
  }

  keep(row: ProposalRow, written: () => void, failed: (error: unknown) => void): void {
    this.#writer.add({ writes: [{ put: 'proposals', row }], written, failed });
    if (++this.#writes % RETAIN_EVERY !== 0) return;
    this.#retain().catch((error: unknown) => {
      this.#runtime.logger.error({ err: error }, 'old proposals were not swept');
    });
  }

  /** Resolves when everything that was asked for is on disk. */
  flush(): Promise<void> {
    return this.#writer.flush();
  }

  async #retain(): Promise<void> {
    const store = this.#store;
    const oldest = this.#runtime.now() - MAX_AGE_MS;
    await store.write([{ delete: 'proposals', where: { open: 0 }, below: { at: oldest } }]);
    const surplus = (await store.count({ from: 'proposals', where: { open: 0 } })) - MAX_FINISHED;
    if (surplus <= 0) return;
    const rows = await store.read({ from: 'proposals', where: { open: 0 }, orderBy: 'at', limit: surplus });
    await store.write([{ delete: 'proposals', where: { open: 0 }, below: { at: rows.at(-1)!.at } }]);
  }
}
