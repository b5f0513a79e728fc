import type { Usage } from '../../agent/usage.js';
import { EclipticError, ERRORS, toEclipticError } from '../../runtime/errors.js';
import { cutText } from '../../runtime/text.js';
import { type Exchange, HttpResponse, type Route, sendJson } from '../server/http-server.js';
import { AgentTurn, type TurnEnd, type TurnEvent } from './agent-turn.js';
import { type ChatComponents, each, formedAnswerOf, isQuestion, readJson } from './chat.js';
import { EventWriter } from './event-writer.js';
import { refuseRequest, toApiError } from './openai-errors.js';
import { type ChatAsked, partsOfChat, readChatRequest, schemaOfChat } from './openai-requests.js';
import { OpenAiResponses } from './openai-responses.js';

const NEWLINES = /\s*\n\s*/g;

/** `/v1`: the agents of the mesh as models of the OpenAI API, for front ends and frameworks that speak only that. */
export class OpenAiRoutes implements Route {
  readonly path = '/v1';
  readonly scope = 'tasks';
  readonly #components: ChatComponents;
  readonly #responses: OpenAiResponses;

  constructor(components: ChatComponents) {
    this.#components = components;
    this.#responses = new OpenAiResponses(components);
  }

  serve(exchange: Exchange): void | Promise<void> {
    const { request, path } = exchange;
    const [place, id, action, ...rest] = path.split('/').slice(2);
    const at = rest.length > 0 ? '' : `${request.method} ${place}`;
    if (at === 'GET models' && action === undefined) return this.#models(exchange, id);
    if (at === 'POST chat' && id === 'completions' && action === undefined) return this.#chat(exchange);
    if (at === 'POST responses' && id === undefined) return this.#responses.create(exchange);
    if (at === 'GET responses' && id !== undefined && action === undefined) {
      return this.#responses.retrieve(exchange, id);
    }
    if (at === 'POST responses' && id !== undefined && action === 'cancel') return this.#responses.cancel(exchange, id);
    throw new EclipticError('METHOD_NOT_FOUND', `there is nothing at ${request.method} ${path}`);
  }

  refuse(response: HttpResponse, error: unknown): void {
    // The client would repeat the work of an agent that failed.
    const { code } = toEclipticError(error, 'HANDLER_FAILED');
    if (response instanceof HttpResponse) response.always['X-Should-Retry'] = String(ERRORS[code].retryable);
    refuseRequest(response, error);
  }

  #models({ response, principal }: Exchange, id: string | undefined): void {
    const models = this.#components.agents.list(principal).map(({ address, description }) => {
      return { id: address, object: 'model', created: 0, owned_by: 'ecliptic', description };
    });
    if (id === undefined) {
      sendJson(response, 200, { object: 'list', data: models });
      return;
    }
    const found = models.find((model) => model.id === id || encodeURIComponent(model.id) === id);
    if (!found) throw new EclipticError('AGENT_NOT_FOUND', `there is no agent "${cutText(id, 128)}" that takes tasks`);
    sendJson(response, 200, found);
  }

  async #chat(exchange: Exchange): Promise<void> {
    const { runtime, operations, agents } = this.#components;
    const asked = readChatRequest(await readJson(exchange));
    const parts = partsOfChat(asked);
    agents.requireAble(exchange.principal, asked.model, parts);
    const turn = new AgentTurn(operations, runtime, exchange, { agent: asked.model, parts });
    const about = { id: `chatcmpl-${runtime.id()}`, created: Math.floor(runtime.now() / 1_000), model: asked.model };
    if (asked.stream) return this.#streamChat(exchange, turn, about, asked);
    const end = await turn.ask();
    await leaveQuestion(turn, end);
    const { content, refusal } = chatAnswerOf(end, asked);
    sendJson(exchange.response, 200, {
      ...about,
      object: 'chat.completion',
      choices: [{ index: 0, message: { role: 'assistant', content, refusal }, finish_reason: 'stop', logprobs: null }],
      ...(end.usage && { usage: usageOf(end.usage) }),
    });
  }

  async #streamChat({ response }: Exchange, turn: AgentTurn, about: object, asked: ChatAsked): Promise<void> {
    const { stream_options: options, response_format: format } = asked;
    const events = await turn.open();
    const writer = new EventWriter(this.#components.runtime, response);
    const write = (delta: object, finish: string | null = null) =>
      writer.write({
        ...about,
        object: 'chat.completion.chunk',
        choices: [{ index: 0, delta, finish_reason: finish, logprobs: null }],
      });
    // The API has no place for what an agent does on the way, so tool calls are lines of text, unless a form is asked for.
    const showsTools = format?.type === undefined || format.type === 'text';
    const shown = new Set<string>();
    let midLine = false;
    try {
      await write({ role: 'assistant', content: '' });
      const end = await each(events, async (event) => {
        if (event.kind === 'text') {
          midLine = !event.text.endsWith('\n');
          await write({ content: event.text });
        }
        const line = showsTools ? toolLine(event, shown) : undefined;
        if (line === undefined) return;
        await write({ content: `${midLine ? '\n' : ''}${line}\n` });
        midLine = false;
      });
      await leaveQuestion(turn, end);
      const { refusal } = chatAnswerOf(end, asked);
      if (refusal !== null) await write({ refusal });
      await write({}, 'stop');
      if (options?.include_usage && end.usage) {
        const usage = usageOf(end.usage);
        await writer.write({ ...about, object: 'chat.completion.chunk', choices: [], usage });
      }
      await writer.write('[DONE]');
    } catch (error) {
      await writer.write({ error: toApiError(error).error });
    }
    writer.end();
  }
}

/** Chats have no ids to go on with: a question is in the answer, and the next request begins again with all that was said. */
async function leaveQuestion(turn: AgentTurn, { state }: TurnEnd): Promise<void> {
  if (isQuestion(state)) await turn.cancel();
}

function chatAnswerOf(end: TurnEnd, asked: ChatAsked) {
  return formedAnswerOf(end, schemaOfChat(asked), { agent: asked.model, field: 'response_format' });
}

/** A tool call, once, as a line. */
function toolLine(event: TurnEvent, shown: Set<string>): string | undefined {
  if (event.kind !== 'progress' || event.activity?.kind !== 'tool-call') return undefined;
  const { id, title } = event.activity;
  if (shown.has(id)) return undefined;
  shown.add(id);
  return `> ${title.replace(NEWLINES, ' ')}`;
}

function usageOf({ inputTokens, outputTokens }: Usage) {
  return {
    prompt_tokens: inputTokens,
    completion_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
  };
}
