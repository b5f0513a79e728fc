import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { AgentTask } from '../../agent/agent-tasks.js';
import { TaskCall } from '../../agent/task-call.js';
import { createNode } from '../../node/compose.js';
import type { EclipticNode } from '../../node/node.js';
import { DeadlineQueue } from '../../runtime/deadlines.js';
import { EclipticError } from '../../runtime/errors.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import type { TaskEvent } from '../protocol/task-machine.js';
import type { SendMessageRequest } from '../protocol/types.js';
import { MemoryTaskRecords, type TaskRecord } from './task-records.js';
import { TaskService } from './task-service.js';
import type { SendResult } from './task-terms.js';

/** What the handler of a task does; the last one gives its result. */
const DEEDS = [
  'nothing',
  'text',
  'data',
  'parts',
  'chunks',
  'not-json',
  'too-much',
  'reply',
  'artifact',
  'progress',
  'usage',
  'reject',
  'throw',
  'ask',
] as const;
type Deed = (typeof DEEDS)[number];

type Step =
  | {
      readonly kind: 'send';
      readonly deeds: readonly Deed[];
      readonly caller: number;
      readonly waits: boolean;
      readonly key: number;
    }
  /** The same send once more, or a further message, or the end, for one of the tasks so far. */
  | { readonly kind: 'again' | 'cancel'; readonly of: number }
  | { readonly kind: 'say'; readonly of: number; readonly deeds: readonly Deed[] }
  | { readonly kind: 'wait'; readonly ms: number };

/** When the handler's answer comes: in its call, within a few microtasks, or so late that it becomes a stream. */
const PACES = ['at once', 'soon', 'as a stream'] as const;
type Pace = (typeof PACES)[number];

const CALLERS = ['sun', 'moon', 'guest'];
/** More parts than the artifacts of a task may have. */
const TOO_MANY = 2_001;

const deeds = fc.array(fc.constantFrom(...DEEDS), { minLength: 1, maxLength: 3 });
const of = fc.nat({ max: 2 });
const send = fc.record({
  kind: fc.constant('send' as const),
  deeds,
  caller: fc.nat({ max: CALLERS.length - 1 }),
  waits: fc.boolean(),
  key: fc.nat({ max: 3 }),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: send },
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom('again' as const, 'cancel' as const), of }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('say' as const), of, deeds }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(70, 400_000) }) },
);

/** A store whose writes take a while. */
class SlowRecords extends MemoryTaskRecords {
  override async save(record: TaskRecord, events: readonly TaskEvent[]): Promise<undefined> {
    await undefined;
    super.save(record, events);
  }
}

interface Sent {
  readonly owner: string;
  readonly request: SendMessageRequest;
  readonly key?: string;
}

class World {
  readonly #runtime = new SimulatedRuntime({ seed: 3 });
  readonly #records: MemoryTaskRecords;
  readonly #pace: Pace;
  readonly #outcomes: unknown[] = [];
  readonly #calls: string[] = [];
  readonly #sends: Sent[] = [];
  readonly #tasks: { readonly owner: string; readonly id: string }[] = [];
  #node!: EclipticNode;
  #service!: TaskService;
  #messages = 0;

  constructor(pace: Pace, isSlow: boolean) {
    this.#pace = pace;
    this.#records = isSlow ? new SlowRecords() : new MemoryTaskRecords();
  }

  async perform(steps: readonly Step[]): Promise<void> {
    const runtime = this.#runtime;
    this.#node = await createNode({ runtime });
    this.#node.agent({ id: 'mars' }).onTask((task) => this.#work(task));
    const agents = new Map(CALLERS.map((id) => [id, this.#node.agent({ id, tier: 0 }).onMessage(() => {})]));
    this.#service = new TaskService({
      nodeKey: undefined,
      runtime,
      deadlines: new DeadlineQueue(runtime),
      records: this.#records,
      startCall: ({ owner, agent }, opening, listener) =>
        new TaskCall(runtime, agents.get(owner)!, agent, opening, listener),
      chooseAgent: () => 'mars',
      onTask: () => {},
    });
    for (const step of steps) {
      await this.#step(step).then(
        (outcome) => this.#outcomes.push(outcome),
        ({ code, message }: EclipticError) => this.#outcomes.push({ code, message }),
      );
      await runtime.advance(0);
    }
  }

  /** All that callers and the owner can see, with ids replaced by the order of their appearance. */
  async seen(): Promise<unknown> {
    const tasks = [];
    for (const { id } of this.#tasks) {
      tasks.push({ record: this.#records.find(id), events: await this.#records.eventsAfter(id, 0) });
    }
    const lists = await Promise.all(CALLERS.map((owner) => this.#service.list(owner, {})));
    const seen = { outcomes: this.#outcomes, calls: this.#calls, tasks, lists, underWay: this.#service.size };
    const ids = new Map<string, string>();
    const text = JSON.stringify(seen).replace(/[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{32}/g, (id) => {
      if (!ids.has(id)) ids.set(id, `id-${ids.size}`);
      return ids.get(id)!;
    });
    return JSON.parse(text);
  }

  /** The tasks that ended, by outcome, as the metrics count them. */
  get counted(): unknown {
    return this.#node.observability.getOutcomes();
  }

  async stop(): Promise<void> {
    this.#service.close();
    await this.#node.stop();
  }

  async #step(step: Step): Promise<unknown> {
    switch (step.kind) {
      case 'send': {
        const parts = [{ data: { deeds: step.deeds } }];
        const message = { messageId: `m-${this.#messages++}`, role: 'ROLE_USER' as const, parts };
        const request = { message, configuration: { returnImmediately: !step.waits } };
        const sent = {
          owner: CALLERS[step.caller]!,
          request,
          ...(step.key > 0 && { key: `key-${step.key}-${this.#messages}` }),
        };
        this.#sends.push(sent);
        return this.#send(sent);
      }
      case 'again': {
        const sent = this.#sends[step.of];
        return sent && this.#send(sent);
      }
      case 'cancel': {
        const task = this.#tasks[step.of];
        return task && this.#service.cancel(task.owner, task.id);
      }
      case 'say': {
        const task = this.#tasks[step.of];
        if (!task) return undefined;
        const parts = [{ data: { deeds: step.deeds } }];
        const message = { messageId: `m-${this.#messages++}`, role: 'ROLE_USER' as const, parts, taskId: task.id };
        return this.#shown(await this.#service.send(task.owner, { message }));
      }
      case 'wait':
        return this.#runtime.advance(step.ms).then(() => undefined);
    }
  }

  async #send({ owner, request, key }: Sent): Promise<unknown> {
    const sending = Promise.resolve(this.#service.send(owner, request, { key }));
    await this.#runtime.advance(0);
    const sent = await sending;
    if ('stored' in sent && !this.#tasks.some(({ id }) => id === sent.stored.id)) {
      this.#tasks.push({ owner, id: sent.stored.id });
    }
    return this.#shown(sent);
  }

  async #shown(sent: SendResult): Promise<unknown> {
    await this.#runtime.advance(0);
    return 'message' in sent ? sent : sent.stored.task;
  }

  #work(task: AgentTask): unknown {
    this.#calls.push(`${task.from} ${task.message.messageId}`);
    const act = () => this.#act(task, (task.data as { deeds: Deed[] }).deeds);
    if (this.#pace === 'at once') return act();
    if (this.#pace === 'soon') return Promise.resolve().then(act);
    return new Promise<void>((resolve) => this.#runtime.defer(resolve)).then(act);
  }

  #act(task: AgentTask, deeds: readonly Deed[]): unknown {
    let result: unknown;
    for (const deed of deeds) result = this.#do(task, deed);
    return result;
  }

  #do(task: AgentTask, deed: Deed): unknown {
    switch (deed) {
      case 'nothing':
        return undefined;
      case 'text':
        return 'a text';
      case 'data':
        return { a: [1, null] };
      case 'parts':
        return [{ text: 'one' }, { data: 2 }];
      case 'chunks':
        return (function* () {
          yield 'one';
          yield 'two';
        })();
      case 'not-json':
        return () => {};
      case 'too-much':
        return Array.from({ length: TOO_MANY }, () => ({ text: '' }));
      case 'reply':
        return task.reply('a message');
      case 'artifact':
        return void task.artifact('a piece', { name: 'piece' });
      case 'progress':
        return task.progress('on it');
      case 'usage':
        return task.usage({ inputTokens: 1 });
      case 'reject':
        return task.reject('no');
      case 'throw':
        throw new EclipticError('NOT_HANDLED', 'thrown');
      case 'ask':
        return void task.ask('which?').catch(() => {});
    }
  }
}

/** The same send after its task has ended is the same task. */
const SENT_AGAIN: Step[] = [
  { kind: 'send', deeds: ['text'], caller: 0, waits: true, key: 0 },
  { kind: 'again', of: 0 },
];
const RUNS = process.env.ECLIPTIC_SOAK ? 1_000 : 40;

describe('A task whose agent answers at once', () => {
  it('has the results, events, counters and stored state of one whose answer comes later, whatever else happens [AO.1]', {
    timeout: 60_000 + RUNS * 200,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), fc.boolean(), async (steps, isSlow) => {
        const worlds = PACES.map((pace) => new World(pace, isSlow));
        for (const world of worlds) await world.perform(steps);
        const [atOnce, ...others] = await Promise.all(worlds.map((world) => world.seen()));
        const [counted, ...othersCounted] = worlds.map((world) => world.counted);
        await Promise.all(worlds.map((world) => world.stop()));
        for (const other of others) expect(atOnce).toEqual(other);
        for (const other of othersCounted) expect(counted).toEqual(other);
      }),
      { numRuns: RUNS, examples: [[SENT_AGAIN, false]] },
    );
  });
});
