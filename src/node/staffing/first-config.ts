import type { KnownServer } from '../../coding-agents/setup/known-servers.js';
import type { Assignment } from './proposal.js';

/** Something that was found on this machine and may become a line of the configuration. */
export type Addition =
  | { readonly kind: 'agent'; readonly assignment: Assignment }
  | { readonly kind: 'server'; readonly server: KnownServer };

/** The key of its line, under `agents` or `mcpServers`. */
export function keyOf(addition: Addition): string {
  return addition.kind === 'agent' ? addition.assignment.role : addition.server.name;
}

/** Where it comes from, for people. */
export function sourceOf(addition: Addition): string {
  if (addition.kind === 'server') return addition.server.clients.join(', ');
  return addition.assignment.workers.map(({ title }) => title).join(', then ');
}

const HEAD = [
  '{',
  '  "$schema": "./node_modules/ecliptic/schema/ecliptic.schema.json",',
  '',
  '  // Who does the work of each agent: a coding agent, a model, a program, a module. See docs/workers.md.',
];

const SERVERS = '  // MCP servers whose tools the agents of this node may use. See docs/configuration.md.';

/** What a newcomer is likely to change next; without these lines the defaults apply. */
const DEFAULTS = [
  '  // What programs may do without a question. Without rules they may use the files of their own folder.',
  '  // "policy": [{ "agent": "mars", "action": "terminal.run", "match": "npm test*", "decision": "allow" }],',
  '',
  '  // Where A2A, MCP and the dashboard are served.',
  '  // "http": { "port": 3000 },',
  '',
  '  // An agent in a sandbox reaches the agents of that sandbox, and those that are allowed here.',
  '  // "sandbox": { "enforced": true, "allow": { "lab": ["mercury"] } },',
  '}',
  '',
];

/** A new `ecliptic.json` with comments: the taken additions as its lines, the others as comments that can be uncommented. */
export function firstConfigText(additions: readonly Addition[], taken: ReadonlySet<Addition>): string {
  const agents = additions.filter(({ kind }) => kind === 'agent');
  const servers = additions.filter(({ kind }) => kind === 'server');
  return [
    ...[...HEAD, ...block('agents', agents, taken), ''],
    ...[SERVERS, ...block('mcpServers', servers, taken), ''],
    ...DEFAULTS,
  ].join('\n');
}

function block(name: string, additions: readonly Addition[], taken: ReadonlySet<Addition>): string[] {
  if (additions.length === 0) return [`  "${name}": {},`];
  return [
    `  "${name}": {`,
    ...additions.map((one) => `    ${taken.has(one) ? '' : '// '}${entryText(one)}, // ${commentText(sourceOf(one))}`),
    '  },',
  ];
}

function entryText(addition: Addition): string {
  return `${JSON.stringify(keyOf(addition))}: ${onOneLine(configOf(addition))}`;
}

function configOf(addition: Addition): unknown {
  if (addition.kind === 'server') return addition.server.config;
  const configs = addition.assignment.workers.map(({ config }) => config);
  return configs.length === 1 ? configs[0] : configs;
}

/** One line, whatever the names of clients contain. */
function commentText(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]/gu, ' ');
}

/** JSON on one line, with spaces as a person would write it. */
export function onOneLine(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(onOneLine).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return members.length === 0
    ? '{}'
    : `{ ${members.map(([key, one]) => `${JSON.stringify(key)}: ${onOneLine(one)}`).join(', ')} }`;
}
