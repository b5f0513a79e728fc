import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Machine } from '../../coding-agents/setup/clients.js';
import { CLIENTS } from '../../coding-agents/setup/clients.js';
import { type KnownServer, knownServers } from '../../coding-agents/setup/known-servers.js';
import { KNOWN_AGENTS } from '../../providers/acp/probe.js';
import { within } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { readUtf8 } from '../../system/files/text-file.js';
import { ControlClient } from '../control/client.js';
import { findModels } from './model-endpoints.js';
import { findPackageScripts } from './package-scripts.js';

/** What a newcomer can work with, found without starting a program and without leaving this machine. */
export interface Survey {
  readonly codingAgents: readonly CodingAgentHere[];
  readonly mcpServers: readonly Pick<KnownServer, 'name' | 'clients'>[];
  /** Model endpoints: those that answer on this machine, and one that the environment names, which is not contacted. */
  readonly models: readonly { readonly title: string; readonly state: string }[];
  readonly scripts: readonly string[];
  readonly node: RunningNode | null;
  /** The `ecliptic.json` of the folder. */
  readonly config: string | null;
}

export interface CodingAgentHere {
  readonly title: string;
  /** Does its configuration name this program's MCP server? Null where setup does not know the client. */
  readonly connected: boolean | null;
}

export interface RunningNode {
  readonly pid: number;
  readonly version: string;
  /** Agents of this node and others, and how many of them can take work. */
  readonly agents: number;
  readonly ready: number;
  /** Items that wait for the owner. */
  readonly waiting: number;
}

export interface SurveyInit {
  readonly machine: Machine;
  readonly folder: string;
  /** The control socket of the data folder. */
  readonly control: string;
}

/** Enough for an endpoint and a node on this machine; the whole answer has to come within a second. */
const LIMIT_MS = 400;

export async function survey(runtime: Runtime, { machine, folder, control }: SurveyInit): Promise<Survey> {
  const { env } = machine;
  const [models, node] = await Promise.all([
    findModels(runtime, env, { onlyLocal: true, limitMs: LIMIT_MS }),
    runningNode(runtime, control),
  ]);
  const config = join(folder, 'ecliptic.json');
  return {
    codingAgents: codingAgents(machine),
    mcpServers: knownServers(machine, folder).map(({ name, clients }) => ({ name, clients })),
    models: [
      ...models.workers.map(({ title, why }) => ({ title, state: why })),
      ...models.unusable.map(({ title, reason }) => ({ title, state: reason })),
    ],
    scripts: findPackageScripts(folder, env).workers.map(({ title }) => title),
    node,
    config: existsSync(config) ? config : null,
  };
}

function codingAgents(machine: Machine): CodingAgentHere[] {
  const clients = CLIENTS.filter((client) => client.isHere(machine)).map((client) => {
    return { title: client.title, connected: isConnected(client.file(machine), client.entry.remove) };
  });
  // The others are known as workers only.
  const others = KNOWN_AGENTS.filter(({ command, name }) => {
    const isClient = clients.some(({ title }) => title.toLowerCase().startsWith(name.toLowerCase()));
    return !isClient && machine.has(command);
  });
  return [...clients, ...others.map(({ name }) => ({ title: name, connected: null }))];
}

function isConnected(file: string, without: (text: string) => string | undefined): boolean {
  try {
    const text = readUtf8(file);
    return text !== undefined && text.trim() !== '' && without(text) !== text;
  } catch {
    return false;
  }
}

async function runningNode(runtime: Runtime, control: string): Promise<RunningNode | null> {
  const client = await ControlClient.connect(control, runtime, LIMIT_MS).catch(() => null);
  if (!client) return null;
  try {
    const { agents, waiting } = await within(runtime, client.call('status'), LIMIT_MS, late);
    const { pid, version } = client.server;
    return { pid, version, agents: sum(agents), ready: agents.ready ?? 0, waiting: sum(waiting) };
  } catch {
    return null;
  } finally {
    client.close();
  }
}

function late(): never {
  throw new EclipticError('NO_NODE', 'the node does not answer in time');
}

function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}
