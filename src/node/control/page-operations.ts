import { z } from 'zod';
import type { PageOperation, ParamsSchema } from '../../http/dashboard/facts.js';
import { API, type Method } from './api.js';

/** Reads change nothing; a page can follow them. */
const READS = {
  agents: 'Agents with state, workers and load',
  card: 'The card of an agent',
  messages: 'Routed messages with their verdicts, from the journal',
  waiting: 'Everything that waits for the owner, oldest first',
  'waiting.answered': 'How, when and on which device an item that no longer waits was answered',
  policy: 'Whether one agent may reach another, and the rule that decides',
  'policy.matrix': 'Which tiers and sandboxes may reach which',
  refusals: 'The latest refused messages',
  metrics: 'Counters of this node since it started',
  threads: 'Conversations with their last messages, newest first',
  'metrics.history': 'Samples of the last hour: rates, latencies, queues, memory and disk',
  thread: 'The messages of a conversation',
  inbox: 'Durable messages in the inbox of an agent',
  outbox: 'Durable messages that are not confirmed yet',
  receipt: 'The states of a durable message',
  tasks: 'Tasks, newest first',
  task: 'A task with its history and artifacts',
  proposals: 'Proposals that agents of this node sent or received',
  runs: 'Runs of plans, newest first',
  run: 'A run with its tasks',
  swarms: 'Swarms that this node knows',
  swarm: 'A swarm with its sub-tasks',
  states: 'Shared documents',
  stateGet: 'The content of a shared document',
  stateHistory: 'The changes of a shared document',
  entries: 'Entries of memory, house rules and taste: the newest, or those that fit a query',
  tools: 'Tools that can be called, with their schemas',
  'tools.servers': 'Connected MCP servers',
  'tools.pins': 'Approved and changed tool definitions',
  invocations: 'The latest tool calls',
  approvals: 'Approval requests',
  providers: 'Workers with health, lane and work in progress',
  'provider.show': 'One worker with its limits and configuration',
  'provider.history': 'The latest changes of workers: health, failovers, restarts',
  lanes: 'Lanes, in which workers run',
  radar: 'Changed files of worktrees on the owner’s devices, and where they overlap',
  workspaces: 'Git worktrees of agents’ tasks',
  workspace: 'One worktree with its branch, commits and changed files',
  leases: 'Leases on files',
  held: 'Messages of strangers that are held back',
  overview: 'Connected coding agents and their work',
  wake: 'How each coding agent is woken',
  peers: 'Members of the mesh and the links to them',
  'token.list': 'Bearer tokens, without their secrets',
  'audit.verify': 'Verifies the audit log',
  'audit.events': 'The latest audited events besides messages',
  doctor: 'A diagnosis of this node, its links and its workers; takes a while',
  status: 'The state of the node in numbers',
  story: 'What became of any id: its events, their proof, and what it waits for',
  replay: 'Recorded decisions that the present rules would decide differently',
} satisfies Partial<Record<Method, string>>;

const ACTIONS = {
  'waiting.answer': 'Answers an item that waits for the owner',
  send: 'Sends a message',
  request: 'Sends a request and returns its reply',
  broadcast: 'Sends a message to all agents that the sender may reach',
  tell: 'Sends mail as the owner',
  'owner.done': 'Closes mail to the owner',
  propose: 'Hands a task to an agent and returns its result',
  'task.cancel': 'Cancels a task',
  'task.answer': 'Answers the question of a task',
  'run.start': 'Starts a plan',
  'run.again': 'Tries the unfinished tasks of an ended run again',
  'run.stop': 'Stops a run',
  'swarm.start': 'Starts a swarm',
  'swarm.cancel': 'Cancels a swarm',
  stateSet: 'Sets a value in a shared document',
  'entries.add': 'Adds an entry to memory, house rules or taste',
  'entries.forget': 'Removes such an entry',
  call: 'Calls a tool',
  'provider.restart': 'Restarts a worker',
  'provider.drain': 'Lets a worker finish its work and take no more',
  'lanes.close': 'Stops the workers of a lane',
  'lanes.open': 'Starts the workers of a lane again',
  'leases.release': 'Releases a lease',
  'workspace.merge': 'Merges the branch of a worktree',
  'workspace.drop': 'Removes a worktree and its branch',
  invite: 'Makes an invitation for another device',
  'peers.remove': 'Removes a member from the mesh',
  'page.revoke': 'Ends all page sessions and links',
} satisfies Partial<Record<Method, string>>;

/** Reads that other callers than the owner may use; they get what their sandbox may see. */
const SHARED: ReadonlySet<string> = new Set(['agents', 'tools'] satisfies (keyof typeof READS)[]);

/** The operations that the page uses over HTTP, each described once. */
export const PAGE_OPERATIONS: readonly PageOperation[] = [
  ...Object.entries(READS).map(([name, summary]) => operation(name, 'read', summary)),
  ...Object.entries(ACTIONS).map(([name, summary]) => operation(name, 'action', summary)),
];

function operation(name: string, kind: PageOperation['kind'], summary: string): PageOperation {
  let known: ParamsSchema | undefined;
  return {
    name,
    kind,
    summary,
    shared: SHARED.has(name),
    // Made with the first use, because many nodes never show their page.
    get params() {
      known ??= paramsOf(API[name as Method].params);
      return known;
    },
  };
}

function paramsOf(schema: z.ZodType): ParamsSchema {
  const { $schema: _, ...params } = z.toJSONSchema(schema, { unrepresentable: 'any', io: 'input' });
  return params as ParamsSchema;
}
