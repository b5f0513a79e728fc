/** Entry `ecliptic/langgraph`: tools of the mesh as LangChain tools, and compiled graphs of LangGraph as workers. */

import type { StructuredToolInterface } from '@langchain/core/tools';
import type { Agent } from '../agent/agent.js';
import type { AgentTask, TaskHandler } from '../agent/agent-tasks.js';
import { StreamedText } from '../agent/streamed-text.js';
import { conversationOf, promptOf } from './histories.js';
import { type MeshToolsOptions, toolsFor } from './mesh-tool.js';

export type { MeshToolsOptions, PickedTool } from './mesh-tool.js';

/**
 * The tools of the mesh that an agent may use now, for `model.bindTools` and `ToolNode`. Progress of a tool goes to the
 * `custom` stream of the graph.
 */
export async function meshTools(agent: Agent, options: MeshToolsOptions = {}): Promise<StructuredToolInterface[]> {
  const { tool } = await import('@langchain/core/tools');
  return toolsFor(agent, options).map(({ name, description, inputSchema, call }) =>
    tool(
      async (input, config) => {
        const { signal, writer } = config ?? {};
        const onProgress = (progress: object) => writer?.({ tool: name, ...progress });
        const result = await call((input ?? {}) as Record<string, unknown>, { signal, onProgress });
        return typeof result === 'string' ? result : JSON.stringify(result);
      },
      { name, description, schema: inputSchema },
    ),
  );
}

/** The parts of a compiled graph that are used here. */
export interface CompiledGraph {
  // biome-ignore lint/suspicious/noExplicitAny: its state is the graph's own
  stream(input: any, options?: any): Promise<AsyncIterable<any>>;
}

export interface GraphOptions {
  /** The first state of a task. Default: `{ messages }` with the task in words. */
  readonly input?: (task: AgentTask) => unknown;
  /** The result in the last state. Default: what was streamed, the last of its `messages`, or the state itself. */
  // biome-ignore lint/suspicious/noExplicitAny: its state is the graph's own
  readonly output?: (state: any) => unknown;
}

type Chunk =
  | readonly ['messages', readonly [{ readonly content?: unknown; getType?(): string }, unknown]]
  | readonly ['updates', Readonly<Record<string, unknown>>]
  | readonly ['values', Readonly<Record<string, unknown>>]
  | readonly ['custom', unknown];

interface Interrupt {
  readonly id?: string;
  readonly value: unknown;
}

const STREAM_MODE = ['messages', 'updates', 'values', 'custom'];
const INTERRUPT = '__interrupt__';

/**
 * Lets a compiled graph do an agent's tasks: `mars.onTask(taskHandler(graph))`. Text of its models streams to the caller;
 * `interrupt(…)` becomes a question to the caller, and its answer resumes the graph. Both need a checkpointer, which also
 * makes tasks of one context one conversation: the thread of the graph.
 */
export function taskHandler(graph: CompiledGraph, { input, output }: GraphOptions = {}): TaskHandler {
  return async (task) => {
    const { Command } = await import('@langchain/langgraph');
    const streamed = new StreamedText(task);
    const configurable = { thread_id: conversationOf(task) };
    const options = { configurable, streamMode: STREAM_MODE, signal: task.signal };
    let next: unknown = input ? input(task) : { messages: [{ role: 'user', content: promptOf(task) }] };
    for (;;) {
      const { state, interrupts } = await follow(task, await graph.stream(next, options), streamed);
      if (interrupts.length === 0) {
        if (output) return output(state);
        return streamed.isEmpty ? resultOf(state) : undefined;
      }
      const answers = new Map<string, unknown>();
      for (const { id = '', value } of interrupts) answers.set(id, await answerTo(task, value));
      const [only] = answers.values();
      next = new Command({ resume: answers.size === 1 ? only : Object.fromEntries(answers) });
    }
  };
}

/** Asks what the graph asks. The answer is the data of the caller's message, or else its words. */
async function answerTo(task: AgentTask, value: unknown): Promise<unknown> {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const { parts } = await task.ask(typeof value === 'string' ? text : [{ text }, { data: { interrupt: value } }]);
  const data = parts.find((part) => part.data !== undefined);
  return data ? data.data : parts.flatMap(({ text: words }) => words ?? []).join('\n');
}

async function follow(task: AgentTask, chunks: AsyncIterable<Chunk>, streamed: StreamedText) {
  let state: Readonly<Record<string, unknown>> = {};
  let replaces = !streamed.isEmpty;
  const interrupts: Interrupt[] = [];
  for await (const [mode, chunk] of chunks) {
    if (mode === 'messages') {
      const text = chunk[0].getType?.() === 'ai' ? textIn(chunk[0].content) : '';
      if (text === '') continue;
      streamed.add({ text, replaces });
      replaces = false;
    } else if (mode === 'updates') {
      const wishes = chunk[INTERRUPT];
      if (Array.isArray(wishes)) interrupts.push(...(wishes as Interrupt[]));
      else task.progress(`${Object.keys(chunk).join(', ')}: done`);
      // The next node may ask a model again: the text of the last one is the answer.
      replaces = !streamed.isEmpty;
    } else if (mode === 'values') {
      if (!(INTERRUPT in chunk)) state = chunk;
    } else task.progress(typeof chunk === 'string' ? chunk : [{ data: chunk }]);
  }
  if (task.signal.aborted) throw task.signal.reason;
  return { state, interrupts };
}

function resultOf(state: Readonly<Record<string, unknown>>): unknown {
  const { messages } = state;
  if (!Array.isArray(messages)) return state;
  return textIn((messages.at(-1) as { content?: unknown } | undefined)?.content);
}

function textIn(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content
    .map((part) => (part as { text?: unknown }).text)
    .filter((text) => typeof text === 'string')
    .join('');
}
