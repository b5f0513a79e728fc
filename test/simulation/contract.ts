/** How the simulation covers one line of docs/contract.md: by checks of its own, or not, and where it is proved instead. */
export type Coverage = { readonly checks: string } | { readonly elsewhere: string };

/** One entry for each line of the contract, in its order. `test/simulation/contract.test.ts` compares them. */
export const CONTRACT = {
  'local message': { checks: 'messages: each arrives once, in order, at its recipient; `delivered` only if heard' },
  'local channel': {
    elsewhere: 'channels across nodes are checked; retries within one node are in src/mesh/channel.test.ts',
  },
  'message to another node': {
    checks: 'messages: as local ones; a failed one was heard only if its outcome is `unknown`',
  },
  'channel to another node': { checks: 'conversations: in order, once, and every message settles' },
  'a silent peer': { checks: 'health: no peer is connected 4 s after its last frame' },
  membership: {
    checks: 'membership: a removed node is heard by no node that knows; no mail, card or link of it is left',
  },
  'cards of other nodes': {
    checks: 'health: at rest, every node knows exactly the agents that there are, at their nodes',
  },
  'hostile peer': {
    checks: 'hostile: a member that lies stops nothing and steals no name; honest nodes are never accused',
  },
  'durable message': { checks: 'mail: stored ends at both sides; in order; commits once; one answer' },
  'durable message for an absent node, with NATS': { elsewhere: 'test/durable/simulated-mail.test.ts, test/nats/' },
  'file that goes with a message (object)': { elsewhere: 'src/objects/objects.test.ts: its files are real ones' },
  receipt: { checks: 'mail: both sides show the same states at the end; `read` only after a handler ran' },
  store: { checks: 'health: opens after every crash and power cut; mail, documents and proposals prove its content' },
  'mail between coding agents': { elsewhere: 'src/coding-agents/coding-agents.test.ts' },
  'text of a peer': { elsewhere: 'src/coding-agents/mailbox/provenance.test.ts' },
  'audit log': { checks: 'health: verifies at the end, whatever crashed' },
  request: { checks: 'messages: one answer of the agent that was asked, or one typed error' },
  stream: { checks: 'conversations: every chunk in order, or an error' },
  'tool call': {
    checks: 'tools: executed at most once with checked arguments; ends in time with its result or one typed error',
  },
  'provider work': {
    checks: 'providers: given to one healthy provider, once; ends with its result or one typed error',
  },
  'tools, resources, prompts': { checks: 'tools: a sandboxed agent neither sees nor uses tools outside' },
  'definitions of an upstream server': { elsewhere: 'test/upstream/' },
  'A2A task': { elsewhere: 'test/a2a/, src/a2a/protocol/task-machine.test.ts' },
  'tasks of a caller': { elsewhere: 'test/a2a/' },
  'tasks at every device of the owner': { elsewhere: 'test/a2a/edge.test.ts' },
  'a stateless gateway (`http.gateway`)': { elsewhere: 'test/a2a/stateless-gateway.test.ts' },
  proposal: { checks: 'proposals: both sides end alike, or the proposer with `timed-out`; no side shows two outcomes' },
  'durable proposal': { checks: 'proposals: the same across crashes of either side; a sent one is never forgotten' },
  'run of a plan': { elsewhere: 'src/plans/, test/coordination/ralph-kill.test.ts' },
  'shared document': { checks: 'documents: replicas are equal after the faults; a stored change is never lost' },
  swarm: { checks: 'swarms: a recorded result never changes; each ends with all results, or fails with the reasons' },
  lease: { checks: 'leases: no two agents hold a confirmed lease of one path at one time; all are free at the end' },
  guard: { elsewhere: 'src/coding-agents/leases/guard.test.ts' },
  radar: { elsewhere: 'src/node/devices/radar-reports.test.ts, test/workspaces/' },
  broadcast: { checks: 'messages: at most once for each recipient; the counts add up' },
  'a tool of the roster': { elsewhere: 'test/review/' },
  "an agent's `status`": { elsewhere: 'test/unstaffed.test.ts, test/providers/honest-states.test.ts' },
  policy: { checks: 'messages: nothing that tiers or sandboxes forbid is heard' },
  replies: { checks: 'health: at rest, no reply permit is left' },
  refusal: { checks: 'messages: a policy refusal makes one security event' },
  counts: { checks: 'health: the counted messages are the ones that the node reported' },
  handlers: { checks: 'messages: handlers that throw change nothing for others' },
  'callbacks of the embedding program': { checks: 'health: subscribers that throw stop nothing' },
  stopping: { checks: 'health: a node that has stopped has no timer left' },
  'bad input': { elsewhere: 'src/mesh/bad-input.test.ts, src/node/control/server.test.ts' },
} as const satisfies Readonly<Record<string, Coverage>>;

export type Subject = keyof typeof CONTRACT;
