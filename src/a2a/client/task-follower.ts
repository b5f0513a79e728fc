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

/** A task as far as its events tell of it. */
export class TaskView {
  #task: Task | undefined;
  #message: Message | undefined;

  /** The task; undefined where the agent answered with a message alone, or with nothing yet. */
  get task(): Task | undefined {
    return this.#task;
  }

  get message(): Message | undefined {
    return this.#message;
  }

  get id(): string | undefined {
    return this.#task?.id;
  }

  /** Takes an event in; false when it tells nothing that was not known. */
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

/** What was said before stays in the history. */
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

/** What a task came to, as text: the last thing that its agent said or made. */
export function finalText(task: Task): string | undefined {
  return lastAgentText(projectTask(task, { sessionId: null, createdAt: '' }).messages);
}

/** An agent's answer as text that grows: what of it is new with each event. */
export class AnswerText {
  /** What was told of each artifact. */
  readonly #told = new Map<string, string>();

  /** The text to go on with; empty where an event brings none. */
  add(event: StreamResponse): string {
    if ('message' in event) return textOf(event.message.parts);
    if ('statusUpdate' in event) return '';
    if ('task' in event) return this.#catchUp(event.task);
    const { artifact, append } = event.artifactUpdate;
    const text = textOf(artifact.parts);
    const { artifactId } = artifact;
    return append ? this.#tell(artifactId, (this.#told.get(artifactId) ?? '') + text) : this.#tell(artifactId, text);
  }

  /** A whole task may hold what was told before. */
  #catchUp({ artifacts = [] }: Task): string {
    return artifacts.map(({ artifactId, parts }) => this.#tell(artifactId, textOf(parts))).join('');
  }

  #tell(artifactId: string, text: string): string {
    const before = this.#told.get(artifactId);
    this.#told.set(artifactId, text);
    if (before !== undefined && text.startsWith(before)) return text.slice(before.length);
    // Another artifact, or one that was replaced, begins on a line of its own.
    return before === undefined && this.#told.size === 1 ? text : `\n${text}`;
  }
}

/** How often an agent is asked about a task that it does not stream. */
export const POLL_MS = 3_000;
/** Streams that bring nothing new, one after the other, before the task is asked about instead. */
const MAX_RESUMES = 5;
const FIRST_PAUSE_MS = 250;
/** Questions without an answer, one after the other. */
const MAX_UNANSWERED = 10;

export interface FollowerInit {
  readonly transport: Transport;
  readonly terms: Terms;
  readonly streams: boolean;
  /** Does the agent go on after `Last-Event-ID`? */
  readonly resumes: boolean;
  /** The caller whose answer the task may wait for: nobody follows it while it does, unless somebody else may answer. */
  readonly asker: 'new' | 'answering' | 'nobody';
  /** Is a task asked about for as long as there is time, whatever the answers are? */
  readonly stubborn: boolean;
}

/**
 * The events of one task until it ends or waits for its caller, whatever happens to the connection: a broken stream is
 * resumed where it was, or with the task as it is by then; where there is no stream, the task is asked about.
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

  /** The task that is followed, once that is known. */
  get taskId(): string | undefined {
    return this.#taskId;
  }

  /** Has the task ended, or is there none? */
  get over(): boolean {
    const { task, message } = this.view;
    return task === undefined ? message !== undefined : isTerminal(task.status.state);
  }

  /** Begins with a stream or a task that the agent gave. */
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
          if (this.over || (this.#isTurnOver && !(isFirst && this.#init.asker === 'answering'))) return;
        }
        if (this.#taskId === undefined) {
          throw new EclipticError('INVALID_AGENT_RESPONSE', 'the agent ended its stream without saying anything');
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

  /** Begins with a task that is known by its id alone. */
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
      // A task that has ended cannot be subscribed to, and some agents know no subscriptions: both can be asked.
      if (!isNotOffered(error)) throw error;
      yield* this.#poll();
    }
  }

  async *#poll(): AsyncGenerator<StreamedEvent> {
    const { transport, terms, stubborn } = this.#init;
    for (let unanswered = 0; ; await terms.limits.pause(POLL_MS)) {
      try {
        const task = takeTask(await transport.call('GetTask', { id: this.#taskId }, terms));
        unanswered = 0;
        yield { event: { task }, id: '' };
        if (this.#waitsForCaller) return;
      } catch (error) {
        if (terms.limits.reason) throw terms.limits.reason;
        if (stubborn) continue;
        if (!(isBroken(error) || isBusy(error))) throw error;
        if (++unanswered > MAX_UNANSWERED) throw this.#giveUp(error);
      }
    }
  }

  /** The agent had begun: how far it came is unknown. */
  #giveUp(error: unknown): EclipticError {
    this.#gaveUp = true;
    const seconds = (MAX_UNANSWERED * POLL_MS) / 1_000;
    const message = `the agent stopped answering while it worked on task ${this.#taskId}; ${MAX_UNANSWERED + 1} questions in ${seconds} s had no answer: ${describeError(error)}`;
    return new EclipticError('FETCH_FAILED', message, { sent: true, outcome: 'unknown' }, error);
  }

  get #isTurnOver(): boolean {
    return this.#init.asker !== 'nobody' && this.#waitsForCaller;
  }

  /** Authorization may be given elsewhere, and the task goes on without its caller; an answer is given by nobody else. */
  get #waitsForCaller(): boolean {
    return this.view.task?.status.state === 'TASK_STATE_INPUT_REQUIRED';
  }

  /** One stream is about one task. */
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
    throw new EclipticError('INVALID_AGENT_RESPONSE', 'the agent told of another task than the one that was asked for');
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
