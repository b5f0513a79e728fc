import type { SharedDocument } from '../../documents/document.js';
import { weighJson } from '../../mesh/json-value.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { SwarmMachine } from './swarm-machine.js';
import {
  type SharedHeader,
  type SharedSubTask,
  type SwarmSession,
  type SwarmSubTask,
  sharedHeader,
  sharedSubTask,
} from './swarm-session.js';

/** Changes are collected for this long: a sub-task that is leased and done meanwhile is written once. */
const GATHER_MS = 25;
/** The weight of one change before its last part; with that part it is still less than a document takes. */
const CHANGE_WEIGHT = 32_768;
/** Dependencies of one sub-task that the document shows. */
const MAX_SHOWN = 100;
/** After a write of another member, the arbiter waits this long and then checks the document. */
const REVIEW_MS = 1_000;

/**
 * The swarm's shared document. The arbiter writes the settled board, so that every member can read it; workers write
 * their progress; and `shared` is the members' own. After a partition two arbiters may both have written; then the
 * present arbiter writes the settled board again.
 */
export class BoardDocument {
  readonly document: SharedDocument;
  readonly #runtime: Runtime;
  readonly #machine: SwarmMachine;
  readonly #onChange: () => void;
  readonly #dirty = new Set<string>();
  #headerDirty = false;
  #timer: Timer | undefined;
  #review: Timer | undefined;
  #wasArbiter = false;
  #closed = false;
  readonly #stop: () => void;

  constructor(runtime: Runtime, document: SharedDocument, machine: SwarmMachine, onChange: () => void) {
    this.#runtime = runtime;
    this.document = document;
    this.#machine = machine;
    this.#onChange = onChange;
    this.#stop = document.onChange(({ local }) => {
      if (local) return;
      onChange();
      if (machine.isArbiter) this.#reviewSoon();
    });
  }

  /** These sub-tasks, and the header, may have changed. */
  changed(subTasks: readonly string[]): void {
    if (!this.#machine.isArbiter || !this.#machine.board.swarm) {
      this.#wasArbiter = false;
      return;
    }
    this.#headerDirty = true;
    if (this.#wasArbiter) for (const id of subTasks) this.#dirty.add(id);
    else for (const id of this.#machine.board.subTasks.keys()) this.#dirty.add(id);
    this.#wasArbiter = true;
    this.#writeSoon();
  }

  progress(subTask: string, value: unknown): void {
    if (!this.#closed) this.document.map('progress').set(subTask, value ?? null);
  }

  /** The holder of a sub-task waits for so many decisions of its owner. */
  waiting(subTask: string, decisions: number): void {
    if (this.#closed || this.waitingOf(subTask) === decisions) return;
    const map = this.document.map('waiting');
    if (decisions > 0) map.set(subTask, decisions);
    else map.delete(subTask);
  }

  waitingOf(subTask: string): number {
    const decisions = this.document.map('waiting').get(subTask);
    return typeof decisions === 'number' && decisions > 0 ? decisions : 0;
  }

  /** The swarm as the document shows it: for members without a seat, who do not get the records. */
  read(id: string): SwarmSession | undefined {
    const header = this.document.map('swarm').get('header') as unknown as SharedHeader | undefined;
    if (!header) return undefined;
    const results = this.document.map('results');
    const progress = this.document.map('progress');
    const subTasks = this.document.map('subTasks').toJSON() as unknown as Record<
      string,
      SharedSubTask & { at: number }
    >;
    const rows = Object.entries(subTasks)
      .sort(([, a], [, b]) => a.at - b.at)
      .map(([subTask, { at: _, ...shared }]): SwarmSubTask => {
        const said = progress.get(subTask);
        const waiting = this.waitingOf(subTask);
        return {
          id: subTask,
          ...shared,
          ...(results.has(subTask) && { result: results.get(subTask) }),
          ...(said !== undefined && { progress: said }),
          ...(waiting > 0 && shared.status === 'running' && { waiting }),
        };
      });
    const { confirmed } = this.#machine;
    return { id, ...header, subTasks: rows, confirmed, sharedState: this.sharedState };
  }

  progressOf(subTask: string): unknown {
    return this.document.map('progress').get(subTask);
  }

  get sharedState(): Readonly<Record<string, unknown>> {
    return this.document.map('shared').toJSON();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#stop();
    this.#timer?.cancel();
    this.#review?.cancel();
    // A disk that fails is reported by the document, and the records of the swarm are elsewhere.
    await this.document.close().catch(() => {});
  }

  #writeSoon(): void {
    this.#timer ??= this.#runtime.setTimer(() => {
      this.#timer = undefined;
      if (!this.#closed && this.#machine.isArbiter) this.#write();
    }, GATHER_MS);
  }

  /** Writes as much as fits in one change, and the rest with the next. */
  #write(): void {
    const { board } = this.#machine;
    const rows = this.document.map('subTasks');
    const results = this.document.map('results');
    const order = this.#order();
    this.document.transact(() => {
      if (this.#headerDirty) this.document.map('swarm').set('header', sharedHeader(this.#machine));
      this.#headerDirty = false;
      let weight = 0;
      for (const id of this.#dirty) {
        if (weight > CHANGE_WEIGHT) break;
        this.#dirty.delete(id);
        const shared = sharedSubTask(this.#machine, id);
        const row = { ...shared, dependsOn: shared.dependsOn.slice(0, MAX_SHOWN), at: order.get(id)! };
        if (JSON.stringify(rows.get(id)) !== JSON.stringify(row)) {
          rows.set(id, row);
          weight += weightOf(row);
        }
        const { status, result } = board.subTasks.get(id)!;
        if (status !== 'completed' || results.has(id)) continue;
        results.set(id, result ?? null);
        weight += weightOf(result ?? null);
      }
    });
    this.#onChange();
    if (this.#dirty.size > 0) this.#writeSoon();
  }

  #places: Map<string, number> | undefined;

  #order(): ReadonlyMap<string, number> {
    const { subTasks } = this.#machine.board;
    if (this.#places?.size !== subTasks.size) this.#places = new Map([...subTasks.keys()].map((id, at) => [id, at]));
    return this.#places;
  }

  #reviewSoon(): void {
    this.#review ??= this.#runtime.setTimer(() => {
      this.#review = undefined;
      if (this.#closed || !this.#machine.isArbiter) return;
      this.#wasArbiter = false;
      this.changed([]);
    }, REVIEW_MS);
  }
}

function weightOf(value: unknown): number {
  const weight = weighJson(value);
  return typeof weight === 'number' ? weight : CHANGE_WEIGHT;
}
