import type { AgentTask } from '../../src/agent/agent-tasks.js';
import { createNode, type EclipticNode } from '../../src/node/compose.js';
import type { TaskInput } from '../../src/plans/dispatcher.js';
import type { HierarchyConfig } from '../../src/plans/hierarchy.js';
import { RalphLoop, type RunInit } from '../../src/plans/ralph-loop.js';
import type { RunView } from '../../src/plans/run-news.js';
import { SimulatedRuntime } from '../../src/runtime/simulated-runtime.js';
import { MemoryStore } from '../../src/store/memory-store.js';
// The loop loads it with its first plan, and the simulated clock does not wait for real files.
import '../../src/plans/plan-check.js';

/** A node, its loop, and what its workers were given. */
export class LoopWorld {
  readonly runtime: SimulatedRuntime;
  readonly store: MemoryStore;
  readonly node: EclipticNode;
  readonly loop: RalphLoop;
  /** Every attempt that a worker began, as `task.attempt`. */
  readonly begun: string[] = [];
  readonly inputs: TaskInput[] = [];

  private constructor(runtime: SimulatedRuntime, store: MemoryStore, node: EclipticNode, hierarchy: HierarchyConfig) {
    this.runtime = runtime;
    this.store = store;
    this.node = node;
    const { registry, router } = node;
    const agent = (id: string) => node.agentById(id);
    this.loop = new RalphLoop({ runtime, store, registry, router, agent }, hierarchy);
  }

  static async start(
    hierarchy: HierarchyConfig = {},
    runtime = new SimulatedRuntime(),
    store = new MemoryStore(),
  ): Promise<LoopWorld> {
    const node = await createNode({ runtime, store, nodeKey: 'here' });
    const world = new LoopWorld(runtime, store, node, hierarchy);
    node.agent({ id: 'sun' });
    return world;
  }

  /** An agent that works on tasks as told, and gives their ids by default. */
  worker(id: string, work: (input: TaskInput, task: AgentTask) => unknown = ({ task }) => task): this {
    const capabilities = [`${id}.work`];
    this.node.agent({ id, capabilities }).onTask((task) => {
      const input = inputOf(task);
      this.begun.push(`${input.task}.${input.attempt}`);
      this.inputs.push(input);
      return work(input, task);
    });
    return this;
  }

  start(tasks: readonly object[], more: Partial<RunInit> & { plan?: object } = {}): Promise<RunView> {
    const { plan, ...init } = more;
    const text = JSON.stringify({ ...plan, tasks: tasks.map((task) => ({ description: 'Do it.', ...task })) });
    return this.settled(this.loop.start({ text, file: '/plans/plan.json', ...init }));
  }

  /** Runs a plan to its end. */
  async run(...args: Parameters<LoopWorld['start']>): Promise<RunView> {
    const { id } = await this.start(...args);
    return this.ended(id);
  }

  async ended(id: string): Promise<RunView> {
    await this.settled(this.loop.follow(id, () => {}, new AbortController().signal));
    return this.settled(this.loop.view(id));
  }

  async settled<T>(promise: Promise<T>): Promise<T> {
    let over = false;
    const end = () => {
      over = true;
    };
    promise.then(end, end);
    await this.until(() => over);
    return promise;
  }

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.runtime.setTimer(resolve, ms);
    });
  }

  async until(condition: () => boolean): Promise<void> {
    for (let passed = 0; passed < 1_200_000; passed += 20) {
      if (condition()) return;
      await this.runtime.advance(20);
    }
    throw new Error(`never: ${condition}`);
  }

  /** What the next node finds that starts after a power cut. */
  async crashed(hierarchy: HierarchyConfig = {}): Promise<LoopWorld> {
    const store = new MemoryStore(this.store.snapshot());
    await this.stop();
    return LoopWorld.start(hierarchy, this.runtime, store);
  }

  async stop(): Promise<void> {
    await this.settled(this.loop.close());
    await this.settled(this.node.stop());
  }
}

export function inputOf(task: AgentTask): TaskInput {
  return task.message.parts.find(({ data }) => data !== undefined)!.data as TaskInput;
}
