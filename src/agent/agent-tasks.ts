import { type DelegationChain, readDelegation, withDelegation } from '../a2a/protocol/delegation.js';
import type { AnsweredQuestion } from '../a2a/protocol/task-machine.js';
import { isSameContent } from '../a2a/protocol/task-rules.js';
import type { Message as A2AMessage, Metadata, Part } from '../a2a/protocol/types.js';
import type { Schema } from '../mcp/schema.js';
import { splitAddress } from '../mesh/address.js';
import { toWireError } from '../mesh/codec.js';
import { isAsyncIterable } from '../runtime/async.js';
import { callGuarded, isThenable, logCallback } from '../runtime/callbacks.js';
import { EclipticError } from '../runtime/errors.js';
import { boundLog, type Log, type Runtime } from '../runtime/runtime.js';
import { checked, checkOf } from './checked.js';
import type { Message } from './message.js';
import { dataOf, readTaskData, type TaskData, textOf, wordsOf } from './task-data.js';
import type { TaskNews, TaskOpening, TaskReport, TaskSession } from './task-messages.js';
import { Reports } from './task-reports.js';
import { USAGE, type Usage, usageIn } from './usage.js';

type CallerMessage = Extract<TaskNews, { readonly input: A2AMessage }>;

export interface TaskOptions {
  /** May a task be given to the handler again after a restart of its node? Default false. */
  resumable?: boolean;
  /** The capabilities that the handler works for, if not all of the agent’s card. */
  capabilities?: readonly string[];
}

/**
 * Returns the result: text, any JSON, parts in A2A's own shape, or nothing. It becomes the task's artifact. An error that
 * it throws makes the task fail.
 */
export type TaskHandler<Input = unknown> = (task: AgentTask<Input>) => unknown;

/** Messages that wait for a handler without a listener; the A2A server has them all, and sends the rest later. */
const MAX_UNREAD = 100;

/** The agent that asks, and the conversation that it asks in. */
type Caller = Pick<Message, 'from' | 'thread'>;

/** Text, one part, or several. */
export type Content = string | Part | readonly Part[];

export function toParts(content: Content): readonly Part[] {
  if (typeof content === 'string') return [{ text: content }];
  return Array.isArray(content) ? content : [content as Part];
}

const UNASKED = 'the work of a proposal cannot ask its proposer anything';

/** A task as its worker sees it. */
export class AgentTask<Input = unknown> {
  readonly id: string;
  readonly contextId: string;
  readonly message: A2AMessage;
  readonly skill: string | undefined;
  /** Those that the work asks for; the skill, if it names one. */
  readonly capabilities: readonly string[];
  /** The address of the agent that wants the work done: the caller, or the creator of a swarm. */
  readonly asker: string;
  /** Does the caller take questions? A proposer does not. */
  readonly canAsk: boolean;
  /** Was it begun before, and interrupted when the node stopped? */
  readonly resumed: boolean;
  readonly metadata: Metadata;
  /** The address of the caller. */
  readonly from: string;
  readonly thread: string | undefined;
  /**
   * The chain of delegation: pass it on to remote agents, so that a task that goes in a circle or is handed on without end
   * is refused. `invokeRemoteAgent(url, text, { ...task.delegation })`.
   */
  readonly delegation: { readonly agent: string; readonly chain: DelegationChain };
  readonly #reports: Reports;
  readonly #runtime: Runtime;
  /** Read with the first use. */
  #data: TaskData | undefined;
  #log: Log | undefined;
  /** Made when the handler asks for the signal. */
  #controller: AbortController | undefined;
  #reason: EclipticError | undefined;
  /** Questions that wait for an answer, the oldest first. */
  #questions: ((message: A2AMessage) => void)[] | undefined;
  #answers: AnsweredQuestion[] | undefined;
  #unread: CallerMessage[] | undefined;
  #listener: ((message: A2AMessage) => void) | undefined;
  #ended = false;

  /** @internal */
  constructor(runtime: Runtime, agent: string, { from, thread }: Caller, opening: TaskOpening, reports: Reports) {
    this.#runtime = runtime;
    this.#reports = reports;
    this.from = from;
    this.thread = thread;
    this.id = opening.id;
    this.contextId = opening.contextId;
    this.message = opening.message;
    this.skill = opening.skill;
    this.capabilities = opening.capabilities ?? (opening.skill === undefined ? [] : [opening.skill]);
    this.asker = opening.asker ?? from;
    this.resumed = opening.resumed === true;
    this.metadata = opening.metadata ?? {};
    if (opening.answers) this.#answers = [...opening.answers];
    this.canAsk = opening.unasked !== true;
    this.delegation = { agent, chain: readDelegation(this.metadata, undefined) };
  }

  /** The same for tools that call on: `agent.mcp.call('sun.invoke_remote_agent', …, { meta: task.meta })`. */
  get meta(): Metadata {
    const { chain } = this.delegation;
    return chain.length > 0 ? withDelegation(undefined, chain) : {};
  }

  /** The assignment in words. A task that has only data gives the words in the data, else the data as JSON. */
  get text(): string {
    return wordsOf(this.message);
  }

  /** The whole data of the task's message. */
  get data(): unknown {
    return dataOf(this.message);
  }

  /** The `input` of a plan's task or a swarm's sub-task; of any other task, its data. */
  get input(): Input {
    return this.#read.input as Input;
  }

  /** In a plan or a swarm, the results of the tasks that it depends on, by their ids. */
  get results(): Readonly<Record<string, unknown>> {
    return this.#read.results;
  }

  /** In a plan, the feedback on earlier attempts, the latest last. */
  get feedback(): readonly string[] {
    return this.#read.feedback;
  }

  /** In a plan, which attempt this is, from 1 on. */
  get attempt(): number {
    return this.#read.attempt;
  }

  get #read(): TaskData {
    this.#data ??= readTaskData(this.data);
    return this.#data;
  }

  /** The node's log; every line names the agent and the task. */
  get log(): Log {
    const { id } = splitAddress(this.delegation.agent);
    this.#log ??= boundLog(this.#runtime.logger, { agent: id, task: this.id });
    return this.#log;
  }

  /** Aborted when the caller cancels or stops waiting. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#reason) this.#controller.abort(this.#reason);
    return this.#controller.signal;
  }

  progress(content: Content): void {
    this.#report({ report: 'working', parts: toParts(content) });
  }

  /** Reports what the work cost since the last report; the caller adds the reports up. */
  usage(usage: Partial<Usage>): void {
    this.#report({ report: 'working', usage: usageIn({ [USAGE]: usage })! });
  }

  /** Tells the caller the session of a coding agent that the task is done in. */
  session(session: TaskSession): void {
    this.#report({ report: 'working', session });
  }

  /** Tells the caller how many decisions of the agent's owner the work waits for. The time limits of the task pause meanwhile. */
  waiting(decisions: number, content?: Content): void {
    const said = content === undefined ? {} : { parts: toParts(content) };
    this.#report({ report: 'working', waiting: decisions, ...said });
  }

  /** Sends a result, or with `append` more of one. */
  artifact(
    content: Content,
    options: { id?: string; name?: string; description?: string; append?: boolean; lastChunk?: boolean } = {},
  ): string {
    const { id = this.#runtime.id(), name, description, append = false, lastChunk = true } = options;
    const about = { ...(name !== undefined && { name }), ...(description !== undefined && { description }) };
    const artifact = { artifactId: id, ...about, parts: toParts(content) };
    this.#report({ report: 'artifact', artifact, append, lastChunk });
    return id;
  }

  /**
   * Calls back with each message that the caller sends while the handler works, except answers to its questions. A
   * message that no listener takes starts another turn of the handler when this one returns.
   */
  onMessage(listener: (message: A2AMessage) => void): void {
    this.#listener = listener;
    for (const news of this.#unread?.splice(0) ?? []) this.#hand(news, listener);
  }

  /** Asks the caller, and waits for the answer. After a restart, an answered question gets its answer again at once. */
  ask(content: Content): Promise<A2AMessage> {
    return this.#wait('input-required', content);
  }

  /** Asks the caller for access, and waits until it confirms. */
  askAuth(content: Content): Promise<A2AMessage> {
    return this.#wait('auth-required', content);
  }

  /** Answers with a message alone, without a task's result. Call it last. */
  reply(content: Content): void {
    this.#report({ report: 'message', parts: toParts(content) });
  }

  reject(reason: string): void {
    this.#report({ report: 'rejected', parts: toParts(reason) });
  }

  /** @internal The input as its schema gives it. */
  setInput(input: unknown): void {
    this.#data = { ...this.#read, input };
  }

  /** @internal */
  take(news: TaskNews): void {
    if ('cancel' in news) this.abort(new EclipticError('CANCELLED', 'the caller cancelled the task'));
    else this.#hear(news);
  }

  #hear(news: CallerMessage): void {
    const answer = this.#questions?.shift();
    if (answer) this.#hand(news, answer);
    else if (this.#listener) this.#hand(news, this.#listener);
    else {
      this.#unread ??= [];
      if (this.#unread.length < MAX_UNREAD) this.#unread.push(news);
    }
  }

  #hand({ input: message, receipt }: CallerMessage, listener: (message: A2AMessage) => void): void {
    if (receipt) this.#report({ report: 'took', messageId: message.messageId });
    const failed = logCallback(this.#runtime.logger);
    callGuarded(listener, [message], (error) => failed(`onMessage of task ${this.id}`, error));
  }

  /** @internal */
  abort(error: EclipticError): void {
    this.#ended = true;
    this.#reason = error;
    this.#controller?.abort(error);
  }

  /** @internal The handler is done. */
  end(): void {
    this.#ended = true;
  }

  #wait(report: 'input-required' | 'auth-required', content: Content): Promise<A2AMessage> {
    const parts = toParts(content);
    const known = this.#answers?.findIndex(({ question }) => isSameContent(question, parts)) ?? -1;
    if (known >= 0) return Promise.resolve(this.#answers!.splice(known, 1)[0]!.answer);
    if (!this.canAsk) return Promise.reject(new EclipticError('OPERATION_NOT_SUPPORTED', UNASKED));
    return new Promise((resolve, reject) => {
      const { signal } = this;
      if (signal.aborted) return reject(signal.reason);
      const cancel = () => reject(signal.reason);
      signal.addEventListener('abort', cancel, { once: true });
      this.#questions ??= [];
      this.#questions.push((message) => {
        signal.removeEventListener('abort', cancel);
        resolve(message);
      });
      this.#report({ report, parts });
    });
  }

  #report(report: TaskReport): void {
    if (!this.#ended) this.#reports.push(report);
  }
}

/** Microtasks that a handler has before its task becomes a stream; one that needs more waits for something. */
const AT_ONCE = 8;

export class AgentTasks {
  readonly #runtime: Runtime;
  readonly #agent: string;
  readonly #handler: TaskHandler;
  readonly #input: Schema | undefined;
  readonly resumable: boolean;
  readonly capabilities: readonly string[] | undefined;
  readonly #open = new Map<string, AgentTask>();

  /** With `input`, the handler gets only tasks whose input matches that schema. Throws for something that is no schema. */
  constructor(runtime: Runtime, agent: string, handler: TaskHandler, options: TaskOptions, input?: Schema) {
    if (input !== undefined) checkOf(input);
    this.#runtime = runtime;
    this.#agent = agent;
    this.#handler = handler;
    this.#input = input;
    this.resumable = options.resumable ?? false;
    this.capabilities = options.capabilities;
  }

  /**
   * Begins a task. Returns the answer to its caller, or a promise of it: one item, if the handler is done at once with
   * just one, else a stream of all items. A caller that stops reading cancels the task.
   */
  run(caller: Caller, opening: TaskOpening): unknown {
    const reports = new Reports();
    const task = new AgentTask(this.#runtime, this.#agent, caller, opening, reports);
    const key = `${caller.from} ${task.id}`;
    this.#open.set(key, task);
    if (this.resumable) reports.push({ report: 'accepted', resumable: true });
    const handler = this.#input === undefined ? this.#handler : this.#checking(this.#input, reports);
    try {
      const value = handler(task);
      if (isThenable(value)) return this.#soon(key, task, reports, value);
      reports.end(value);
    } catch (error) {
      reports.fail(error);
    }
    return this.#answer(key, task, reports);
  }

  async #soon(key: string, task: AgentTask, reports: Reports, value: PromiseLike<unknown>): Promise<unknown> {
    Promise.resolve(value).then(
      (value) => reports.end(value),
      (error) => reports.fail(error),
    );
    for (let turn = 0; turn < AT_ONCE && !reports.over; turn++) await undefined;
    return this.#answer(key, task, reports);
  }

  #answer(key: string, task: AgentTask, reports: Reports): unknown {
    const only = reports.takeOnly();
    if (only === undefined) return this.#stream(key, task, reports);
    this.#open.delete(key);
    task.end();
    return only;
  }

  /** The handler behind the check of the task's input. */
  #checking(schema: Schema, reports: Reports): TaskHandler {
    return async (task) => {
      try {
        task.setInput(await checked(task.input, schema, 'the input of the task', 'INVALID_ARGUMENTS'));
      } catch (error) {
        const { code, message, details } = toWireError(error);
        const parts = toParts(`${code}: ${message}`);
        return reports.push({ report: 'rejected', parts, error: { code, message, details } });
      }
      return this.#handler(task);
    };
  }

  async *#stream(key: string, task: AgentTask, reports: Reports): AsyncGenerator<unknown> {
    try {
      yield* reports;
    } finally {
      if (this.#open.get(key) === task) this.#open.delete(key);
      if (reports.over) task.end();
      else task.abort(new EclipticError('CANCELLED', 'the caller stopped waiting for the task'));
    }
  }

  /** False if this agent does not work on that task of that caller. */
  take(from: string, news: TaskNews): boolean {
    const task = this.#open.get(`${from} ${news.id}`);
    task?.take(news);
    return task !== undefined;
  }

  end(error: EclipticError): void {
    for (const task of this.#open.values()) task.abort(error);
    this.#open.clear();
  }
}

/** The answer of a request handler to a task: unchanged if it comes at once, else a stream, whose start shows the work. */
export async function plainAnswer(answer: Promise<unknown>): Promise<unknown> {
  let settled = false;
  const settle = () => {
    settled = true;
  };
  answer.then(settle, settle);
  for (let turn = 0; turn < AT_ONCE && !settled; turn++) await undefined;
  return settled ? answer : whenThere(answer);
}

async function* whenThere(answer: Promise<unknown>): AsyncGenerator<unknown> {
  const value = await answer;
  if (isAsyncIterable(value)) yield* value;
  else yield value ?? null;
}

/** A task for a request handler: its text, or its data, or the whole message. */
export function plainPayload({ message }: Pick<TaskOpening, 'message'>): unknown {
  const [only, ...others] = message.parts;
  if (only && others.length === 0 && only.data !== undefined) return only.data;
  return message.parts.every(({ text }) => text !== undefined) ? textOf(message) : message;
}
