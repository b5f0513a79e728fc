import { beginningWith, type Store, type Write } from '../store/store.js';
import type { LoopEvent, RunStatus } from './loop-state.js';
import type { Plan } from './plan-schema.js';
import { type RunRow, runEvents, runs } from './tables.js';

/** A run without its events. */
export interface RunRecord {
  readonly id: string;
  readonly key: string;
  readonly name: string;
  /** The agent that hands out its tasks. */
  readonly agent: string;
  readonly createdAt: number;
  readonly plan: Plan;
  /** The working directory of the plan's commands. */
  readonly folder: string;
}

export interface RunSummary extends Omit<RunRecord, 'plan' | 'folder'> {
  readonly status: RunStatus;
  readonly updatedAt: number;
}

/** Runs that stay in the store. */
const MAX_KEPT = 1_000;
const STEP_ROWS = 100;

export class RunRecords {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Stores a run and an event of it in one transaction. */
  async save(record: RunRecord, status: RunStatus, at: number, sequence: number, event: LoopEvent): Promise<void> {
    const { plan, folder, ...rest } = record;
    const row: RunRow = { ...rest, status, updatedAt: at, document: JSON.stringify([plan, folder]) };
    await this.#store.write([runs.put(row), insertion(record.id, sequence, event)]);
  }

  /** Stores events, and the status that they led to. */
  async append(run: string, sequence: number, events: readonly LoopEvent[], status: RunStatus): Promise<void> {
    await this.#store.write([
      ...events.map((event, index) => insertion(run, sequence + index, event)),
      runs.update({ id: run }, { status, updatedAt: events.at(-1)!.at }),
    ]);
  }

  async events(run: string): Promise<LoopEvent[]> {
    const rows = await this.#store.read(runEvents, { where: { run }, orderBy: 'sequence' });
    return rows.map(({ event }) => JSON.parse(event) as LoopEvent);
  }

  async find(id: string): Promise<(RunRecord & RunSummary) | undefined> {
    const [row] = await this.#store.read(runs, { where: { id } });
    return row && fromRow(row);
  }

  /** Longer ids that begin with the prefix. */
  async idsBeginning(prefix: string, limit: number): Promise<string[]> {
    const rows = await this.#store.read(runs, { ...beginningWith('id', prefix), orderBy: 'id', limit });
    return rows.map(({ id }) => id);
  }

  async latestOf(key: string): Promise<(RunRecord & RunSummary) | undefined> {
    const [row] = await this.#store.read(runs, { where: { key }, orderBy: 'id', descending: true, limit: 1 });
    return row && fromRow(row);
  }

  async active(): Promise<(RunRecord & RunSummary)[]> {
    return (await this.#store.read(runs, { where: { status: 'running' } })).map(fromRow);
  }

  /** The latest first. */
  async list(limit: number): Promise<RunSummary[]> {
    const rows = await this.#store.read(runs, { orderBy: 'id', descending: true, limit });
    return rows.map((row) => {
      const { plan: _, folder: __, ...summary } = fromRow(row);
      return summary;
    });
  }

  /** Deletes the oldest surplus runs, except active ones. */
  async prune(): Promise<void> {
    for (let surplus = (await this.#store.count(runs)) - MAX_KEPT; surplus > 0; ) {
      const limit = Math.min(STEP_ROWS, surplus);
      const status = ['stopped', 'done', 'failed', 'escalated'];
      const oldest = await this.#store.read(runs, { where: { status }, orderBy: 'id', limit });
      if (oldest.length === 0) return;
      const ids = oldest.map(({ id }) => id);
      await this.#store.write([runs.delete({ id: ids }), runEvents.delete({ run: ids })]);
      surplus -= ids.length;
    }
  }
}

function insertion(run: string, sequence: number, event: LoopEvent): Write {
  return runEvents.insert({ run, sequence, event: JSON.stringify(event) });
}

function fromRow({ document, status, ...row }: RunRow): RunRecord & RunSummary {
  const [plan, folder] = JSON.parse(document) as [Plan, string];
  return { ...row, status: status as RunStatus, plan, folder };
}
