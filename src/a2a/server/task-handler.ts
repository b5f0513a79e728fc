import type { TaskCallListener } from '../../agent/task-call.js';
import type { Deadline } from '../../runtime/deadlines.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { cutText } from '../../runtime/text.js';
import { NotFoundError, ValidationError } from '../protocol/errors.js';
import { type A2ATask, readTaskSend, SIMPLE_TIMEOUT } from '../protocol/simple.js';
import { simple } from './operations.js';
import type { ProcessEvent, ProcessManager, Session } from './process-manager.js';
import { MemoryTaskRecords } from './task-records.js';
import { TaskService } from './task-service.js';
import type { AgentCall } from './task-terms.js';

export interface TaskDatabase {
  /** Oldest first. */
  listAgents(): readonly { readonly id: string; readonly defaultProjectId?: string | null | undefined }[];
  createSession(init: Omit<Session, 'id'>): Session;
}

export interface A2ATaskDeps {
  readonly db: TaskDatabase;
  readonly processManager: ProcessManager;
  /** Default: the machine's clock and timers. */
  readonly runtime?: Runtime;
}

const NAME_CHARS = 50;
/** Tasks of the simple interface have no callers of their own. */
const OWNER = 'operator';

let records = new MemoryTaskRecords();
let services = new WeakMap<A2ATaskDeps, SessionTasks>();

/** Gives a task to the first agent that has a project, in a new session. */
export function handleTaskSend(deps: A2ATaskDeps, body: unknown): A2ATask {
  const { message, timeoutMs = SIMPLE_TIMEOUT.usual } = read(body);
  const tasks = services.get(deps) ?? new SessionTasks(deps, records);
  services.set(deps, tasks);
  return tasks.send(message, timeoutMs);
}

export function handleTaskGet(taskId: string): A2ATask | null {
  const record = records.find(taskId);
  return record ? simple(record) : null;
}

export function clearTaskStore(): void {
  records = new MemoryTaskRecords();
  services = new WeakMap();
}

/** The task service of one `deps`: agents work in sessions of its process manager, and tasks are kept in memory. */
class SessionTasks {
  readonly #deps: A2ATaskDeps;
  readonly #runtime: Runtime;
  readonly #service: TaskService;
  /** Sessions whose call is about to start. */
  readonly #sessions = new Map<string, Session>();

  constructor(deps: A2ATaskDeps, kept: MemoryTaskRecords) {
    const { runtime = systemRuntime(), processManager } = deps;
    this.#deps = deps;
    this.#runtime = runtime;
    this.#service = new TaskService({
      runtime,
      records: kept,
      deadlines: new Timers(runtime),
      nodeKey: undefined,
      chooseAgent: ({ agent }) => agent!,
      onTask: () => {},
      startCall: ({ sessionId }, _opening, listener) =>
        new SessionCall(runtime, processManager, this.#sessions.get(sessionId)!, listener),
    });
  }

  send(text: string, timeoutMs: number): A2ATask {
    const { db } = this.#deps;
    const agent = db.listAgents().find(({ defaultProjectId }) => defaultProjectId);
    if (!agent?.defaultProjectId) throw new NotFoundError('Agent with default project');
    const session = db.createSession({
      projectId: agent.defaultProjectId,
      agentId: agent.id,
      name: `A2A Task: ${cutText(text, NAME_CHARS)}`,
      initialPrompt: text,
      source: 'agent',
    });
    const message = { messageId: this.#runtime.id(), role: 'ROLE_USER' as const, parts: [{ text }] };
    const { id: sessionId } = session;
    this.#sessions.set(sessionId, session);
    try {
      return simple(this.#service.start(OWNER, { message }, { agent: agent.id, sessionId, timeoutMs }).record);
    } finally {
      this.#sessions.delete(sessionId);
    }
  }
}

/** An agent at work in a session of a process manager. */
class SessionCall implements AgentCall {
  readonly #runtime: Runtime;
  readonly #processes: ProcessManager;
  readonly #session: Session;
  readonly #listener: TaskCallListener;
  #unsubscribe: (() => void) | undefined;

  constructor(runtime: Runtime, processes: ProcessManager, session: Session, listener: TaskCallListener) {
    this.#runtime = runtime;
    this.#processes = processes;
    this.#session = session;
    this.#listener = listener;
  }

  get busy(): boolean {
    return this.#unsubscribe !== undefined;
  }

  work(): void {
    this.#unsubscribe = this.#processes.subscribe(this.#session.id, (_session, event) => this.#hear(event));
    try {
      this.#processes.startProcess(this.#session, this.#session.initialPrompt);
    } catch (error) {
      this.#end(error);
    }
  }

  /** A session takes no further messages. */
  async say(): Promise<void> {}

  stop(): void {
    if (!this.busy) return;
    this.#leave();
    this.#processes.stopProcess(this.#session.id);
  }

  #hear(event: ProcessEvent): void {
    if (event.type === 'assistant') {
      const parts = [{ text: event.message.content }];
      const message = { messageId: this.#runtime.id(), role: 'ROLE_AGENT' as const, parts };
      this.#listener.input({ type: 'agent-message', at: this.#runtime.now(), message });
    } else if (event.type === 'error') this.#end(new EclipticError('HANDLER_FAILED', event.error.message));
    else if (event.type !== 'session_started') this.#end();
  }

  #end(error?: unknown): void {
    if (!this.busy) return;
    this.#leave();
    this.#listener.ended(error);
  }

  #leave(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }
}

/** One timer per deadline, so that a task that has ended leaves none behind. */
class Timers {
  readonly #runtime: Runtime;
  readonly #timers = new Map<Deadline, Timer>();

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  add(deadline: Deadline, ms: number): void {
    const timer = this.#runtime.setTimer(() => {
      this.#timers.delete(deadline);
      deadline.expire();
    }, ms);
    this.#timers.set(deadline, timer);
  }

  remove(deadline: Deadline): void {
    this.#timers.get(deadline)?.cancel();
    this.#timers.delete(deadline);
  }
}

function read(body: unknown): ReturnType<typeof readTaskSend> {
  try {
    return readTaskSend(body);
  } catch (error) {
    if (!(error instanceof EclipticError)) throw error;
    throw new ValidationError(error.message, error.details);
  }
}
