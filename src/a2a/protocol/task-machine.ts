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
 * The decisions about one task, apart from everything that acts: state and input in; next state, events and effects
 * out. A task goes forward only, ends once, and nothing happens to it after that, whatever arrives late or twice. The
 * model is plain JSON, so that it can be kept.
 */
export interface TaskModel {
  readonly task: Task;
  /** The number of the last event; the task itself was the first. */
  readonly sequence: number;
  /** When the status was set, in milliseconds; it never goes back. */
  readonly at: number;
  /** Artifacts whose last chunk has come. */
  readonly closed: readonly string[];
  /** Keys of the latest inputs, the oldest first. */
  readonly seen: readonly string[];
  /** Ids of the latest messages that answered a question, the oldest first. */
  readonly answers?: readonly string[];
}

export interface TaskLimits {
  readonly historyMessages: number;
  readonly artifacts: number;
  readonly artifactParts: number;
}

/** What an input may carry besides what it says: when it came, and a key that shows when it comes again. */
interface Arrival {
  readonly at: number;
  readonly key?: string | undefined;
}

export type TaskInput = Arrival &
  (
    | { readonly type: 'started' }
    /** The agent says where it stands, with words if it has some. */
    | { readonly type: 'status'; readonly state: TaskState; readonly message?: Message; readonly metadata?: Metadata }
    | {
        readonly type: 'artifact';
        readonly artifact: Artifact;
        readonly append?: boolean;
        readonly lastChunk?: boolean;
        readonly metadata?: Metadata;
      }
    /** The agent says something while it works. */
    | { readonly type: 'agent-message'; readonly message: Message }
    | { readonly type: 'input-required'; readonly message: Message }
    | { readonly type: 'auth-required'; readonly message: Message }
    /** The caller says something more. */
    | { readonly type: 'user-message'; readonly message: Message }
    | { readonly type: 'cancel' }
    | { readonly type: 'timeout' }
    | { readonly type: 'crash'; readonly reason: string }
    /** The agent's process ended: with a code, or by a signal. */
    | { readonly type: 'exit'; readonly code: number | null; readonly signal?: string | undefined }
  );

export interface TaskEvent {
  readonly sequence: number;
  readonly event: StreamResponse;
}

/** `stop-agent`: whatever still works on the task must end. */
export type TaskEffect = 'stop-agent';

export type TaskStep =
  | {
      readonly outcome: 'applied';
      readonly model: TaskModel;
      readonly events: readonly TaskEvent[];
      readonly effects: readonly TaskEffect[];
    }
  /** It came late, or twice, or says nothing new. */
  | { readonly outcome: 'ignored'; readonly model: TaskModel }
  | { readonly outcome: 'refused'; readonly model: TaskModel; readonly code: ErrorCode; readonly reason: string };

export interface TaskBirth {
  readonly id: string;
  readonly contextId: string;
  readonly message: Message;
  readonly at: number;
  readonly metadata?: Metadata | undefined;
}

/** Keys of so many inputs are remembered; what comes twice comes soon. */
const REMEMBERED_KEYS = 256;

export function createTask({ id, contextId, message, at, metadata }: TaskBirth): {
  readonly model: TaskModel;
  readonly events: readonly TaskEvent[];
} {
  const status: TaskStatus = { state: 'TASK_STATE_SUBMITTED', timestamp: writeTimestamp(at) };
  const history = [{ ...message, taskId: id, contextId }];
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

/** To cancel what is canceled is no fault; everything else that asks for something gets told, and news is dropped. */
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
    case 'artifact':
      return takeArtifact(model, input, limits);
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

/** Forward only: nothing is submitted again, and what is unspecified says nothing. */
function takeStatus(model: TaskModel, input: TaskInput & { type: 'status' }, limits: TaskLimits): TaskStep {
  const { state, message, metadata } = input;
  if (state === 'TASK_STATE_SUBMITTED' || state === 'TASK_STATE_UNSPECIFIED') return ignored(model);
  if (state === model.task.status.state && message === undefined && metadata === undefined) return ignored(model);
  const change = new Change(model, input.at, limits);
  // Work that is asked for input or done was begun; refusing or failing needs no beginning.
  if (state === 'TASK_STATE_COMPLETED' || isInterrupted(state)) change.begun();
  return change.status(state, message, metadata).done();
}

function takeArtifact(model: TaskModel, input: TaskInput & { type: 'artifact' }, limits: TaskLimits): TaskStep {
  const { artifact, metadata, lastChunk } = input;
  const { artifacts = [] } = model.task;
  const index = artifacts.findIndex(({ artifactId }) => artifactId === artifact.artifactId);
  // There is nothing to append to yet: to its readers this is the artifact's beginning.
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
  return change.artifacts(all, { artifact, append, lastChunk: lastChunk === true, metadata }).done();
}

/** Text that is streamed in small pieces becomes one text, so that a long answer is not a thousand parts. */
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

/** An answer lets a task go on that waited for one; a message to one at work changes no state. */
function takeUserMessage(model: TaskModel, input: TaskInput & { type: 'user-message' }, limits: TaskLimits): TaskStep {
  const { id, contextId, status } = model.task;
  const change = new Change(model, input.at, limits);
  // The question becomes history before its answer does.
  if (isInterrupted(status.state)) change.status('TASK_STATE_WORKING').answered(input.message.messageId);
  return change.said({ ...input.message, taskId: id, contextId }).done();
}

/** An agent may end its turn while it waits for an answer; to end in any other way than well is to fail. */
function takeExit(model: TaskModel, input: TaskInput & { type: 'exit' }, limits: TaskLimits): TaskStep {
  const change = new Change(model, input.at, limits);
  if (input.code !== 0) {
    const how = input.code === null ? `by ${input.signal ?? 'a signal'}` : `with code ${input.code}`;
    return change.end('TASK_STATE_FAILED', `The agent ended ${how}`).done();
  }
  if (isInterrupted(model.task.status.state)) return ignored(model);
  return change.begun().status('TASK_STATE_COMPLETED').done();
}

/** One step in the making: each move sets the task and notes its event. */
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

  /** Whatever an agent brings forth shows that it works. */
  begun(): this {
    return this.#task.status.state === 'TASK_STATE_SUBMITTED' ? this.status('TASK_STATE_WORKING') : this;
  }

  /** What the last status said becomes history when the next takes its place. */
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

  said(message: Message): this {
    const history = [...(this.#task.history ?? []), message];
    // The first message is what the task is about: an agent that resumes needs it, and a repeated send is compared with it.
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

/** A question of the agent, and what its caller answered. */
export interface AnsweredQuestion {
  readonly question: readonly Part[];
  readonly answer: Message;
}

/** What a caller said after its first message: answers with their questions, and everything else, each in order. */
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
