import { AnswerText, finalText, TaskView } from '../../a2a/client/task-follower.js';
import { textOf } from '../../a2a/protocol/simple.js';
import { isTerminal } from '../../a2a/protocol/task-rules.js';
import type { Metadata, Part, StreamResponse, TaskState } from '../../a2a/protocol/types.js';
import type { Operations, RequestTerms } from '../../a2a/server/operations.js';
import { goneOf } from '../../a2a/server/request-context.js';
import { activityIn, type TaskActivity } from '../../agent/task-activity.js';
import { USAGE, type Usage, usageIn } from '../../agent/usage.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Exchange } from '../server/http-server.js';

/** A message of a chat to an agent. */
export interface AgentAsked {
  readonly agent: string;
  readonly parts: readonly Part[];
  readonly contextId?: string | undefined;
  /** The message answers the question of this task. */
  readonly taskId?: string | undefined;
}

/** What a front end shows of a turn. */
export type TurnEvent =
  /** The agent has the message; the task is known, if there is one. */
  | { readonly kind: 'begun' }
  | { readonly kind: 'text'; readonly text: string }
  /** Progress: the text is for people. */
  | { readonly kind: 'progress'; readonly text: string; readonly activity: TaskActivity | undefined };

export interface TurnEnd {
  readonly state: TaskState;
  /** The answer, or the agent's question. */
  readonly text: string;
  /** The reason of a failure or refusal. */
  readonly reason: string;
  readonly usage: Usage | undefined;
}

/** One turn of an agent for a client of a chat protocol: a task, until it has ended or waits for its caller. */
export class AgentTurn {
  readonly #operations: Operations;
  readonly #terms: RequestTerms;
  readonly #asked: AgentAsked;
  readonly #runtime: Runtime;
  readonly #view = new TaskView();
  readonly #answer = new AnswerText();
  #text = '';
  #isLeft = false;
  contextId: string;
  taskId: string | undefined;

  constructor(operations: Operations, runtime: Runtime, { principal, response }: Exchange, asked: AgentAsked) {
    this.#operations = operations;
    this.#runtime = runtime;
    this.#terms = { principal, onGone: goneOf(response) };
    this.#asked = asked;
    this.contextId = asked.contextId ?? runtime.id();
    this.taskId = asked.taskId;
  }

  /** Streams the turn. Rejects before the first event where the agent does not take the message. */
  async open(): Promise<AsyncGenerator<TurnEvent, TurnEnd>> {
    const outcome = await this.#operations.perform('SendStreamingMessage', this.#request, this.#terms);
    const { events, taskId } = (outcome as Extract<typeof outcome, { stream: unknown }>).stream;
    this.taskId ??= taskId;
    const leave = () => {
      this.#isLeft = true;
      void events.return?.();
    };
    this.#terms.onGone(leave);
    return this.#follow(events);
  }

  /** Waits for the end of the turn. */
  async ask(): Promise<TurnEnd> {
    try {
      const outcome = await this.#operations.perform('SendMessage', this.#request, this.#terms);
      this.#add((outcome as { result: StreamResponse }).result);
      return this.#end();
    } catch (error) {
      if (error instanceof EclipticError && error.code === 'CANCELLED') await this.#cancelContext();
      throw error;
    }
  }

  /** The client has gone, or cannot go on with the task. */
  async cancel(): Promise<void> {
    if (this.taskId === undefined) return;
    const { principal, onGone } = this.#terms;
    // The task may have ended meanwhile.
    await Promise.resolve(this.#operations.perform('CancelTask', { id: this.taskId }, { principal, onGone })).catch(
      () => {},
    );
  }

  get #request() {
    const { agent, parts, taskId } = this.#asked;
    const message = {
      messageId: this.#runtime.id(),
      role: 'ROLE_USER',
      parts,
      contextId: this.contextId,
      ...(taskId !== undefined && { taskId }),
    };
    return { tenant: agent, message };
  }

  async *#follow(
    events: AsyncIterator<{ readonly event: StreamResponse }>,
  ): AsyncGenerator<TurnEvent, TurnEnd, undefined> {
    let isOver = false;
    let hasBegun = false;
    try {
      for (let step = await events.next(); !step.done; step = await events.next()) {
        const { event } = step.value;
        const text = this.#add(event);
        if (!hasBegun) yield { kind: 'begun' };
        hasBegun = true;
        if (text !== '') yield { kind: 'text', text };
        const progress = 'statusUpdate' in event ? event.statusUpdate.status : undefined;
        if (progress?.state === 'TASK_STATE_WORKING' && progress.message) {
          const { message } = progress;
          yield { kind: 'progress', text: textOf(message.parts), activity: activityIn(message) };
        }
        const { task } = this.#view;
        // A question was open before the answer to it came.
        const waits = task?.status.state === 'TASK_STATE_INPUT_REQUIRED' && 'statusUpdate' in event;
        if (!task || waits || isTerminal(task.status.state)) break;
      }
      if (this.#isLeft) throw new EclipticError('CANCELLED', 'the caller disconnected');
      isOver = true;
      const shown = this.#text;
      const end = { ...this.#end(), usage: await this.#usage() };
      const rest = end.text.slice(shown.length);
      if (rest !== '') yield { kind: 'text', text: rest };
      return end;
    } finally {
      void events.return?.();
      if (!isOver) void this.cancel();
    }
  }

  #add(event: StreamResponse): string {
    this.#view.add(event);
    const { task } = this.#view;
    if (task) {
      this.taskId = task.id;
      this.contextId = task.contextId;
    }
    // A task that goes on repeats what its earlier turns made.
    if (this.#asked.taskId !== undefined && 'task' in event) {
      this.#answer.add(event);
      return '';
    }
    const text = this.#answer.add(event);
    this.#text += text;
    return text;
  }

  #end(): TurnEnd {
    const { task, message } = this.#view;
    if (!task) {
      return { state: 'TASK_STATE_COMPLETED', text: this.#text, reason: '', usage: usageOf(message?.metadata) };
    }
    const { state, message: last } = task.status;
    const said = last ? textOf(last.parts) : '';
    const asks = state === 'TASK_STATE_INPUT_REQUIRED' || state === 'TASK_STATE_AUTH_REQUIRED';
    if (asks) this.#text += this.#text === '' ? said : `\n\n${said}`;
    // Some agents give their result in their last status message instead of an artifact.
    else if (this.#text === '' && state === 'TASK_STATE_COMPLETED') this.#text = finalText(task) ?? '';
    return { state, text: this.#text, reason: said, usage: usageOf(task.metadata) };
  }

  /** Events do not carry what the work cost. */
  async #usage(): Promise<Usage | undefined> {
    if (this.taskId === undefined) return usageOf(this.#view.message?.metadata);
    const { principal, onGone } = this.#terms;
    const asked = { id: this.taskId, historyLength: 0 };
    const got = await this.#operations.perform('GetTask', asked, { principal, onGone });
    return usageOf((got as { result: { metadata?: Metadata } }).result.metadata);
  }

  /** A blocking send tells the id of its task only with the answer. */
  async #cancelContext(): Promise<void> {
    const { principal, onGone } = this.#terms;
    const terms = { principal, onGone };
    const listed = await this.#operations.perform('ListTasks', { contextId: this.contextId }, terms);
    const { tasks } = (listed as { result: { tasks: readonly { id: string }[] } }).result;
    for (const { id } of tasks) {
      this.taskId = id;
      await this.cancel();
    }
  }
}

function usageOf(metadata: Metadata | undefined): Usage | undefined {
  const usage = usageIn({ [USAGE]: metadata?.usage });
  // A program that calls no model reports nothing.
  return usage && usage.modelCalls + usage.inputTokens + usage.outputTokens > 0 ? usage : undefined;
}
