import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CLIENTS, type Machine } from '../../src/coding-agents/setup/clients.js';
import { type Cluster, type Finished, finish } from '../nodes/cluster.js';
import { BIN, ROOT } from '../source-files.js';

export const FOLDER = join(ROOT, 'test', 'clients');
export const PROGRAMS = join(FOLDER, 'node_modules', '.bin');
/** No turn of these tests takes longer. */
const TURN_MS = 120_000;

/** How one coding agent is configured with the scripted model, and run for one turn. */
interface Way {
  readonly program: string;
  /** The client's own settings, before the server is entered in them. */
  settings(url: string): string;
  args(prompt: string): readonly string[];
  env(url: string): Record<string, string>;
  readonly interactive: Interactive;
}

/** A question of the client to its person, and the keys that answer it. */
export type Dialog = readonly [RegExp, readonly string[]];

/** How it is run in a terminal, by a person. */
interface Interactive {
  /** Files that say that this person has used it before, by their place in the home folder. */
  files?(folder: string): Readonly<Record<string, string>>;
  readonly args: readonly string[];
  /** What the terminal shows when a prompt can be typed. */
  readonly ready: RegExp;
  readonly dialogs?: readonly Dialog[];
}

const OPENCODE_MODEL = { tool_call: true, limit: { context: 200_000, output: 8_000 } };

export const WAYS: Readonly<Record<string, Way>> = {
  'claude-code': {
    program: 'claude',
    settings: () => '{}',
    args: (prompt) => ['-p', prompt, '--allowedTools', 'mcp__ecliptic'],
    env: (url) => ({
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: 'sk-ant-scripted',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      DISABLE_AUTOUPDATER: '1',
    }),
    interactive: {
      files: (folder) => ({
        '.claude.json': JSON.stringify({
          hasCompletedOnboarding: true,
          theme: 'dark',
          customApiKeyResponses: { approved: ['sk-ant-scripted'], rejected: [] },
          projects: { [folder]: { hasTrustDialogAccepted: true } },
        }),
      }),
      args: ['--allowedTools', 'mcp__ecliptic Edit Read Write Bash'],
      ready: /❯/,
    },
  },
  codex: {
    program: 'codex',
    settings: (url) =>
      [
        'model = "gpt-5.5-codex"',
        'model_provider = "scripted"',
        '[model_providers.scripted]',
        'name = "scripted"',
        `base_url = "${url}/v1"`,
        'wire_api = "responses"',
        'env_key = "SCRIPTED_KEY"',
        '',
      ].join('\n'),
    args: (prompt) => [
      'exec',
      '--skip-git-repo-check',
      '--dangerously-bypass-approvals-and-sandbox',
      '--dangerously-bypass-hook-trust',
      prompt,
    ],
    env: () => ({ SCRIPTED_KEY: 'x' }),
    interactive: {
      args: ['-a', 'never', '-s', 'danger-full-access'],
      ready: /›/,
      dialogs: [
        [/1\. Trust and continue/, ['Enter']],
        [/Trust all/, ['Down', 'Enter']],
      ],
    },
  },
  gemini: {
    program: 'gemini',
    // A named model keeps the client from asking another one which to take.
    settings: () =>
      JSON.stringify({
        security: { auth: { selectedType: 'gemini-api-key' } },
        model: { name: 'gemini-2.5-pro' },
        general: { enableAutoUpdate: false },
        privacy: { usageStatisticsEnabled: false },
      }),
    args: (prompt) => ['-p', prompt, '--approval-mode', 'yolo'],
    env: (url) => ({ GEMINI_API_KEY: 'x', GOOGLE_GEMINI_BASE_URL: url, GEMINI_CLI_TRUST_WORKSPACE: 'true' }),
    interactive: { args: ['--approval-mode', 'yolo'], ready: /Type your message/ },
  },
  opencode: {
    program: 'opencode',
    settings: (url) =>
      JSON.stringify({
        autoupdate: false,
        share: 'disabled',
        model: 'scripted/scripted-1',
        small_model: 'scripted/scripted-1',
        provider: {
          scripted: {
            npm: '@ai-sdk/openai-compatible',
            options: { baseURL: `${url}/v1`, apiKey: 'x' },
            models: Object.fromEntries(['scripted-1', 'scripted-2'].map((model) => [model, OPENCODE_MODEL])),
          },
        },
      }),
    args: (prompt) => ['run', prompt],
    env: () => ({ OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_DISABLE_AUTOUPDATE: '1' }),
    interactive: { args: [], ready: /Ask anything/ },
  },
};

export const CLIENT_IDS = Object.keys(WAYS);

export interface RealClientInit {
  readonly id: string;
  /** Its name on the mesh. */
  readonly as: string;
  /** The data folder of the node that it joins. */
  readonly data: string;
  /** The base URL of its model. */
  readonly model: string;
  /** More words for `ecliptic mcp`. */
  readonly args?: readonly string[];
  /** Whether the turn hooks of its client are installed. */
  readonly hooks?: boolean;
}

/** A real coding agent, entered as `ecliptic setup` does it, in a home of its own. */
export class RealClient {
  readonly #way: Way;
  readonly #init: RealClientInit;
  readonly #cluster: Cluster;
  readonly home: string;

  constructor(cluster: Cluster, init: RealClientInit) {
    this.#cluster = cluster;
    this.#init = init;
    this.#way = WAYS[init.id]!;
    this.home = join(cluster.folder, `home-${init.as}`);
    mkdirSync(this.home, { recursive: true });
    this.#setUp();
  }

  /** One turn, from the prompt to the client's end. */
  async run(prompt = 'go'): Promise<Finished> {
    return finish(this.start(prompt));
  }

  start(prompt: string): ChildProcess {
    const { program, args, env } = this.#way;
    const child = spawn(join(PROGRAMS, program), [...args(prompt)], {
      cwd: this.home,
      env: { PATH: process.env.PATH!, HOME: this.home, TERM: 'xterm-256color', ...env(this.#init.model) },
      stdio: ['ignore', 'pipe', 'pipe'],
      // A process group of its own, so that its child processes end with it.
      detached: true,
    });
    const end = () => {
      try {
        process.kill(-child.pid!, 'SIGKILL');
      } catch {
        // It has ended already.
      }
    };
    const late = setTimeout(end, TURN_MS);
    child.once('exit', () => clearTimeout(late));
    this.#cluster.onEnd(async () => end());
    return child;
  }

  #setUp(): void {
    const { id, as, data, model, args = [], hooks = false } = this.#init;
    const client = CLIENTS.find((each) => each.id === id)!;
    const machine: Machine = {
      home: this.home,
      env: {},
      platform: process.platform,
      exists: () => false,
      has: () => true,
    };
    const server = { command: process.execPath, args: [BIN, 'mcp', '--as', as, '--data', data, '--no-start', ...args] };
    const main = client.file(machine);
    enter(main, client.entry.set(this.#way.settings(model), server));
    if (!hooks || !client.hooks) return;
    const file = client.hooks.file(machine);
    const before = existsSync(file) ? readFileSync(file, 'utf8') : undefined;
    enter(file, client.hooks.entry.set(before, { command: process.execPath, args: [BIN, '--data', data] }));
  }
}

function enter(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}
