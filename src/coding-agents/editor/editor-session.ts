import { AnswerText, finalText } from '../../a2a/client/task-follower.js';
import { textOf } from '../../a2a/protocol/simple.js';
import { isTerminal } from '../../a2a/protocol/task-rules.js';
import type { Message, StreamResponse, TaskState, TaskStatus } from '../../a2a/protocol/types.js';
import { activityIn, type TaskActivity } from '../../agent/task-activity.js';
import type { SessionUpdate, StopReason } from '../../providers/acp/sdk.js';
import { Deferred } from '../../runtime/async.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import { BRANCH_ARTIFACT } from '../../work/branch-report.js';
import type { EditorApproval, EditorMesh, EditorTask, Verdict } from './editor-mesh.js';

/** The editor's side of one session. */
export interface EditorView {
  update(update: SessionUpdate): void;
  /** Undefined where the user gives no answer. The signal withdraws the question. */
  ask(toolCallId: string, approval: EditorApproval, signal: AbortSignal): Promise<Verdict | undefined>;
}

interface ToolUse {
  readonly id: string;
  over: boolean;
}

const TOOL_KINDS = ['read', 'edit', 'delete', 'move', 'search', 'execute', 'think', 'fetch'] as const;

/** One conversation of an editor with an agent: each prompt is a task, or the answer to the question of the one before. */
export class EditorSession {
  readonly id: string;
  readonly #mesh: EditorMesh;
  readonly #view: EditorView;
  /** The task that works, or waits for an answer. */
  #task: OpenTask | undefined;

  constructor(id: string, mesh: EditorMesh, view: EditorView) {
    this.id = id;
    this.#mesh = mesh;
    this.#view = view;
  }

  async prompt(parts: EditorTask['parts']): Promise<StopReason> {
    const open = this.#task;
    if (open?.isBusy) throw new EclipticError('QUEUE_FULL', 'the session has a prompt under way');
    if (open) {
      if (parts.some(({ text }) => text === undefined)) {
        throw new EclipticError('CONTENT_TYPE_NOT_SUPPORTED', 'the answer to a question is text, without files');
      }
      const turn = open.begin();
      await this.#mesh.answer(open.id!, textOf(parts)).catch((error) => open.fail(error));
      return turn;
    }
    const task = new OpenTask(this.#mesh, this.#view);
    this.#task = task;
    const turn = task.begin();
    this.#mesh
      .send({ parts, context: this.id }, (event) => task.take(event))
      .then(
        () => task.end(),
        (error) => task.fail(error),
      )
      .finally(() => {
        if (this.#task === task) this.#task = undefined;
      });
    return turn;
  }

  cancel(): void {
    this.#task?.cancel();
  }

  /** Shows the conversation so far. */
  async replay(): Promise<void> {
    for (const task of await this.#mesh.history(this.id)) {
      const asked = (task.history ?? []).filter(({ role }) => role === 'ROLE_USER');
      for (const { parts } of asked) this.#view.update(chunk('user_message_chunk', textOf(parts)));
      const text = finalText(task);
      if (text !== undefined) this.#view.update(chunk('agent_message_chunk', text));
    }
  }
}

/** A task of the session, over one or several turns. */
class OpenTask {
  id: string | undefined;
  readonly #mesh: EditorMesh;
  readonly #view: EditorView;
  readonly #answer = new AnswerText();
  readonly #tools = new Map<string, ToolUse>();
  readonly #questions = new Map<string, AbortController>();
  #turn: Deferred<StopReason> | undefined;
  #last: TaskStatus | undefined;
  #hasAnswered = false;
  #cancelled = false;

  constructor(mesh: EditorMesh, view: EditorView) {
    this.#mesh = mesh;
    this.#view = view;
  }

  get isBusy(): boolean {
    return this.#turn !== undefined;
  }

  begin(): Promise<StopReason> {
    this.#turn = new Deferred();
    this.#last = undefined;
    return this.#turn.promise;
  }

  cancel(): void {
    this.#cancelled = true;
    for (const question of this.#questions.values()) question.abort();
    // A task that is not known yet is cancelled with its first event.
    if (this.id !== undefined) void this.#mesh.cancel(this.id).catch((error) => this.#say(describeError(error)));
  }

  take(event: StreamResponse): void {
    const known = this.id;
    if ('task' in event) this.#hear(event.task.id, event.task.status);
    else if ('statusUpdate' in event) this.#hear(event.statusUpdate.taskId, event.statusUpdate.status);
    if (this.#cancelled && known === undefined && this.id !== undefined) this.cancel();
    if ('artifactUpdate' in event && event.artifactUpdate.artifact.name === BRANCH_ARTIFACT) {
      // The patch beside it is for programs.
      this.#tell(`\n${event.artifactUpdate.artifact.parts.find(({ text }) => text !== undefined)?.text ?? ''}`);
      return;
    }
    this.#tell(this.#answer.add(event));
    if (this.#last?.state === 'TASK_STATE_INPUT_REQUIRED') this.#stop('end_turn');
  }

  /** The task has ended. */
  end(): void {
    const { state = 'TASK_STATE_COMPLETED', message } = this.#last ?? {};
    for (const question of this.#questions.values()) question.abort();
    for (const tool of this.#tools.values()) {
      if (!tool.over)
        this.#view.update({ sessionUpdate: 'tool_call_update', toolCallId: tool.id, status: 'completed' });
    }
    if (!this.#hasAnswered && message && isTerminal(state)) this.#tell(textOf(message.parts));
    if (state === 'TASK_STATE_FAILED') {
      this.fail(new EclipticError('REMOTE_FAILED', message ? textOf(message.parts) : 'the task failed'));
      return;
    }
    this.#stop(stopReasonOf(state));
  }

  fail(error: unknown): void {
    const turn = this.#turn;
    this.#turn = undefined;
    if (this.#cancelled) turn?.resolve('cancelled');
    else turn?.reject(error);
  }

  #stop(reason: StopReason): void {
    const turn = this.#turn;
    this.#turn = undefined;
    turn?.resolve(reason);
  }

  #hear(id: string, status: TaskStatus): void {
    this.id = id;
    this.#last = status;
    const { state, message } = status;
    if (!message) return;
    if (state === 'TASK_STATE_WORKING') this.#show(message);
    // A question is part of the conversation; the next prompt answers it.
    else if (state === 'TASK_STATE_INPUT_REQUIRED' || state === 'TASK_STATE_AUTH_REQUIRED') {
      this.#tell(`${this.#hasAnswered ? '\n\n' : ''}${textOf(message.parts)}`);
    }
  }

  #show(message: Message): void {
    const text = textOf(message.parts);
    const activity = activityIn(message);
    switch (activity?.kind) {
      case 'plan': {
        const entries = activity.entries.map((entry) => ({ ...entry, priority: 'medium' as const }));
        this.#view.update({ sessionUpdate: 'plan', entries });
        break;
      }
      case 'tool-call':
        this.#showTool(activity);
        break;
      case 'approval':
        if (activity.open) void this.#askFor(activity.id, text);
        else this.#questions.get(activity.id)?.abort();
        break;
      case 'thought':
        this.#view.update(chunk('agent_thought_chunk', text));
        break;
      default:
        this.#say(text);
    }
  }

  #showTool({ id, title, purpose, status = 'pending' }: Extract<TaskActivity, { kind: 'tool-call' }>): void {
    const kind = TOOL_KINDS.find((known) => known === purpose);
    const call = { toolCallId: id, title, status, ...(kind && { kind }) };
    this.#view.update({
      sessionUpdate: this.#tools.has(id) ? 'tool_call_update' : 'tool_call',
      ...call,
    } as SessionUpdate);
    this.#tools.set(id, { id, over: status === 'completed' || status === 'failed' });
  }

  /** Asks the editor's user for what the work waits for, if the owner may decide it. */
  async #askFor(id: string, text: string): Promise<void> {
    const gone = new AbortController();
    this.#questions.set(id, gone);
    const toolCallId = `approval-${id}`;
    try {
      const approval = await this.#mesh.approval(id);
      if (!approval) {
        this.#say(text);
        return;
      }
      this.#view.update({ sessionUpdate: 'tool_call', toolCallId, title: approval.title, status: 'pending' });
      const verdict = gone.signal.aborted ? undefined : await this.#view.ask(toolCallId, approval, gone.signal);
      if (verdict && !gone.signal.aborted) await this.#mesh.decide(approval.id, verdict);
      const status = verdict === 'deny' || verdict === undefined ? 'failed' : 'completed';
      this.#view.update({ sessionUpdate: 'tool_call_update', toolCallId, status });
    } catch (error) {
      this.#say(describeError(error));
    } finally {
      this.#questions.delete(id);
    }
  }

  /** Adds to the answer. */
  #tell(text: string): void {
    if (text === '') return;
    this.#hasAnswered = true;
    this.#view.update(chunk('agent_message_chunk', text));
  }

  /** Shows what is no part of the answer. */
  #say(text: string): void {
    if (text !== '') this.#view.update(chunk('agent_thought_chunk', `${text}\n`));
  }
}

function chunk(
  sessionUpdate: 'agent_message_chunk' | 'agent_thought_chunk' | 'user_message_chunk',
  text: string,
): SessionUpdate {
  return { sessionUpdate, content: { type: 'text', text } };
}

function stopReasonOf(state: TaskState): StopReason {
  if (state === 'TASK_STATE_CANCELED') return 'cancelled';
  return state === 'TASK_STATE_REJECTED' ? 'refusal' : 'end_turn';
}
