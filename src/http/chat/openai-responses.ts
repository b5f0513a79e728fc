import { finalText } from '../../a2a/client/task-follower.js';
import { textOf } from '../../a2a/protocol/simple.js';
import type { Task } from '../../a2a/protocol/types.js';
import type { RequestTerms } from '../../a2a/server/operations.js';
import { goneOf } from '../../a2a/server/request-context.js';
import { EclipticError } from '../../runtime/errors.js';
import { type Exchange, sendJson } from '../server/http-server.js';
import { type AgentAsked, AgentTurn, type TurnEnd } from './agent-turn.js';
import { type ChatComponents, each, formedAnswerOf, readJson } from './chat.js';
import { EventWriter } from './event-writer.js';
import { toApiError } from './openai-errors.js';
import { partsOfInput, type ResponsesAsked, readResponsesRequest, schemaOfInput } from './openai-requests.js';

/** A response is a task, or the context of an agent that answered without one. */
const TASK = 'resp_';
const CONTEXT = 'resp_ctx_';

type Status = 'in_progress' | 'completed' | 'failed' | 'cancelled';

/** `/v1/responses`: unlike in a chat, the next request goes on in the conversation of the one before. */
export class OpenAiResponses {
  readonly #components: ChatComponents;

  constructor(components: ChatComponents) {
    this.#components = components;
  }

  async create(exchange: Exchange): Promise<void> {
    const { runtime, operations, agents } = this.#components;
    const asked = readResponsesRequest(await readJson(exchange));
    const before = await this.#before(asked, exchange);
    const parts = partsOfInput(asked);
    agents.requireAble(exchange.principal, asked.model, parts);
    const turn = new AgentTurn(operations, runtime, exchange, { agent: asked.model, parts, ...before });
    const about = {
      created_at: Math.floor(runtime.now() / 1_000),
      model: asked.model,
      previous_response_id: asked.previous_response_id ?? null,
      instructions: asked.instructions ?? null,
      metadata: asked.metadata ?? {},
    };
    if (asked.stream) return this.#stream(exchange, turn, about, asked);
    const end = await turn.ask();
    const item = `msg_${runtime.id()}`;
    sendJson(exchange.response, 200, {
      ...responseOf(idOf(turn), about, 'completed', [messageItem(item, 'completed', inputAnswerOf(end, asked))]),
      ...usageOf(end),
    });
  }

  /** A task that has ended, or is under way. */
  async retrieve(exchange: Exchange, id: string): Promise<void> {
    const task = await this.#task(id, exchange);
    if (!task) throw new EclipticError('TASK_NOT_FOUND', `the agent kept nothing of ${id}`);
    sendJson(exchange.response, 200, taskResponse(id, task));
  }

  async cancel(exchange: Exchange, id: string): Promise<void> {
    const task = await this.#task(id, exchange);
    if (!task) throw new EclipticError('TASK_NOT_FOUND', `the agent kept nothing of ${id}`);
    const outcome = await this.#components.operations.perform('CancelTask', { id: task.id }, termsOf(exchange));
    sendJson(exchange.response, 200, taskResponse(id, (outcome as { result: Task }).result));
  }

  /** The conversation to go on with; a task that waits for its caller takes the message as the answer. */
  async #before(
    { previous_response_id: previous, conversation }: ResponsesAsked,
    exchange: Exchange,
  ): Promise<Pick<AgentAsked, 'contextId' | 'taskId'>> {
    if (previous === undefined || previous === null) return { contextId: conversation ?? undefined };
    if (previous.startsWith(CONTEXT)) return { contextId: previous.slice(CONTEXT.length) };
    const task = await this.#task(previous, exchange);
    if (!task) return {};
    const { id: taskId, contextId, status } = task;
    return status.state === 'TASK_STATE_INPUT_REQUIRED' ? { contextId, taskId } : { contextId };
  }

  async #task(id: string, exchange: Exchange): Promise<Task | undefined> {
    if (id.startsWith(CONTEXT)) return undefined;
    if (!id.startsWith(TASK)) throw new EclipticError('TASK_NOT_FOUND', 'there is no such response');
    const asked = { id: decodeURIComponent(id.slice(TASK.length)) };
    return ((await this.#components.operations.perform('GetTask', asked, termsOf(exchange))) as { result: Task })
      .result;
  }

  async #stream({ response }: Exchange, turn: AgentTurn, about: object, asked: ResponsesAsked): Promise<void> {
    const { runtime } = this.#components;
    const events = await turn.open();
    const writer = new EventWriter(runtime, response);
    let number = 0;
    const write = (type: string, fields: object) => writer.write({ type, sequence_number: number++, ...fields }, type);
    const [reasoning, item] = [`rs_${runtime.id()}`, `msg_${runtime.id()}`];
    const output: object[] = [];
    let thoughts: string[] = [];
    let text: string | undefined;
    const think = async (line: string) => {
      const at = { item_id: reasoning, output_index: 0, summary_index: 0 };
      if (thoughts.length === 0) {
        await write('response.output_item.added', { output_index: 0, item: reasoningItem(reasoning, []) });
        await write('response.reasoning_summary_part.added', { ...at, part: { type: 'summary_text', text: '' } });
      }
      thoughts = [...thoughts, line];
      await write('response.reasoning_summary_text.delta', { ...at, delta: `${line}\n` });
    };
    const endThoughts = async () => {
      if (thoughts.length === 0 || output.length > 0) return;
      const at = { item_id: reasoning, output_index: 0, summary_index: 0 };
      const whole = `${thoughts.join('\n')}\n`;
      await write('response.reasoning_summary_text.done', { ...at, text: whole });
      await write('response.reasoning_summary_part.done', { ...at, part: { type: 'summary_text', text: whole } });
      const done = reasoningItem(reasoning, [whole]);
      output.push(done);
      await write('response.output_item.done', { output_index: 0, item: done });
    };
    const place = () => ({ item_id: item, output_index: output.length, content_index: 0 });
    const say = async (delta: string) => {
      if (text === undefined) {
        await endThoughts();
        text = '';
        const { output_index } = place();
        await write('response.output_item.added', { output_index, item: messageItem(item, 'in_progress') });
        await write('response.content_part.added', { ...place(), part: textPart('') });
      }
      text += delta;
      await write('response.output_text.delta', { ...place(), delta, logprobs: [] });
    };
    try {
      const end = await each(events, async (event) => {
        if (event.kind === 'begun') {
          const begun = { response: responseOf(idOf(turn), about, 'in_progress', []) };
          await write('response.created', begun);
          await write('response.in_progress', begun);
        } else if (event.kind === 'text') await say(event.text);
        // What the agent does while it writes has no place after the text began.
        else if (text === undefined && event.text !== '') await think(event.text);
      });
      const answer = inputAnswerOf(end, asked);
      if (text === undefined) await say('');
      const done = messageItem(item, 'completed', answer);
      if (answer.refusal !== null) await write('response.refusal.done', { ...place(), refusal: answer.refusal });
      else await write('response.output_text.done', { ...place(), text: text ?? '', logprobs: [] });
      await write('response.content_part.done', { ...place(), part: done.content[0] });
      await write('response.output_item.done', { output_index: output.length, item: done });
      const whole = { ...responseOf(idOf(turn), about, 'completed', [...output, done]), ...usageOf(end) };
      await write('response.completed', { response: whole });
    } catch (error) {
      const { message } = toApiError(error).error;
      const failed = responseOf(idOf(turn), about, 'failed', output);
      await write('response.failed', { response: { ...failed, error: { code: 'server_error', message } } });
    }
    writer.end();
  }
}

function inputAnswerOf(end: TurnEnd, asked: ResponsesAsked) {
  return formedAnswerOf(end, schemaOfInput(asked), { agent: asked.model, field: 'text.format' });
}

function termsOf({ principal, response }: Exchange): RequestTerms {
  return { principal, onGone: goneOf(response) };
}

function idOf({ taskId, contextId }: AgentTurn): string {
  return taskId === undefined ? `${CONTEXT}${contextId}` : `${TASK}${encodeURIComponent(taskId)}`;
}

const textPart = (text: string) => ({ type: 'output_text' as const, text, annotations: [], logprobs: [] });

function messageItem(
  id: string,
  status: 'in_progress' | 'completed',
  answer?: { readonly content: string | null; readonly refusal: string | null },
) {
  const said = answer && (answer.refusal === null ? textPart(answer.content ?? '') : refused(answer.refusal));
  return { id, type: 'message', role: 'assistant', status, content: said ? [said] : [] };
}

const refused = (refusal: string) => ({ type: 'refusal' as const, refusal });

function reasoningItem(id: string, texts: readonly string[]) {
  return { id, type: 'reasoning', summary: texts.map((text) => ({ type: 'summary_text', text })) };
}

function responseOf(id: string, about: object, status: Status, output: readonly object[]) {
  return {
    id,
    object: 'response',
    ...about,
    status,
    output,
    error: null,
    incomplete_details: null,
    parallel_tool_calls: false,
    temperature: null,
    top_p: null,
    tool_choice: 'auto',
    tools: [],
  };
}

function taskResponse(id: string, task: Task) {
  const { status } = task;
  const ended: Partial<Record<Task['status']['state'], Status>> = {
    TASK_STATE_COMPLETED: 'completed',
    TASK_STATE_REJECTED: 'completed',
    TASK_STATE_INPUT_REQUIRED: 'completed',
    TASK_STATE_FAILED: 'failed',
    TASK_STATE_CANCELED: 'cancelled',
  };
  const state = ended[status.state] ?? 'in_progress';
  const reason = status.message ? textOf(status.message.parts) : '';
  const answer =
    status.state === 'TASK_STATE_REJECTED'
      ? { content: null, refusal: reason }
      : { content: finalText(task) ?? '', refusal: null };
  const output = state === 'completed' ? [messageItem(`msg_${task.id}`, 'completed', answer)] : [];
  const about = {
    created_at: Math.floor(Date.parse(status.timestamp ?? '') / 1_000) || 0,
    previous_response_id: null,
    instructions: null,
    metadata: {},
  };
  const error = state === 'failed' ? { code: 'server_error', message: reason || 'the task failed' } : null;
  return { ...responseOf(id, about, state, output), error };
}

function usageOf({ usage }: TurnEnd) {
  if (!usage) return {};
  const { inputTokens, outputTokens } = usage;
  return {
    usage: {
      input_tokens: inputTokens,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: outputTokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: inputTokens + outputTokens,
    },
  };
}
