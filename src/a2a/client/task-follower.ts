import { backoffMs } from '../../runtime/backoff.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import { takeTask } from '../protocol/read-responses.js';
import { ExternalServiceError } from '../protocol/service-errors.js';
import { isTerminal } from '../protocol/task-states.js';
import type { StreamResponse } from '../protocol/types.js';
import { isBroken } from './remote-errors.js';
import { TaskView } from './task-view.js';
import type { StreamedEvent, Terms, Transport } from './transport.js';

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
