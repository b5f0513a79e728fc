import type { AgentSkill } from './types.js';

export interface OfferedTool {
  /** Without the owner. */
  readonly name: string;
  readonly owner: string;
  readonly description?: string;
  /** Default true. */
  readonly takesTasks?: boolean;
}

export interface OfferedCapability {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly owner: string;
}

/** Tag of a skill that can be called over MCP only, because its agent takes no tasks. */
const MCP_ONLY = 'mcp-only';
const TASK_MODES: readonly string[] = ['text/plain', 'application/json'];
export const TOOL_INPUT_MODES: readonly string[] = ['application/json'];
export const TOOL_OUTPUT_MODES: readonly string[] = ['application/json', 'text/plain'];

/** The id is the tool's full name, `owner.tool`. */
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

/** One skill per capability id; a task that names it goes to an agent that has the capability. */
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

const SPELLINGS: ReadonlyMap<string, string> = new Map(
  'A2A ACP AI API CLI CSV DB DHT GitHub GitLab HTML HTTP ID IDs JSON LLM MCP PDF PR PRs SQL UI URI URL URLs XML'
    .split(' ')
    .map((word) => [word.toLowerCase(), word]),
);

/** `github_star_repo` becomes "GitHub Star Repo". */
export function humanize(name: string): string {
  const words = wordsOf(name).map(
    (word) => SPELLINGS.get(word.toLowerCase()) ?? word.charAt(0).toUpperCase() + word.slice(1),
  );
  return words.join(' ') || name;
}

/** Words in a tool's name → tags of its skill. */
const TAGS: Readonly<Record<string, string>> = {
  'message messages mail inbox chat notify': 'messaging communication',
  'send broadcast comment reply': 'communication',
  'memory remember recall': 'memory',
  'agent agents': 'agents',
  'discover registry lookup': 'discovery',
  'a2a remote delegate': 'a2a communication',
  'session sessions timeout': 'session management',
  'credit credits billing cost': 'credits billing',
  'admin config grant': 'admin',
  'task tasks workflow': 'automation',
  'schedule cron timer': 'automation scheduling',
  'search find query': 'search',
  'web http fetch browse url': 'web',
  research: 'search research',
  'github gitlab git': 'github',
  'star unstar follow unfollow': 'social',
  'repo repos repository fork': 'repository',
  'pr prs pull merge': 'pull-requests',
  'review diff': 'review',
  'issue issues': 'issues',
  'reputation trust verify': 'reputation trust',
  'health status metrics monitor': 'health monitoring',
  'file files directory folder': 'files',
  'code build test tests compile lint': 'development',
  'sql database db table': 'data',
};

const tagsByWord: ReadonlyMap<string, readonly string[]> = new Map(
  Object.entries(TAGS).flatMap(([words, tags]) => words.split(' ').map((word) => [word, tags.split(' ')] as const)),
);

export function tagsOf(name: string): readonly string[] {
  const tags = new Set(wordsOf(name).flatMap((word) => tagsByWord.get(word.toLowerCase()) ?? []));
  return tags.size > 0 ? [...tags] : ['general'];
}

function wordsOf(name: string): string[] {
  return name
    .replace(/(\p{Ll})(\p{Lu})/gu, '$1 $2')
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== '');
}
