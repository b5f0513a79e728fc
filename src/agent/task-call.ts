import { readArtifact, readParts } from '../a2a/protocol/read-requests.js';
import type { Fields } from '../a2a/protocol/reading.js';
import type { TaskInput } from '../a2a/protocol/task-machine.js';
import type { Artifact, Message, Part } from '../a2a/protocol/types.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { cutText } from '../runtime/text.js';
import type { Agent } from './agent.js';
import type { StreamListener, StreamTap } from './streams.js';
import { TASK, type TaskNews, type TaskOpening, type TaskReport, type TaskSession, taskIn } from './task-messages.js';
import { USAGE, type Usage, usageIn } from './usage.js';

/** Hears what becomes of a task that was given to an agent. */
export interface TaskCallListener {
  accepted?(resumable: boolean): void;
  /** The agent has begun. It may say nothing for a while. */
  begun?(): void;
  /** The agent has the caller's message of that id. */
  took?(messageId: string): void;
  /** What the work cost since the last such report. */
  usage?(usage: Usage): void;
  /** The session of a coding agent that does the work. */
  session?(session: TaskSession): void;
  /** How many decisions of the agent's owner the work waits for. */
  waiting?(decisions: number): void;
  /** The agent answers with a message alone. */
  message(parts: readonly Part[]): void;
  /** Everything else, as an input of the task's machine. */
  input(input: TaskInput): void;
  /** The agent's whole result, after which it is done. Without this method it comes as `input` and `ended`. */
  result?(artifact: Artifact): void;
  /** Called last, unless the call was stopped: without an error when the agent is done. */
  ended(error?: unknown): void;
}

const MAX_SESSION_CHARS = 500;

/** An input without the time it came at. */
type Untimed = TaskInput extends infer I ? (I extends { at: number } ? Omit<I, 'at'> : never) : never;

/** The caller's half of a task: one agent at work on it, as an ordinary conversation between caller and agent. */
export class TaskCall implements StreamListener {
  readonly #runtime: Runtime;
  readonly #caller: Agent;
  readonly #target: string;
  readonly #opening: TaskOpening;
  readonly #listener: TaskCallListener;
  #reports: StreamTap | undefined;
  /** The artifact that grows with the items that are no reports. */
  #artifactId = '';
  #busy = true;
  /** The agent is done, and the listener hears what it said last. */
  #answered = false;

  constructor(runtime: Runtime, caller: Agent, target: string, opening: TaskOpening, listener: TaskCallListener) {
    this.#runtime = runtime;
    this.#caller = caller;
    this.#target = target;
    this.#opening = opening;
    this.#listener = listener;
  }

  get busy(): boolean {
    return this.#busy && !this.#answered;
  }

  /** Calls the agent. The listener may hear the answer, or the failure, before this returns. */
  work(): void {
    if (this.#busy) this.#reports = this.#caller.tap(this.#target, { [TASK]: this.#opening }, this);
  }

  /** @internal */
  begun(): void {
    if (this.#busy) this.#listener.begun?.();
  }

  /** @internal */
  item(value: unknown): void {
    const report = taskIn<TaskReport>(value);
    if (report) {
      this.#hear(report);
      return;
    }
    // An item that is no report is the task's result, which becomes an artifact; one in pieces grows.
    const append = this.#artifactId !== '';
    this.#artifactId ||= this.#runtime.id();
    const artifact = { artifactId: this.#artifactId, parts: partsOf(value) };
    this.#tell({ type: 'artifact', artifact, append, lastChunk: false });
  }

  /** @internal */
  answered(value: unknown): void {
    if (!this.#busy) return;
    this.#answered = true;
    if (this.#listener.result && !taskIn(value)) {
      this.#busy = false;
      this.#listener.result({ artifactId: this.#runtime.id(), parts: partsOf(value) });
      return;
    }
    this.item(value);
    this.ended();
  }

  /** @internal */
  ended(error?: unknown): void {
    if (!this.#busy) return;
    this.#busy = false;
    this.#listener.ended(error);
  }

  /** Sends the agent a further message of its caller; `took` tells when the handler has it. */
  async say(message: Message): Promise<void> {
    await this.#send({ id: this.#opening.id, input: message, receipt: true });
  }

  /** Makes the agent stop. The listener hears nothing more. */
  stop(): void {
    if (!this.#busy) return;
    this.#busy = false;
    // The end of the stream reaches an agent when it next reports; this message reaches it at once.
    void this.#send({ id: this.#opening.id, cancel: true }).catch(() => {});
    this.#reports?.leave();
  }

  #send(news: TaskNews): Promise<unknown> {
    return this.#caller.send(this.#target, { [TASK]: news }, { thread: this.#opening.id });
  }

  #hear(report: TaskReport): void {
    switch (report.report) {
      case 'accepted':
        this.#listener.accepted?.(report.resumable);
        break;
      case 'took':
        if (this.#busy) this.#listener.took?.(String(report.messageId));
        break;
      case 'working':
        if (this.#busy) this.#hearFacts(report);
        if (report.parts) this.#tell({ type: 'agent-message', message: this.#words(report) });
        break;
      case 'artifact': {
        const { append, lastChunk } = report;
        const artifact = readArtifact(report.artifact, 'artifact');
        this.#tell({ type: 'artifact', artifact, append: append === true, lastChunk: lastChunk === true });
        break;
      }
      case 'input-required':
      case 'auth-required':
        this.#tell({ type: report.report, message: this.#words(report) });
        break;
      case 'rejected':
        this.#tell({ type: 'status', state: 'TASK_STATE_REJECTED', message: this.#words(report) });
        break;
      case 'message':
        if (this.#busy) this.#listener.message(readParts(report as unknown as Fields, 'report'));
        break;
      default:
        throw new EclipticError('INVALID_AGENT_RESPONSE', 'the agent sent an unknown kind of report');
    }
  }

  #hearFacts({ usage, session, waiting }: Extract<TaskReport, { report: 'working' }>): void {
    if (usage) this.#listener.usage?.(usageIn({ [USAGE]: usage })!);
    if (session) this.#listener.session?.(readSession(session));
    if (waiting !== undefined) this.#listener.waiting?.(Number(waiting) || 0);
  }

  /** The agent may be on another node, so its report is checked. */
  #words(report: object): Message {
    return { messageId: this.#runtime.id(), role: 'ROLE_AGENT', parts: readParts(report as Fields, 'report') };
  }

  #tell(input: Untimed): void {
    if (this.#busy) this.#listener.input({ ...input, at: this.#runtime.now() } as TaskInput);
  }
}

function readSession({ id, state, reason }: TaskSession): TaskSession {
  const cut = (text: unknown) => cutText(typeof text === 'string' ? text : '', MAX_SESSION_CHARS);
  return { id: cut(id), state: cut(state), ...(reason !== undefined && { reason: cut(reason) }) };
}

/** Text, parts in A2A's own shape, or any JSON. */
function partsOf(value: unknown): readonly Part[] {
  if (typeof value === 'string') return [{ text: value }];
  if (!Array.isArray(value) || value.length === 0) return [{ data: value }];
  try {
    return readParts({ parts: value }, '');
  } catch {
    return [{ data: value }];
  }
}
