import { GUEST } from '../../http/auth/principals.js';
import { fullAddress } from '../../mesh/address.js';
import { EclipticError } from '../../runtime/errors.js';
import { admitDelegation, type DelegationChain, withDelegation } from '../protocol/delegation.js';
import { requireSameSend, type SendFacts, sendFacts } from '../protocol/same-send.js';
import { contextOf, requireContinuable, requireOwn, requireSubscribable } from '../protocol/task-access.js';
import { pageOf } from '../protocol/task-list.js';
import { createTask, type TaskEvent } from '../protocol/task-machine.js';
import { isTerminal } from '../protocol/task-states.js';
import type { ListTasksRequest, ListTasksResponse, Message, SendMessageRequest, Task } from '../protocol/types.js';
import { LiveTask } from './live-task.js';
import { REMEMBERED_SENDS, SendKeys } from './send-keys.js';
import { Subscription } from './subscription.js';
import type { TaskRecord } from './task-records.js';
import { type Sent, TaskWork, type TaskWorkComponents } from './task-work.js';

export interface TaskDeskComponents extends TaskWorkComponents {
  nodeKey: string | undefined;
  /** Who works on a task: by name, by skill, or by default. */
  chooseAgent: (wanted: Wanted) => string;
  /** Told of every task that is made, and awaited for one that goes on after a restart. */
  onTask: (live: LiveTask, resumed: boolean) => void | Promise<void>;
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
  /** What must be done after the task is kept and before its agent begins. There is a task then, whatever is answered. */
  readonly prepare?: ((taskId: string) => Promise<void>) | undefined;
}

/** Tasks that may be worked on at once. */
const MAX_LIVE = 10_000;
const SECRET_BYTES = 16;

/** Takes tasks in, gives them to agents, and answers for them. Every binding asks here. */
export class TaskDesk {
  readonly #components: TaskDeskComponents;
  readonly #live = new Map<string, TaskWork>();
  readonly #keys = new SendKeys();
  #closed = false;

  constructor(components: TaskDeskComponents) {
    this.#components = components;
  }

  /** How many tasks are under way. */
  get size(): number {
    return this.#live.size;
  }

  /** Goes on with what was under way when the node stopped, where the agent can; the rest has failed. */
  async recover(): Promise<void> {
    const { records } = this.#components;
    for (const { owner, sendKey, id } of await records.recentSends(REMEMBERED_SENDS)) {
      this.#keys.remember(`${owner} ${sendKey}`, id);
    }
    for (const record of await records.unfinished()) {
      const work = this.#workOn(record);
      this.#live.set(work.live.id, work);
      await this.#components.onTask(work.live, true);
      await work.resume();
    }
  }

  /** Ends every run; what was under way is found so at the next start. */
  close(): void {
    this.#closed = true;
    for (const work of this.#live.values()) work.abandon();
    this.#live.clear();
  }

  /** Throws at once where nothing can come of it. */
  send(owner: string, request: SendMessageRequest, terms: SendTerms = {}): Promise<Sent> {
    if (this.#closed) throw new EclipticError('NODE_STOPPED', 'the node is stopping');
    const { message } = request;
    if (message.taskId !== undefined) return this.#goOn(owner, message);
    const facts = sendFacts(request, terms.agent);
    const sendKey = keyOf(owner, message, terms);
    if (sendKey === undefined) return this.#begin(owner, request, terms, facts);
    const key = `${owner} ${sendKey}`;
    const known = this.#keys.find(key);
    if (typeof known === 'object') {
      requireSameSend(known, { message, facts });
      return known.sent;
    }
    if (known !== undefined) return this.#again(owner, request, terms, key, known);
    const sent = this.#begin(owner, request, terms, facts, sendKey);
    this.#keys.begin(key, { sent, message, facts });
    return sent;
  }

  /** The same send as before, of which that task came. */
  async #again(owner: string, request: SendMessageRequest, terms: SendTerms, key: string, id: string): Promise<Sent> {
    const work = this.#live.get(id);
    const record = work?.live.record ?? (await this.#components.records.load(id));
    if (!record) {
      this.#keys.forget(key, id);
      return this.send(owner, request, terms);
    }
    const { message } = request;
    const first = { message: record.model.task.history![0]!, facts: record.asked };
    requireSameSend(first, { message, facts: sendFacts(request, terms.agent) });
    return { live: work?.live ?? new LiveTask(this.#components.records, record, [], () => {}) };
  }

  async get(owner: string, id: string): Promise<TaskRecord> {
    const live = this.#live.get(id)?.live;
    return requireOwn(live?.record ?? (await this.#components.records.load(id)), owner, id);
  }

  /** Which of the guests' tasks are whose, nobody knows: a guest finds its own by their ids, and lists none. */
  async list(owner: string, request: ListTasksRequest): Promise<ListTasksResponse> {
    const records = owner === GUEST.address ? [] : await this.#components.records.list(owner, request);
    return pageOf(
      records.map(({ model }) => model.task),
      request,
    );
  }

  async cancel(owner: string, id: string): Promise<Task> {
    const record = await this.get(owner, id);
    const { task } = record.model;
    if (task.status.state === 'TASK_STATE_CANCELED') return task;
    if (isTerminal(task.status.state)) {
      throw new EclipticError('TASK_NOT_CANCELABLE', `the task has ended as ${task.status.state}`, { taskId: id });
    }
    // Nobody may be at work on it any more; that it is canceled can be kept all the same.
    const work = this.#live.get(id) ?? this.#workOn(record);
    await work.take({ type: 'cancel', at: this.#components.runtime.now() });
    return work.live.task;
  }

  /** The events of a task: the task as it is, then what happens; or, after a number, everything since. */
  async subscribe(owner: string, id: string, after?: number): Promise<Subscription> {
    const record = await this.get(owner, id);
    if (after === undefined) requireSubscribable(record.model.task);
    const live = this.#live.get(id)?.live;
    return this.#follow(id, live, after ?? snapshot(live?.record ?? record));
  }

  /** The events that come of a message: the task as it took the message, then what happens. */
  follow({ live, since }: Extract<Sent, { live: LiveTask }>): Promise<Subscription> {
    return this.#follow(live.id, live, since ?? 0);
  }

  async #follow(id: string, live: LiveTask | undefined, from: TaskEvent | number): Promise<Subscription> {
    const { records } = this.#components;
    // Whoever listens from now on misses nothing of what is read meanwhile.
    const subscription = new Subscription(live);
    if (typeof from === 'number') subscription.begin(await records.eventsAfter(id, from));
    else subscription.begin([from, ...(await records.eventsAfter(id, from.sequence))]);
    return subscription;
  }

  async #goOn(owner: string, message: Message): Promise<Sent> {
    const id = message.taskId!;
    const { model } = await this.get(owner, id);
    requireContinuable(message, model.task);
    const work = this.#live.get(id);
    if (work) return work.say(message);
    throw new EclipticError('OPERATION_NOT_SUPPORTED', 'nobody works on the task any longer', { taskId: id });
  }

  /** Ids of one millisecond follow each other. Who has no name has the id of its task for a secret. */
  #taskId(owner: string): string {
    const { runtime } = this.#components;
    return owner === GUEST.address ? Buffer.from(runtime.bytes(SECRET_BYTES)).toString('hex') : runtime.id();
  }

  #begin(
    owner: string,
    request: SendMessageRequest,
    terms: SendTerms,
    asked: SendFacts,
    sendKey?: string,
  ): Promise<Sent> {
    const { runtime, nodeKey, chooseAgent, onTask } = this.#components;
    if (this.#live.size >= MAX_LIVE) throw new EclipticError('QUEUE_FULL', `${MAX_LIVE} tasks are under way already`);
    const { message, configuration } = request;
    const { timeoutMs, prepare, chain = [] } = terms;
    const { skill } = asked;
    const agent = chooseAgent({ agent: terms.agent, skill });
    admitDelegation(chain, fullAddress(agent, nodeKey));
    // However it came, it stays with the task, for whoever works on it and hands it on.
    const metadata = chain.length > 0 ? withDelegation(request.metadata, chain) : request.metadata;
    const id = this.#taskId(owner);
    const contextId = contextOf(message, () => runtime.id());
    const at = runtime.now();
    const { model, events } = createTask({ id, contextId, message, at, ...(metadata && { metadata }) });
    const about = { owner, agent, sessionId: runtime.id(), createdAt: at, sendKey: sendKey ?? id, asked };
    const record: TaskRecord = { ...about, resumable: false, model };
    const listener = {
      made: (work: TaskWork) => {
        this.#live.set(id, work);
        void onTask(work.live, false);
      },
      over: () => {
        this.#live.delete(id);
        if (sendKey !== undefined) this.#keys.end(`${owner} ${sendKey}`, id);
      },
    };
    const work = new TaskWork(this.#components, record, listener, events);
    const eager = configuration?.returnImmediately === true || prepare !== undefined;
    return work.begin({ skill, timeoutMs, eager, prepare });
  }

  /** A task that was made before. */
  #workOn(record: TaskRecord): TaskWork {
    const { id } = record.model.task;
    return new TaskWork(this.#components, record, { made: () => {}, over: () => this.#live.delete(id) });
  }
}

/** What a send is known again by. A message id is easily guessed: a guest makes a key for that alone. */
function keyOf(owner: string, { messageId }: Message, { key }: SendTerms): string | undefined {
  return key ?? (owner === GUEST.address ? undefined : messageId);
}

function snapshot({ model }: TaskRecord): TaskEvent {
  return { sequence: model.sequence, event: { task: model.task } };
}
