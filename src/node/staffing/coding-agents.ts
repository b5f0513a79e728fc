import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { KNOWN_AGENTS, type ProbeResult, probeAgent } from '../../providers/acp/probe.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Children } from '../../system/process/children.js';
import { type Environment, programFault } from '../../system/process/environment.js';
import type { AcpWorkerConfig, FoundWorker, FoundWorkers, UnusableWorker } from './found.js';

/** What a probe alone does not tell about a coding agent, by the command of its ACP program. */
interface Knowledge {
  /** The coding agent itself, where its ACP program is a package of its own. */
  readonly client?: string;
  readonly install: string;
  readonly login: string;
  /** Variables with a key that the agent takes instead of a login. Programs inherit them only if they are configured. */
  readonly keys: readonly string[];
  /** Is there a sign of a login? For agents that open a session without one. Files with secrets are not read. */
  readonly isLoggedIn?: (home: string) => boolean;
  /** The mode in which it asks before it acts. */
  readonly mode?: string;
}

const KNOWLEDGE: Readonly<Record<string, Knowledge>> = {
  'claude-agent-acp': {
    client: 'claude',
    install: 'npm install -g @agentclientprotocol/claude-agent-acp',
    login: 'claude auth login',
    keys: ['ANTHROPIC_API_KEY', 'CLAUDE_CODE_OAUTH_TOKEN'],
    isLoggedIn: (home) => existsSync(join(home, '.claude', '.credentials.json')),
  },
  'codex-acp': {
    client: 'codex',
    install: 'npm install -g @agentclientprotocol/codex-acp',
    login: 'codex login',
    keys: [],
    mode: 'read-only',
  },
  gemini: {
    install: 'npm install -g @google/gemini-cli',
    login: 'gemini (then choose a login), or set GEMINI_API_KEY',
    keys: ['GEMINI_API_KEY'],
  },
  goose: { install: 'see https://block.github.io/goose', login: 'goose configure', keys: [] },
  opencode: {
    install: 'npm install -g opencode-ai',
    login: 'opencode auth login',
    keys: [],
    // Without a login it uses free models of strangers, which is for the user to choose, in its configuration.
    isLoggedIn: (home) =>
      existsSync(join(home, '.local', 'share', 'opencode', 'auth.json')) ||
      ['opencode.json', 'opencode.jsonc'].some((name) => names(join(home, '.config', 'opencode', name), OWN_MODEL)),
  },
};

/** A provider or a model in the configuration of OpenCode. */
const OWN_MODEL = /"(provider|model)"\s*:/;

export interface CodingAgentsComponents {
  readonly runtime: Runtime;
  readonly children: Children;
  readonly env: Environment;
  readonly platform?: NodeJS.Platform;
  /** Time limit of each probe. Default: that of `probeAgent`. */
  readonly limitMs?: number;
}

type Known = (typeof KNOWN_AGENTS)[number];

/** Probes, all at once, the installed coding agents that can run as workers. */
export async function findCodingAgents(components: CodingAgentsComponents): Promise<FoundWorkers> {
  const found = await Promise.all(KNOWN_AGENTS.map((known) => look(components, known, KNOWLEDGE[known.command])));
  return {
    workers: found.flatMap((one) => (one && 'config' in one ? [one] : [])),
    unusable: found.flatMap((one) => (one && 'reason' in one ? [one] : [])),
  };
}

async function look(
  components: CodingAgentsComponents,
  known: Known,
  knowledge: Knowledge | undefined,
): Promise<FoundWorker | UnusableWorker | undefined> {
  const { env } = components;
  const { name, command, args } = known;
  const unusable = (reason: string, fix: string): UnusableWorker => ({ kind: 'acp', title: name, reason, fix });
  if (!isInstalled(command, env)) {
    if (knowledge?.client === undefined || !isInstalled(knowledge.client, env)) return undefined;
    return unusable(
      `${knowledge.client} is installed, but not ${command}, which lets it work for others`,
      knowledge.install,
    );
  }
  let key: string | undefined;
  let result = await probe(components, known);
  if (needsLogin(result, components, knowledge)) {
    key = knowledge?.keys.find((variable) => env[variable]);
    if (key !== undefined) result = await probe(components, known, key);
  }
  if (result.state === 'failed') {
    return unusable(
      `it does not answer: ${result.reason}`,
      `${[command, ...args].join(' ')} (it should wait for input)`,
    );
  }
  if (result.state === 'needs-login' || (key === undefined && needsLogin(result, components, knowledge))) {
    return unusable('it is not logged in', knowledge?.login ?? `log in to ${name}`);
  }
  const { version } = result.description;
  const config: AcpWorkerConfig = {
    command,
    ...(args.length > 0 && { args }),
    ...(key !== undefined && { env: { [key]: `\${${key}}` } }),
    cwd: '.',
    ...(knowledge?.mode !== undefined && { mode: knowledge.mode }),
  };
  const why = key === undefined ? 'installed and logged in' : `installed, with ${key} of the environment`;
  return { kind: 'acp', title: version === null ? name : `${name} ${version}`, why, config: { acp: config } };
}

function probe({ runtime, children, env, limitMs }: CodingAgentsComponents, known: Known, key?: string) {
  const { command, args } = known;
  const own = { PATH: env.PATH, HOME: env.HOME, ...(key !== undefined && { [key]: env[key] }) };
  return probeAgent(runtime, children, { command, args, name: command, env: own }, limitMs);
}

/** Some agents open a session without a login, and fail at the first prompt. */
function needsLogin(
  { state }: ProbeResult,
  { env, platform = process.platform }: CodingAgentsComponents,
  knowledge: Knowledge | undefined,
): boolean {
  if (state !== 'ready') return state === 'needs-login';
  // A keychain has the login on macOS, where no file shows it.
  if (knowledge?.isLoggedIn === undefined || platform === 'darwin') return false;
  return !knowledge.isLoggedIn(env.HOME || homedir());
}

function names(file: string, wanted: RegExp): boolean {
  try {
    return wanted.test(readFileSync(file, 'utf8'));
  } catch {
    return false;
  }
}

function isInstalled(command: string, env: Environment): boolean {
  return programFault({ command, cwd: process.cwd(), env: { PATH: env.PATH } }, env) === undefined;
}
