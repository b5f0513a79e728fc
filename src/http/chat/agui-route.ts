import type { TaskActivity } from '../../agent/task-activity.js';
import { EclipticError, toEclipticError } from '../../runtime/errors.js';
import type { Exchange, Route } from '../server/http-server.js';
import { type AgentAsked, AgentTurn, type TurnEvent } from './agent-turn.js';
import { answerIn, partsOfRun, type RunAsked, readRun } from './agui-request.js';
import { answerOf, type ChatComponents, each, readJson } from './chat.js';
import { EventWriter } from './event-writer.js';

/** `POST /agui/AGENT`: a run of the Agent–User Interaction protocol. Its thread is the conversation with the agent. */
export class AgUiRoute implements Route {
  readonly path = '/agui';
  readonly scope = 'tasks';
  readonly #components: ChatComponents;

  constructor(components: ChatComponents) {
    this.#components = components;
  }

  async serve(exchange: Exchange): Promise<void> {
    const { request, path } = exchange;
    const [agent = '', ...rest] = path.split('/').slice(2);
    if (request.method !== 'POST' || agent === '' || rest.length > 0) {
      throw new EclipticError('METHOD_NOT_FOUND', `there is nothing at ${request.method} ${path}`);
    }
    const { runtime, operations } = this.#components;
    const run = readRun(await readJson(exchange));
    const about = { threadId: run.threadId, runId: run.runId };
    const cancelled = run.resume?.find(({ status }) => status === 'cancelled');
    const asked = { agent: decodeURIComponent(agent), contextId: run.threadId, ...messageOf(run) };
    const turn = new AgentTurn(operations, runtime, exchange, asked);
    if (cancelled) {
      await turn.cancel();
      const writer = new EventWriter(runtime, exchange.response);
      await writer.write({ type: 'RUN_STARTED', ...about });
      await writer.write({ type: 'RUN_FINISHED', ...about, outcome: { type: 'cancelled' } });
      writer.end();
      return;
    }
    const events = await turn.open();
    const writer = new EventWriter(runtime, exchange.response);
    const view = new RunView(
      (event) => writer.write(event),
      () => runtime.id(),
    );
    await writer.write({ type: 'RUN_STARTED', ...about });
    try {
      const end = await each(events, (event) => view.show(event));
      const { refusal } = answerOf(end);
      if (refusal !== null) throw new EclipticError('REMOTE_FAILED', refusal);
      await view.close();
      const { usage, state } = end;
      const waits = state === 'TASK_STATE_INPUT_REQUIRED' || state === 'TASK_STATE_AUTH_REQUIRED';
      const interrupt = { id: turn.taskId, reason: waits ? reasonOf(state) : '', message: end.reason };
      await writer.write({
        type: 'RUN_FINISHED',
        ...about,
        outcome: waits ? { type: 'interrupt', interrupts: [interrupt] } : { type: 'success' },
        ...(usage && { usage: [{ inputTokens: usage.inputTokens, outputTokens: usage.outputTokens }] }),
      });
    } catch (error) {
      const { code, message } = toEclipticError(error, 'HANDLER_FAILED');
      await view.close();
      await writer.write({ type: 'RUN_ERROR', message, code });
    }
    writer.end();
  }
}

function reasonOf(state: string): string {
  return state === 'TASK_STATE_AUTH_REQUIRED' ? 'auth_required' : 'input_required';
}

/** The user's last message; or the answer to the question that ended an earlier run. */
function messageOf(run: RunAsked): Pick<AgentAsked, 'parts' | 'taskId'> {
  const [answer, ...others] = run.resume ?? [];
  if (others.length > 0)
    throw new EclipticError('INVALID_PARAMS', 'an agent asks one question at a time', { field: 'resume' });
  if (!answer) return { parts: partsOfRun(run) };
  return { parts: [{ text: answerIn(answer.payload) }], taskId: answer.interruptId };
}

type Block = { readonly kind: 'text' | 'reasoning'; readonly id: string };

/** The events of a run. One block is open at a time: readers check that each ends before another begins. */
class RunView {
  readonly #write: (event: object) => Promise<void>;
  readonly #newId: () => string;
  /** Tool calls by id; true once they have a result. */
  readonly #tools = new Map<string, boolean>();
  #block: Block | undefined;

  constructor(write: (event: object) => Promise<void>, newId: () => string) {
    this.#write = write;
    this.#newId = newId;
  }

  async show(event: TurnEvent): Promise<void> {
    if (event.kind === 'text') await this.#say('text', event.text);
    if (event.kind !== 'progress') return;
    const { activity, text } = event;
    if (activity?.kind === 'tool-call') await this.#showTool(activity, text);
    else if (activity?.kind === 'plan') await this.#showPlan(activity);
    else if (text !== '') await this.#say('reasoning', `${text}\n`);
  }

  /** Ends what is open, before the run ends. */
  async close(): Promise<void> {
    await this.#endBlock();
    for (const [id, isOver] of this.#tools) if (!isOver) await this.#result(id, 'over');
  }

  async #showTool({ id, title, status }: Extract<TaskActivity, { kind: 'tool-call' }>, text: string): Promise<void> {
    await this.#endBlock();
    if (!this.#tools.has(id)) {
      this.#tools.set(id, false);
      await this.#write({ type: 'TOOL_CALL_START', toolCallId: id, toolCallName: title });
      await this.#write({ type: 'TOOL_CALL_END', toolCallId: id });
    }
    if ((status === 'completed' || status === 'failed') && !this.#tools.get(id)) await this.#result(id, text);
  }

  async #result(toolCallId: string, content: string): Promise<void> {
    this.#tools.set(toolCallId, true);
    await this.#write({ type: 'TOOL_CALL_RESULT', messageId: this.#newId(), toolCallId, content, role: 'tool' });
  }

  async #showPlan({ entries }: Extract<TaskActivity, { kind: 'plan' }>): Promise<void> {
    await this.#endBlock();
    await this.#write({
      type: 'ACTIVITY_SNAPSHOT',
      messageId: this.#newId(),
      activityType: 'PLAN',
      content: { entries },
    });
  }

  async #say(kind: Block['kind'], delta: string): Promise<void> {
    if (this.#block?.kind !== kind) {
      await this.#endBlock();
      this.#block = { kind, id: this.#newId() };
      const messageId = this.#block.id;
      if (kind === 'reasoning') await this.#write({ type: 'REASONING_START', messageId });
      const begun =
        kind === 'text'
          ? { type: 'TEXT_MESSAGE_START', role: 'assistant' }
          : { type: 'REASONING_MESSAGE_START', role: 'reasoning' };
      await this.#write({ ...begun, messageId });
    }
    const type = kind === 'text' ? 'TEXT_MESSAGE_CONTENT' : 'REASONING_MESSAGE_CONTENT';
    await this.#write({ type, messageId: this.#block!.id, delta });
  }

  async #endBlock(): Promise<void> {
    const block = this.#block;
    this.#block = undefined;
    if (!block) return;
    const { kind, id: messageId } = block;
    await this.#write({ type: kind === 'text' ? 'TEXT_MESSAGE_END' : 'REASONING_MESSAGE_END', messageId });
    if (kind === 'reasoning') await this.#write({ type: 'REASONING_END', messageId });
  }
}
