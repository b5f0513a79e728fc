import type { TaskCall, TaskCallListener } from '../../agent/task-call.js';
import { TASK, type TaskOpening } from '../../agent/task-messages.js';
import { addUsage, NO_USAGE, USAGE, type Usage, usageIn } from '../../agent/usage.js';
import { weighJson } from '../../mesh/json-value.js';
import { LIMITS } from '../../mesh/limits.js';
import { Deadline, type DeadlineQueue } from '../../runtime/deadlines.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { exchangesOf, type TaskEvent, type TaskInput } from '../protocol/task-machine.js';
import { isInterrupted, requireSameMessage } from '../protocol/task-rules.js';
import type { Message, Part } from '../protocol/types.js';
import { StoredTask } from './stored-task.js';
import type { TaskRecord, TaskRecords } from './task-records.js';

export interface TaskExecutionComponents {
  runtime: Runtime;
  deadlines: Pick<DeadlineQueue, 'add' | 'remove'>;
  records: TaskRecords;
  startCall: (record: TaskRecord, opening: TaskOpening, listener: TaskCallListener) => AgentCall;
  limits?: TaskTimeLimits;
}

export type AgentCall = Pick<TaskCall, 'busy' | 'work' | 'say' | 'stop'>;

export interface TaskTimeLimits {
  /** How long an agent may work without any progress. Default 5 minutes. */
  idleMs?: number;
  /** How long a task may wait for its caller. Default 24 hours. */
  questionMs?: number;
}

/** Notified when the execution becomes a task, and when it is over. */
export interface TaskExecutionListener {
  made(work: TaskExecution): void;
  over(work: TaskExecution): void;
}

export interface TaskTerms {
  readonly skill?: string;
  /** For the whole task, including the time it waits for its caller. Without it, waiting has a limit of its own. */
  readonly timeoutMs?: number;
}

export interface TaskStart extends TaskTerms {
  /** Create a task even if the agent answers at once. */
  readonly eager: boolean;
  /** Runs after the task is stored and before its agent begins. */
  readonly prepare?: (taskId: string) => Promise<void>;
}

/** The result of a send: a task, with its state after it took the message, or the agent's answer alone. */
export type SendResult = { readonly stored: StoredTask; readonly since?: TaskEvent } | { readonly message: Message };

const IDLE_MS = 5 * 60_000;
const QUESTION_MS = 24 * 60 * 60_000;
/** An agent that is silent for this long gets a task, which shows that it works. A faster answer needs neither. */
const SILENT_MS = 50;
/** Messages that may wait for the agent's next turn. */
const MAX_PENDING = 100;

/** One task and the call of the agent that works on it. */
export class TaskExecution extends Deadline {
  readonly stored: StoredTask;
  readonly #components: TaskExecutionComponents;
  readonly #listener: TaskExecutionListener;
  readonly #record: TaskRecord;
  #call: AgentCall | undefined;
  #idleMs: number;
  #questionMs: number;
  /** The caller set a limit for the whole task; progress does not extend it. */
  #fixed = false;
  /** The current time limit and its start. */
  #limitMs = 0;
  #since = 0;
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
  #tell: ((sent: SendResult | Promise<SendResult>) => void) | undefined;

  constructor(
    components: TaskExecutionComponents,
    record: TaskRecord,
    listener: TaskExecutionListener,
    events: readonly TaskEvent[] = [],
  ) {
    super();
    this.#components = components;
    this.#record = record;
    this.#listener = listener;
    const { idleMs = IDLE_MS, questionMs = QUESTION_MS } = components.limits ?? {};
    this.#idleMs = idleMs;
    this.#questionMs = questionMs;
    this.stored = new StoredTask(components.records, record, events, () => this.#call?.stop());
  }

  /** Calls the agent. Throws for a message that fits no envelope. */
  begin({ eager, prepare, ...terms }: TaskStart): Promise<SendResult> {
    this.#setLimits(terms);
    const opening = this.#opening(this.#firstMessage, { skill: terms.skill });
    requireRoom(opening);
    if (eager) return this.#beginEagerly(opening, prepare);
    return new Promise((resolve) => {
      this.#tell = resolve;
      this.#start(opening);
      if (this.#made === 'not yet') this.#components.deadlines.add(this, SILENT_MS);
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
  start(terms: TaskTerms): StoredTask {
    this.#setLimits(terms);
    this.#begun = true;
    this.#make();
    this.#showWork();
    this.#start(this.#opening(this.#firstMessage, { skill: terms.skill }));
    return this.stored;
  }

  /** After a restart: resumes the task if its agent can, else fails it. */
  async resume(): Promise<void> {
    this.#made = 'task';
    this.#restarted = true;
    this.#usage = usageIn({ [USAGE]: this.stored.task.metadata?.usage });
    const { runtime } = this.#components;
    if (!this.#record.resumable) {
      const reason = 'The node stopped while the agent worked';
      return this.take({ type: 'crash', at: runtime.now(), reason });
    }
    // A question still waits for its answer; the agent is called then.
    if (isInterrupted(this.stored.state)) this.#limit(this.#questionMs, this.#record.model.at);
    else this.#startAgain();
  }

  /** Calls the agent with the task, the answers to its questions, and the other messages. */
  #startAgain(): void {
    const { model, asked } = this.stored.record;
    const { answers, others } = exchangesOf(model);
    const { runtime } = this.#components;
    this.#limit(this.#idleMs, runtime.now());
    this.#start({ ...this.#opening(this.#firstMessage, { skill: asked?.skill, resumed: true }), answers });
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
    const opening = this.#opening(message, {});
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
    this.#limit(this.#idleMs, runtime.now());
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
    else if (this.#made === 'message' || this.stored.over) this.#call?.stop();
    else if (this.#silent && runtime.now() - this.#since >= this.#limitMs) {
      this.#keep(this.stored.take({ type: 'timeout', at: runtime.now() }));
    } else {
      this.#showWork();
      this.#limit(this.#limitMs, this.#since);
    }
  }

  /** Starts a time limit at `since`. Progress moves `#since` without touching the deadline queue. */
  #limit(limitMs: number, since: number): void {
    const { deadlines, runtime } = this.#components;
    this.#limitMs = limitMs;
    this.#since = since;
    deadlines.remove(this);
    deadlines.add(this, Math.max(0, since + limitMs - runtime.now()));
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

  #setLimits({ timeoutMs }: TaskTerms): void {
    if (timeoutMs === undefined) return;
    this.#fixed = true;
    this.#idleMs = timeoutMs;
    this.#questionMs = timeoutMs;
  }

  #make(): void {
    this.#made = 'task';
    this.#limit(this.#idleMs, this.#components.runtime.now());
    this.#listener.made(this);
    const kept = this.#usage ? this.#showUsage(this.#usage) : this.stored.saved();
    this.#keep(kept);
    this.#tell?.(kept.then(() => ({ stored: this.stored })));
  }

  get #firstMessage(): Message {
    return this.stored.task.history![0]!;
  }

  #opening(message: Message, { skill, resumed }: { skill?: string; resumed?: boolean }): TaskOpening {
    const { id, contextId, metadata } = this.stored.task;
    return {
      id,
      contextId,
      message,
      ...(skill !== undefined && { skill }),
      ...(resumed && { resumed }),
      ...(metadata && { metadata }),
    };
  }

  #start(opening: TaskOpening): void {
    const { runtime, startCall, deadlines } = this.#components;
    const call = startCall(this.#record, opening, {
      accepted: (resumable) => this.#accepted(resumable),
      begun: () => this.#workBegun(),
      took: (messageId) => this.#took(messageId),
      usage: (usage) => this.#used(usage),
      message: (parts) => this.#answered(parts),
      input: (input) => this.#hear(input),
      ended: (error) => this.#hear(endOf(error, runtime.now())),
    });
    this.#call = call;
    void call.work().then(() => {
      if (this.#made === 'message' || this.stored.over) deadlines.remove(this);
    });
  }

  #accepted(resumable: boolean): void {
    if (!resumable || this.#record.resumable) return;
    this.stored.setResumable();
    if (this.#made === 'task') this.#keep(this.stored.saved());
  }

  #workBegun(): void {
    this.#begun = true;
    if (this.#made === 'task' && this.#silent) this.#showWork();
  }

  #took(messageId: string): void {
    const index = this.#pending.findIndex((message) => message.messageId === messageId);
    if (index >= 0) this.#pending.splice(index, 1);
  }

  /** A report of usage makes no task: the agent may still answer with a message alone. */
  #used(usage: Usage): void {
    this.#usage = addUsage(this.#usage ?? NO_USAGE, usage);
    if (this.#made !== 'task' || this.stored.over) return;
    if (!this.#fixed && !isInterrupted(this.stored.state)) this.#since = this.#components.runtime.now();
    this.#keep(this.#showUsage(this.#usage));
  }

  #showUsage(usage: Usage): Promise<void> {
    return this.stored.take({
      type: 'metadata',
      at: this.#components.runtime.now(),
      metadata: { usage: { ...usage } },
    });
  }

  /** The agent ended its turn, and messages of the caller are waiting. */
  #nextTurn(): void {
    const message = this.#pending.shift()!;
    if (!this.#fixed) this.#since = this.#components.runtime.now();
    this.#start(this.#opening(message, {}));
  }

  #answered(parts: readonly Part[]): void {
    const { runtime } = this.#components;
    const { contextId } = this.stored.task;
    const message: Message = { messageId: runtime.id(), role: 'ROLE_AGENT', parts, contextId };
    if (this.#made === 'not yet') {
      this.#made = 'message';
      this.#limit(this.#idleMs, runtime.now());
      this.#tell?.({ message: this.#usage ? { ...message, metadata: { usage: { ...this.#usage } } } : message });
    } else if (this.#pending.length > 0) this.#hear({ type: 'agent-message', at: runtime.now(), message });
    else this.#hear({ type: 'status', at: runtime.now(), state: 'TASK_STATE_COMPLETED', message });
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
    if (!this.#fixed && !waited) this.#since = input.at;
    let kept: Promise<void>;
    try {
      kept = stored.take(input);
    } catch (error) {
      // The task exceeds its limits.
      this.#call?.stop();
      kept = stored.take({ type: 'crash', at: input.at, reason: describeError(error) });
    }
    if (isInterrupted(stored.state)) this.#limit(this.#questionMs, input.at);
    else if (waited && !stored.over) this.#limit(this.#idleMs, input.at);
    this.#keep(kept);
  }

  #keep(kept: Promise<void>): void {
    // Records in memory are saved synchronously.
    if (this.stored.told) this.#end();
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

function endOf(error: unknown, at: number): TaskInput {
  return error === undefined ? { type: 'exit', at, code: 0 } : { type: 'crash', at, reason: describeError(error) };
}

/** A message must fit one envelope; a larger one is refused while the caller can still be told. */
function requireRoom(opening: TaskOpening): void {
  const weighed = weighJson({ [TASK]: opening });
  if (typeof weighed === 'number') return;
  const { problem } = weighed;
  throw new EclipticError('PAYLOAD_TOO_LARGE', `the message ${problem}`, { maxBytes: LIMITS.payloadBytes });
}
