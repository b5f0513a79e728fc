import { type Noun, noun, type Table } from './command.js';

/** Every command: one line here and one file for each noun. */
const NOUNS: readonly Noun[] = [
  noun('agent', 'everyday', 'list agents, show a card', () => import('./agent.js'), 'list'),
  noun('message', 'everyday', 'send and receive messages', () => import('./message.js')),
  noun('task', 'everyday', 'give work to A2A agents and follow it', () => import('./task.js'), 'show'),
  noun('proposal', 'everyday', 'propose work to agents of the mesh', () => import('./proposal.js'), 'list'),
  noun('swarm', 'everyday', 'let several agents do one task', () => import('./swarm.js'), 'start'),
  noun('plan', 'everyday', 'run plans of tasks', () => import('./plan.js'), 'run'),
  noun('doc', 'everyday', 'read and change shared documents', () => import('./doc.js'), 'list'),
  noun('tool', 'everyday', 'list and call tools; MCP servers', () => import('./tool.js'), 'list'),
  noun('resource', 'everyday', 'list and read resources', () => import('./resource.js'), 'list'),
  noun('prompt', 'everyday', 'list and fill in prompts', () => import('./prompt.js'), 'get'),
  noun('coding-agent', 'coding agents', 'connect coding agents', () => import('./coding-agent.js')),
  noun('lease', 'coding agents', 'files that agents have reserved', () => import('./lease.js'), 'list'),
  noun('held', 'coding agents', 'mail of strangers, held for you', () => import('./held.js'), 'list'),
  noun('approval', 'coding agents', 'list and answer approval requests', () => import('./approval.js'), 'list'),
  noun('node', 'operating', 'start, stop, check and watch a node', () => import('./node.js')),
  noun('provider', 'operating', 'the programs that do agents’ work', () => import('./provider.js'), 'list'),
  noun('lane', 'operating', 'the lanes that providers run in', () => import('./lane.js'), 'list'),
  noun('credential', 'operating', 'secrets of providers', () => import('./credential.js'), 'list'),
  noun('token', 'operating', 'tokens of HTTP callers', () => import('./token.js')),
  noun('config', 'operating', 'check the configuration', () => import('./config.js')),
  noun('log', 'operating', 'search, export and replay the journal', () => import('./log.js'), 'search'),
  noun('audit', 'operating', 'verify the audit log', () => import('./audit.js')),
  noun('store', 'operating', 'check, compact and export the store', () => import('./store.js')),
  noun('policy', 'operating', 'ask who may reach whom', () => import('./policy.js'), 'check'),
  noun('peer', 'devices', 'other nodes: invite, join, remove', () => import('./peer.js'), 'list'),
  noun('completion', 'developing', 'shell completion', () => import('./completion.js')),
];

/**
 * Short words for commands. `[list]` is a verb that may be replaced by another of the noun: `peers` is `peer list`, and
 * `peers remove` is `peer remove`. With NAME, the name stands before the verb: `state plan get` is `doc get plan`.
 */
const WORDS: Table['words'] = {
  up: 'node start',
  down: 'node stop',
  agents: 'agent list',
  send: 'message send',
  request: 'message request',
  tail: 'node tail',
  doctor: 'node doctor',
  setup: 'coding-agent setup',
  mcp: 'coding-agent mcp',
  watch: 'coding-agent watch',
  tell: 'message tell',
  inbox: 'message inbox',
  invite: 'peer invite',
  join: 'peer join',
  leave: 'peer leave',
  peers: 'peer [list]',
  dht: 'peer dht',
  card: 'agent show',
  broadcast: 'message broadcast',
  outbox: 'message outbox',
  receipt: 'message receipt',
  thread: 'message thread',
  invoke: 'task send',
  tasks: 'task list',
  cancel: 'task cancel',
  run: 'plan [run]',
  runs: 'plan list',
  swarms: 'swarm list',
  state: 'doc NAME [get]',
  states: 'doc list',
  propose: 'proposal send',
  proposals: 'proposal list',
  export: 'log export',
  replay: 'log replay',
  tools: 'tool [list]',
  call: 'tool call',
  resources: 'resource list',
  read: 'resource read',
  prompts: 'prompt list',
  leases: 'lease [list]',
  hook: 'coding-agent hook',
  guard: 'coding-agent guard',
  lanes: 'lane [list]',
  approvals: 'approval [list]',
  credentials: 'credential [list]',
  providers: 'provider list',
  metrics: 'node metrics',
};

/** Short words that the overview shows, by group. */
const SHOWN_WORDS: Table['shown'] = {
  everyday: ['up', 'down', 'agents', 'send', 'request', 'tail', 'doctor'],
  'coding agents': ['setup', 'mcp', 'watch', 'tell', 'inbox'],
  devices: ['invite', 'join', 'leave', 'peers', 'dht'],
};

export const TABLE: Table = { nouns: NOUNS, words: WORDS, shown: SHOWN_WORDS };
