import type { Agent } from '../../agent/agent.js';
import { TaskCall } from '../../agent/task-call.js';
import { callGuarded, logCallback } from '../../runtime/callbacks.js';
import { describeError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { textOf } from '../protocol/simple.js';
import type { TaskInput } from '../protocol/task-machine.js';

export type ProcessEvent =
  | { readonly type: 'session_started' }
  | { readonly type: 'assistant'; readonly message: { readonly role: 'assistant'; readonly content: string } }
  | { readonly type: 'session_exited' }
  | { readonly type: 'session_stopped' }
  | { readonly type: 'error'; readonly error: { readonly message: string; readonly type: string } };

export type ProcessListener = (sessionId: string, event: ProcessEvent) => void;

/** The work of one agent in a project. */
export interface Session {
  readonly id: string;
  readonly projectId: string;
  readonly agentId: string;
  readonly name: string;
  readonly initialPrompt: string;
  readonly source: 'agent' | 'user';
}

export interface ProcessManager {
  /** Returns a function that ends the subscription. */
  subscribe(sessionId: string, listener: ProcessListener): () => void;
  startProcess(session: Session, prompt: string): void;
  stopProcess(sessionId: string): void;
}

/** Sessions as conversations of the operator with agents on the mesh. */
export class AgentProcesses implements ProcessManager {
  readonly #runtime: Runtime;
  readonly #operator: () => Agent;
  readonly #listeners = new Map<string, Set<ProcessListener>>();
  readonly #runs = new Map<string, TaskCall>();

  constructor(runtime: Runtime, operator: () => Agent) {
    this.#runtime = runtime;
    this.#operator = operator;
  }

  subscribe(sessionId: string, listener: ProcessListener): () => void {
    const listeners = this.#listeners.get(sessionId) ?? new Set();
    this.#listeners.set(sessionId, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0) this.#listeners.delete(sessionId);
    };
  }

  startProcess({ id, agentId }: Session, prompt: string): void {
    const message = { messageId: this.#runtime.id(), role: 'ROLE_USER' as const, parts: [{ text: prompt }] };
    const opening = { id, contextId: id, message };
    const run = new TaskCall(this.#runtime, this.#operator(), agentId, opening, {
      message: (parts) => {
        this.#say(id, textOf(parts));
        this.#end(id, { type: 'session_exited' });
      },
      input: (input) => this.#hear(id, input),
      ended: (error) => {
        this.#end(id, error === undefined ? { type: 'session_exited' } : failed(describeError(error)));
      },
    });
    this.#runs.set(id, run);
    this.#emit(id, { type: 'session_started' });
    // A session is under way when this returns, also if its agent answers at once.
    void Promise.resolve().then(() => run.work());
  }

  stopProcess(sessionId: string): void {
    const run = this.#runs.get(sessionId);
    if (!run) return;
    run.stop();
    this.#end(sessionId, { type: 'session_stopped' });
  }

  #hear(id: string, input: TaskInput): void {
    switch (input.type) {
      case 'agent-message':
      case 'input-required':
      case 'auth-required':
        this.#say(id, textOf(input.message.parts));
        break;
      case 'artifact':
        this.#say(id, textOf(input.artifact.parts));
        break;
      case 'status':
        if (input.state === 'TASK_STATE_REJECTED') {
          this.#end(id, failed(textOf(input.message?.parts ?? []) || 'the agent rejected the task'));
        }
        break;
    }
  }

  #say(id: string, content: string): void {
    this.#emit(id, { type: 'assistant', message: { role: 'assistant', content } });
  }

  #end(id: string, event: ProcessEvent): void {
    if (this.#runs.delete(id)) this.#emit(id, event);
  }

  #emit(id: string, event: ProcessEvent): void {
    for (const listener of [...(this.#listeners.get(id) ?? [])]) {
      callGuarded(listener, [id, event], (error) => {
        logCallback(this.#runtime.logger)(`subscribe of session ${id}`, error);
      });
    }
  }
}

function failed(message: string): ProcessEvent {
  return { type: 'error', error: { message, type: 'crash' } };
}
