import type { Usage } from '../../agent/usage.js';
import { cutToAnswer, quoted, quotedVerbatim } from '../../mcp/fence.js';
import { readSchema } from '../../mcp/schema.js';
import { EclipticError } from '../../runtime/errors.js';
import { jsonIn } from '../../runtime/json-text.js';
import { cutText } from '../../runtime/text.js';
import type { ProviderUpdate } from '../adapter/adapter.js';
import type { ChatClient } from './chat-client.js';
import type { ChatAnswer, ChatMessage, ChatRequest } from './chat-types.js';
import { compact, resultBytes, tokensOf } from './context-budget.js';
import { type ModelTool, runTool, type ToolContext } from './tools.js';

export interface LoopLimits {
  /** Answers of the model for one task. */
  readonly steps: number;
  /** Tokens for one task, in and out. */
  readonly tokens: number;
  readonly contextTokens: number;
}

export interface Price {
  /** US dollars for a million tokens. */
  readonly input: number;
  readonly output: number;
}

interface LoopInit {
  readonly client: ChatClient;
  readonly limits: LoopLimits;
  readonly price?: Price | undefined;
  readonly tools: readonly ModelTool[];
  readonly outputSchema?: Readonly<Record<string, unknown>> | undefined;
  readonly context: ToolContext;
  readonly onUpdate: (update: ProviderUpdate) => void;
  /** A mark for a fence, another one each time. */
  readonly mark: () => string;
}

/** Consecutive calls with wrong arguments or names. */
const MAX_FAULTS = 8;
/** Answers that do not match the schema, or are empty. */
const MAX_REPAIRS = 3;
const MAX_SUMMARY_CHARS = 200;
/** A last message that is no result. */
const NOT_DONE = /^\W*(?:(?:the task|this|it) (?:is|was) )?not done\b/i;

/** One task of a model: asks it, runs the tools that it calls, and asks again, until it answers. */
export class ModelLoop {
  readonly #init: LoopInit;
  readonly #messages: ChatMessage[];
  readonly #task: ChatMessage;
  #tokens = 0;
  #faults = 0;
  #repairs = 0;
  /** The model has done its work, and has to give the result in the right form. */
  #isForming = false;
  #hasStreamed = false;

  /** `messages` begins with the system prompt and ends with the task. */
  constructor(init: LoopInit, messages: readonly ChatMessage[]) {
    this.#init = init;
    this.#messages = [...messages];
    this.#task = messages.at(-1)!;
  }

  /** The conversation so far, for a later task that continues it. */
  get messages(): readonly ChatMessage[] {
    return this.#messages;
  }

  /** The answer: text, or a value that matches the schema. */
  async run(): Promise<unknown> {
    const { limits } = this.#init;
    for (let step = 1; step <= limits.steps; step++) {
      const answer = await this.#ask();
      refuseCut(answer);
      this.#messages.push(messageOf(answer));
      if (answer.toolCalls.length > 0) await this.#runTools(answer);
      else {
        const result = await this.#resultOf(answer);
        if (result !== undefined) return result.value;
      }
      if (this.#tokens > limits.tokens) throw this.#notDone(`${limits.tokens} tokens`);
    }
    throw this.#notDone(`${limits.steps} steps`);
  }

  async #ask(): Promise<ChatAnswer> {
    const { client, context, onUpdate, limits, outputSchema } = this.#init;
    // Many servers cannot both call tools and keep to a schema.
    const tools = this.#isForming ? [] : this.#init.tools;
    const { contextTokens } = limits;
    const { messages, dropped } = compact({ messages: this.#messages, task: this.#task, tools, contextTokens });
    if (dropped > 0) {
      this.#messages.splice(0, this.#messages.length, ...messages);
      onUpdate({ kind: 'progress', text: `context compacted: ${dropped} older messages and tool results dropped` });
    }
    const request: ChatRequest = {
      messages,
      tools: tools.map(({ name, description, parameters }) => ({ name, description, parameters })),
      ...(outputSchema && tools.length === 0 && { outputSchema }),
    };
    const stream = this.#streamer();
    const answer = await client.complete(request, {
      signal: context.signal,
      onText: stream,
      onRetry: (reason, ms) => onUpdate({ kind: 'progress', text: `${reason}; trying again in ${ms} ms` }),
    });
    this.#count(request, answer);
    return answer;
  }

  /** Passes text on as it comes. Text of an earlier step was no answer, and is replaced. */
  #streamer(): (text: string, restart: boolean) => void {
    const { onUpdate, outputSchema } = this.#init;
    if (outputSchema) return () => {};
    let replaces = this.#hasStreamed;
    return (text, restart) => {
      onUpdate({ kind: 'text', text, ...((replaces || restart) && { replaces: true }) });
      replaces = false;
      this.#hasStreamed = true;
    };
  }

  #count(request: ChatRequest, { tokens, text, toolCalls }: ChatAnswer): void {
    const { price, onUpdate } = this.#init;
    // The limit must hold at an endpoint that does not count, too; what is reported is only what it said.
    const output = tokens?.output ?? tokensOf(text + JSON.stringify(toolCalls));
    this.#tokens += (tokens?.input ?? tokensOf(JSON.stringify(request.messages))) + output;
    const { input: inputTokens = 0, output: outputTokens = 0 } = tokens ?? {};
    const cost = price && { costUsd: (inputTokens * price.input + outputTokens * price.output) / 1_000_000 };
    const usage: Usage = { inputTokens, outputTokens, modelCalls: 1, ...cost };
    onUpdate({ kind: 'usage', text: '', data: usage });
  }

  async #runTools({ toolCalls }: ChatAnswer): Promise<void> {
    const { tools, context, onUpdate, mark, limits } = this.#init;
    const room = resultBytes(limits.contextTokens, toolCalls.length);
    for (const { id, function: call } of toolCalls) {
      if (context.signal.aborted) throw context.signal.reason;
      const title = summaryOf(tools, call.name, call.arguments);
      onUpdate({ kind: 'tool-call', text: title, activity: { kind: 'tool-call', id, title, status: 'in_progress' } });
      const { text, isFault, isVerbatim } = await runTool(tools, call.name, call.arguments, context);
      const fence = isVerbatim ? quotedVerbatim : quoted;
      this.#messages.push({ role: 'tool', tool_call_id: id, content: fence(cutToAnswer(text, room), mark()) });
      this.#faults = isFault ? this.#faults + 1 : 0;
      if (this.#faults > MAX_FAULTS) throw failed(`the model called tools wrongly ${this.#faults} times in a row`);
    }
  }

  /** Undefined where the model has to try again. */
  async #resultOf({ text }: ChatAnswer): Promise<{ readonly value: unknown } | undefined> {
    const { outputSchema } = this.#init;
    if (text.trim() === '') return this.#repair('Your answer was empty. Answer the task now.');
    if (NOT_DONE.test(text)) throw failed(`the model says that the task is not done: ${cutText(text.trim(), 2_000)}`);
    if (!outputSchema) return { value: text };
    this.#isForming = true;
    const value = jsonIn(text);
    if (value === undefined)
      return this.#repair('Your answer is no JSON. Answer with one JSON value and nothing else.');
    const verdict = await readSchema(outputSchema, 'output', 'the answer').check(value);
    if (!('faults' in verdict)) return { value: verdict.value };
    return this.#repair(
      `Your answer does not match the schema: ${verdict.faults.join('; ')}. Answer again, with JSON only.`,
    );
  }

  #repair(what: string): undefined {
    if (++this.#repairs > MAX_REPAIRS) throw failed(`the model gave no usable answer: ${what}`);
    this.#messages.push({ role: 'user', content: cutText(what, 4_000) });
    return undefined;
  }

  #notDone(limit: string): EclipticError {
    return failed(`the model used its ${limit} without finishing the task`);
  }
}

function failed(message: string): EclipticError {
  return new EclipticError('PROVIDER_EXECUTE_FAILED', message);
}

/** An answer that was cut off is no result, and its tool calls may be incomplete. */
function refuseCut({ finishReason }: ChatAnswer): void {
  if (finishReason === 'length') {
    throw failed('the model’s answer was cut off at its token limit (limits.answerTokens, or the endpoint’s own)');
  }
  if (finishReason === 'content_filter') throw failed('the endpoint’s content filter stopped the answer');
}

function messageOf({ text, toolCalls }: ChatAnswer): ChatMessage {
  if (toolCalls.length === 0) return { role: 'assistant', content: text };
  return { role: 'assistant', content: text === '' ? null : text, tool_calls: toolCalls };
}

function summaryOf(tools: readonly ModelTool[], name: string, given: string): string {
  const tool = tools.find((one) => one.name === name);
  try {
    return cutText(tool ? tool.summary(JSON.parse(given)) : name, MAX_SUMMARY_CHARS);
  } catch {
    return cutText(name, MAX_SUMMARY_CHARS);
  }
}
