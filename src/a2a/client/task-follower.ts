import { backoffMs } from '../../runtime/backoff.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import { ExternalServiceError } from '../protocol/errors.js';
import { A2A_LIMITS } from '../protocol/limits.js';
import { takeTask } from '../protocol/read-responses.js';
import { lastAgentText, messagesOf, projectTask, textOf } from '../protocol/simple.js';
import { joined } from '../protocol/task-machine.js';
import { isTerminal } from '../protocol/task-rules.js';
import type {
  Artifact,
  Message,
  StreamResponse,
  Task,
  TaskArtifactUpdateEvent,
  TaskStatus,
} from '../protocol/types.js';
import { isBroken } from './remote-endpoint.js';
import type { StreamedEvent, Terms, Transport } from './transports.js';

/** The state of a task, built from its events. */
export class TaskView {
  #task: Task | undefined;
  #message: Message | undefined;

  /** Undefined before the first event, and if the agent answered with a message alone. */
  get task(): Task | undefined {
    return this.#task;
  }

  get message(): Message | undefined {
    return this.#message;
  }

  get id(): string | undefined {
    return this.#task?.id;
  }

  /** Returns false for an event without news. */
  add(event: StreamResponse): boolean {
    if ('message' in event) {
      this.#message = event.message;
      return true;
    }
    const before = this.#task;
    if ('task' in event) {
      this.#task = event.task;
      return before === undefined || JSON.stringify(before) !== JSON.stringify(event.task);
    }
    const { taskId, contextId } = 'statusUpdate' in event ? event.statusUpdate : event.artifactUpdate;
    // Agents of older versions begin with an update.
    const task = before ?? { id: taskId, contextId, status: { state: 'TASK_STATE_SUBMITTED' } };
    this.#task =
      'statusUpdate' in event
        ? withStatus(task, event.statusUpdate.status)
        : { ...task, artifacts: withArtifact(task.artifacts ?? [], event.artifactUpdate) };
    return true;
  }
}

function withStatus(task: Task, status: TaskStatus): Task {
  return { ...task, status, history: messagesOf(task).slice(-A2A_LIMITS.historyMessages) };
}

function withArtifact(
  artifacts: readonly Artifact[],
  { artifact, append }: TaskArtifactUpdateEvent,
): readonly Artifact[] {
  const index = artifacts.findIndex(({ artifactId }) => artifactId === artifact.artifactId);
  if (index < 0) return [...artifacts, artifact];
  return artifacts.with(index, append ? joined(artifacts[index]!, artifact) : artifact);
}

/** The last text that the agent sent or made. */
export function finalText(task: Task): string | undefined {
  return lastAgentText(projectTask(task, { sessionId: null, createdAt: '' }).messages);
}

/** Turns events into the text that each adds to the answer. */
export class AnswerText {
  /** The text of each artifact so far. */
  readonly #told = new Map<string, string>();

  /** The added text, possibly empty. */
  add(event: StreamResponse): string {
    if ('message' in event) return textOf(event.message.parts);
    if ('statusUpdate' in event) return '';
    if ('task' in event) return this.#catchUp(event.task);
    const { artifact, append } = event.artifactUpdate;
    const text = textOf(artifact.parts);
    const { artifactId } = artifact;
    return append ? this.#tell(artifactId, (this.#told.get(artifactId) ?? '') + text) : this.#tell(artifactId, text);
  }

  /** A whole task may repeat text that was added before. */
  #catchUp({ artifacts = [] }: Task): string {
    return artifacts.map(({ artifactId, parts }) => this.#tell(artifactId, textOf(parts))).join('');
  }

  #tell(artifactId: string, text: string): string {
    const before = this.#told.get(artifactId);
    this.#told.set(artifactId, text);
    if (before !== undefined && text.startsWith(before)) return text.slice(before.length);
    // A second artifact, or a replaced one, begins on a new line.
    return before === undefined && this.#told.size === 1 ? text : `\n${text}`;
  }
}

/** Polling interval for a task without a stream. */
export const POLL_MS = 3_000;
/** Streams without news in a row, before the task is polled instead. */
const MAX_RESUMES = 5;
const FIRST_PAUSE_MS = 250;
/** Failed polls in a row. */
const MAX_UNANSWERED = 10;

export interface FollowerInit {
  readonly transport: Transport;
  readonly terms: Terms;
  readonly streams: boolean;
  /** The agent supports `Last-Event-ID`. */
  readonly resumes: boolean;
  /**
   * The role of the caller. Following stops when the task waits for input, unless another caller may give it
   * (`observer`).
   */
  readonly role: 'new' | 'answering' | 'observer';
  /** Poll until the time limit, even if polls fail. */
  readonly pollsUntilTimeout: boolean;
}

/**
 * Follows one task until it ends or waits for its caller. A broken stream is resumed after its last event, or with a
 * snapshot of the task; without streams the task is polled.
 */
export class TaskFollower {
  readonly view = new TaskView();
  readonly #init: FollowerInit;
  #taskId: string | undefined;
  #lastEventId = '';
  #gaveUp = false;

  constructor(init: FollowerInit) {
    this.#init = init;
  }

  get taskId(): string | undefined {
    return this.#taskId;
  }

  /** The task has ended, or the agent answered with a message. */
  get over(): boolean {
    const { task, message } = this.view;
    return task === undefined ? message !== undefined : isTerminal(task.status.state);
  }

  /** Begins with the answer to a send. */
  async *follow(first: AsyncIterable<StreamedEvent>): AsyncGenerator<StreamResponse> {
    let events = first;
    let told = false;
    for (let resumes = 0; ; resumes++) {
      try {
        for await (const { event, id } of events) {
          this.#check(event);
          if (id !== '') this.#lastEventId = id;
          const isFirst = !told;
          if (this.view.add(event)) {
            resumes = 0;
            this.#init.terms.limits.heard();
          } else if (told) continue;
          told = true;
          yield event;
          if (this.over || (this.#isTurnOver && !(isFirst && this.#init.role === 'answering'))) return;
        }
        if (this.#taskId === undefined) {
          throw new EclipticError('INVALID_AGENT_RESPONSE', 'the agent ended its stream without an event');
        }
        if (this.#waitsForCaller) return;
      } catch (error) {
        if (this.#gaveUp || this.#taskId === undefined || !(isBroken(error) || isBusy(error))) throw error;
      }
      const { limits } = this.#init.terms;
      if (resumes > 0) await limits.pause(backoffMs(Math.min(resumes - 1, MAX_RESUMES), FIRST_PAUSE_MS));
      events = this.#init.streams && resumes < MAX_RESUMES ? this.#resume() : this.#poll();
    }
  }

  followId(taskId: string, lastEventId = ''): AsyncGenerator<StreamResponse> {
    this.#taskId = taskId;
    this.#lastEventId = lastEventId;
    return this.follow(this.#init.streams ? this.#resume() : this.#poll());
  }

  async *#resume(): AsyncGenerator<StreamedEvent> {
    const { transport, terms, resumes } = this.#init;
    const goOn: Record<string, string> =
      resumes && this.#lastEventId !== '' ? { 'last-event-id': this.#lastEventId } : {};
    try {
      const headers = { ...terms.headers, ...goOn };
      yield* transport.stream('SubscribeToTask', { id: this.#taskId }, { ...terms, headers });
    } catch (error) {
      // An ended task has no subscriptions, and some agents have none at all; both answer a poll.
      if (!isNotOffered(error)) throw error;
      yield* this.#poll();
    }
  }

  async *#poll(): AsyncGenerator<StreamedEvent> {
    const { transport, terms, pollsUntilTimeout } = this.#init;
    for (let unanswered = 0; ; await terms.limits.pause(POLL_MS)) {
      try {
        const task = takeTask(await transport.call('GetTask', { id: this.#taskId }, terms));
        unanswered = 0;
        yield { event: { task }, id: '' };
        if (this.#waitsForCaller) return;
      } catch (error) {
        if (terms.limits.reason) throw terms.limits.reason;
        if (pollsUntilTimeout) continue;
        if (!(isBroken(error) || isBusy(error))) throw error;
        if (++unanswered > MAX_UNANSWERED) throw this.#giveUp(error);
      }
    }
  }

  /** The agent had begun, so the outcome is unknown. */
  #giveUp(error: unknown): EclipticError {
    this.#gaveUp = true;
    const seconds = (MAX_UNANSWERED * POLL_MS) / 1_000;
    const message = `the agent stopped answering while it worked on task ${this.#taskId}; ${MAX_UNANSWERED + 1} questions in ${seconds} s had no answer: ${describeError(error)}`;
    return new EclipticError('FETCH_FAILED', message, { sent: true, outcome: 'unknown' }, error);
  }

  get #isTurnOver(): boolean {
    return this.#init.role !== 'observer' && this.#waitsForCaller;
  }

  /** Authorization may be given elsewhere, and the task goes on; input comes only from the caller. */
  get #waitsForCaller(): boolean {
    return this.view.task?.status.state === 'TASK_STATE_INPUT_REQUIRED';
  }

  /** All events of a stream must be of one task. */
  #check(event: StreamResponse): void {
    if ('message' in event) return;
    const id =
      'task' in event
        ? event.task.id
        : 'statusUpdate' in event
          ? event.statusUpdate.taskId
          : event.artifactUpdate.taskId;
    this.#taskId ??= id;
    if (id === this.#taskId) return;
    throw new EclipticError('INVALID_AGENT_RESPONSE', 'the agent sent an event of another task');
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof ExternalServiceError && error.code === 'REMOTE_BUSY';
}

function isNotOffered(error: unknown): boolean {
  if (!(error instanceof EclipticError)) return false;
  if (error.code === 'OPERATION_NOT_SUPPORTED' || error.code === 'METHOD_NOT_FOUND') return true;
  return error instanceof ExternalServiceError && (error.status === 404 || error.status === 501);
}
