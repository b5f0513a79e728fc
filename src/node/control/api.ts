import type { CallToolResult, GetPromptResult, JSONRPCMessage, ReadResourceResult } from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { AgentCard as A2ACard, StreamResponse, Task, TaskState } from '../../a2a/protocol/types.js';
import { TASK_STATES } from '../../a2a/protocol/types.js';
import type { ServedCard } from '../../a2a/v03/card.js';
import type { HeldRow } from '../../coding-agents/coding-agents.js';
import type { FileUse } from '../../coding-agents/editor/editor-mesh.js';
import type { Denial } from '../../coding-agents/leases/guard.js';
import type { Overview } from '../../coding-agents/overview.js';
import type { Answer } from '../../coding-agents/tools/tool.js';
import type { TestedRow, Wakes } from '../../coding-agents/wake/wakes.js';
import { COLLECTIONS } from '../../collections/entry.js';
import type { TokenRow } from '../../http/auth/tokens.js';
import type { PageLink } from '../../http/dashboard/dashboard.js';
import {
  type Answered,
  type GivenAnswer,
  type MessageLine,
  type NodeStatus,
  type Story,
  WAITING_ACTIONS,
  type Waiting,
} from '../../http/dashboard/facts.js';
import type { Receipt } from '../../mail/receipt.js';
import type { NeedsInput } from '../../mcp/call.js';
import type { InvocationRecord } from '../../mcp/invocations.js';
import type { UpstreamStatus } from '../../mcp/upstream/upstream.js';
import type { PinRow } from '../../mcp/upstream/upstreams.js';
import type { AuditReport } from '../../mesh/audit/audit-log.js';
import type { JournalRow } from '../../mesh/audit/tables.js';
import type { A2AMetrics } from '../../mesh/observability.js';
import type { Decision } from '../../mesh/policy.js';
import {
  type A2AEnvelope,
  type A2ALogEvent,
  A2AMessageTypeSchema,
  type AgentCard,
  type AgentTier,
  AgentTierSchema,
  type RoutingResult,
} from '../../mesh/schemas.js';
import type { BrokerUsers } from '../../nats/broker.js';
import type { Finding, Invite, PeerRow } from '../../network/peers/network.js';
import type { MadePlan, PlanAsked } from '../../plans/plan-maker.js';
import type { RunNews, RunView } from '../../plans/run-news.js';
import type { RunSummary } from '../../plans/run-records.js';
import type { ReportPiece } from '../../plans/run-report.js';
import type { ProviderChange } from '../../providers/adapter/events.js';
import type { LaneRow } from '../../providers/host/lanes.js';
import type { WorktreeDetail, WorktreeRow } from '../../providers/worktree/worktrees.js';
import { EclipticError } from '../../runtime/errors.js';
import { type Approval, VerdictSchema } from '../../system/approvals/approval-queue.js';
import type { CredentialRow } from '../../system/secrets/credentials.js';
import type { MetricsHistory } from '../../telemetry/metrics-history.js';
import type { BranchReport } from '../../work/branch-report.js';
import type { NotifyResult } from '../notify/owner-notifier.js';
import type { ProjectRow } from '../projects/projects.js';
import type { Backup } from './backup.js';
import type { AuditedEvent, PolicyMatrix } from './policy-rows.js';
import {
  type AgentRow,
  type CallEvent,
  type Diagnosis,
  type DocumentRow,
  type EntryRow,
  type HistoryRow,
  type LeaseLine,
  type MailRow,
  type ObjectRow,
  type Probing,
  type PromptRow,
  type ProposalEvent,
  type ProposalListRow,
  type ProviderLine,
  type ProviderView,
  type RadarView,
  type Replayed,
  type ResourceRow,
  type SavedObject,
  type SwarmDetail,
  type SwarmEvent,
  type SwarmRow,
  type TaskDetail,
  type TaskRow,
  type ThreadPage,
  type ToolRow,
  WORK_KINDS,
} from './rows.js';
import type { Compacted, ExportedRow, StoreCheck } from './store-operations.js';

/** One operation of the owner: its parameters, and the types of its result and of the events before it. */
interface Operation<Shape extends z.ZodRawShape, Result, Event> {
  readonly params: z.ZodObject<Shape>;
  /** Types only; never set. */
  readonly types?: { readonly result: Result; readonly event: Event };
}

function takes<Shape extends z.ZodRawShape>(shape: Shape) {
  const params = z.object(shape);
  return { gives: <Result, Event = never>(): Operation<Shape, Result, Event> => ({ params }) };
}

const required = z.string('must be a non-empty string').min(1, 'must be a non-empty string');
const string = z.string('must be a string').optional();
const number = z.number('must be a number').optional();
const count = z.int('must be a whole number').nonnegative('must be a whole number').optional();
const upTo = (most: number) => {
  const said = `must be a whole number up to ${most}`;
  return z.int(said).min(1, said).max(most, said).optional();
};
const boolean = z.boolean('must be a boolean').optional();
const given = z.unknown().refine((value) => value !== undefined, 'must be given');
const object = z.custom<Record<string, unknown>>(isObject, 'must be a JSON object');
const isText = (value: unknown) => typeof value === 'string' && value !== '';
const texts = listOf<string>(isText, 'texts').optional();
const isProcess = (value: unknown) => Number.isSafeInteger(value) && (value as number) > 0;
const processes = listOf<number>(isProcess, 'process numbers').optional();
const isTier = (value: unknown) => AgentTierSchema.safeParse(value).success;

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function listOf<T>(isMember: (value: unknown) => boolean, members: string, least = 0) {
  const fits = (value: unknown) => Array.isArray(value) && value.length >= least && value.every(isMember);
  return z.custom<readonly T[]>(fits, `must be a list of ${members}`);
}

function oneOf<const Names extends readonly string[]>(names: Names) {
  return z.enum(names, `must be one of ${names.join(', ')}`);
}

/** `working` for `TASK_STATE_WORKING`. */
const shortState = (state: string) =>
  state
    .replace(/^TASK_STATE_/i, '')
    .replaceAll('_', '-')
    .toLowerCase();
const STATES: ReadonlyMap<string, TaskState> = new Map(TASK_STATES.map((state) => [shortState(state), state]));
const taskState = z
  .string('must be a string')
  .refine((said) => STATES.has(shortState(said)), `must be one of ${[...STATES.keys()].join(', ')}`)
  .transform((said) => STATES.get(shortState(said))!);

const nothing = takes({});
const id = { id: required };
const as = { as: string };
const messageType = oneOf(A2AMessageTypeSchema.options).optional();
const recipient = { to: string, capability: string };
const credential = { provider: required, name: string, workspace: string };
const document = { name: required, as: string };
const collection = oneOf(COLLECTIONS).optional();
const session = { session: required };

/** Every operation of the control socket. The server validates with this table, and the client's types come from it. */
export const API = {
  agents: takes({ capability: string, tier: number, sandbox: string }).gives<AgentRow[]>(),
  card: takes(id).gives<AgentCard>(),
  'node.card': nothing.gives<ServedCard>(),
  policy: takes({ from: required, to: required, type: messageType, justification: string }).gives<Decision>(),
  'policy.matrix': nothing.gives<PolicyMatrix>(),
  /** With `messages`: one event per message, with its payload, and every event that is about no message. */
  tail: takes({ type: string, agent: string, messages: boolean }).gives<void, TailEvent>(),
  metrics: nothing.gives<A2AMetrics>(),
  'metrics.text': nothing.gives<string>(),
  /** Samples of the last hour, oldest first; `points` limits them to the latest. */
  'metrics.history': takes({ points: count }).gives<MetricsHistory>(),
  down: nothing.gives<void>(),

  send: takes({
    ...{ ...recipient, as: required, payload: given, type: messageType, thread: string },
    ...{ justification: string, ttlMs: number, durable: boolean },
    /** Absolute paths of files that go with it. */
    attach: texts,
  }).gives<RoutingResult>(),
  request: takes({ ...recipient, as: required, payload: given, timeoutMs: number }).gives<unknown>(),
  broadcast: takes({ as: required, payload: given }).gives<RoutingResult>(),
  /** From the message with that number on, as many as fit into one answer; a negative number counts from the end. */
  thread: takes({ ...id, from: number, limit: count }).gives<readonly A2AEnvelope[]>(),
  'thread.events': takes(id).gives<A2ALogEvent[]>(),
  outbox: takes({ after: number }).gives<MailRow[]>(),
  inbox: takes({ as: required, after: number, waitMs: number }).gives<MailRow[]>(),
  receipt: takes(id).gives<{ id: string; state: string; over: boolean; story: Receipt }>(),
  /** The latest rows that fit into one reply; earlier ones are asked for with `before`. */
  log: takes({ thread: string, agent: string, text: string, since: number, before: number, limit: count }).gives<
    (JournalRow & { readonly text?: string })[]
  >(),
  /** The latest routed messages with their verdicts, oldest first; earlier ones are asked for with `before`. */
  messages: takes({ thread: string, agent: string, text: string, before: number, limit: upTo(500) }).gives<
    MessageLine[]
  >(),
  /** The conversations of the latest messages, newest first; earlier ones are asked for with `before`. */
  threads: takes({ agent: string, text: string, before: number }).gives<ThreadPage>(),
  export: nothing.gives<void, JournalRow & { readonly text?: string }>(),
  replay: takes({
    id: string,
    rows: listOf<unknown>(() => true, 'exported decisions').optional(),
  }).gives<Replayed>(),
  /** The latest refused messages, oldest first. */
  refusals: takes({ limit: count }).gives<MessageLine[]>(),
  'audit.verify': nothing.gives<AuditReport>(),
  /** The latest audited events besides routed messages, newest first. */
  'audit.events': takes({ limit: count }).gives<AuditedEvent[]>(),
  'store.check': nothing.gives<StoreCheck>(),
  'store.compact': nothing.gives<Compacted>(),
  /** Copies the data folder into a new folder, whose absolute path is given. */
  'store.backup': takes({ to: required }).gives<Backup>(),
  'store.export': takes({ table: string }).gives<void, ExportedRow>(),

  propose: takes({
    ...{ description: required, to: string, capabilities: texts, as: string, all: boolean, deadlineMs: number },
    complexity: oneOf(['simple', 'medium', 'complex']).optional(),
    ...{ justification: string, durable: boolean, input: z.unknown().optional() },
  }).gives<unknown, ProposalEvent>(),
  proposals: takes({ agent: string, pending: boolean }).gives<ProposalListRow[]>(),
  tasks: takes({
    kind: oneOf(WORK_KINDS).optional(),
    state: taskState.optional(),
    ...{ caller: string, context: string, limit: count },
  }).gives<TaskRow[]>(),
  task: takes(id).gives<TaskDetail>(),
  'task.follow': takes(id).gives<void, TaskDetail | StreamResponse>(),
  'task.cancel': takes(id).gives<Task | TaskRow>(),
  /** Gives an agent of the mesh a task for the owner. It goes on when the caller leaves. Emits the task, then each event. */
  'task.send': takes({
    ...{ to: required, text: string, context: string, skill: string, timeoutMs: number },
    /** Files and links, as parts of A2A. */
    parts: listOf<Record<string, unknown>>(isObject, 'parts').optional(),
  }).gives<TaskDetail, StreamResponse>(),
  /** Answers the question of a task that the owner gave. */
  'task.answer': takes({ ...id, text: required }).gives<Task>(),
  /** The A2A card of an agent of the mesh, as its node presents and signs it. */
  'a2a.card': takes({ to: required, as: string }).gives<A2ACard>(),
  /** Gives an agent of the mesh a task that its own node keeps. It is canceled when the caller leaves. Emits each event. */
  'a2a.send': takes({
    ...{ to: required, text: required, context: string, skill: string, task: string, as: string, timeoutMs: number },
  }).gives<void, StreamResponse>(),
  runs: takes({ limit: count }).gives<RunSummary[]>(),
  run: takes(id).gives<RunView>(),
  'run.start': takes({ text: required, file: required, fresh: boolean, as: string }).gives<RunView>(),
  /** Tries the tasks of an ended run again that are not done. */
  'run.again': takes(id).gives<RunView>(),
  'run.check': takes({ text: required, file: required, as: string }).gives<{ tasks: number; ids: string[] }>(),
  /** Emits the run, its tasks and their results. */
  'run.report': takes(id).gives<void, ReportPiece>(),
  /** Asks an agent for a plan; emits each question. */
  'plan.make': takes({ goal: required, with: string, as: string }).gives<MadePlan, PlanAsked>(),
  'run.follow': takes(id).gives<void, RunNews>(),
  'run.stop': takes(id).gives<RunView>(),
  swarms: nothing.gives<SwarmRow[]>(),
  swarm: takes(id).gives<SwarmDetail>(),
  'swarm.start': takes({
    ...{ task: required, capabilities: texts, plan: string, planner: string, aggregator: string, as: string },
    ...{ leaseMs: number, attempts: number },
  }).gives<SwarmRow>(),
  'swarm.follow': takes(id).gives<void, SwarmEvent>(),
  'swarm.join': takes({ ...id, as: required, via: string }).gives<SwarmRow | null>(),
  'swarm.cancel': takes(id).gives<void>(),

  states: nothing.gives<DocumentRow[]>(),
  stateGet: takes({ ...document, path: string }).gives<unknown>(),
  stateSet: takes({ ...document, path: required, value: given }).gives<{ vector: Readonly<Record<string, number>> }>(),
  stateHistory: takes(document).gives<HistoryRow[]>(),
  stateWatch: takes(document).gives<void, { readonly by: string | null; readonly content: unknown }>(),

  entries: takes({ ...as, query: string, tag: string, collection, limit: upTo(50) }).gives<EntryRow[]>(),
  'entries.add': takes({ ...as, text: required, tags: texts, collection }).gives<EntryRow>(),
  'entries.forget': takes({ ...id, ...as, collection }).gives<EntryRow>(),

  tools: takes(as).gives<ToolRow[]>(),
  resources: takes(as).gives<ResourceRow[]>(),
  prompts: takes(as).gives<PromptRow[]>(),
  call: takes({ ...as, tool: required, arguments: object, timeoutMs: number }).gives<CallToolResult, CallEvent>(),
  /** One round of a call whose caller can be asked: its result, or the questions of the tool. */
  'call.round': takes({
    ...{ ...as, tool: required, arguments: object, timeoutMs: number },
    ...{ answers: object.optional(), state: string },
  }).gives<CallToolResult | NeedsInput, CallEvent>(),
  read: takes({ ...as, uri: required, timeoutMs: number }).gives<ReadResourceResult, CallEvent>(),
  prompt: takes({
    ...{ ...as, name: required, timeoutMs: number },
    arguments: z.custom<Record<string, string>>(
      (value) => isObject(value) && Object.values(value as object).every((one) => typeof one === 'string'),
      'must be an object of strings',
    ),
  }).gives<GetPromptResult, CallEvent>(),
  invocations: takes({ limit: number }).gives<readonly InvocationRecord[]>(),
  'tools.servers': nothing.gives<UpstreamStatus[]>(),
  /** Emits the URL that the user must open, and returns when the login is complete. */
  'tools.login': takes({ server: required }).gives<{ server: string }, { readonly url: string }>(),
  'tools.logout': takes({ server: required }).gives<{ server: string }>(),
  'tools.pins': nothing.gives<PinRow[]>(),
  'tools.approve': takes({ all: boolean, subject: string }).gives<Pick<Approval, 'id' | 'subject' | 'summary'>[]>(),
  /** Opens an MCP conversation, whose messages are events until the caller disconnects; the first event is null. */
  'mcp.open': takes({ ...session, ...as }).gives<void, JSONRPCMessage | null>(),
  'mcp.send': takes({ ...session, message: given }).gives<void>(),

  'token.create': takes({ name: required, sandbox: string, scopes: string }).gives<TokenRow & { token: string }>(),
  'token.list': nothing.gives<TokenRow[]>(),
  'token.rotate': nothing.gives<{ token: string }>(),
  'token.revoke': takes({ token: required }).gives<TokenRow>(),
  /** A link that opens the owner's page once. */
  'page.open': nothing.gives<PageLink>(),
  /** Ends all page sessions and links. */
  'page.revoke': nothing.gives<{ ended: number }>(),
  /** Everything that only the owner can settle, oldest first: here and, unless `local`, on the owner's other devices. */
  waiting: takes({ local: boolean }).gives<Waiting>(),
  'waiting.answer': takes({ ...id, action: oneOf(WAITING_ACTIONS), text: string, local: boolean }).gives<Answered>(),
  /** The answer to an item that no longer waits, by its whole id; null where none is known. */
  'waiting.answered': takes({ ...id, local: boolean }).gives<GivenAnswer | null>(),
  /** How the owner is told that something waits; `bell` also holds for programs that show it on a terminal. */
  notify: nothing.gives<{ readonly bell: boolean; readonly ways: readonly string[] }>(),
  /** Sends the owner a test notification by each configured way. */
  'notify.test': nothing.gives<NotifyResult[]>(),
  /** The state of the node in numbers. */
  status: nothing.gives<NodeStatus>(),
  /** What became of any id. With `local`, the owner's other devices are not asked. */
  story: takes({ ...id, local: boolean }).gives<Story>(),
  approvals: takes({ all: boolean }).gives<readonly Approval[]>(),
  'approvals.decide': takes({
    verdict: oneOf(VerdictSchema.options),
    ids: texts,
  }).gives<readonly Approval[]>(),
  lanes: nothing.gives<LaneRow[]>(),
  'lanes.close': takes({ lane: required }).gives<{ lane: string }>(),
  'lanes.open': takes({ lane: required }).gives<{ lane: string }>(),
  /** Changed files of worktrees, here and unless `local` on the owner's other devices, and where they overlap. */
  radar: takes({ local: boolean }).gives<RadarView>(),
  /** The git worktrees of agents' tasks, latest use first. */
  workspaces: nothing.gives<WorktreeRow[]>(),
  workspace: takes({ ...id, diff: boolean }).gives<WorktreeDetail>(),
  'workspace.merge': takes({ ...id, into: string }).gives<BranchReport>(),
  'workspace.drop': takes({ ...id, force: boolean }).gives<WorktreeRow>(),
  providers: nothing.gives<ProviderLine[]>(),
  'provider.show': takes(id).gives<ProviderView>(),
  /** The latest changes of a provider, or of all, newest first, since the node started. */
  'provider.history': takes({ id: string }).gives<ProviderChange[]>(),
  'provider.restart': takes(id).gives<ProviderView>(),
  'provider.drain': takes(id).gives<ProviderView>(),
  'credentials.set': takes({ ...credential, value: required }).gives<CredentialRow>(),
  'credentials.rotate': takes({ ...credential, value: required, graceMs: number }).gives<CredentialRow>(),
  'credentials.revoke': takes(credential).gives<CredentialRow>(),
  'credentials.list': takes({ provider: string, workspace: string }).gives<CredentialRow[]>(),

  /** Makes the calling process a member until it disconnects. */
  'onramp.attach': takes({
    ...{ ...session, as: string, tier: AgentTierSchema.optional(), sandbox: string, capabilities: texts },
    ...{ client: required, checkout: required, ancestors: processes, shown: texts, wake: z.unknown() },
  }).gives<void, { readonly name: string }>(),
  'onramp.call': takes({
    ...{ ...session, tool: required, arguments: given, number, seen: texts, thread: string },
  }).gives<Answer>(),
  /** The member's client called another tool, and had received these messages by then. */
  'onramp.heard': takes({ ...session, seen: texts, thread: string }).gives<void>(),
  'onramp.cancel': takes({ ...session, number }).gives<void>(),
  /** Offers the files of an editor to an agent until the caller disconnects; each use of them is an event. */
  'editor.open': takes({ ...session, to: required }).gives<void, FileUse & { readonly call: number }>(),
  'editor.answer': takes({ ...session, call: z.int(), result: string, error: string }).gives<void>(),
  overview: nothing.gives<Overview>(),
  tell: takes({ to: required, text: required, replyTo: string }).gives<{ id: string; to: string; thread: string }>(),
  /** Answers a message to the owner. */
  reply: takes({ ...id, text: required }).gives<{ id: string; to: string; thread: string; answers: string }>(),
  'owner.shown': takes({ ids: texts }).gives<void>(),
  'owner.done': takes({ ids: texts }).gives<void>(),
  /** The projects that clients work in, as far as they have a configuration. */
  projects: nothing.gives<readonly ProjectRow[]>(),
  /** Ends the agents of a project, and forgets what was decided about it. */
  'project.forget': takes({ folder: required }).gives<ProjectRow>(),
  held: nothing.gives<HeldRow[]>(),
  'held.letIn': takes(id).gives<{ from: string }>(),
  'held.turnAway': takes(id).gives<{ from: string }>(),
  leases: nothing.gives<LeaseLine[]>(),
  'leases.release': takes(id).gives<LeaseLine>(),
  'guard.ask': takes({
    ...{ client: required, folder: required, paths: texts, ancestors: processes, proves: boolean },
    operations: z
      .array(
        z.object({ command: required, folder: z.string(), paths: z.exactOptional(z.array(z.string()).readonly()) }),
      )
      .readonly()
      .optional(),
  }).gives<Denial[]>(),
  /** A hook of a client ran; the pointer is the text that the client is to continue with. */
  'wake.hook': takes({
    ...{ client: required, event: required, payload: given, ancestors: processes },
    env: object.optional(),
  }).gives<{ pointer: string | null }>(),
  wake: nothing.gives<Wakes['rows']>(),
  'wake.test': takes({ names: texts, withinMs: number }).gives<TestedRow[]>(),

  /** Objects of this node's agents, and those that were sent to them. */
  objects: nothing.gives<ObjectRow[]>(),
  /** Saves an object as a file. `object` is an id, or a reference as JSON; `as` the agent that reads it. */
  'object.get': takes({ object: required, file: required, as: string }).gives<SavedObject>(),
  'object.remove': takes({ id: required }).gives<void>(),

  invite: takes({
    tiers: listOf<AgentTier>(isTier, 'tiers, each 0, 1, 2 or 3', 1).optional(),
    sandboxes: listOf<string>(isText, 'sandboxes', 1).optional(),
    ...{ ttlMs: number, mayInvite: boolean, owner: boolean },
  }).gives<Invite>(),
  join: takes({ code: required }).gives<{ mesh: string }>(),
  leave: nothing.gives<void, { readonly leaving: true }>(),
  peers: nothing.gives<PeerRow[]>(),
  'peers.remove': takes({ node: required }).gives<void>(),
  'nats.users': nothing.gives<BrokerUsers>(),
  /** Lets a node that is to join log in at the broker for a day. */
  'nats.allow': takes({ node: required, nkey: required }).gives<void>(),
  /** Emits each finding as soon as it is known; the result has all of them, in a fixed order. */
  doctor: nothing.gives<Diagnosis, Finding | Probing>(),
};

/** An event of the stream; a message's routing decision carries its payload. */
export type TailEvent = A2ALogEvent & { readonly payload?: unknown };

export type ControlApi = typeof API;
export type Method = keyof ControlApi;
export type ParamsOf<M extends Method> = z.input<ControlApi[M]['params']>;
export type ResultOf<M extends Method> = NonNullable<ControlApi[M]['types']>['result'];
export type EventOf<M extends Method> = NonNullable<ControlApi[M]['types']>['event'];

/** The parameters of a call, checked; throws `USAGE` that names the wrong one. */
export function checkParams<M extends Method>(method: M, params: unknown): z.output<ControlApi[M]['params']> {
  const parsed = API[method].params.safeParse(params);
  if (parsed.success) return parsed.data as z.output<ControlApi[M]['params']>;
  const { path, message } = parsed.error.issues[0]!;
  throw wrongParameter(String(path[0]), message);
}

export function wrongParameter(parameter: string, message: string): EclipticError {
  return new EclipticError('USAGE', `"${parameter}" ${message}`, { parameter });
}
