import { readDelegation } from '../../a2a/protocol/delegation.js';
import type { Part } from '../../a2a/protocol/types.js';
import type { Agent } from '../../agent/agent.js';
import { type AgentTask, plainPayload } from '../../agent/agent-tasks.js';
import type { Message } from '../../agent/message.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { ProviderUpdate } from '../adapter/adapter.js';
import type { ExecuteRoute, ProviderRegistry } from './registry.js';

/** What an agent is asked: words, and what there is to know besides them. */
interface AskedOfProvider {
  readonly text: string;
  readonly context: Readonly<Record<string, unknown>>;
  /** The files of a task: their content, or where they are. */
  readonly files?: readonly Part[];
  /** The same as it came: a request's payload, or a task's text or data. */
  readonly payload: unknown;
  /** What it belongs to: whoever asks, and for a task its context. */
  readonly conversation: string;
}

interface ProviderAgentInit {
  readonly route: ExecuteRoute;
  /** What the provider is given for what the agent is asked. */
  readonly input: (asked: AskedOfProvider) => unknown;
  /** What the agent answers for what the provider gives. */
  readonly answer: (output: unknown) => unknown;
  readonly laneId?: string;
}

interface ProviderAgentComponents {
  runtime: Runtime;
  providers: ProviderRegistry;
}

const AGENT = 'agent:';

/** Only the registry's providers for this agent are asked for this. */
export function agentCapability(agentId: string): string {
  return `${AGENT}${agentId}`;
}

/** Says on agents' cards how the providers are that do their work. */
export function reportHealth(providers: ProviderRegistry, find: (agentId: string) => Agent | undefined): void {
  providers.onChange(({ capabilities }) => {
    for (const capability of capabilities) {
      if (!capability.startsWith(AGENT)) continue;
      const agent = find(capability.slice(AGENT.length));
      const health = providers.healthOf(capability);
      if (agent && health) agent.workerHealth = health;
    }
  });
}

/** Lets an agent do its tasks and answer its requests through a provider, under the conversation's own id. */
export function serveThroughProvider(
  { runtime, providers }: ProviderAgentComponents,
  agent: Agent,
  init: ProviderAgentInit,
): void {
  const { route, input, answer, laneId } = init;
  agent.workerHealth = { state: 'starting', reason: 'its provider has not been started yet' };
  const common = { caller: agent.id, ...(laneId !== undefined && { laneId }) };
  agent.onTask(async (task: AgentTask) => {
    const chain = readDelegation(task.metadata, undefined);
    const told = new TaskTold(task);
    const terms = {
      ...common,
      chain,
      signal: task.signal,
      onUpdate: (update: ProviderUpdate) => told.add(update),
      onQuestion: async ({ text }: ProviderUpdate) => textOf((await task.ask(text)).parts),
    };
    const asked = {
      text: task.text,
      context: contextOf(task.message.parts),
      files: task.message.parts.filter(({ raw, url }) => raw !== undefined || url !== undefined),
      payload: plainPayload(task),
      conversation: `${task.from} ${task.contextId}`,
    };
    const output = answer(await providers.execute(route, input(asked), task.thread ?? runtime.id(), terms));
    // Text that was told as it came is not said again.
    return told.artifact !== undefined && typeof output === 'string' ? undefined : output;
  });
  agent.onRequest(async ({ payload, thread, from: conversation }: Message) => {
    const said = typeof payload === 'string' ? { text: payload, context: {} } : askedIn(payload);
    const asked = { ...said, payload, conversation };
    return answer(await providers.execute(route, input(asked), thread ?? runtime.id(), common));
  });
}

/** Passes on what a provider tells before it is done. */
class TaskTold {
  readonly #task: AgentTask;
  #artifact: string | undefined;

  constructor(task: AgentTask) {
    this.#task = task;
  }

  /** The artifact that the answer has grown into, if it came in pieces. */
  get artifact(): string | undefined {
    return this.#artifact;
  }

  add({ kind, text }: ProviderUpdate): void {
    if (kind === 'text') {
      const append = this.#artifact !== undefined;
      const id = this.#artifact === undefined ? {} : { id: this.#artifact };
      this.#artifact = this.#task.artifact(text, { ...id, append, lastChunk: false });
    } else if (text !== '') this.#task.progress(text);
  }
}

/** A request says it all at once: its text, and whatever else it holds. */
function askedIn(payload: unknown): Pick<AskedOfProvider, 'text' | 'context'> {
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) {
    return { text: JSON.stringify(payload), context: {} };
  }
  const { text, ...context } = payload as Record<string, unknown>;
  return typeof text === 'string' ? { text, context } : { text: JSON.stringify(payload), context: {} };
}

function contextOf(parts: AgentTask['message']['parts']): Record<string, unknown> {
  const data = parts.flatMap((part) => (part.data === undefined ? [] : [part.data]));
  const objects = data.filter((one): one is Record<string, unknown> => typeof one === 'object' && one !== null);
  return Object.assign({}, ...objects);
}

function textOf(parts: AgentTask['message']['parts']): string {
  return parts.flatMap(({ text }) => (text === undefined ? [] : [text])).join('\n');
}
