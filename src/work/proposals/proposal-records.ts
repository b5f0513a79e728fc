import type { Runtime } from '../../runtime/runtime.js';
import type { Store } from '../../store/store.js';
import { type ProposalRow, proposals } from './tables.js';

/** Finished proposals stay this long, to answer repeated messages about them. */
const MAX_FINISHED = 10_000;
const MAX_AGE_MS = 7 * 86_400_000;
/** Surplus finished proposals are deleted once in so many writes. */
const RETAIN_EVERY = 1_000;

/** Durable proposals of one node's agents, both those they made and those they got. */
export class ProposalRecords {
  readonly #runtime: Runtime;
  readonly #store: Store;
  /** Proposals of an earlier run, by agent, until that agent joins. */
  readonly #left = new Map<string, ProposalRow[]>();
  #writes = 0;

  private constructor(runtime: Runtime, store: Store) {
    this.#runtime = runtime;
    this.#store = store;
  }

  static async open(runtime: Runtime, store: Store): Promise<ProposalRecords> {
    const records = new ProposalRecords(runtime, store);
    await records.#retain();
    for (const row of await store.read(proposals, { orderBy: 'at' })) {
      const rows = records.#left.get(row.agent);
      if (rows) rows.push(row);
      else records.#left.set(row.agent, [row]);
    }
    return records;
  }

  /** The agent's proposals of an earlier run, oldest change first; nothing the second time. */
  take(agent: string): readonly ProposalRow[] {
    const rows = this.#left.get(agent) ?? [];
    this.#left.delete(agent);
    return rows;
  }

  has(agent: string): boolean {
    return this.#left.has(agent);
  }

  /** Takes back the open proposals of an agent that leaves, for when it joins again. */
  giveBack(agent: string, rows: readonly ProposalRow[]): void {
    if (rows.length > 0) this.#left.set(agent, [...rows]);
  }

  keep(row: ProposalRow, written: () => void, failed: (error: unknown) => void): void {
    this.#store.commit([proposals.put(row)], (error) => (error === undefined ? written() : failed(error)));
    if (++this.#writes % RETAIN_EVERY !== 0) return;
    this.#retain().catch((error: unknown) => {
      this.#runtime.logger.error({ err: error }, 'old proposals not deleted');
    });
  }

  /** Resolves when everything is on disk. */
  flush(): Promise<void> {
    return this.#store.write([]);
  }

  async #retain(): Promise<void> {
    const store = this.#store;
    const oldest = this.#runtime.now() - MAX_AGE_MS;
    await store.write([proposals.delete({ open: 0 }, { at: oldest })]);
    const surplus = (await store.count(proposals, { where: { open: 0 } })) - MAX_FINISHED;
    if (surplus <= 0) return;
    const rows = await store.read(proposals, { where: { open: 0 }, orderBy: 'at', limit: surplus });
    await store.write([proposals.delete({ open: 0 }, { at: rows.at(-1)!.at })]);
  }
}

/** The task description of a proposal on disk. */
export function descriptionIn({ document }: ProposalRow): string {
  const { terms, payload = terms?.payload } = JSON.parse(document) as {
    terms?: { payload?: { taskDescription?: string } };
    payload?: { taskDescription?: string };
  };
  return payload?.taskDescription ?? '';
}
