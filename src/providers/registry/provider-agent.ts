import { readDelegation } from '../../a2a/protocol/delegation.js';
import type { Part } from '../../a2a/protocol/types.js';
import type { Agent } from '../../agent/agent.js';
import { type AgentTask, plainPayload } from '../../agent/agent-tasks.js';
import type { Message } from '../../agent/message.js';
import type { WorkerHealth } from '../../agent/staffing.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { ExecuteTerms, ProviderUpdate } from '../adapter/adapter.js';
import { NormalizedProviderError } from '../adapter/errors.js';
import type { ExecuteRoute, ProviderRegistry } from './registry.js';

/** A task or request for an agent whose work a provider does. */
interface AskedOfProvider {
  readonly text: string;
  readonly context: Readonly<Record<string, unknown>>;
  readonly files?: readonly Part[];
  /** The original payload: a request's payload, or a task's text or data. */
  readonly payload: unknown;
  /** The asking agent, and for a task its context. */
  readonly conversation: string;
}

interface ProviderAgentInit {
  readonly route: ExecuteRoute;
  readonly input: (asked: AskedOfProvider) => unknown;
  readonly answer: (output: unknown) => unknown;
  readonly laneId?: string;
}

interface ProviderAgentComponents {
  runtime: Runtime;
  providers: ProviderRegistry;
}

const AGENT = 'agent:';

/** The capability that only providers of this agent have. */
export function agentCapability(agentId: string): string {
  return `${AGENT}${agentId}`;
}

/** Publishes the health of providers on the cards of their agents. */
export function reportHealth(providers: ProviderRegistry, find: (agentId: string) => Agent | undefined): void {
  providers.onChange(({ id, capabilities, laneId }) => {
    for (const capability of capabilities) {
      if (!capability.startsWith(AGENT)) continue;
      const agent = find(capability.slice(AGENT.length));
      if (agent) agent.workerHealth = providers.healthOf(capability) ?? ended(id, laneId);
    }
  });
}

function ended(provider: string, lane: string | null): WorkerHealth {
  const reason =
    lane === null
      ? `provider "${provider}" was ended`
      : `lane "${lane}" is closed. To open it: ecliptic lane open ${lane}`;
  return { state: 'unavailable', reason, blocked: true };
}

/** Lets a provider do an agent's tasks and requests. The thread is the correlation id. */
export function serveThroughProvider(
  { runtime, providers }: ProviderAgentComponents,
  agent: Agent,
  init: ProviderAgentInit,
): void {
  const { route, input, answer, laneId } = init;
  agent.workerHealth = { state: 'starting', reason: 'its provider has not been started yet' };
  const common = { caller: agent.id, ...(laneId !== undefined && { laneId }) };
  const execute = (asked: AskedOfProvider, thread: string | undefined, terms: ExecuteTerms) => {
    const { blocked, reason = 'it was ended' } = agent.workerHealth;
    // The lane of its provider is closed: there is nothing that could give a reason any more.
    if (blocked && !providers.healthOf(agentCapability(agent.id))) {
      throw new NormalizedProviderError('PROVIDER_UNAVAILABLE', reason, 'internal');
    }
    return providers.execute(route, input(asked), thread ?? runtime.id(), terms);
  };
  agent.onTask(async (task: AgentTask) => {
    const chain = readDelegation(task.metadata, undefined);
    let artifact: string | undefined;
    const onUpdate = ({ kind, text }: ProviderUpdate) => {
      const grown = artifact === undefined ? { append: false } : { id: artifact, append: true };
      if (kind === 'text') artifact = task.artifact(text, { ...grown, lastChunk: false });
      else if (text !== '') task.progress(text);
    };
    const terms = {
      ...common,
      chain,
      signal: task.signal,
      onUpdate,
      onQuestion: async ({ text }: ProviderUpdate) => textOf((await task.ask(text)).parts),
    };
    const asked = {
      text: task.text,
      context: contextOf(task.message.parts),
      files: task.message.parts.filter(({ raw, url }) => raw !== undefined || url !== undefined),
      payload: plainPayload(task),
      conversation: `${task.from} ${task.contextId}`,
    };
    const output = answer(await execute(asked, task.thread, terms));
    // Text that was streamed is not repeated.
    return artifact !== undefined && typeof output === 'string' ? undefined : output;
  });
  agent.onRequest(async ({ payload, thread, from: conversation }: Message) => {
    const said = typeof payload === 'string' ? { text: payload, context: {} } : askedIn(payload);
    const asked = { ...said, payload, conversation };
    return answer(await execute(asked, thread, common));
  });
}

/** A request's `text`, with its other fields as context. */
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
