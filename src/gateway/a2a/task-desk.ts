import { admitDelegation, type DelegationChain } from '../../a2a-protocol/delegation.js';
import { contextOf, requireContinuable, requireOwn, requireSubscribable } from '../../a2a-protocol/task-access.js';
import { pageOf } from '../../a2a-protocol/task-list.js';
import { createTask, type TaskEvent } from '../../a2a-protocol/task-machine.js';
import { isInterrupted, isTerminal } from '../../a2a-protocol/task-states.js';
import type {
  ListTasksRequest,
  ListTasksResponse,
  Message,
  Part,
  SendMessageRequest,
  Task,
} from '../../a2a-protocol/types.js';
import type { Agent } from '../../agent/agent.js';
import { Deadline, type DeadlineQueue } from '../../runtime/deadlines.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { LiveTask } from './live-task.js';
import { Subscription } from './subscription.js';
import type { TaskRecord, TaskRecords } from './task-records.js';
import { TaskRun } from './task-runner.js';

export interface TaskDeskComponents {
  runtime: Runtime;
  deadlines: DeadlineQueue;
  records: TaskRecords;
  /** The agent that stands for a caller on the mesh. */
  callerAgent: (owner: string) => Agent;
  /** Who works on a task: by name, by skill, or by default. */
  chooseAgent: (wanted: Wanted) => string;
  /** Told of every task that is made. */
  onTask: (live: LiveTask) => void;
}

export interface Wanted {
  readonly agent: string | undefined;
  readonly skill: string | undefined;
}

export interface SendTerms {
  /** The same key, from the same caller, means the same task. */
  readonly key?: string | undefined;
  /** The agent that must do it. */
  readonly agent?: string | undefined;
  readonly chain?: DelegationChain;
  readonly timeoutMs?: number | undefined;
}

/** What comes of a message: a task, or the agent's answer alone. */
export type Sent = { readonly live: LiveTask } | { readonly message: Message };

/** How long a task may be worked on. */
const TASK_MS = 5 * 60_000;
/** An agent that says nothing for this long gets a task made for what it does; one that answers sooner may not need one. */
const SILENT_MS = 50;
/** Tasks that may be worked on at once. */
const MAX_LIVE = 10_000;

/** Takes tasks in, gives them to agents, and answers for them. Every binding asks here. */
export class TaskDesk {
  readonly #components: TaskDeskComponents;
  readonly #live = new Map<string, Work>();
  readonly #byKey = new Map<string, Promise<Sent>>();
  #closed = false;

  constructor(components: TaskDeskComponents) {
    this.#components = components;
  }

  /** Goes on with what was under way when the node stopped, where the agent can; the rest has failed. */
  async recover(): Promise<void> {
    for (const record of await this.#components.records.unfinished()) {
      const work = new Work(this.#components, record, (over) => this.#live.delete(over.live.id));
      if (!(await work.resume())) continue;
      this.#live.set(work.live.id, work);
    }
  }

  /** Ends every run; what was under way is found so at the next start. */
  close(): void {
    this.#closed = true;
    for (const work of this.#live.values()) work.abandon();
    this.#live.clear();
  }

  send(owner: string, request: SendMessageRequest, terms: SendTerms = {}): Promise<Sent> {
    if (this.#closed) return Promise.reject(new EclipticError('NODE_STOPPED', 'the node is stopping'));
    const { message } = request;
    if (message.taskId !== undefined) return this.#goOn(owner, message);
    const key = `${owner} ${terms.key ?? message.messageId}`;
    const known = this.#byKey.get(key);
    if (known) return known;
    const sent = this.#begin(owner, request, terms);
    this.#byKey.set(key, sent);
    const forget = () => this.#byKey.delete(key);
    sent.then((what) => ('live' in what ? what.live.ended.then(forget, forget) : forget()), forget);
    return sent;
  }

  async get(owner: string, id: string): Promise<TaskRecord> {
    const live = this.#live.get(id)?.live;
    return requireOwn(live?.record ?? (await this.#components.records.load(id)), owner, id);
  }

  async list(owner: string, request: ListTasksRequest): Promise<ListTasksResponse> {
    const records = await this.#components.records.list(owner, request);
    return pageOf(
      records.map(({ model }) => model.task),
      request,
    );
  }

  async cancel(owner: string, id: string): Promise<Task> {
    const record = await this.get(owner, id);
    const live = this.#live.get(id)?.live;
    if (live) {
      await live.take({ type: 'cancel', at: this.#components.runtime.now() });
      return live.task;
    }
    const { task } = record.model;
    if (task.status.state === 'TASK_STATE_CANCELED') return task;
    throw new EclipticError('TASK_NOT_CANCELABLE', `the task has ended as ${task.status.state}`, { taskId: id });
  }

  /** The events of a task: the task as it is, then what happens; or, after a number, everything since. */
  async subscribe(owner: string, id: string, after?: number): Promise<Subscription> {
    const record = await this.get(owner, id);
    const live = this.#live.get(id)?.live;
    if (after === undefined) requireSubscribable(record.model.task);
    // Whoever listens from now on misses nothing of what is read meanwhile.
    const subscription = new Subscription(live);
    const missed =
      after === undefined ? [snapshot(live?.record ?? record)] : await this.#components.records.eventsAfter(id, after);
    subscription.begin(missed);
    return subscription;
  }

  async #goOn(owner: string, message: Message): Promise<Sent> {
    const id = message.taskId!;
    const { model } = await this.get(owner, id);
    requireContinuable(message, model.task);
    const work = this.#live.get(id);
    if (!work)
      throw new EclipticError('OPERATION_NOT_SUPPORTED', 'nobody works on the task any longer', { taskId: id });
    await work.say(message);
    return { live: work.live };
  }

  async #begin(owner: string, request: SendMessageRequest, terms: SendTerms): Promise<Sent> {
    const { runtime, chooseAgent } = this.#components;
    if (this.#live.size >= MAX_LIVE) throw new EclipticError('QUEUE_FULL', `${MAX_LIVE} tasks are under way already`);
    const { message, configuration, metadata } = request;
    const skill = skillIn(metadata) ?? skillIn(message.metadata);
    const agent = chooseAgent({ agent: terms.agent, skill });
    admitDelegation(terms.chain ?? [], agent);
    const id = runtime.id();
    const contextId = contextOf(message, () => runtime.id());
    const at = runtime.now();
    const { model, events } = createTask({ id, contextId, message, at, ...(metadata && { metadata }) });
    const record: TaskRecord = { owner, agent, sessionId: runtime.id(), createdAt: at, resumable: false, model };
    const work = new Work(this.#components, record, (over) => this.#live.delete(over.live.id), events);
    const eager = configuration?.returnImmediately === true || configuration?.taskPushNotificationConfig !== undefined;
    const sent = await work.begin({ skill, timeoutMs: terms.timeoutMs ?? TASK_MS, eager }, () =>
      this.#live.set(id, work),
    );
    return sent;
  }
}

interface Beginning {
  readonly skill: string | undefined;
  readonly timeoutMs: number;
  /** Is a task wanted whatever the agent answers? */
  readonly eager: boolean;
}

/** One task and the agent at work on it. */
class Work extends Deadline {
  readonly live: LiveTask;
  readonly #components: TaskDeskComponents;
  readonly #onOver: (work: Work) => void;
  readonly #record: TaskRecord;
  #run: TaskRun | undefined;
  #timeoutMs = TASK_MS;

  constructor(
    components: TaskDeskComponents,
    record: TaskRecord,
    onOver: (work: Work) => void,
    events: readonly TaskEvent[] = [],
  ) {
    super();
    this.#components = components;
    this.#record = record;
    this.#onOver = onOver;
    this.live = new LiveTask(components.records, record, events, () => this.#run?.stop());
  }

  /** Gives it to the agent. `onTask` is called before anyone hears that there is a task. */
  begin({ skill, timeoutMs, eager }: Beginning, onTask: () => void): Promise<Sent> {
    const { runtime } = this.#components;
    this.#timeoutMs = timeoutMs;
    return new Promise((resolve, reject) => {
      let timer: Timer | undefined;
      let made = false;
      const make = () => {
        if (made) return;
        made = true;
        timer?.cancel();
        onTask();
        this.#components.onTask(this.live);
        this.#components.deadlines.add(this, timeoutMs);
        this.live.saved().then(() => resolve({ live: this.live }), reject);
      };
      this.#start(
        { skill, resumed: false },
        {
          message: (parts) => {
            if (made) return false;
            made = true;
            timer?.cancel();
            resolve({ message: this.#words(parts) });
            return true;
          },
          task: make,
        },
      );
      if (eager) make();
      else if (!made) timer = runtime.setTimer(make, SILENT_MS);
    });
  }

  /** After a restart: true if the agent goes on with it. */
  async resume(): Promise<boolean> {
    const { runtime } = this.#components;
    if (!this.#record.resumable || isInterrupted(this.live.task.status.state)) {
      await this.live.take({ type: 'crash', at: runtime.now(), reason: 'The node stopped while the agent worked' });
      return false;
    }
    this.#components.deadlines.add(this, this.#timeoutMs);
    this.#start({ skill: undefined, resumed: true }, { message: () => false, task: () => {} });
    return true;
  }

  async say(message: Message): Promise<void> {
    await this.live.take({ type: 'user-message', at: this.#components.runtime.now(), message });
    this.#components.deadlines.remove(this);
    this.#components.deadlines.add(this, this.#timeoutMs);
    await this.#run?.say(message);
  }

  override expire(): void {
    void this.#take(this.live.take({ type: 'timeout', at: this.#components.runtime.now() }));
  }

  /** The node stops: the agent is told, and the task stays as it is. */
  abandon(): void {
    this.#components.deadlines.remove(this);
    this.#run?.stop();
  }

  #start(
    { skill, resumed }: { skill: string | undefined; resumed: boolean },
    on: { message: (parts: readonly Part[]) => boolean; task: () => void },
  ): void {
    const { runtime, callerAgent } = this.#components;
    const { id, contextId, history = [], metadata } = this.live.task;
    const message = history[0]!;
    const opening = {
      id,
      contextId,
      message,
      ...(skill !== undefined && { skill }),
      ...(resumed && { resumed }),
      ...(metadata && { metadata }),
    };
    const run = new TaskRun(runtime, callerAgent(this.#record.owner), this.#record.agent, opening, {
      accepted: (resumable) => this.live.setResumable(resumable),
      message: (parts) => {
        if (on.message(parts)) return run.stop();
        const state = 'TASK_STATE_COMPLETED';
        this.#hear({ type: 'status', at: runtime.now(), state, message: this.#words(parts) });
      },
      input: (input) => {
        on.task();
        this.#hear(input);
      },
    });
    this.#run = run;
    void run.work(Number.POSITIVE_INFINITY);
  }

  #hear(input: Parameters<LiveTask['take']>[0]): void {
    try {
      const kept = this.live.take(input);
      if (isInterrupted(this.live.state)) this.#components.deadlines.remove(this);
      if (isTerminal(this.live.state)) this.#components.deadlines.remove(this);
      void this.#take(kept);
    } catch (error) {
      // The agent brought more than a task may hold.
      void this.#take(this.live.take({ type: 'crash', at: input.at, reason: (error as Error).message }));
      this.#run?.stop();
    }
  }

  async #take(kept: Promise<void>): Promise<void> {
    try {
      await kept;
    } catch (err) {
      this.#components.runtime.logger.error({ task: this.live.id, err }, 'a task could not be kept');
    }
    if (this.live.over) this.#onOver(this);
  }

  #words(parts: readonly Part[]): Message {
    const { contextId } = this.live.task;
    return { messageId: this.#components.runtime.id(), role: 'ROLE_AGENT', parts, contextId };
  }
}

function snapshot({ model }: TaskRecord): TaskEvent {
  return { sequence: model.sequence, event: { task: model.task } };
}

function skillIn(metadata: Message['metadata']): string | undefined {
  const skill = metadata?.skill ?? metadata?.skillId;
  return typeof skill === 'string' && skill !== '' ? skill : undefined;
}
