import { readDelegation } from '../../a2a/protocol/delegation.js';
import type { Agent } from '../../agent/agent.js';
import { type AgentTask, plainPayload } from '../../agent/agent-tasks.js';
import type { Message } from '../../agent/message.js';
import type { WorkerHealth } from '../../agent/staffing.js';
import { StreamedText } from '../../agent/streamed-text.js';
import { activityParts } from '../../agent/task-activity.js';
import type { TaskSession } from '../../agent/task-messages.js';
import type { Usage } from '../../agent/usage.js';
import type { Knowledge } from '../../collections/collections.js';
import type { Runtime } from '../../runtime/runtime.js';
import { BRANCH, BRANCH_ARTIFACT, type BranchReport, describeBranch } from '../../work/branch-report.js';
import type { BranchUpdate, ExecuteTerms, ProviderUpdate } from '../adapter/adapter.js';
import { NormalizedProviderError } from '../adapter/errors.js';
import type { WorkerTask } from '../adapter/worker-task.js';
import type { ExecuteRoute, ProviderRegistry } from './registry.js';

interface ProviderAgentComponents {
  runtime: Runtime;
  providers: ProviderRegistry;
  /** What the mesh knows that may help this agent with a task of this text. */
  knowledgeFor: (agentId: string, text: string) => Knowledge | undefined;
}

const AGENT = 'agent:';

/** The capability that only providers of this agent have. It is also the pool of several of them. */
export function agentCapability(agentId: string): string {
  return `${AGENT}${agentId}`;
}

/** The types of an agent's workers; none for an agent that has no provider. */
export function workerTypes(providers: ProviderRegistry, agentId: string): string[] {
  const capability = agentCapability(agentId);
  return providers.list().flatMap(({ type, capabilities }) => (capabilities.includes(capability) ? [type] : []));
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

/** Lets an agent's providers do its tasks and requests. The thread is the correlation id. */
export function serveThroughProvider(
  { runtime, providers, knowledgeFor }: ProviderAgentComponents,
  agent: Agent,
  { route, laneId }: { route: ExecuteRoute; laneId: string },
): void {
  agent.workerHealth = { state: 'starting', reason: 'its provider has not been started yet' };
  const common = { caller: agent.id, laneId };
  const execute = (asked: WorkerTask, thread: string | undefined, terms: ExecuteTerms) => {
    const { blocked, reason = 'it was ended' } = agent.workerHealth;
    // The lane of its provider is closed: there is nothing that could give a reason any more.
    if (blocked && !providers.healthOf(agentCapability(agent.id))) {
      throw new NormalizedProviderError('PROVIDER_UNAVAILABLE', reason, 'internal');
    }
    const knowledge = knowledgeFor(agent.id, asked.text);
    return providers.execute(route, knowledge ? { ...asked, knowledge } : asked, thread ?? runtime.id(), terms);
  };
  agent.onTask(async (task: AgentTask) => {
    const streamed = new StreamedText(task);
    const terms = {
      ...common,
      chain: readDelegation(task.metadata, undefined),
      signal: task.signal,
      onUpdate: (update: ProviderUpdate) => report(task, streamed, update),
      ...(task.canAsk && { onQuestion: async ({ text }: ProviderUpdate) => textOf((await task.ask(text)).parts) }),
    };
    const output = await execute(workerTaskOf(task), task.thread, terms);
    // Text that was streamed is not repeated.
    return streamed.isEmpty || typeof output !== 'string' ? output : undefined;
  });
  agent.onRequest(async ({ payload, thread, from, envelope }: Message) => {
    let branch: BranchReport | undefined;
    const onUpdate = ({ kind, data }: ProviderUpdate) => {
      if (kind === 'branch') branch = (data as BranchUpdate).report;
      else if (kind === 'waiting') agent.reportWaiting(envelope, data as number);
    };
    const asked = askedIn(payload, from);
    const output = await execute(asked, thread, { ...common, onUpdate });
    // The asker of a schema gets nothing else.
    return branch === undefined || asked.outputSchema !== undefined ? output : withBranch(output, branch);
  });
}

/** The answer to a request has one form only: the branch with the work is a line of its text, or a field of its data. */
function withBranch(output: unknown, report: BranchReport): unknown {
  if (report.state === 'unchanged') return output;
  if (typeof output === 'string') return `${output.trimEnd()}\n\n${describeBranch(report)}`.trimStart();
  if (output === undefined || output === null) return describeBranch(report);
  return isObject(output) ? { ...output, [BRANCH]: report } : { result: output, [BRANCH]: report };
}

function report(task: AgentTask, streamed: StreamedText, update: ProviderUpdate): void {
  const { kind, text, data, activity } = update;
  const said = activity ? activityParts(text, activity) : text;
  if (kind === 'text') streamed.add(update);
  else if (kind === 'usage') task.usage(data as Usage);
  else if (kind === 'branch') showBranch(task, text, data as BranchUpdate);
  else if (kind === 'waiting') task.waiting(data as number, said);
  else {
    if (kind === 'session') task.session(data as TaskSession);
    if (text !== '') task.progress(said);
  }
}

/** The task's branch, as an artifact beside its result. */
function showBranch(task: AgentTask, text: string, { report, patch }: BranchUpdate): void {
  const file = patch !== undefined && { text: patch, filename: `${report.id}.patch`, mediaType: 'text/x-diff' };
  task.artifact([{ text }, { data: { [BRANCH]: report } }, ...(file ? [file] : [])], { name: BRANCH_ARTIFACT });
}

function workerTaskOf(task: AgentTask): WorkerTask {
  const { outputSchema, ...context } = contextOf(task.message.parts);
  return {
    text: task.text,
    context,
    files: task.message.parts.filter(({ raw, url }) => raw !== undefined || url !== undefined),
    payload: plainPayload(task),
    conversation: `${task.from} ${conversationIn(context) ?? task.contextId}`,
    from: task.from,
    ...(isObject(outputSchema) && { outputSchema }),
  };
}

/** A retry of a plan's task continues the conversation of the attempt before. */
function conversationIn({ run, task }: Readonly<Record<string, unknown>>): string | undefined {
  return typeof run === 'string' && typeof task === 'string' ? `plan:${run}:${task}` : undefined;
}

/** A request's `text`, with its other fields as context. */
function askedIn(payload: unknown, from: string): WorkerTask {
  const asked = { payload, from, context: {} };
  if (typeof payload === 'string') return { ...asked, text: payload };
  if (!isObject(payload)) return { ...asked, text: JSON.stringify(payload) };
  const { text, outputSchema, ...context } = payload;
  const schema = isObject(outputSchema) && { outputSchema };
  if (typeof text === 'string' && text !== '') return { ...asked, ...schema, text, context };
  return { ...asked, ...schema, text: JSON.stringify(payload) };
}

function contextOf(parts: AgentTask['message']['parts']): Record<string, unknown> {
  return Object.assign({}, ...parts.map(({ data }) => data).filter(isObject));
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function textOf(parts: AgentTask['message']['parts']): string {
  return parts.flatMap(({ text }) => (text === undefined ? [] : [text])).join('\n');
}
