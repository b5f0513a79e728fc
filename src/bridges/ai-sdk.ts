/** Entry `ecliptic/ai-sdk`: tools of the mesh as tools of the AI SDK, and agents of the AI SDK as workers. */

import type { ModelMessage, Tool } from 'ai';
import type { Agent } from '../agent/agent.js';
import type { AgentTask, TaskHandler } from '../agent/agent-tasks.js';
import { StreamedText } from '../agent/streamed-text.js';
import { EclipticError, toEclipticError } from '../runtime/errors.js';
import { askApproval } from './approval.js';
import { Histories, promptOf } from './histories.js';
import { type MeshToolsOptions, type Progress, toolsFor } from './mesh-tool.js';

export type { MeshToolsOptions, PickedTool } from './mesh-tool.js';

/**
 * The tools of the mesh that an agent may use now, for `generateText`, `streamText` and agents of the AI SDK. Progress of a
 * tool comes as preliminary results.
 */
export async function meshTools(agent: Agent, options: MeshToolsOptions = {}): Promise<Record<string, Tool>> {
  const { dynamicTool, jsonSchema } = await import('ai');
  const entries = toolsFor(agent, options).map(({ name, description, inputSchema, call }) => {
    const execute = (input: unknown, { abortSignal: signal }: { abortSignal?: AbortSignal }) =>
      withProgress((onProgress) => call((input ?? {}) as Record<string, unknown>, { signal, onProgress }));
    return [name, dynamicTool({ description, inputSchema: jsonSchema(inputSchema), execute })] as const;
  });
  return Object.fromEntries(entries);
}

/** Yields each progress, and last the result. */
async function* withProgress(run: (onProgress: (progress: Progress) => void) => Promise<unknown>) {
  const waiting: Progress[] = [];
  let wake = () => {};
  const result = run((progress) => {
    waiting.push(progress);
    wake();
  });
  let over = false;
  const end = () => {
    over = true;
    wake();
  };
  result.then(end, end);
  while (!over) {
    yield* waiting.splice(0);
    if (!over && waiting.length === 0) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  }
  yield await result;
}

/** The parts of an agent of the AI SDK (`ToolLoopAgent`, or your own) that are used here. */
export interface AiSdkAgent {
  // biome-ignore lint/suspicious/noExplicitAny: its messages and results depend on its tools
  stream(options: { messages: any; abortSignal?: AbortSignal }): PromiseLike<any>;
}

interface StreamPart {
  readonly type: string;
  readonly text?: string;
  readonly delta?: string;
  readonly error?: unknown;
  readonly toolName?: string;
  readonly approvalId?: string;
  readonly isAutomatic?: boolean;
  readonly reason?: string;
  readonly toolCall?: { readonly toolName: string; readonly input: unknown };
}

interface StreamResult {
  readonly stream?: AsyncIterable<StreamPart>;
  readonly fullStream: AsyncIterable<StreamPart>;
  readonly responseMessages?: PromiseLike<readonly ModelMessage[]>;
  readonly response: PromiseLike<{ readonly messages?: readonly ModelMessage[] }>;
  readonly totalUsage: PromiseLike<{ readonly inputTokens?: number; readonly outputTokens?: number }>;
  readonly output: PromiseLike<unknown>;
}

/**
 * Lets an agent of the AI SDK do an agent's tasks: `mars.onTask(taskHandler(sdkAgent))`. Its text streams to the caller; an
 * approval that a tool needs becomes a question to the caller; tasks of one context are one conversation.
 */
export function taskHandler(sdkAgent: AiSdkAgent): TaskHandler {
  const histories = new Histories<ModelMessage>();
  return async (task) => {
    let messages = [...histories.of(task), { role: 'user', content: promptOf(task) }];
    const streamed = new StreamedText(task);
    for (;;) {
      const result = (await sdkAgent.stream({ messages, abortSignal: task.signal })) as StreamResult;
      const wishes = await follow(task, result, streamed);
      const { inputTokens = 0, outputTokens = 0 } = await result.totalUsage;
      task.usage({ inputTokens, outputTokens });
      const said = (await result.responseMessages) ?? (await result.response).messages ?? [];
      messages = [...messages, ...said];
      if (wishes.length === 0) {
        histories.keep(task, messages);
        const output = await result.output;
        if (typeof output === 'string' && !streamed.isEmpty) return undefined;
        if (streamed.isEmpty) return output;
        return streamed.replaceWith(output);
      }
      const content = [];
      for (const { approvalId, toolCall, reason } of wishes) {
        const verdict = await askApproval(task, { tool: toolCall!.toolName, input: toolCall!.input, reason });
        content.push({ type: 'tool-approval-response', approvalId, ...verdict });
      }
      messages = [...messages, { role: 'tool', content }];
    }
  };
}

/** Passes the stream on, and returns the requests for approval in it. */
async function follow(task: AgentTask, result: StreamResult, streamed: StreamedText): Promise<StreamPart[]> {
  const wishes: StreamPart[] = [];
  let replaces = !streamed.isEmpty;
  for await (const part of result.stream ?? result.fullStream) {
    const { type, text = part.delta, toolName, error } = part;
    if (type === 'text-delta' && text) {
      streamed.add({ text, replaces });
      replaces = false;
    } else if (type === 'start-step') replaces = !streamed.isEmpty;
    else if (type === 'tool-call') task.progress(`calls ${toolName}`);
    else if (type === 'tool-approval-request' && !part.isAutomatic) wishes.push(part);
    else if (type === 'error') throw toEclipticError(error, 'HANDLER_FAILED');
    else if (type === 'abort') throw task.signal.reason ?? new EclipticError('CANCELLED', 'the agent was aborted');
  }
  return wishes;
}
