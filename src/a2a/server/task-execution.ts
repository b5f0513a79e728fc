import type { TaskCallListener } from '../../agent/task-call.js';
import type { TaskOpening, TaskSession } from '../../agent/task-messages.js';
import { addUsage, NO_USAGE, USAGE, type Usage, usageIn } from '../../agent/usage.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import { createTask, exchangesOf, type NewTask, type TaskEvent, type TaskInput } from '../protocol/task-machine.js';
import { isInterrupted, requireSameMessage } from '../protocol/task-rules.js';
import type { Artifact, Message, Metadata, Part } from '../protocol/types.js';
import { STORED, StoredTask } from './stored-task.js';
import type { TaskOrigin, TaskRecord, TaskTerms } from './task-records.js';
import {
  type AgentCall,
  endOf,
  requireRoom,
  type SendResult,
  type TaskExecutionComponents,
  type TaskExecutionListener,
  type TaskStart,
  type WorkTerms,
} from './task-terms.js';
import { MAX_HELD_MS, TimedExecution } from './timed-execution.js';

/** An agent that is silent for this long gets a task, which shows that it works. A faster answer needs neither. */
const SILENT_MS = 50;
/** Messages that may wait for the agent's next turn. */
const MAX_PENDING = 100;

/** One task and the call of the agent that works on it. */
export class TaskExecution extends TimedExecution implements TaskCallListener {
  readonly terms: TaskTerms;
  readonly #components: TaskExecutionComponents;
  readonly #listener: TaskExecutionListener<TaskExecution>;
  readonly #task: NewTask;
  /** Made when it is needed: for an agent that answers with a message alone, never. */
  #stored: StoredTask | undefined;
  #call: AgentCall | undefined;
  /** The agent has started. */
  #begun = false;
  /** The time for an immediate answer is over. */
  #silent = false;
  /** The task comes from an earlier run of the node. */
  #restarted = false;
  /** Messages that no handler has taken yet, oldest first. */
  readonly #pending: Message[] = [];
  /** What the first message led to. */
  #made: 'not yet' | 'message' | 'task' = 'not yet';
  /** What the agent's work cost so far. */
  #usage: Usage | undefined;
  /** The result of the send that began it, if that came before `begin` returned. */
  #sent: SendResult | Promise<SendResult> | undefined;
  /** Does that send wait? */
  #awaited = false;
  /** Further facts about the work, for the task's metadata. */
  #facts: Metadata | undefined;
  #tell: ((sent: SendResult | Promise<SendResult>) => void) | undefined;

  constructor(
    components: TaskExecutionComponents,
    terms: TaskTerms,
    task: NewTask,
    listener: TaskExecutionListener<TaskExecution>,
  ) {
    super(components);
    this.#components = components;
    this.terms = terms;
    this.#task = task;
    this.#listener = listener;
  }

  /** A task of an earlier run, or one whose agent is gone. */
  static of(
    components: TaskExecutionComponents,
    record: TaskRecord,
    listener: TaskExecutionListener<TaskExecution>,
  ): TaskExecution {
    const { task, at } = record.model;
    const { id, contextId, metadata } = task;
    const known: NewTask = { id, contextId, message: task.history![0]!, at, ...(metadata && { metadata }) };
    const execution = new TaskExecution(components, record, known, listener);
    execution.#stored = execution.#keeping(record, []);
    return execution;
  }

  get id(): string {
    return this.#task.id;
  }

  /** The message that opened it. */
  get first(): Message {
    return this.#task.message;
  }

  get stored(): StoredTask {
    this.#stored ??= this.#create();
    return this.#stored;
  }

  #create(): StoredTask {
    const { terms } = this;
    const task = this.#task;
    const { model, events } = createTask(task);
    return this.#keeping({ ...terms, resumable: false, model }, events, { terms, task });
  }

  #keeping(record: TaskRecord, events: readonly TaskEvent[], origin?: TaskOrigin): StoredTask {
    return new StoredTask(this.#components.records, record, events, () => this.#stopCall(), origin);
  }

  /** Calls the agent. Returns the result itself if the agent answers at once. Throws for a message that fits no envelope. */
  begin({ eager, prepare, skill, timeoutMs }: TaskStart): SendResult | Promise<SendResult> {
    this.setLimits(timeoutMs);
    const opening = this.#opening(this.first, skill);
    requireRoom(opening);
    if (eager) return this.#beginEagerly(opening, prepare);
    this.#awaited = true;
    this.#start(opening);
    if (this.#sent) return this.#sent;
    this.#components.deadlines.add(this, SILENT_MS);
    return new Promise((resolve) => {
      this.#tell = resolve;
    });
  }

  async #beginEagerly(opening: TaskOpening, prepare: TaskStart['prepare']): Promise<SendResult> {
    this.#make();
    await this.stored.saved();
    await this.#prepare(prepare);
    if (this.stored.over) return { stored: this.stored };
    this.#start(opening);
    this.#components.deadlines.remove(this);
    this.#components.deadlines.add(this, SILENT_MS);
    return { stored: this.stored };
  }

  /** Calls the agent synchronously, for records that are saved synchronously. The task is working when this returns. */
  start(terms: WorkTerms): StoredTask {
    this.setLimits(terms.timeoutMs);
    this.#begun = true;
    this.#make();
    this.#showWork();
    this.#start(this.#opening(this.first, terms.skill));
    return this.stored;
  }

  /** After a restart: resumes the task if its agent can, else fails it. */
  async resume(): Promise<void> {
    this.#made = 'task';
    this.#restarted = true;
    const { model, resumable } = this.stored.record;
    this.#usage = usageIn({ [USAGE]: model.task.metadata?.usage });
    const { runtime } = this.#components;
    if (!resumable) {
      const reason = 'The node stopped while the agent worked';
      return this.take({ type: 'crash', at: runtime.now(), reason });
    }
    // A question still waits for its answer; the agent is called then.
    if (isInterrupted(this.stored.state)) this.limit(this.questionMs, model.at);
    else this.#startAgain();
  }

  /** Calls the agent with the task, the answers to its questions, and the other messages. */
  #startAgain(): void {
    const { model, asked } = this.stored.record;
    const { answers, others } = exchangesOf(model);
    const { runtime } = this.#components;
    this.limit(this.idleMs, runtime.now());
    this.#start({ ...this.#opening(this.first, asked?.skill), resumed: true, answers });
    this.#pending.push(...others);
    for (const message of others) void this.#call!.say(message).catch(() => {});
  }

  /** Applies an input from outside. Rejects if the machine refuses it. */
  async take(input: TaskInput): Promise<void> {
    try {
      await this.stored.take(input);
    } finally {
      if (this.stored.told) this.#end();
    }
  }

  /** Takes a further message of the caller. A repeated message is not delivered twice. */
  async say(message: Message): Promise<SendResult> {
    const { stored } = this;
    const { runtime } = this.#components;
    const opening = this.#opening(message);
    requireRoom(opening);
    const key = message.messageId;
    const answers = isInterrupted(stored.state);
    if (!answers && this.#pending.length >= MAX_PENDING) {
      throw new EclipticError('QUEUE_FULL', `${MAX_PENDING} messages are waiting for the agent`, {
        taskId: stored.id,
      });
    }
    const again = stored.knows(key);
    const known = stored.messageOf(key);
    if (known) requireSameMessage(known, message);
    const kept = this.take({ type: 'user-message', at: runtime.now(), message, key });
    // Queued before the write, so that an agent that ends its turn meanwhile gets another one.
    if (!answers && !again) this.#pending.push(message);
    await kept;
    const { model } = stored.record;
    const since: TaskEvent = { sequence: model.sequence, event: { task: model.task } };
    if (again || stored.over) return { stored, since };
    this.limit(this.idleMs, runtime.now());
    if (answers) {
      if (this.#call?.busy) await this.#call.say(message);
      else if (this.#restarted && !this.#call) this.#startAgain();
      // An agent that ended its turn with a question gets the answer as a new turn.
      else this.#start(opening);
    } else if (this.#pending.includes(message)) await this.#call?.say(message);
    return { stored, since };
  }

  override expire(): void {
    const { runtime } = this.#components;
    if (this.#made === 'not yet') {
      this.#make();
      this.#showWork();
    }
    // The agent has answered but does not end its turn.
    else if (this.#made === 'message' || this.stored.over) this.#stopCall();
    else if (this.#silent && runtime.now() - (this.heldAt ?? Number.NEGATIVE_INFINITY) < MAX_HELD_MS) {
      this.rearm(this.limitMs);
    } else if (this.#silent && runtime.now() - this.since >= this.limitMs) {
      this.#keep(this.stored.take({ type: 'timeout', at: runtime.now() }));
    } else {
      this.#showWork();
      this.limit(this.limitMs, this.since);
    }
  }

  /** Shows a silent agent's task as working. */
  #showWork(): void {
    this.#silent = true;
    if (!this.#begun || this.stored.state !== 'TASK_STATE_SUBMITTED') return;
    this.#keep(this.stored.take({ type: 'started', at: this.#components.runtime.now() }));
  }

  /** The node stops: ends the call and leaves the task as it is stored. */
  abandon(): void {
    this.#components.deadlines.remove(this);
    this.#call?.stop();
  }

  async #prepare(prepare: TaskStart['prepare']): Promise<void> {
    try {
      await prepare?.(this.stored.id);
    } catch (error) {
      await this.take({ type: 'crash', at: this.#components.runtime.now(), reason: describeError(error) });
      throw error;
    }
  }

  /** The send has led to a task. With `result`, its agent is done already: the task is stored once. */
  #make(result?: TaskInput): void {
    this.#made = 'task';
    if (!result) this.limit(this.idleMs, this.#components.runtime.now());
    this.#listener.made(this, result !== undefined);
    let kept = this.#facts ? this.#show(this.#facts) : STORED;
    if (result) kept = this.#takeWithin(result);
    else if (!this.#facts) kept = this.stored.saved();
    this.#keep(kept);
    if (!this.#awaited) return;
    const sent = { stored: this.stored };
    this.#settle(kept === STORED ? sent : kept.then(() => sent));
  }

  #settle(sent: SendResult | Promise<SendResult>): void {
    if (this.#tell) this.#tell(sent);
    else this.#sent = sent;
  }

  #opening(message: Message, skill?: string): TaskOpening {
    const { id, contextId } = this.#task;
    const metadata = this.#stored ? this.#stored.task.metadata : this.#task.metadata;
    if (skill === undefined && metadata === undefined) return { id, contextId, message };
    return { id, contextId, message, ...(skill !== undefined && { skill }), ...(metadata && { metadata }) };
  }

  #start(opening: TaskOpening): void {
    const call = this.#components.startCall(this.terms, opening, this);
    this.#call = call;
    call.work();
  }

  #stopCall(): void {
    this.#call?.stop();
    this.#forgetLimit();
  }

  /** Nothing is left to wait for. */
  #forgetLimit(): void {
    if (this.#made === 'message' || this.stored.over) this.#components.deadlines.remove(this);
  }

  /** @internal */
  accepted(resumable: boolean): void {
    if (!resumable || this.stored.record.resumable) return;
    this.stored.setResumable();
    if (this.#made === 'task') this.#keep(this.stored.saved());
  }

  /** @internal */
  begun(): void {
    this.#begun = true;
    if (this.#made === 'task' && this.#silent) this.#showWork();
  }

  /** @internal */
  took(messageId: string): void {
    const index = this.#pending.findIndex((message) => message.messageId === messageId);
    if (index >= 0) this.#pending.splice(index, 1);
  }

  /** @internal A report of usage makes no task: the agent may still answer with a message alone. */
  usage(usage: Usage): void {
    this.#usage = addUsage(this.#usage ?? NO_USAGE, usage);
    this.#noted({ usage: { ...this.#usage } });
  }

  /** @internal */
  session(session: TaskSession): void {
    this.#noted({ session: { ...session } });
  }

  #noted(facts: Metadata): void {
    this.#facts = { ...this.#facts, ...facts };
    if (this.#made !== 'task' || this.stored.over) return;
    if (!this.fixed && !isInterrupted(this.stored.state)) this.since = this.#components.runtime.now();
    this.#keep(this.#show(facts));
  }

  #show(metadata: Metadata): Promise<void> {
    return this.stored.take({ type: 'metadata', at: this.#components.runtime.now(), metadata });
  }

  /** The agent ended its turn, and messages of the caller are waiting. */
  #nextTurn(): void {
    const message = this.#pending.shift()!;
    if (!this.fixed) this.since = this.#components.runtime.now();
    this.#start(this.#opening(message));
  }

  /** @internal */
  message(parts: readonly Part[]): void {
    const { runtime } = this.#components;
    const { contextId } = this.#task;
    const message: Message = { messageId: runtime.id(), role: 'ROLE_AGENT', parts, contextId };
    if (this.#made === 'not yet') {
      this.#made = 'message';
      // It may still have something to do.
      if (this.#call?.busy) this.limit(this.idleMs, runtime.now());
      this.#settle({ message: this.#usage ? { ...message, metadata: { usage: { ...this.#usage } } } : message });
    } else if (this.#pending.length > 0) this.#hear({ type: 'agent-message', at: runtime.now(), message });
    else this.#hear({ type: 'status', at: runtime.now(), state: 'TASK_STATE_COMPLETED', message });
  }

  /** @internal */
  ended(error?: unknown): void {
    this.#hear(endOf(error, this.#components.runtime.now()));
    this.#forgetLimit();
  }

  /** @internal */
  input(input: TaskInput): void {
    this.#hear(input);
  }

  /** @internal The agent is done at once, or with its first words. */
  result(artifact: Artifact): void {
    const at = this.#components.runtime.now();
    if (this.#pending.length > 0) {
      this.#hear({ type: 'artifact', at, artifact });
      this.#hear({ type: 'exit', at, code: 0 });
    } else if (this.#made === 'not yet') this.#make({ type: 'result', at, artifact });
    else this.#hear({ type: 'result', at, artifact });
    this.#forgetLimit();
  }

  #hear(input: TaskInput): void {
    if (this.#made === 'message') return;
    if (this.#made === 'not yet') this.#make();
    const { stored } = this;
    if (input.type === 'exit' && input.code === 0 && this.#pending.length > 0 && !isInterrupted(stored.state)) {
      if (!stored.over) this.#nextTurn();
      return;
    }
    const waited = isInterrupted(stored.state);
    if (!this.fixed && !waited) this.since = input.at;
    const kept = this.#takeWithin(input);
    if (isInterrupted(stored.state)) this.limit(this.questionMs, input.at);
    else if (waited && !stored.over) this.limit(this.idleMs, input.at);
    this.#keep(kept);
  }

  #takeWithin(input: TaskInput): Promise<void> {
    try {
      return this.stored.take(input);
    } catch (error) {
      // The task exceeds its limits.
      this.#stopCall();
      return this.stored.take({ type: 'crash', at: input.at, reason: describeError(error) });
    }
  }

  #keep(kept: Promise<void>): void {
    // Records in memory are saved synchronously.
    if (this.stored.told) this.#end();
    if (kept === STORED) return;
    kept.then(
      () => {
        if (this.stored.told) this.#end();
      },
      (err) => {
        this.#components.runtime.logger.error({ task: this.stored.id, err }, 'task not saved');
        this.#end();
      },
    );
  }

  #end(): void {
    if (!this.#call?.busy) this.#components.deadlines.remove(this);
    this.#listener.over(this);
  }
}
