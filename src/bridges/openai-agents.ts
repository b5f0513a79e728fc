/** Entry `ecliptic/openai-agents`: tools of the mesh as tools of the OpenAI Agents SDK, and its agents as workers. */

import type { AgentInputItem, FunctionTool, RunToolApprovalItem, StreamedRunResult } from '@openai/agents';
import type { Agent } from '../agent/agent.js';
import type { AgentTask, TaskHandler } from '../agent/agent-tasks.js';
import { StreamedText } from '../agent/streamed-text.js';
import { askApproval } from './approval.js';
import { Histories, promptOf } from './histories.js';
import { type MeshToolsOptions, toolsFor } from './mesh-tool.js';

export type { MeshToolsOptions, PickedTool } from './mesh-tool.js';

export interface OpenAiToolsOptions extends MeshToolsOptions {
  /** Must the use of a tool be approved? It gets the name of the tool as the model sees it. Default: no. */
  readonly needsApproval?: (tool: string, input: unknown) => boolean;
}

/** The tools of the mesh that an agent may use now, for `new Agent({ tools })` of the OpenAI Agents SDK. */
export async function meshTools(agent: Agent, options: OpenAiToolsOptions = {}): Promise<FunctionTool[]> {
  const { tool } = await import('@openai/agents');
  const { needsApproval } = options;
  return toolsFor(agent, options).map(({ name, description, inputSchema, call }) =>
    tool({
      ...{ name, description, strict: false },
      // The owner checks the arguments with its own schema.
      parameters: { properties: {}, required: [], ...inputSchema, additionalProperties: true },
      execute: (input, _context, details) =>
        call((input ?? {}) as Record<string, unknown>, { signal: details?.signal }),
      ...(needsApproval && { needsApproval: async (_context, input) => needsApproval(name, input) }),
    }),
  );
}

/**
 * Lets an agent of the OpenAI Agents SDK do an agent's tasks: `mars.onTask(taskHandler(sdkAgent))`. Its text streams to the
 * caller; an interruption becomes a question to the caller; tasks of one context are one conversation.
 */
// biome-ignore lint/suspicious/noExplicitAny: an `Agent` of the SDK, with any context and output
export function taskHandler(sdkAgent: any): TaskHandler {
  const histories = new Histories<AgentInputItem>();
  return async (task) => {
    const { run } = await import('@openai/agents');
    const streamed = new StreamedText(task);
    const before = { inputTokens: 0, outputTokens: 0, requests: 0 };
    let input: Parameters<typeof run>[1] = [...histories.of(task), { role: 'user', content: promptOf(task) }];
    for (;;) {
      const result = await run(sdkAgent, input, { stream: true, signal: task.signal });
      await follow(task, result, streamed);
      const { inputTokens, outputTokens, requests } = result.runContext.usage;
      task.usage({
        inputTokens: inputTokens - before.inputTokens,
        outputTokens: outputTokens - before.outputTokens,
        modelCalls: requests - before.requests,
      });
      Object.assign(before, { inputTokens, outputTokens, requests });
      if (result.interruptions.length === 0) {
        histories.keep(task, result.history);
        if (typeof result.finalOutput === 'string' && !streamed.isEmpty) return undefined;
        if (streamed.isEmpty) return result.finalOutput;
        return streamed.replaceWith(result.finalOutput);
      }
      for (const wish of result.interruptions) await decide(task, result, wish);
      input = result.state;
    }
  };
}

async function decide(task: AgentTask, { state }: StreamedRunResult, wish: RunToolApprovalItem): Promise<void> {
  const { name: tool = 'a tool', arguments: input } = wish;
  const { approved, reason } = await askApproval(task, { tool, input });
  if (approved) state.approve(wish);
  else state.reject(wish, reason === undefined ? {} : { message: reason });
}

/** Passes the stream on. The text of each answer of the model takes the place of that before. */
async function follow(task: AgentTask, result: StreamedRunResult, streamed: StreamedText): Promise<void> {
  let replaces = !streamed.isEmpty;
  for await (const { type, name, data, item } of result) {
    if (type === 'raw_model_stream_event' && data?.type === 'output_text_delta' && data.delta) {
      streamed.add({ text: data.delta, replaces });
      replaces = false;
    } else if (data?.type === 'response_done') replaces = !streamed.isEmpty;
    else if (name === 'tool_called') task.progress(`calls ${item?.rawItem?.name ?? 'a tool'}`);
  }
  await result.completed;
  if (task.signal.aborted) throw task.signal.reason;
}
