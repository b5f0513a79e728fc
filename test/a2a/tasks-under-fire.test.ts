import { describe, expect, it } from 'vitest';
import { projectState } from '../../src/a2a/protocol/simple.js';
import type { TaskEvent } from '../../src/a2a/protocol/task-machine.js';
import { isTerminal } from '../../src/a2a/protocol/task-rules.js';
import type { StreamResponse, TaskState } from '../../src/a2a/protocol/types.js';
import { MemoryTaskRecords, type TaskRecord } from '../../src/a2a/server/task-records.js';
import { TaskService } from '../../src/a2a/server/task-service.js';
import type { AgentTask } from '../../src/agent/agent-tasks.js';
import { TaskCall } from '../../src/agent/task-call.js';
import { createNode, type EclipticNode } from '../../src/node/compose.js';
import { DeadlineQueue } from '../../src/runtime/deadlines.js';
import { EclipticError } from '../../src/runtime/errors.js';
import { SimulatedRuntime } from '../../src/runtime/simulated-runtime.js';
import { triesSeeds, upTo } from '../evidence.js';

const RUNS = process.env.ECLIPTIC_SOAK === '1' ? 1_500 : 150;
const STEPS = 60;
const AGENTS = ['mars', 'venus'];
const OWNER = 'sun';

/** A scripted handler, and the abort that it received before it was done. */
interface Puppet {
  readonly task: AgentTask;
  readonly agent: string;
  finish(value?: unknown): void;
  crash(error: unknown): void;
  done: boolean;
  abortedAtWork: boolean;
}

/** A store with slow writes, one per task at a time, that sometimes fails. */
class SlowRecords extends MemoryTaskRecords {
  readonly log = new Map<string, TaskEvent[]>();
  readonly broken = new Set<string>();
  readonly #runtime: SimulatedRuntime;

  constructor(runtime: SimulatedRuntime) {
    super();
    this.#runtime = runtime;
  }

  override async save(record: TaskRecord, events: readonly TaskEvent[]): Promise<undefined> {
    const { id } = record.model.task;
    await new Promise<void>((resolve) => this.#runtime.setTimer(resolve, this.#runtime.random() * 20));
    if (this.#runtime.random() < 0.004) {
      this.broken.add(id);
      throw new EclipticError('STORE_FAILED', 'the disk is full');
    }
    this.log.set(id, [...(this.log.get(id) ?? []), ...events]);
    super.save(record, events);
  }

  override async eventsAfter(id: string, after: number): Promise<TaskEvent[]> {
    const events = await super.eventsAfter(id, after);
    await new Promise<void>((resolve) => this.#runtime.setTimer(resolve, this.#runtime.random() * 30));
    return events;
  }
}

/** A slow reader of a task that leaves, and resumes later. */
interface Reader {
  readonly id: string;
  readonly seen: TaskEvent[];
  over: 'no' | 'ended' | 'cut off';
  left: boolean;
}

class Scene {
  readonly runtime: SimulatedRuntime;
  readonly records: SlowRecords;
  readonly service: TaskService;
  readonly puppets: Puppet[] = [];
  readonly readers: Reader[] = [];
  readonly tasks: string[] = [];
  readonly canceled = new Set<string>();
  /** Tasks of sends that were sent again and made another. */
  readonly twice: string[] = [];
  readonly #node: EclipticNode;
  #messages = 0;

  private constructor(runtime: SimulatedRuntime, node: EclipticNode) {
    this.runtime = runtime;
    this.#node = node;
    this.records = new SlowRecords(runtime);
    const caller = node.agent({ id: OWNER, tier: 0 }).onMessage(() => {});
    this.service = new TaskService({
      nodeKey: undefined,
      runtime,
      deadlines: new DeadlineQueue(runtime),
      records: this.records,
      startCall: ({ agent }, opening, listener) => new TaskCall(runtime, caller, agent, opening, listener),
      chooseAgent: ({ agent }) => agent!,
      onTask: () => {},
    });
    for (const id of AGENTS) this.join(id);
  }

  static async open(seed: number): Promise<Scene> {
    const runtime = new SimulatedRuntime({ seed });
    return new Scene(runtime, await createNode({ runtime }));
  }

  join(id: string): void {
    this.#node.agent({ id }).onTask((task) => {
      const puppet: Puppet = { task, agent: id, finish: () => {}, crash: () => {}, done: false, abortedAtWork: false };
      this.puppets.push(puppet);
      task.signal.addEventListener('abort', () => {
        if (!puppet.done) puppet.abortedAtWork = true;
      });
      return new Promise((resolve, reject) => {
        puppet.finish = (value) => {
          puppet.done = true;
          resolve(value);
        };
        puppet.crash = (error) => {
          puppet.done = true;
          reject(error);
        };
      });
    });
  }

  leave(id: string): void {
    this.#node.agentById(id).leave();
    this.join(id);
  }

  pick<T>(list: readonly T[]): T | undefined {
    return list[Math.floor(this.runtime.random() * list.length)];
  }

  send(): void {
    const text = `m-${this.#messages++}`;
    const message = { messageId: text, role: 'ROLE_USER' as const, parts: [{ text }] };
    const timeoutMs = this.pick([undefined, undefined, 1_000, 5_000]);
    const request = { message, configuration: { returnImmediately: this.runtime.random() < 0.5 } };
    const terms = { agent: this.pick(AGENTS)!, timeoutMs };
    const sent = Promise.resolve(this.service.send(OWNER, request, terms));
    // The same send, sooner or later, is the same task.
    this.runtime.setTimer(() => {
      const again = this.service.send(OWNER, request, terms);
      void Promise.all([sent, again]).then(
        ([one, two]) => {
          if ('stored' in one && (!('stored' in two) || two.stored.id !== one.stored.id))
            this.twice.push(one.stored.id);
        },
        () => {},
      );
    }, this.runtime.random() * 40);
    sent.then(
      (what) => {
        if ('message' in what) return;
        this.tasks.push(what.stored.id);
        void Promise.resolve(what.stored.settled()).catch(() => {});
      },
      () => {},
    );
  }

  act(puppet: Puppet): void {
    const { task } = puppet;
    const acts = [
      () => task.progress('on it'),
      () => task.progress('still on it'),
      () => task.artifact('piece', { id: 'a', append: this.runtime.random() < 0.8, lastChunk: false }),
      () => task.ask('well?').catch(() => {}),
      () => task.askAuth('may I?').catch(() => {}),
      () => task.reply('there'),
      () => task.reject('no'),
      () => puppet.crash(new Error('oops')),
      () => puppet.finish('result'),
    ];
    this.pick(acts)!();
  }

  say(id: string): void {
    const text = `s-${this.#messages++}`;
    const message = { messageId: text, role: 'ROLE_USER' as const, parts: [{ text }], taskId: id };
    for (let i = 0; i < 2; i++) void Promise.resolve(this.service.send(OWNER, { message })).catch(() => {});
  }

  cancel(id: string): void {
    void this.service.cancel(OWNER, id).then(
      () => this.canceled.add(id),
      () => {},
    );
  }

  read(id: string): void {
    const reader: Reader = { id, seen: [], over: 'no', left: false };
    this.readers.push(reader);
    void this.#follow(reader);
  }

  async #follow(reader: Reader): Promise<void> {
    const { runtime, service } = this;
    for (;;) {
      try {
        const after = reader.seen.at(-1)?.sequence;
        const events = await service.subscribe(OWNER, reader.id, after);
        for (;;) {
          const next = await events.next();
          if (next.done) break;
          reader.seen.push(next.value);
          if (runtime.random() < 0.3) await this.#pause(runtime.random() * 100);
          if (runtime.random() < 0.1) {
            await events.return();
            await this.#pause(runtime.random() * 100);
            throw new EclipticError('CANCELLED', 'the connection broke');
          }
        }
        reader.over = 'ended';
        return;
      } catch (error) {
        if (error instanceof EclipticError && error.code === 'CANCELLED') continue;
        reader.over = 'cut off';
        return;
      }
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.runtime.setTimer(resolve, ms);
    });
  }

  async stop(): Promise<void> {
    await this.#node.stop();
  }
}

/** The state in an event. */
function stateIn(event: StreamResponse): TaskState | undefined {
  if ('task' in event) return event.task.status.state;
  return 'statusUpdate' in event ? event.statusUpdate.status.state : undefined;
}

const ORDER = ['submitted', 'working', 'completed', 'failed'];

async function play(seed: number): Promise<void> {
  const scene = await Scene.open(seed);
  const { runtime, service, records, puppets, readers, tasks } = scene;
  await runtime.advance(100);
  const idle = runtime.pending;
  for (let step = 0; step < STEPS; step++) {
    const [puppet, id] = [scene.pick(puppets), scene.pick(tasks)];
    const dice = runtime.random();
    if (dice < 0.2) scene.send();
    else if (dice < 0.55 && puppet) scene.act(puppet);
    else if (dice < 0.65 && id) scene.say(id);
    else if (dice < 0.72 && id) scene.cancel(id);
    else if (dice < 0.74) scene.leave(scene.pick(AGENTS)!);
    else if (dice < 0.9 && id) scene.read(id);
    await runtime.advance(runtime.random() < 0.1 ? 1_500 : runtime.random() * 60);
  }
  // Whatever still waits for its caller is over a day later.
  await runtime.advance(60 * 60_000);
  await runtime.advance(25 * 60 * 60_000);
  expect(service.size).toBe(0);
  expect(scene.twice).toEqual([]);
  const ends = new Map<string, TaskState>();
  for (const [id, events] of records.log) {
    expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => index + 1));
    const states = events.flatMap(({ event }) => stateIn(event) ?? []);
    const places = states.map((state) => ORDER.indexOf(projectState(state)));
    expect(places).toEqual([...places].sort((a, b) => a - b));
    const terminal = states.filter(isTerminal);
    if (records.broken.has(id)) expect(terminal.length).toBeLessThanOrEqual(1);
    else {
      expect(terminal).toHaveLength(1);
      expect(stateIn(events.at(-1)!.event)).toBe(terminal[0]);
      ends.set(id, terminal[0]!);
    }
  }
  for (const id of scene.canceled) if (ends.has(id)) expect(ends.get(id)).toBe('TASK_STATE_CANCELED');
  for (const { id, seen, over } of readers) {
    if (seen.length === 0) continue;
    const log = records.log.get(id)!;
    const numbers = seen.map(({ sequence }) => sequence);
    expect(numbers).toEqual(numbers.map((_, index) => numbers[0]! + index));
    expect(seen[0]!.event).toHaveProperty('task');
    expect(seen.slice(1)).toEqual(log.slice(numbers[0]!, numbers[0]! + seen.length - 1));
    expect(over).not.toBe('no');
    if (over === 'ended' && ends.has(id)) expect(numbers.at(-1)).toBe(log.length);
  }
  for (const { task, done, abortedAtWork } of puppets) {
    // No handler still works on a finished task, and no finished handler was aborted.
    expect(done || abortedAtWork || task.signal.aborted).toBe(true);
    const end = ends.get(task.id);
    if (abortedAtWork && end === 'TASK_STATE_COMPLETED') {
      // It had replied, and went on until its time was up.
      expect(
        records.log.get(task.id)!.some(({ event }) => 'statusUpdate' in event && event.statusUpdate.status.message),
      ).toBe(true);
    }
  }
  expect(runtime.pending).toBeLessThanOrEqual(idle);
  await scene.stop();
}

describe('tasks under fire', () => {
  it(`keep their guarantees in ${RUNS} random histories [GI1 GI2 GI6 GI7]`, { timeout: 600_000 }, async () => {
    for (const seed of triesSeeds(upTo(RUNS))) {
      try {
        await play(seed);
      } catch (error) {
        throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error });
      }
    }
  });
});
