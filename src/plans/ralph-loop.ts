import { basename, dirname, extname } from 'node:path';
import type { AgentRegistry } from '../mesh/registry.js';
import type { A2ARouter } from '../mesh/router.js';
import { vacancyFor } from '../mesh/staffing.js';
import { guarded, logCallback } from '../runtime/callbacks.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Store } from '../store/store.js';
import type { Children } from '../system/process/children.js';
import type { AgentById, Dispatcher } from './dispatcher.js';
import { AgentDispatcher } from './dispatcher.js';
import { completeHierarchy, type Hierarchy, type HierarchyConfig } from './hierarchy.js';
import { Judge } from './judge.js';
import { replay, step } from './loop-machine.js';
import type { Carried, LoopEvent, LoopSettings, LoopState } from './loop-state.js';
import type { MadePlan, PlanAsked, PlanWish } from './plan-maker.js';
import { fingerprintsOf, type Plan } from './plan-schema.js';
import { forSwarm, MeshWorld } from './plan-world.js';
import { RalphRun } from './ralph-run.js';
import { endOf, type RunNews, type RunView, viewOf } from './run-news.js';
import { type RunRecord, RunRecords, type RunSummary } from './run-records.js';
import { type ReportPiece, reportPieces } from './run-report.js';
import { SwarmDispatcher } from './swarm-dispatcher.js';

export interface RalphLoopComponents {
  readonly runtime: Runtime;
  readonly store: Store;
  readonly registry: AgentRegistry;
  readonly router: A2ARouter;
  /** An agent of this node. */
  readonly agent: AgentById;
  /** For plans whose results are checked by commands. */
  readonly children?: Children | undefined;
}

export interface RunInit {
  /** The plan, as YAML or JSON. */
  readonly text: string;
  /** Its path: named in faults; commands are started in its folder. */
  readonly file: string;
  /** Start over, even if tasks of it are done. */
  readonly fresh?: boolean | undefined;
  /** The agent of this node that hands out the tasks. Default: the plan's, else sun, else an L0 agent. */
  readonly as?: string | undefined;
}

/** Active runs of one node at most. */
const MAX_ACTIVE = 32;

/**
 * The Ralph loop of one node: it works through plans. It hands out ready tasks, has results judged, tries failed tasks
 * again with feedback, and escalates tasks that keep failing. A run survives restarts: done tasks stay done.
 */
export class RalphLoop {
  readonly #components: RalphLoopComponents;
  readonly #hierarchy: Hierarchy;
  readonly #records: RunRecords;
  readonly #world: MeshWorld;
  readonly #dispatcher: Dispatcher;
  readonly #runs = new Map<string, RalphRun>();
  /** One start at a time: two starts of one plan are one run. */
  #starting: Promise<unknown> = Promise.resolve();
  #closed = false;

  constructor(components: RalphLoopComponents, hierarchy: HierarchyConfig = {}) {
    this.#components = components;
    this.#hierarchy = completeHierarchy(hierarchy);
    this.#records = new RunRecords(components.store);
    this.#world = new MeshWorld(components);
    const toOne = new AgentDispatcher(components, this.#world);
    const toSwarm = new SwarmDispatcher(components.agent);
    this.#dispatcher = {
      dispatch: async (work) => {
        await this.#world.untilCapable(work);
        const { agent, plan } = work.run;
        const task = toSwarm.isUnderWay(work)
          ? forSwarm(work.task, plan.planner)
          : this.#world.handedOut(work.task, agent, plan.planner);
        return (task.swarm ? toSwarm : toOne).dispatch({ ...work, task });
      },
    };
  }

  get busy(): boolean {
    return this.#runs.size > 0;
  }

  /** Resumes the runs of an earlier process. Call it once the agents have joined. */
  async resume(): Promise<void> {
    await this.#records.prune();
    for (const record of await this.#records.active()) {
      await this.#resume(record).catch((error: unknown) => {
        this.#components.runtime.logger.error({ run: record.id, err: error }, 'run cannot be resumed');
      });
    }
  }

  /**
   * Runs a plan, or goes on with it: done tasks that were not changed since are not done again. Rejects with
   * `INVALID_PLAN` and all faults before anything of it begins.
   */
  start(init: RunInit): Promise<RunView> {
    const started = this.#starting.then(() => this.#start(init));
    this.#starting = started.catch(() => {});
    return started;
  }

  /** Goes on with a run that has ended: its tasks that are not done are tried again. */
  again(id: string): Promise<RunView> {
    const started = this.#starting.then(async () => {
      if (this.#closed) throw new EclipticError('NODE_STOPPED', 'the node is stopping');
      const live = this.#runs.get(id);
      if (live) return live.view;
      const record = await this.#records.find(id);
      if (!record) throw new EclipticError('RUN_NOT_FOUND', `there is no run "${id}"`, { run: id });
      return this.#reopen(record, this.#settings(record.plan, record.agent));
    });
    this.#starting = started.catch(() => {});
    return started;
  }

  /** Checks a plan without running it; returns the ids of its tasks. */
  async check({ text, file, as }: Pick<RunInit, 'text' | 'file' | 'as'>): Promise<string[]> {
    return (await this.#read(text, file, as)).tasks.map(({ id }) => id);
  }

  /** Has an agent make a plan that can be run at present. */
  async make(wish: PlanWish, tell: (asked: PlanAsked) => void, signal: AbortSignal): Promise<MadePlan> {
    const as = wish.as ?? this.#world.usualDispatcher;
    if (as === undefined) throw new EclipticError('USAGE', 'say which agent asks the planner: --as AGENT');
    const agent = this.#components.agent(as);
    const { makePlan } = await import('./plan-maker.js');
    return makePlan({ ...wish, as }, { world: this.#world, agent }, tell, signal);
  }

  list(limit: number): Promise<RunSummary[]> {
    return this.#records.list(limit);
  }

  /** Longer ids of runs that begin with the prefix. */
  idsBeginning(prefix: string, limit: number): Promise<string[]> {
    return this.#records.idsBeginning(prefix, limit);
  }

  async view(id: string): Promise<RunView> {
    const live = this.#runs.get(id);
    return live ? live.view : viewOf(...(await this.#ended(id)));
  }

  /** The stored events of a run, oldest first; they rebuild its state. */
  events(id: string): Promise<LoopEvent[]> {
    return this.#records.events(id);
  }

  /** A run with all results, in pieces. */
  async report(id: string): Promise<Iterable<ReportPiece>> {
    const live = this.#runs.get(id);
    return live ? live.report : reportPieces(...(await this.#ended(id)));
  }

  /** Reports the run and then its changes; resolves when it has ended, or the signal aborts. */
  async follow(id: string, follower: (news: RunNews) => void, signal: AbortSignal): Promise<void> {
    const tell = guarded(follower, `follow of run ${id}`, logCallback(this.#components.runtime.logger));
    const live = this.#runs.get(id);
    if (!live) {
      const view = await this.view(id);
      tell({ event: 'run', ...view });
      tell(endOf(view));
      return;
    }
    await new Promise<void>((resolve) => {
      const end = () => {
        stop();
        signal.removeEventListener('abort', end);
        resolve();
      };
      const stop = live.follow((news) => {
        tell(news);
        if (news.event === 'ended') end();
      });
      signal.addEventListener('abort', end, { once: true });
      tell({ event: 'run', ...live.view });
      if (signal.aborted) end();
    });
  }

  /** Stops a run and its work. Running its plan again goes on with it. */
  async stop(id: string): Promise<RunView> {
    const live = this.#runs.get(id);
    await live?.take({ type: 'stopped', at: this.#components.runtime.now() });
    return live?.view ?? this.view(id);
  }

  /** Ends all runs here; they resume when the node starts again. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#starting;
    await Promise.all([...this.#runs.values()].map((run) => run.close()));
    this.#runs.clear();
  }

  /** The YAML parser is a tenth of a node's start, so it is loaded with the first plan. */
  async #read(text: string, file: string, as: string | undefined): Promise<Plan> {
    const { readPlan } = await import('./plan-check.js');
    return readPlan(text, file, this.#world, as);
  }

  async #ended(id: string): Promise<[RunRecord, LoopState, updatedAt: number]> {
    const record = await this.#records.find(id);
    if (!record) throw new EclipticError('RUN_NOT_FOUND', `there is no run "${id}"`, { run: id });
    const { status: _, updatedAt, ...rest } = record;
    return [rest, replay(await this.#records.events(id)), updatedAt];
  }

  async #resume(record: RunRecord): Promise<void> {
    const events = await this.#records.events(record.id);
    const event: LoopEvent = { type: 'resumed', at: this.#components.runtime.now() };
    const taken = step(replay(events), event);
    await this.#records.append(record.id, events.length, [event], taken.state.status);
    const at = { state: taken.state, sequence: events.length + 1, updatedAt: event.at };
    this.#own(new RalphRun(this.#parts(), record, at)).begin(taken);
  }

  async #start({ text, file, fresh = false, as }: RunInit): Promise<RunView> {
    if (this.#closed) throw new EclipticError('NODE_STOPPED', 'the node is stopping');
    if (as !== undefined) this.#components.agent(as);
    const plan = await this.#read(text, file, as);
    const agent = as ?? plan.as ?? this.#world.usualDispatcher;
    if (agent === undefined) throw new EclipticError('USAGE', 'say which agent hands out the tasks: --as AGENT');
    const key = plan.name === undefined ? `file:${file}` : `name:${plan.name}`;
    const settings = this.#settings(plan, agent);
    const before = await this.#records.latestOf(key);
    const same = before !== undefined && JSON.stringify(before.plan) === JSON.stringify(plan);
    const live = before && this.#runs.get(before.id);
    if (live) {
      if (same && !fresh) return live.view;
      const why = fresh ? 'it cannot start over' : 'it cannot be changed';
      throw new EclipticError('RUN_ACTIVE', `"${before.name}" is being run (${before.id}): ${why} meanwhile`, {
        run: before.id,
      });
    }
    if (before?.status === 'done' && same && !fresh) return this.view(before.id);
    if (this.#runs.size >= MAX_ACTIVE) {
      throw new EclipticError('QUEUE_FULL', `${MAX_ACTIVE} plans are being run already`);
    }
    if (before && same && !fresh) return this.#reopen({ ...before, agent }, settings);
    const carried = before && !fresh ? await this.#carried(before, plan) : [];
    const { runtime } = this.#components;
    const at = runtime.now();
    const name = plan.name ?? basename(file, extname(file));
    const record: RunRecord = { id: runtime.id(), key, name, agent, createdAt: at, plan, folder: dirname(file) };
    return this.#begin(record, [], { type: 'opened', at, settings, carried });
  }

  async #reopen({ status: _, updatedAt: __, ...record }: RunRecord & RunSummary, settings: LoopSettings) {
    const events = await this.#records.events(record.id);
    return this.#begin(record, events, { type: 'reopened', at: this.#components.runtime.now(), settings });
  }

  /** Stores the run before anything of it begins. */
  async #begin(record: RunRecord, events: readonly LoopEvent[], event: LoopEvent): Promise<RunView> {
    const taken = step(replay(events), event);
    await this.#records.save(record, taken.state.status, event.at, events.length, event);
    const at = { state: taken.state, sequence: events.length + 1, updatedAt: event.at };
    const run = this.#own(new RalphRun(this.#parts(), record, at));
    run.begin(taken);
    return run.view;
  }

  /** Results of an earlier run that are still valid after the plan was changed. */
  async #carried(before: RunRecord, plan: Plan): Promise<Carried[]> {
    const { tasks } = replay(await this.#records.events(before.id));
    const old = fingerprintsOf(before.plan);
    return [...fingerprintsOf(plan)].flatMap(([task, fingerprint]) => {
      const known = tasks.get(task);
      if (old.get(task) !== fingerprint || known?.phase !== 'done') return [];
      return [{ task, result: known.result, by: known.by }];
    });
  }

  #settings(plan: Plan, agent: string): LoopSettings {
    const { concurrency, retryDelayMs, tiers, escalation } = this.#hierarchy;
    const { policy, successRate, afterTasks } = escalation;
    return {
      concurrency: plan.concurrency ?? concurrency,
      tierConcurrency: {
        0: tiers[0].concurrency,
        1: tiers[1].concurrency,
        2: tiers[2].concurrency,
        3: tiers[3].concurrency,
      },
      retryDelayMs,
      escalation: { policy, successRate, afterTasks },
      tasks: plan.tasks.map((task) => {
        const tier = this.#world.tierOf(task, agent);
        const { id, dependsOn = [], validate, retries = tiers[tier].retries } = task;
        const timeoutMs = task.timeoutMs ?? tiers[tier].timeoutMs;
        return { id, dependsOn, tier, retries, timeoutMs, validated: validate !== undefined };
      }),
    };
  }

  #own(run: RalphRun): RalphRun {
    this.#runs.set(run.record.id, run);
    return run;
  }

  #parts() {
    const { runtime, agent, children, registry } = this.#components;
    const { escalation, tiers } = this.#hierarchy;
    const sun = registry.getById('sun');
    const adviser = escalation.agent ?? (sun && !vacancyFor(sun, 'request') ? 'sun' : undefined);
    return {
      runtime,
      records: this.#records,
      dispatcher: this.#dispatcher,
      judge: new Judge(agent, children),
      agent,
      adviser: { agent: adviser, timeoutMs: tiers[0].timeoutMs },
      onEnd: (run: RalphRun) => {
        this.#runs.delete(run.record.id);
      },
    };
  }
}
