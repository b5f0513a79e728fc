import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../src/node/config/schema.js';
import type { Cluster } from '../nodes/cluster.js';
import { PROGRAMS, WAYS } from './coding-clients.js';
import { type Script, ScriptedModel } from './scripted-model.js';

export type AcpConfig = NonNullable<NonNullable<Config['agents']>[string]['acp']>;

/** The program of each agent, and the client whose settings it shares. */
const AGENTS = {
  claude: { words: ['claude-agent-acp'], way: 'claude-code', settings: undefined },
  codex: { words: ['codex-acp'], way: 'codex', settings: join('.codex', 'config.toml') },
  gemini: { words: ['gemini', '--acp'], way: 'gemini', settings: join('.gemini', 'settings.json') },
  opencode: { words: ['opencode', 'acp'], way: 'opencode', settings: join('.config', 'opencode', 'opencode.json') },
} as const;

/** One of these agents with its own home folder; `env` replaces its client's environment. */
export function acpAgent(
  cluster: Cluster,
  id: keyof typeof AGENTS,
  model: string,
  env?: Record<string, string>,
  folder = `home-${id}`,
): AcpConfig {
  const { words, way, settings } = AGENTS[id];
  const [program, ...args] = words;
  const home = join(cluster.folder, folder);
  mkdirSync(home, { recursive: true });
  if (settings) {
    const file = join(home, settings);
    mkdirSync(join(file, '..'), { recursive: true });
    writeFileSync(file, WAYS[way]!.settings(model));
  }
  return {
    command: join(PROGRAMS, program),
    args,
    env: { HOME: home, ...(env ?? WAYS[way]!.env(model)) },
  };
}

export async function modelIn(cluster: Cluster): Promise<ScriptedModel> {
  const model = await ScriptedModel.start();
  cluster.onEnd(() => model.close());
  return model;
}

export async function converse(cluster: Cluster, script: Script): Promise<{ model: ScriptedModel; url: string }> {
  const model = await modelIn(cluster);
  return { model, url: model.converse('worker', script) };
}
