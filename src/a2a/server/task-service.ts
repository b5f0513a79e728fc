import { GUEST, OPERATOR, RateLimiter } from '../../http/auth/caller-auth.js';
import { fullAddress } from '../../mesh/address.js';
import { EclipticError } from '../../runtime/errors.js';
import { type Amount, FairShares } from '../../runtime/fair-shares.js';
import { admitDelegation, type DelegationChain, withDelegation } from '../protocol/delegation.js';
import { pageOf } from '../protocol/task-list.js';
import { createTask, type TaskEvent } from '../protocol/task-machine.js';
import {
  contextOf,
  isTerminal,
  requireContinuable,
  requireOwn,
  requireSameSend,
  requireSubscribable,
  type SendFacts,
  sendFacts,
  taskNotFound,
} from '../protocol/task-rules.js';
import type {
  ListTasksRequest,
  ListTasksResponse,
  Message,
  SendMessageRequest,
  Task,
  TaskState,
} from '../protocol/types.js';
import { StoredTask, Subscription } from './stored-task.js';
import { type SendResult, TaskExecution, type TaskExecutionComponents } from './task-execution.js';
import type { TaskRecord, TaskRecords } from './task-records.js';

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

  /** Restores a send of an earlier run. */
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
  /** Called for every new task, and awaited for one that resumes after a restart. */
  onTask: (stored: StoredTask, resumed: boolean) => void | Promise<void>;
  /** Tasks under way, and the bytes of the messages that opened them, shared among callers. */
  underWay?: Amount;
}

export interface AgentRequest {
  readonly agent: string | undefined;
  readonly skill: string | undefined;
}

export interface SendTerms {
  /** Sends of one caller with the same key are the same task. */
  readonly key?: string;
  readonly agent?: string;
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
  #closed = false;

  constructor(components: TaskServiceComponents) {
    this.#components = components;
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

  /** Throws synchronously if the request is refused. */
  send(owner: string, request: SendMessageRequest, terms: SendTerms = {}): Promise<SendResult> {
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

  /** Continues a task that waits for its caller. */
  async answer(owner: string, id: string, text: string): Promise<void> {
    const messageId = this.#components.runtime.id();
    await this.send(owner, { message: { messageId, role: 'ROLE_USER', parts: [{ text }], taskId: id } });
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
    requireSameSend(first, { message, facts: sendFacts(request, terms.agent) });
    return { stored: execution?.stored ?? new StoredTask(this.#components.records, record, [], () => {}) };
  }

  async get(owner: string, id: string): Promise<TaskRecord> {
    const stored = this.#running.get(id)?.stored;
    return requireOwn(stored?.record ?? (await this.#components.records.load(id)), owner, id);
  }

  /** Guests cannot be told apart: a guest finds a task by its id, and lists none. */
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
    // A task that no agent works on any more can still be recorded as canceled.
    const execution = this.#running.get(id) ?? this.#executionOf(record);
    await execution.take({ type: 'cancel', at: this.#components.runtime.now() });
    return execution.stored.task;
  }

  /** The task as it is and then its events; or, with `after`, all events since that number. */
  async subscribe(owner: string, id: string, after?: number): Promise<Subscription> {
    const record = await this.get(owner, id);
    if (after === undefined) requireSubscribable(record.model.task);
    const stored = this.#running.get(id)?.stored;
    return this.#follow(id, stored, after ?? snapshot(stored?.record ?? record));
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
    const execution = this.#running.get(id);
    if (execution) return execution.say(message);
    throw new EclipticError('OPERATION_NOT_SUPPORTED', 'no agent works on the task any longer', { taskId: id });
  }

  /** ULIDs of one millisecond are predictable. A guest's task id is its only secret, so it is random. */
  #taskId(owner: string): string {
    const { runtime } = this.#components;
    return owner === GUEST.address ? Buffer.from(runtime.bytes(SECRET_BYTES)).toString('hex') : runtime.id();
  }

  /** Begins a task synchronously, over records in memory. */
  start(owner: string, request: SendMessageRequest, terms: SendTerms): StoredTask {
    return this.#create(owner, request, terms, sendFacts(request, terms.agent)).start(terms);
  }

  #begin(
    owner: string,
    request: SendMessageRequest,
    terms: SendTerms,
    asked: SendFacts,
    sendKey?: string,
  ): Promise<SendResult> {
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
    const { runtime, nodeKey, chooseAgent, onTask } = this.#components;
    const agent = chooseAgent({ agent: wanted, skill: asked.skill });
    admitDelegation(chain, fullAddress(agent, nodeKey));
    // The chain stays with the task, so that its agent can extend it.
    const metadata = chain.length > 0 ? withDelegation(given, chain) : given;
    const id = this.#taskId(owner);
    const contextId = contextOf(message, () => runtime.id());
    const at = runtime.now();
    const { model, events } = createTask({ id, contextId, message, at, ...(metadata && { metadata }) });
    const about = { owner, agent, sessionId: sessionId ?? runtime.id(), createdAt: at, sendKey: sendKey ?? id, asked };
    const record: TaskRecord = { ...about, resumable: false, model };
    const listener = {
      made: (execution: TaskExecution) => {
        this.#enter(execution);
        void onTask(execution.stored, false);
      },
      over: () => {
        this.#leave(record);
        if (sendKey !== undefined) this.#keys.end(`${owner} ${sendKey}`, id);
      },
    };
    return new TaskExecution(this.#components, record, listener, events);
  }

  #executionOf(record: TaskRecord): TaskExecution {
    return new TaskExecution(this.#components, record, { made: () => {}, over: () => this.#leave(record) });
  }

  #enter(execution: TaskExecution): void {
    const { record } = execution.stored;
    this.#running.set(execution.stored.id, execution);
    this.#shares.add(record.owner, openingBytes(record));
  }

  #leave(record: TaskRecord): void {
    if (this.#running.delete(record.model.task.id)) this.#shares.remove(record.owner, openingBytes(record));
  }
}

function openingBytes(record: TaskRecord): number {
  return bytesOf(record.model.task.history![0]!);
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

export interface OperatorTasksComponents {
  tasks: TaskService;
  records: TaskRecords;
}

export interface TaskFilter {
  readonly state?: TaskState;
  readonly caller?: string;
  readonly limit: number;
}

/** The tasks of every caller, for the node's owner. */
export class OperatorTasks {
  readonly #components: OperatorTasksComponents;

  constructor(components: OperatorTasksComponents) {
    this.#components = components;
  }

  async list({ state, caller, limit }: TaskFilter): Promise<TaskRecord[]> {
    const found = await this.#components.records.list(caller, { ...(state && { status: state }) }, limit);
    return found.slice(0, limit);
  }

  idsBeginning(prefix: string, limit: number): Promise<string[]> {
    return this.#components.records.idsBeginning(prefix, limit);
  }

  async get(id: string): Promise<TaskRecord> {
    return this.#components.tasks.get(await this.#ownerOf(id), id);
  }

  /** Everything that was published about a task, oldest first. */
  events(id: string): Promise<TaskEvent[]> {
    return this.#components.records.eventsAfter(id, 0);
  }

  async cancel(id: string): Promise<Task> {
    return this.#components.tasks.cancel(await this.#ownerOf(id), id);
  }

  /** Answers the question of a task that the owner gave. */
  async answer(id: string, text: string): Promise<Task> {
    const owner = await this.#ownerOf(id);
    if (owner !== OPERATOR.address) {
      throw new EclipticError('SENDER_REFUSED', `the task is of ${owner}, who must answer its question`, {
        taskId: id,
      });
    }
    await this.#components.tasks.answer(owner, id, text);
    return (await this.#components.tasks.get(owner, id)).model.task;
  }

  async follow(id: string, after: number): Promise<Subscription> {
    return this.#components.tasks.subscribe(await this.#ownerOf(id), id, after);
  }

  /** A task is stored before its id is shown, so its record can be found. */
  async #ownerOf(id: string): Promise<string> {
    const record = await this.#components.records.load(id);
    if (!record) throw taskNotFound(id);
    return record.owner;
  }
}
