import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { cutText } from '../../runtime/text.js';
import { NotFoundError, ValidationError } from '../protocol/errors.js';
import { writeTimestamp } from '../protocol/reading.js';
import { type A2ATask, projectTask, readTaskSend } from '../protocol/simple.js';
import { createTask, stepTask, type TaskInput, type TaskModel } from '../protocol/task-machine.js';
import { isTerminal } from '../protocol/task-rules.js';
import type { ProcessEvent, ProcessManager, Session } from './process-manager.js';

/** Agents and sessions, as far as tasks need them. */
export interface TaskDatabase {
  /** In the order in which they were made. */
  listAgents(): readonly { readonly id: string; readonly defaultProjectId?: string | null | undefined }[];
  createSession(init: Omit<Session, 'id'>): Session;
}

export interface A2ATaskDeps {
  readonly db: TaskDatabase;
  readonly processManager: ProcessManager;
  /** Default: the machine's clock and timers. */
  readonly runtime?: Runtime;
}

/** Above this, the oldest of those that have ended are forgotten, so many at a time. */
const CAPACITY = 1_000;
const PRUNED_AT_ONCE = 100;
const TIMEOUT_MS = 5 * 60_000;
const NAME_CHARS = 50;

interface Kept {
  model: TaskModel;
  readonly sessionId: string;
  readonly createdAt: string;
}

const tasks = new Map<string, Kept>();

/** Takes a task in: gives it to the first agent that has a project, and follows what comes of it. */
export function handleTaskSend(deps: A2ATaskDeps, body: unknown): A2ATask {
  const { message, timeoutMs = TIMEOUT_MS } = read(body);
  const { db, processManager, runtime = systemRuntime() } = deps;
  const agent = db.listAgents().find(({ defaultProjectId }) => defaultProjectId);
  if (!agent?.defaultProjectId) throw new NotFoundError('Agent with default project');
  if (tasks.size >= CAPACITY) prune();
  const at = runtime.now();
  const id = runtime.id();
  const words = { messageId: runtime.id(), role: 'ROLE_USER' as const, parts: [{ text: message }] };
  const session = db.createSession({
    projectId: agent.defaultProjectId,
    agentId: agent.id,
    name: `A2A Task: ${cutText(message, NAME_CHARS)}`,
    initialPrompt: message,
    source: 'agent',
  });
  const { model } = createTask({ id, contextId: runtime.id(), message: words, at });
  const kept: Kept = { model, sessionId: session.id, createdAt: writeTimestamp(at) };
  tasks.set(id, kept);
  take(kept, { type: 'started', at });
  follow(kept, session.id, processManager, runtime, timeoutMs);
  processManager.startProcess(session, message);
  return shown(kept);
}

/** A task by its id; null where there is none. */
export function handleTaskGet(taskId: string): A2ATask | null {
  const kept = tasks.get(taskId);
  return kept ? shown(kept) : null;
}

/** Forgets every task. */
export function clearTaskStore(): void {
  tasks.clear();
}

/** Whatever the session says goes into the task, until the task has ended, by its word or by its deadline. */
function follow(kept: Kept, sessionId: string, manager: ProcessManager, runtime: Runtime, timeoutMs: number): void {
  let timer: Timer | undefined;
  const unsubscribe = manager.subscribe(sessionId, (_session, event) => {
    const input = inputOf(event, runtime);
    if (input) take(kept, input);
    if (isTerminal(kept.model.task.status.state)) end();
  });
  const end = () => {
    timer?.cancel();
    unsubscribe();
  };
  timer = runtime.setTimer(() => {
    take(kept, { type: 'timeout', at: runtime.now() });
    end();
    manager.stopProcess(sessionId);
  }, timeoutMs);
}

function inputOf(event: ProcessEvent, runtime: Runtime): TaskInput | undefined {
  const at = runtime.now();
  switch (event.type) {
    case 'assistant': {
      const parts = [{ text: event.message.content }];
      return { type: 'agent-message', at, message: { messageId: runtime.id(), role: 'ROLE_AGENT', parts } };
    }
    case 'session_exited':
    case 'session_stopped':
      return { type: 'exit', at, code: 0 };
    case 'error':
      return { type: 'crash', at, reason: event.error.message };
    default:
      return undefined;
  }
}

function take(kept: Kept, input: TaskInput): void {
  kept.model = stepTask(kept.model, input).model;
}

function shown({ model, sessionId, createdAt }: Kept): A2ATask {
  return projectTask(model.task, { sessionId, createdAt });
}

/** Those under way stay, however many. */
function prune(): void {
  let left = PRUNED_AT_ONCE;
  for (const [id, { model }] of tasks) {
    if (left === 0) return;
    if (!isTerminal(model.task.status.state)) continue;
    tasks.delete(id);
    left--;
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
