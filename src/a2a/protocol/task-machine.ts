import type { ErrorCode } from '../../runtime/errors.js';
import { A2A_LIMITS } from './limits.js';
import { writeTimestamp } from './reading.js';
import { isInterrupted, isTerminal, type TerminalState } from './task-rules.js';
import type {
  Artifact,
  Message,
  Metadata,
  Part,
  StreamResponse,
  Task,
  TaskArtifactUpdateEvent,
  TaskState,
  TaskStatus,
} from './types.js';

/**
 * The state machine of one task, without side effects: state and input in; next state, events and effects out. A task
 * only moves forward, ends once, and ignores everything after that, also late or repeated input. The model is plain
 * JSON, so that it can be stored.
 */
export interface TaskModel {
  readonly task: Task;
  /** The number of the last event; creating the task was number 1. */
  readonly sequence: number;
  /** When the status was set, in milliseconds; never decreases. */
  readonly at: number;
  /** Artifacts whose last chunk has arrived. */
  readonly closed: readonly string[];
  /** Keys of recent inputs, oldest first. */
  readonly seen: readonly string[];
  /** Ids of recent messages that answered a question, oldest first. */
  readonly answers?: readonly string[];
}

export interface TaskLimits {
  readonly historyMessages: number;
  readonly artifacts: number;
  readonly artifactParts: number;
}

/** When the input arrived, and a key by which a repetition is recognized. */
interface Arrival {
  readonly at: number;
  readonly key?: string;
}

export type TaskInput = Arrival &
  (
    | { readonly type: 'started' }
    /** The agent reports a state, possibly with a message. */
    | { readonly type: 'status'; readonly state: TaskState; readonly message?: Message; readonly metadata?: Metadata }
    | {
        readonly type: 'artifact';
        readonly artifact: Artifact;
        readonly append?: boolean;
        readonly lastChunk?: boolean;
        readonly metadata?: Metadata;
      }
    /** All that the agent made, after which it is done: an artifact and an exit with code 0, in one step. */
    | { readonly type: 'result'; readonly artifact: Artifact }
    /** Facts about the task, which its readers see with the task and not as an event. */
    | { readonly type: 'metadata'; readonly metadata: Metadata }
    | { readonly type: 'agent-message'; readonly message: Message }
    | { readonly type: 'input-required'; readonly message: Message }
    | { readonly type: 'auth-required'; readonly message: Message }
    | { readonly type: 'user-message'; readonly message: Message }
    | { readonly type: 'cancel' }
    | { readonly type: 'timeout' }
    | { readonly type: 'crash'; readonly reason: string }
    | { readonly type: 'exit'; readonly code: number | null; readonly signal?: string | undefined }
  );

export interface TaskEvent {
  readonly sequence: number;
  readonly event: StreamResponse;
}

/** `stop-agent`: end the work on the task. */
export type TaskEffect = 'stop-agent';

export type TaskStep =
  | {
      readonly outcome: 'applied';
      readonly model: TaskModel;
      readonly events: readonly TaskEvent[];
      readonly effects: readonly TaskEffect[];
    }
  /** Late, repeated, or without change. */
  | { readonly outcome: 'ignored'; readonly model: TaskModel }
  | { readonly outcome: 'refused'; readonly model: TaskModel; readonly code: ErrorCode; readonly reason: string };

export interface NewTask {
  readonly id: string;
  readonly contextId: string;
  readonly message: Message;
  readonly at: number;
  readonly metadata?: Metadata;
}

/** Repetitions arrive soon after the original. */
const REMEMBERED_KEYS = 256;

export function createTask({ id, contextId, message, at, metadata }: NewTask): {
  readonly model: TaskModel;
  readonly events: readonly TaskEvent[];
} {
  const status: TaskStatus = { state: 'TASK_STATE_SUBMITTED', timestamp: writeTimestamp(at) };
  const isComplete = message.taskId === id && message.contextId === contextId;
  const history = [isComplete ? message : { ...message, taskId: id, contextId }];
  const task: Task = metadata ? { id, contextId, status, history, metadata } : { id, contextId, status, history };
  const model: TaskModel = { task, sequence: 1, at, closed: [], seen: [message.messageId] };
  return { model, events: [{ sequence: 1, event: { task } }] };
}

export function stepTask(model: TaskModel, input: TaskInput, limits: TaskLimits = A2A_LIMITS): TaskStep {
  const { key } = input;
  if (key !== undefined && model.seen.includes(key)) return ignored(model);
  const step = isTerminal(model.task.status.state) ? afterTheEnd(model, input) : decide(model, input, limits);
  if (key === undefined || step.outcome !== 'applied') return step;
  return { ...step, model: { ...step.model, seen: [...step.model.seen, key].slice(-REMEMBERED_KEYS) } };
}

/** Canceling a canceled task is no error. Other requests are refused, and reports of the agent are dropped. */
function afterTheEnd(model: TaskModel, input: TaskInput): TaskStep {
  const { state } = model.task.status;
  if (input.type === 'cancel' && state !== 'TASK_STATE_CANCELED') {
    return refused(model, 'TASK_NOT_CANCELABLE', `the task has ended as ${state}`);
  }
  if (input.type === 'user-message') {
    return refused(model, 'OPERATION_NOT_SUPPORTED', `the task has ended as ${state} and takes no more messages`);
  }
  return ignored(model);
}

function decide(model: TaskModel, input: TaskInput, limits: TaskLimits): TaskStep {
  switch (input.type) {
    case 'started':
      return model.task.status.state === 'TASK_STATE_SUBMITTED'
        ? new Change(model, input.at, limits).status('TASK_STATE_WORKING').done()
        : ignored(model);
    case 'status':
      return takeStatus(model, input, limits);
    case 'agent-message':
      return new Change(model, input.at, limits).status('TASK_STATE_WORKING', input.message).done();
    case 'input-required':
      return new Change(model, input.at, limits).begun().status('TASK_STATE_INPUT_REQUIRED', input.message).done();
    case 'auth-required':
      return new Change(model, input.at, limits).begun().status('TASK_STATE_AUTH_REQUIRED', input.message).done();
    case 'metadata':
      return new Change(model, input.at, limits).about(input.metadata).done();
    case 'artifact':
      return takeArtifact(model, input, limits);
    case 'result':
      return takeArtifact(model, { ...input, type: 'artifact' }, limits, !isInterrupted(model.task.status.state));
    case 'user-message':
      return takeUserMessage(model, input, limits);
    case 'cancel':
      return new Change(model, input.at, limits).end('TASK_STATE_CANCELED', 'Task canceled').done('stop-agent');
    case 'timeout':
      return new Change(model, input.at, limits).end('TASK_STATE_FAILED', 'Task timed out').done('stop-agent');
    case 'crash':
      return new Change(model, input.at, limits).end('TASK_STATE_FAILED', input.reason).done();
    case 'exit':
      return takeExit(model, input, limits);
  }
}

/** A task never returns to submitted; an unspecified state says nothing. */
function takeStatus(model: TaskModel, input: TaskInput & { type: 'status' }, limits: TaskLimits): TaskStep {
  const { state, message, metadata } = input;
  if (state === 'TASK_STATE_SUBMITTED' || state === 'TASK_STATE_UNSPECIFIED') return ignored(model);
  if (state === model.task.status.state && message === undefined && metadata === undefined) return ignored(model);
  const change = new Change(model, input.at, limits);
  // A completed or interrupted task passed through working; a rejected or failed one need not.
  if (state === 'TASK_STATE_COMPLETED' || isInterrupted(state)) change.begun();
  return change.status(state, message, metadata).done();
}

function takeArtifact(
  model: TaskModel,
  input: TaskInput & { type: 'artifact' },
  limits: TaskLimits,
  completes = false,
): TaskStep {
  const { artifact, metadata, lastChunk } = input;
  const { artifacts = [] } = model.task;
  const index = artifacts.findIndex(({ artifactId }) => artifactId === artifact.artifactId);
  // Without earlier parts, readers see the beginning of an artifact.
  const append = input.append === true && index >= 0;
  if (append && model.closed.includes(artifact.artifactId)) return ignored(model);
  const next = append ? joined(artifacts[index]!, artifact) : artifact;
  const all = index < 0 ? [...artifacts, next] : artifacts.with(index, next);
  if (all.length > limits.artifacts) {
    return refused(model, 'PAYLOAD_TOO_LARGE', `a task has at most ${limits.artifacts} artifacts`);
  }
  const parts = all.reduce((sum, other) => sum + other.parts.length, 0);
  if (parts > limits.artifactParts) {
    return refused(model, 'PAYLOAD_TOO_LARGE', `the artifacts of a task have at most ${limits.artifactParts} parts`);
  }
  const change = new Change(model, input.at, limits).begun();
  change.artifacts(all, { artifact, append, lastChunk: lastChunk === true, metadata });
  return completes ? change.status('TASK_STATE_COMPLETED').done() : change.done();
}

/** Joins streamed text chunks into one part, so that a long answer is not a thousand parts. */
export function joined(before: Artifact, chunk: Artifact): Artifact {
  const last = before.parts.at(-1);
  const [first, ...others] = chunk.parts;
  const glued = last && first && isBareText(last) && isBareText(first);
  const parts = glued
    ? [...before.parts.slice(0, -1), { text: last.text! + first.text! }, ...others]
    : [...before.parts, ...chunk.parts];
  return { ...before, ...chunk, parts };
}

function isBareText(part: Part): boolean {
  return part.text !== undefined && !part.metadata && part.mediaType === undefined && part.filename === undefined;
}

/** An answer resumes a task that waits for one; a message to a working task changes no state. */
function takeUserMessage(model: TaskModel, input: TaskInput & { type: 'user-message' }, limits: TaskLimits): TaskStep {
  const { id, contextId, status } = model.task;
  const change = new Change(model, input.at, limits);
  // The question enters the history before its answer.
  if (isInterrupted(status.state)) change.status('TASK_STATE_WORKING').answered(input.message.messageId);
  return change.said({ ...input.message, taskId: id, contextId }).done();
}

/** An agent may end its turn while it waits for an answer. A non-zero exit is a failure. */
function takeExit(model: TaskModel, input: TaskInput & { type: 'exit' }, limits: TaskLimits): TaskStep {
  const change = new Change(model, input.at, limits);
  if (input.code !== 0) {
    const how = input.code === null ? `by ${input.signal ?? 'a signal'}` : `with code ${input.code}`;
    return change.end('TASK_STATE_FAILED', `The agent ended ${how}`).done();
  }
  if (isInterrupted(model.task.status.state)) return ignored(model);
  return change.begun().status('TASK_STATE_COMPLETED').done();
}

/** Builds one step: each method changes the task and records its event. */
class Change {
  #task: Task;
  #sequence: number;
  #at: number;
  #closed: readonly string[];
  readonly #events: TaskEvent[] = [];
  readonly #seen: readonly string[];
  #answers: readonly string[] | undefined;
  readonly #limits: TaskLimits;

  constructor(model: TaskModel, at: number, limits: TaskLimits) {
    this.#task = model.task;
    this.#sequence = model.sequence;
    this.#at = Math.max(model.at, at);
    this.#closed = model.closed;
    this.#seen = model.seen;
    this.#answers = model.answers;
    this.#limits = limits;
  }

  /** Any output of the agent shows that it works. */
  begun(): this {
    return this.#task.status.state === 'TASK_STATE_SUBMITTED' ? this.status('TASK_STATE_WORKING') : this;
  }

  /** The message of the previous status moves into the history. */
  status(state: TaskState, words?: Message, metadata?: Metadata): this {
    const { id: taskId, contextId, status: before } = this.#task;
    if (before.message) this.said(before.message);
    const timestamp = writeTimestamp(this.#at);
    const status: TaskStatus = words
      ? { state, message: { ...words, taskId, contextId }, timestamp }
      : { state, timestamp };
    this.#task = { ...this.#task, status };
    return this.#note({
      statusUpdate: metadata ? { taskId, contextId, status, metadata } : { taskId, contextId, status },
    });
  }

  end(state: TerminalState, text: string): this {
    const message: Message = {
      messageId: `${this.#task.id}:${this.#sequence + 1}`,
      role: 'ROLE_AGENT',
      parts: [{ text }],
    };
    return this.status(state, message);
  }

  artifacts(
    all: readonly Artifact[],
    { artifact, append, lastChunk, metadata }: Omit<TaskArtifactUpdateEvent, 'taskId' | 'contextId'>,
  ): this {
    const { id: taskId, contextId } = this.#task;
    const { artifactId } = artifact;
    if (this.#closed.includes(artifactId) !== lastChunk) {
      this.#closed = lastChunk ? [...this.#closed, artifactId] : this.#closed.filter((closed) => closed !== artifactId);
    }
    this.#task = { ...this.#task, artifacts: all };
    const update = { taskId, contextId, artifact, append, lastChunk };
    return this.#note({ artifactUpdate: metadata ? { ...update, metadata } : update });
  }

  about(metadata: Metadata): this {
    this.#task = { ...this.#task, metadata: { ...this.#task.metadata, ...metadata } };
    return this;
  }

  said(message: Message): this {
    const history = [...(this.#task.history ?? []), message];
    // The first message stays: an agent that resumes needs it, and a repeated send is compared with it.
    const surplus = history.length - this.#limits.historyMessages;
    if (surplus > 0) history.splice(1, surplus);
    this.#task = { ...this.#task, history };
    return this;
  }

  answered(messageId: string): this {
    this.#answers = [...(this.#answers ?? []), messageId].slice(-REMEMBERED_KEYS);
    return this;
  }

  done(...effects: readonly TaskEffect[]): TaskStep {
    const model: TaskModel = {
      task: this.#task,
      sequence: this.#sequence,
      at: this.#at,
      closed: this.#closed,
      seen: this.#seen,
      ...(this.#answers && { answers: this.#answers }),
    };
    return { outcome: 'applied', model, events: this.#events, effects };
  }

  #note(event: StreamResponse): this {
    this.#sequence += 1;
    this.#events.push({ sequence: this.#sequence, event });
    return this;
  }
}

function ignored(model: TaskModel): TaskStep {
  return { outcome: 'ignored', model };
}

function refused(model: TaskModel, code: ErrorCode, reason: string): TaskStep {
  return { outcome: 'refused', model, code, reason };
}

export interface AnsweredQuestion {
  readonly question: readonly Part[];
  readonly answer: Message;
}

/** The caller's messages after the first: answers with their questions, and all others, each in order. */
export function exchangesOf({ task, answers: answering = [] }: Pick<TaskModel, 'task' | 'answers'>): {
  readonly answers: readonly AnsweredQuestion[];
  readonly others: readonly Message[];
} {
  const answers: AnsweredQuestion[] = [];
  const others: Message[] = [];
  let question: readonly Part[] = [];
  for (const message of task.history?.slice(1) ?? []) {
    if (message.role === 'ROLE_AGENT') question = message.parts;
    else if (answering.includes(message.messageId)) answers.push({ question, answer: message });
    else others.push(message);
  }
  return { answers, others };
}
