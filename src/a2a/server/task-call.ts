import type { Agent } from '../../agent/agent.js';
import { TASK, type TaskNews, type TaskOpening, type TaskReport, taskIn } from '../../agent/agent-tasks.js';
import type { StreamReader } from '../../agent/streams.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { readArtifact, readParts } from '../protocol/read-requests.js';
import type { Fields } from '../protocol/reading.js';
import type { TaskInput } from '../protocol/task-machine.js';
import type { Message, Part } from '../protocol/types.js';

/** What a run tells of a task: inputs for its machine, and what only the tasks needs to know. */
export interface RunListener {
  accepted(resumable: boolean): void;
  /** The agent has begun. It may say nothing for a while. */
  begun(): void;
  /** The agent has the caller's message of that id. */
  took(messageId: string): void;
  /** The agent answers with a message alone. */
  message(parts: readonly Part[]): void;
  input(input: TaskInput): void;
}

/** The tasks says how long a task may take. */
const UNLIMITED = { timeoutMs: Number.POSITIVE_INFINITY };

/** An input without the time it came at. */
type Untimed = TaskInput extends infer I ? (I extends { at: number } ? Omit<I, 'at'> : never) : never;

/** One agent at work on one task, as an ordinary conversation between the caller and that agent. */
export class TaskCall {
  readonly #runtime: Runtime;
  readonly #caller: Agent;
  readonly #target: string;
  readonly #opening: TaskOpening;
  readonly #listener: RunListener;
  #reports: StreamReader | undefined;
  #busy = true;

  constructor(runtime: Runtime, caller: Agent, target: string, opening: TaskOpening, listener: RunListener) {
    this.#runtime = runtime;
    this.#caller = caller;
    this.#target = target;
    this.#opening = opening;
    this.#listener = listener;
  }

  /** Is the agent at work? */
  get busy(): boolean {
    return this.#busy;
  }

  /** Works until the agent is done, or it is stopped. The listener hears of everything; this never rejects. */
  async work(): Promise<void> {
    let chunks = 0;
    let artifactId = '';
    try {
      this.#reports = this.#caller.stream(this.#target, { [TASK]: this.#opening }, UNLIMITED);
      this.#reports.onBegun(() => {
        if (this.#busy) this.#listener.begun();
      });
      for await (const item of this.#reports) {
        const report = taskIn<TaskReport>(item);
        if (report) this.#hear(report);
        else {
          // A result that is not reported as anything else is the task's artifact; one in pieces grows.
          artifactId ||= this.#runtime.id();
          const artifact = { artifactId, parts: partsOf(item) };
          this.#tell({ type: 'artifact', artifact, append: chunks++ > 0, lastChunk: false });
        }
      }
      this.#finish({ type: 'exit', code: 0 });
    } catch (error) {
      this.#finish({ type: 'crash', reason: describeError(error) });
    }
  }

  /** Gives the agent a further message of its caller. The listener is told when the handler has it. */
  async say(message: Message): Promise<void> {
    await this.#send({ id: this.#opening.id, input: message, receipt: true });
  }

  /** Makes the agent stop, and tells nobody anything any more. */
  stop(): void {
    if (!this.#busy) return;
    this.#busy = false;
    // The stream's end reaches an agent when it next says something; this, at once.
    void this.#send({ id: this.#opening.id, cancel: true }).catch(() => {});
    void this.#reports?.return();
  }

  #send(news: TaskNews): Promise<unknown> {
    return this.#caller.send(this.#target, { [TASK]: news }, { thread: this.#opening.id });
  }

  #hear(report: TaskReport): void {
    switch (report.report) {
      case 'accepted':
        this.#listener.accepted(report.resumable);
        break;
      case 'took':
        if (this.#busy) this.#listener.took(String(report.messageId));
        break;
      case 'working':
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
        throw new EclipticError('INVALID_AGENT_RESPONSE', 'the agent reports what nobody knows');
    }
  }

  /** The agent may be another node's, and say anything. */
  #words(report: object): Message {
    return { messageId: this.#runtime.id(), role: 'ROLE_AGENT', parts: readParts(report as Fields, 'report') };
  }

  #tell(input: Untimed): void {
    if (this.#busy) this.#listener.input({ ...input, at: this.#runtime.now() } as TaskInput);
  }

  /** The last that is told. */
  #finish(input: Untimed): void {
    if (!this.#busy) return;
    this.#busy = false;
    this.#listener.input({ ...input, at: this.#runtime.now() } as TaskInput);
  }
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
