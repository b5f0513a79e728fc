import { GUEST, OPERATOR, RateLimiter } from '../../http/auth/caller-auth.js';
import { fullAddress } from '../../mesh/address.js';
import { EclipticError } from '../../runtime/errors.js';
import { type Amount, FairShares } from '../../runtime/fair-shares.js';
import { admitDelegation, type DelegationChain, withDelegation } from '../protocol/delegation.js';
import { fullTaskId, joinTaskId, splitTaskId } from '../protocol/task-id.js';
import { pageOf } from '../protocol/task-list.js';
import type { TaskEvent } from '../protocol/task-machine.js';
import {
  contextOf,
  isTerminal,
  requireContinuable,
  requireOwn,
  requireSameSend,
  requireSubscribable,
  type SendFacts,
  sendFacts,
} from '../protocol/task-rules.js';
import type { ListTasksRequest, ListTasksResponse, Message, SendMessageRequest, Task } from '../protocol/types.js';
import { StoredTask, Subscription } from './stored-task.js';
import { TaskExecution } from './task-execution.js';
import type { TaskRecord } from './task-records.js';
import type { SendResult, TaskExecutionComponents, TaskExecutionListener } from './task-terms.js';

/** At least this many sends are remembered, and at most twice as many; retries come soon. */
export const REMEMBERED_SENDS = 5_000;

export interface OpenSend {
  readonly sent: Promise<SendResult>;
  readonly message: Message;
  readonly facts: SendFacts;
}

type Outcome = OpenSend | string;

/** Maps send keys to tasks, so that a repeated send finds its task while that runs and for a while after. */
export class SendKeys {
  /** Values are sends in progress, or ids of ended tasks. When `#younger` is full it replaces `#older`. */
  #younger = new Map<string, Outcome>();
  #older = new Map<string, Outcome>();

  find(key: string): Outcome | undefined {
    return this.#younger.get(key) ?? this.#older.get(key);
  }

  /** Adds a send that led to a task: at once, or in an earlier run. */
  remember(key: string, taskId: string): void {
    this.#put(key, taskId);
  }

  begin(key: string, send: OpenSend): void {
    this.#put(key, send);
    const forget = () => this.forget(key, send);
    // A send that led to no task may be repeated.
    send.sent.then((what) => ('message' in what ? forget() : undefined), forget);
  }

  forget(key: string, what: Outcome): void {
    for (const sends of [this.#younger, this.#older]) if (sends.get(key) === what) sends.delete(key);
  }

  end(key: string, taskId: string): void {
    for (const sends of [this.#younger, this.#older]) if (sends.has(key)) sends.set(key, taskId);
  }

  #put(key: string, outcome: Outcome): void {
    if (this.#younger.size >= REMEMBERED_SENDS) {
      this.#older = this.#younger;
      this.#younger = new Map();
    }
    this.#younger.set(key, outcome);
  }
}

export interface TaskServiceComponents extends TaskExecutionComponents {
  nodeKey: string | undefined;
  chooseAgent: (wanted: AgentRequest) => string;
  /** Called for every new task whose agent goes on, and awaited for one that resumes after a restart. */
  onTask: (stored: StoredTask, resumed: boolean) => void | Promise<void>;
  /** Tasks under way, and the bytes of the messages that opened them, shared among callers. */
  underWay?: Amount;
}

export interface AgentRequest {
  readonly agent: string | undefined;
  readonly skill: string | undefined;
  /** Agents of projects in which it does not work do not exist for it. Undefined for the node itself. */
  readonly caller?: string | undefined;
}

/** A task in its plainest form. */
export interface GivenTask {
  readonly parts: Message['parts'];
  readonly contextId?: string | undefined;
  readonly skill?: string | undefined;
}

export interface SendTerms {
  /** Sends of one caller with the same key are the same task. */
  readonly key?: string | undefined;
  readonly agent?: string | undefined;
  /** The sandbox of the caller. */
  readonly sandbox?: string | undefined;
  readonly chain?: DelegationChain;
  readonly timeoutMs?: number;
  /** The session that the agent works in. Default: a new one. */
  readonly sessionId?: string;
  /** Runs after the task is stored and before its agent begins; forces a task even if the agent answers at once. */
  readonly prepare?: (taskId: string) => Promise<void>;
}

const UNDER_WAY: Amount = { items: 10_000, bytes: 256 * 1_048_576 };
/** Bytes of opening messages from one caller in a minute: every task stays on disk after it has ended. */
const BYTES_PER_MINUTE = 128 * 1_048_576;
const SECRET_BYTES = 16;

/** Creates tasks, gives them to agents and answers for them. Every binding uses it. */
export class TaskService {
  readonly #components: TaskServiceComponents;
  readonly #running = new Map<string, TaskExecution>();
  readonly #keys = new SendKeys();
  readonly #shares: FairShares;
  readonly #rate: RateLimiter;
  readonly #listener: TaskExecutionListener<TaskExecution>;
  #closed = false;

  constructor(components: TaskServiceComponents) {
    this.#components = components;
    this.#listener = {
      made: (execution, isDone) => {
        this.#enter(execution);
        if (!isDone) void components.onTask(execution.stored, false);
      },
      over: (execution) => {
        const { owner, sendKey } = execution.terms;
        this.#leave(execution);
        if (sendKey !== execution.id) this.#keys.end(`${owner} ${sendKey}`, execution.id);
      },
    };
    this.#shares = new FairShares(components.underWay ?? UNDER_WAY);
    this.#rate = new RateLimiter(components.runtime, BYTES_PER_MINUTE, 'bytes of tasks');
  }

  get size(): number {
    return this.#running.size;
  }

  /** Resumes the unfinished tasks of an earlier run where the agent can, and fails the others. */
  async recover(): Promise<void> {
    const { records } = this.#components;
    for (const { owner, sendKey, id } of await records.recentSends(REMEMBERED_SENDS)) {
      this.#keys.remember(`${owner} ${sendKey}`, id);
    }
    for (const record of await records.unfinished()) {
      const execution = this.#executionOf(record);
      this.#enter(execution);
      await this.#components.onTask(execution.stored, true);
      await execution.resume();
    }
  }

  /** Ends all calls; the next run finds the tasks unfinished. */
  close(): void {
    this.#closed = true;
    for (const execution of this.#running.values()) execution.abandon();
    this.#running.clear();
  }

  /** Throws synchronously if the request is refused. Returns the result itself if the agent answers at once. */
  send(owner: string, request: SendMessageRequest, terms: SendTerms = {}): SendResult | Promise<SendResult> {
    if (this.#closed) throw new EclipticError('NODE_STOPPED', 'the node is stopping');
    const { message } = request;
    if (message.taskId !== undefined) return this.#goOn(owner, message);
    const facts = sendFacts(request, terms.agent, terms.sandbox);
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
    if (sent instanceof Promise) this.#keys.begin(key, { sent, message, facts });
    // A send that led to no task may be repeated.
    else if ('stored' in sent) this.#keys.remember(key, sent.stored.id);
    return sent;
  }

  /** Continues a task that waits for its caller. */
  async answer(owner: string, id: string, text: string): Promise<void> {
    await this.send(owner, { message: this.#message({ parts: [{ text }], taskId: id }) });
  }

  /** Gives an agent a task; its caller does not wait for the answer. */
  async give(owner: string, { parts, contextId, skill }: GivenTask, terms: SendTerms): Promise<StoredTask> {
    const message = this.#message({ parts, ...(contextId !== undefined && { contextId }) });
    const metadata = skill === undefined ? {} : { metadata: { skill } };
    const sent = await this.send(owner, { message, configuration: { returnImmediately: true }, ...metadata }, terms);
    if ('stored' in sent) return sent.stored;
    throw new EclipticError('INVALID_AGENT_RESPONSE', 'the agent answered without a task');
  }

  #message(content: Omit<Message, 'messageId' | 'role'>): Message {
    return { messageId: this.#components.runtime.id(), role: 'ROLE_USER', ...content };
  }

  /** A repeated send, which led to the task `id`. */
  async #again(
    owner: string,
    request: SendMessageRequest,
    terms: SendTerms,
    key: string,
    id: string,
  ): Promise<SendResult> {
    const execution = this.#running.get(id);
    const record = execution?.stored.record ?? (await this.#components.records.load(id));
    if (!record) {
      this.#keys.forget(key, id);
      return this.send(owner, request, terms);
    }
    const { message } = request;
    const first = { message: record.model.task.history![0]!, facts: record.asked };
    requireSameSend(first, { message, facts: sendFacts(request, terms.agent, terms.sandbox) });
    return { stored: execution?.stored ?? new StoredTask(this.#components.records, record, [], () => {}) };
  }

  /** The record has the id under which the task is stored, which may lack the node that `id` names. */
  async get(owner: string, id: string): Promise<TaskRecord> {
    return requireOwn(await this.#find(id), owner, id);
  }

  async #find(id: string): Promise<TaskRecord | undefined> {
    const found = this.#running.get(id)?.stored.record ?? (await this.#components.records.load(id));
    if (found) return found;
    const { local, node } = splitTaskId(id);
    // Tasks of earlier releases are stored under ids without a node.
    const isOld = node !== undefined && node === this.#components.nodeKey && splitTaskId(local).node === undefined;
    return isOld ? this.#find(local) : undefined;
  }

  /** Guests cannot be told apart: a guest finds a task by its id, and lists none. */
  async list(owner: string, request: ListTasksRequest): Promise<ListTasksResponse> {
    const records = owner === GUEST.address ? [] : await this.#components.records.list(owner, request);
    const tasks = records.map(({ model: { task } }) => {
      // Every node must find the task by the id that a list shows.
      const id = fullTaskId(task.id, this.#components.nodeKey);
      return id === task.id ? task : { ...task, id };
    });
    return pageOf(tasks, request);
  }

  async cancel(owner: string, id: string): Promise<Task> {
    const record = await this.get(owner, id);
    const { task } = record.model;
    if (task.status.state === 'TASK_STATE_CANCELED') return task;
    if (isTerminal(task.status.state)) {
      throw new EclipticError('TASK_NOT_CANCELABLE', `the task has ended as ${task.status.state}`, { taskId: id });
    }
    // A task that no agent works on any more can still be recorded as canceled.
    const execution = this.#running.get(task.id) ?? this.#executionOf(record);
    await execution.take({ type: 'cancel', at: this.#components.runtime.now() });
    return execution.stored.task;
  }

  /** The task as it is and then its events; or, with `after`, all events since that number. */
  async subscribe(owner: string, id: string, after?: number): Promise<Subscription> {
    const record = await this.get(owner, id);
    if (after === undefined) requireSubscribable(record.model.task);
    const { id: known } = record.model.task;
    const stored = this.#running.get(known)?.stored;
    return this.#follow(known, stored, after ?? snapshot(stored?.record ?? record));
  }

  /** The task as it took the message, and then its events. */
  follow({ stored, since }: Extract<SendResult, { stored: StoredTask }>): Promise<Subscription> {
    return this.#follow(stored.id, stored, since ?? 0);
  }

  async #follow(id: string, stored: StoredTask | undefined, from: TaskEvent | number): Promise<Subscription> {
    const { records } = this.#components;
    // Subscribed before loading, so that no event is missed in between.
    const subscription = new Subscription(stored);
    if (typeof from === 'number') subscription.begin(await records.eventsAfter(id, from));
    else subscription.begin([from, ...(await records.eventsAfter(id, from.sequence))]);
    return subscription;
  }

  async #goOn(owner: string, message: Message): Promise<SendResult> {
    const id = message.taskId!;
    const { model } = await this.get(owner, id);
    requireContinuable(message, model.task);
    const execution = this.#running.get(model.task.id);
    if (execution) return execution.say(message);
    throw new EclipticError('OPERATION_NOT_SUPPORTED', 'no agent works on the task any longer', { taskId: id });
  }

  /** ULIDs of one millisecond are predictable. A guest's task id is its only secret, so it is random. */
  #taskId(owner: string): string {
    const { runtime, nodeKey } = this.#components;
    const secret = owner === GUEST.address;
    return joinTaskId(secret ? Buffer.from(runtime.bytes(SECRET_BYTES)).toString('hex') : runtime.id(), nodeKey);
  }

  /** Begins a task synchronously, over records in memory. */
  start(owner: string, request: SendMessageRequest, terms: SendTerms): StoredTask {
    return this.#create(owner, request, terms, sendFacts(request, terms.agent, terms.sandbox)).start(terms);
  }

  #begin(
    owner: string,
    request: SendMessageRequest,
    terms: SendTerms,
    asked: SendFacts,
    sendKey?: string,
  ): SendResult | Promise<SendResult> {
    if (!this.#shares.hasRoom(owner)) {
      throw new EclipticError('QUEUE_FULL', 'this caller has its share of the tasks that may be under way');
    }
    if (owner !== OPERATOR.address) this.#rate.take(owner, bytesOf(request.message));
    const { timeoutMs, prepare } = terms;
    const eager = request.configuration?.returnImmediately === true || prepare !== undefined;
    const execution = this.#create(owner, request, terms, asked, sendKey);
    return execution.begin({ skill: asked.skill, timeoutMs, eager, prepare });
  }

  #create(
    owner: string,
    { message, metadata: given }: SendMessageRequest,
    { agent: wanted, chain = [], sessionId }: SendTerms,
    asked: SendFacts,
    sendKey?: string,
  ): TaskExecution {
    const { runtime, nodeKey, chooseAgent } = this.#components;
    const agent = chooseAgent({ agent: wanted, skill: asked.skill, caller: owner });
    admitDelegation(chain, fullAddress(agent, nodeKey));
    // The chain stays with the task, so that its agent can extend it.
    const metadata = chain.length > 0 ? withDelegation(given, chain) : given;
    const id = this.#taskId(owner);
    const contextId = contextOf(message, () => runtime.id());
    const at = runtime.now();
    const task = { id, contextId, message: { ...message, taskId: id, contextId }, at, ...(metadata && { metadata }) };
    const about = { owner, agent, sessionId: sessionId ?? runtime.id(), createdAt: at, sendKey: sendKey ?? id, asked };
    return new TaskExecution(this.#components, about, task, this.#listener);
  }

  #executionOf(record: TaskRecord): TaskExecution {
    return TaskExecution.of(this.#components, record, this.#listener);
  }

  #enter(execution: TaskExecution): void {
    this.#running.set(execution.id, execution);
    this.#shares.add(execution.terms.owner, bytesOf(execution.first));
  }

  #leave({ id, terms, first }: TaskExecution): void {
    if (this.#running.delete(id)) this.#shares.remove(terms.owner, bytesOf(first));
  }
}

/** About the bytes of a message: the texts of its parts. */
function bytesOf({ parts }: Message): number {
  let bytes = 0;
  for (const { text, raw, data } of parts) {
    bytes += (text?.length ?? 0) + (raw?.length ?? 0) + (data === undefined ? 0 : JSON.stringify(data).length);
  }
  return bytes;
}

/** A message id is easily guessed, so only an explicit key identifies the send of a guest. */
function keyOf(owner: string, { messageId }: Message, { key }: SendTerms): string | undefined {
  return key ?? (owner === GUEST.address ? undefined : messageId);
}

function snapshot({ model }: TaskRecord): TaskEvent {
  return { sequence: model.sequence, event: { task: model.task } };
}
