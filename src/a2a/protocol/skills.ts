import type { AgentSkill } from './types.js';

/** A tool that an agent offers, as far as a card tells of it. */
export interface OfferedTool {
  /** The tool's name, without its owner. */
  readonly name: string;
  /** The address of the agent that offers it. */
  readonly owner: string;
  readonly description?: string | undefined;
  /** Does its agent take tasks? Default true. */
  readonly takesTasks?: boolean | undefined;
}

/** A capability of an agent, as far as a card tells of it. */
export interface OfferedCapability {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  /** The address of the agent that has it. */
  readonly owner: string;
}

/** On a skill that is called over MCP alone: the agent behind it takes no tasks. */
const MCP_ONLY = 'mcp-only';
const TASK_MODES: readonly string[] = ['text/plain', 'application/json'];
export const TOOL_INPUT_MODES: readonly string[] = ['application/json'];
export const TOOL_OUTPUT_MODES: readonly string[] = ['application/json', 'text/plain'];

/** A skill is known by the tool's full name, which says whose it is. */
export function skillOf(tool: OfferedTool, moreTags: readonly string[] = []): AgentSkill {
  return {
    id: `${tool.owner}.${tool.name}`,
    name: humanize(tool.name),
    description: tool.description || `Tool: ${tool.name}`,
    tags: [...new Set([...tagsOf(tool.name), ...moreTags, ...(tool.takesTasks === false ? [MCP_ONLY] : [])])],
    inputModes: TOOL_INPUT_MODES,
    outputModes: TOOL_OUTPUT_MODES,
  };
}

/** A skill for each capability, by the capability's id: a task that names it goes to an agent that has it. */
export function skillsOfCapabilities(capabilities: readonly OfferedCapability[]): AgentSkill[] {
  const first = new Map<string, OfferedCapability>();
  for (const one of capabilities) if (!first.has(one.id)) first.set(one.id, one);
  return Array.from(first.values(), ({ id, name, description }) => ({
    id,
    name: name === id ? humanize(id) : name,
    description: description || `Takes tasks: ${id}`,
    tags: tagsOf(id),
    inputModes: TASK_MODES,
    outputModes: TASK_MODES,
  }));
}

/** Words that people write in a way of their own. */
const SPELLINGS: Readonly<Record<string, string>> = {
  a2a: 'A2A',
  acp: 'ACP',
  ai: 'AI',
  api: 'API',
  cli: 'CLI',
  csv: 'CSV',
  db: 'DB',
  dht: 'DHT',
  github: 'GitHub',
  gitlab: 'GitLab',
  html: 'HTML',
  http: 'HTTP',
  id: 'ID',
  ids: 'IDs',
  json: 'JSON',
  llm: 'LLM',
  mcp: 'MCP',
  pdf: 'PDF',
  pr: 'PR',
  prs: 'PRs',
  sql: 'SQL',
  ui: 'UI',
  uri: 'URI',
  url: 'URL',
  urls: 'URLs',
  xml: 'XML',
};

/** `github_star_repo` as a person would write it: "GitHub Star Repo". */
export function humanize(name: string): string {
  const words = wordsOf(name).map((word) => {
    const lower = word.toLowerCase();
    return Object.hasOwn(SPELLINGS, lower) ? SPELLINGS[lower] : word.charAt(0).toUpperCase() + word.slice(1);
  });
  return words.join(' ') || name;
}

const TAGS: readonly (readonly [words: readonly string[], tags: readonly string[]])[] = [
  [
    ['message', 'messages', 'mail', 'inbox', 'chat', 'notify'],
    ['messaging', 'communication'],
  ],
  [['send', 'broadcast', 'comment', 'reply'], ['communication']],
  [['memory', 'remember', 'recall'], ['memory']],
  [['agent', 'agents'], ['agents']],
  [['discover', 'registry', 'lookup'], ['discovery']],
  [
    ['a2a', 'remote', 'delegate'],
    ['a2a', 'communication'],
  ],
  [
    ['session', 'sessions', 'timeout'],
    ['session', 'management'],
  ],
  [
    ['credit', 'credits', 'billing', 'cost'],
    ['credits', 'billing'],
  ],
  [['admin', 'config', 'grant'], ['admin']],
  [['task', 'tasks', 'workflow'], ['automation']],
  [
    ['schedule', 'cron', 'timer'],
    ['automation', 'scheduling'],
  ],
  [['search', 'find', 'query'], ['search']],
  [['web', 'http', 'fetch', 'browse', 'url'], ['web']],
  [['research'], ['search', 'research']],
  [['github', 'gitlab', 'git'], ['github']],
  [['star', 'unstar', 'follow', 'unfollow'], ['social']],
  [['repo', 'repos', 'repository', 'fork'], ['repository']],
  [['pr', 'prs', 'pull', 'merge'], ['pull-requests']],
  [['review', 'diff'], ['review']],
  [['issue', 'issues'], ['issues']],
  [
    ['reputation', 'trust', 'verify'],
    ['reputation', 'trust'],
  ],
  [
    ['health', 'status', 'metrics', 'monitor'],
    ['health', 'monitoring'],
  ],
  [['file', 'files', 'directory', 'folder'], ['files']],
  [['code', 'build', 'test', 'tests', 'compile', 'lint'], ['development']],
  [['sql', 'database', 'db', 'table'], ['data']],
];

const tagsByWord: ReadonlyMap<string, readonly string[]> = new Map(
  TAGS.flatMap(([words, tags]) => words.map((word) => [word, tags] as const)),
);

const GENERAL: readonly string[] = ['general'];

export function tagsOf(name: string): readonly string[] {
  const tags = new Set(wordsOf(name).flatMap((word) => tagsByWord.get(word.toLowerCase()) ?? []));
  return tags.size > 0 ? [...tags] : GENERAL;
}

/** Words are parted by anything that is no letter or digit, and by a capital after a small letter. */
function wordsOf(name: string): string[] {
  return name
    .replace(/(\p{Ll})(\p{Lu})/gu, '$1 $2')
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== '');
}
