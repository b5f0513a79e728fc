import { homedir } from 'node:os';
import { resolve } from 'node:path';
import type { Endpoint } from '../../mcp/upstream/upstream.js';
import type { IdleServer } from '../../mcp/upstream/upstreams.js';
import { LIMITS } from '../../mesh/limits.js';
import type { ProcessConfig } from '../../providers/host/process-adapter.js';
import type { MCPServerInit } from '../../providers/mcp/mcp-servers.js';
import type { WorkerInit } from '../../providers/workers.js';
import { EclipticError, toEclipticError } from '../../runtime/errors.js';
import { NetworkRules } from '../../system/jail/network-rules.js';
import type { JailSettings } from '../../system/process/jail-settings.js';
import {
  isCredentialRef,
  plainSecrets,
  type SecretSetting,
  type SecretSettings,
} from '../../system/secrets/credential-source.js';
import type { AgentConfig, McpServerConfig, NotifyConfig } from './schema.js';
import type {
  JailConfig,
  ModelAgentConfig,
  ProcessAgentConfig,
  RemoteAgentsConfig,
  WorkerConfig,
} from './worker-schema.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** The configured servers to run, and those that are disabled or faulty. */
export interface ReadServers {
  readonly servers: readonly MCPServerInit[];
  readonly idle: readonly IdleServer[];
}

/** Up to this a timeout is in seconds: no client allows longer calls, and no timeout is under four seconds. */
const MAX_SECONDS = 3_600;

/** Reads a block of `mcpServers`; paths are relative to `folder`. */
export function readMcpServers(
  block: Readonly<Record<string, McpServerConfig>>,
  env: Environment,
  folder: string,
  isSandboxed: (agent: string) => boolean = () => false,
): ReadServers {
  const servers: MCPServerInit[] = [];
  const idle: IdleServer[] = [];
  for (const [name, config] of Object.entries(block)) {
    const agent = config.agent ?? agentNamed(name);
    const jail = config.jail ?? isSandboxed(agent);
    if (config.disabled || config.enabled === false) {
      idle.push({ name, agent });
      continue;
    }
    try {
      servers.push({ name, agent, ...readServer({ ...config, jail }, env, folder) });
    } catch (error) {
      idle.push({ name, agent, fault: toEclipticError(error, 'INVALID_CONFIG') });
    }
  }
  return { servers, idle };
}

/** An agent id from a server's name: characters that ids do not allow become dashes. */
function agentNamed(server: string): string {
  const id = server.replace(/[^A-Za-z0-9_-]+/g, '-').replace(/^-+|-+$/g, '');
  return id.slice(0, LIMITS.agentIdChars) || 'mcp-server';
}

function readServer(config: McpServerConfig, env: Environment, folder: string): Omit<MCPServerInit, 'name' | 'agent'> {
  const variables = new Variables(env);
  const { secrets } = variables;
  const expand = (value: string | number | boolean) => variables.expand(value);
  const record = (values: McpServerConfig['headers']) => variables.expandAll(values);
  const endpoint = readEndpoint(config, expand, record, folder);
  for (const value of plainSecrets(endpoint.kind === 'stdio' ? endpoint.env : endpoint.headers)) secrets.add(value);
  const { timeout, lane, limits } = config;
  const timeoutMs = timeout === undefined ? undefined : timeout <= MAX_SECONDS ? timeout * 1_000 : timeout;
  return { endpoint, secrets: [...secrets], timeoutMs, lane, limits };
}

function readEndpoint(
  config: McpServerConfig,
  expand: (value: string | number | boolean) => string,
  record: (values: McpServerConfig['headers']) => SecretSettings,
  folder: string,
): Endpoint {
  const { command, args = [], cwd, url, type } = config;
  if (command !== undefined) {
    const program = { command: expand(command), args: args.map(expand), env: record(config.env) };
    const jail = readJail(config.jail ?? false, folder, process.env);
    return {
      kind: 'stdio',
      ...program,
      cwd: resolve(folder, cwd === undefined ? '.' : expand(cwd)),
      ...(jail && { jail: withModelEndpoint(jail, program.env) }),
    };
  }
  const where = expand(url!);
  if (!/^https?:\/\//i.test(where) || !URL.canParse(where)) {
    throw new EclipticError('INVALID_CONFIG', `"${url}" is not an http:// or https:// URL`);
  }
  const { clientId, clientSecret, clientMetadataUrl, scopes, privateKey, ...rest } = config.oauth ?? {};
  const { grant, algorithm, issuer } = rest;
  const oauth = {
    ...(clientId !== undefined && { clientId: expand(clientId) }),
    ...(clientSecret !== undefined && record({ clientSecret })),
    ...(privateKey !== undefined && record({ privateKey })),
    ...(clientMetadataUrl !== undefined && { clientMetadataUrl }),
    ...{ grant, algorithm, issuer },
    ...(scopes && { scope: scopes.join(' ') }),
  };
  return { kind: type === 'sse' ? 'sse' : 'http', url: new URL(where), headers: record(config.headers), oauth };
}

/**
 * The workers of an agent, the first choice first; paths are relative to `folder`. The programs of an agent in a sandbox
 * are jailed unless the configuration says otherwise.
 */
export function readWorkers(config: AgentConfig, env: Environment, folder: string): WorkerInit[] {
  const { worktree = false, ...settings } = config.workspace ?? {};
  return (config.workers ?? [config]).flatMap((worker) => {
    const read = readWorker(worker, env, folder);
    if (!read) return [];
    const jail = readJail(worker.jail ?? config.jail ?? config.sandbox !== undefined, folder, env);
    const init = jail && isProgram(read) ? jailed(read, jail) : read;
    return [{ ...init, ...(worktree && { worktree: settings }) }];
  });
}

type ProgramInit = Extract<WorkerInit, { type: 'acp' | 'command' | 'exec' }>;

function isProgram(init: WorkerInit): init is ProgramInit {
  return init.type === 'acp' || init.type === 'command' || init.type === 'exec';
}

function jailed(init: ProgramInit, jail: JailSettings): WorkerInit {
  const config = { ...init.config, jail: withModelEndpoint(jail, init.config.env) };
  return { ...init, config } as ProgramInit;
}

/** Undefined where there is to be no jail. */
function readJail(config: JailConfig, folder: string, env: Environment): JailSettings | undefined {
  if (config === false) return undefined;
  if (config === true || config === 'required') return { required: config === 'required' };
  const variables = new Variables(env);
  const path = (given: string) => resolve(folder, variables.expand(given).replace(/^~(?=$|[\\/])/, homedir()));
  const { required = false, network, read, write } = config;
  // Reports a wrong entry now, and not at each start.
  if (network) new NetworkRules(network);
  return { required, network, read: read?.map(path), write: write?.map(path) };
}

const MODEL_ENDPOINT = /_BASE_URL$/;

/** Without a list, a program reaches the model that its settings name, and nothing else. */
function withModelEndpoint(jail: JailSettings, env: SecretSettings = {}): JailSettings {
  if (jail.network) return jail;
  const named = Object.entries(env).filter(([name]) => MODEL_ENDPOINT.test(name));
  const urls = named.flatMap(([, value]) => (typeof value === 'string' && URL.canParse(value) ? [new URL(value)] : []));
  const network = urls.map(
    ({ hostname, port, protocol }) => `${hostname}:${port || (protocol === 'http:' ? 80 : 443)}`,
  );
  return { ...jail, network };
}

function readWorker(worker: WorkerConfig, env: Environment, folder: string): WorkerInit | undefined {
  const { command, acp, exec, model, a2a } = worker;
  const lane = worker.lane !== undefined && { lane: worker.lane };
  if (acp !== undefined) {
    const { auth, mode, model: acpModel, options, fs, cwd, ...program } = acp;
    const where = cwd === undefined ? undefined : resolve(folder, new Variables(env).expand(cwd));
    const { config, ...rest } = readProgram(program, env, folder, where);
    return { type: 'acp', ...lane, ...rest, config: { ...config, auth, mode, model: acpModel, options, fs } };
  }
  if (command !== undefined) {
    const program = typeof command === 'string' ? { command } : command;
    const where = resolve(folder, new Variables(env).expand(program.cwd ?? '.'));
    return { type: 'command', ...lane, ...readProgram(program, env, folder, where) };
  }
  if (exec !== undefined) return { ...lane, ...readExec(exec, env, folder) };
  if (model !== undefined) return { ...lane, ...readModel(model, env, folder) };
  return a2a === undefined ? undefined : { ...lane, ...readRemoteAgents(a2a) };
}

function readExec(exec: NonNullable<WorkerConfig['exec']>, env: Environment, folder: string): WorkerInit {
  // A command line is for the shell, which expands its variables.
  if (typeof exec === 'string') return { type: 'exec', config: { command: exec, shell: true, cwd: folder } };
  const { stdin, timeoutMs, limits, cwd = '.', ...program } = exec;
  const { config, ...rest } = readProgram(program, env, folder, resolve(folder, new Variables(env).expand(cwd)));
  return { type: 'exec', ...rest, config: { ...config, stdin, timeoutMs, limits } };
}

function readModel(config: ModelAgentConfig, env: Environment, folder: string): WorkerInit {
  const { credential, apiKey, headers, cwd, prompt, concurrency, healthMs, ...rest } = config;
  const variables = new Variables(env);
  const authorization =
    credential !== undefined
      ? { authorization: { credential, scheme: 'Bearer' } }
      : apiKey !== undefined && { authorization: `Bearer ${variables.expand(apiKey)}` };
  const path = (given: string) => resolve(folder, variables.expand(given));
  return {
    type: 'model',
    config: {
      ...rest,
      headers: { ...authorization, ...variables.expandAll(headers) },
      cwd: cwd === undefined ? undefined : path(cwd),
      promptFile: prompt === undefined ? undefined : path(prompt),
      secrets: [...variables.secrets],
    },
    ...(concurrency !== undefined && { concurrency }),
    ...(healthMs !== undefined && { healthMs }),
  };
}

function readProgram(
  { command, args = [], env: settings, concurrency, healthMs, limits }: ProcessAgentConfig,
  env: Environment,
  folder: string,
  cwd: string | undefined,
): { config: ProcessConfig; concurrency?: number; healthMs?: number } {
  const variables = new Variables(env);
  const name = variables.expand(command);
  const config = {
    // A path is relative to the file; a name without a slash is searched on the PATH.
    command: /[\\/]/.test(name) ? resolve(folder, name) : name,
    args: args.map((arg) => variables.expand(arg)),
    env: variables.expandAll(settings),
    cwd,
    secrets: [...variables.secrets],
    limits,
  };
  return {
    config,
    ...(concurrency !== undefined && { concurrency }),
    ...(healthMs !== undefined && { healthMs }),
  };
}

/** The remote agents behind one agent's name, with every default filled in. */
export function readRemoteAgents(config: RemoteAgentsConfig): Extract<WorkerInit, { type: 'a2a' }> {
  const said = Array.isArray(config) ? { endpoints: config } : config;
  const { endpoints = [], catalogues = [], mesh, timeoutMs, failover = true, concurrency, healthMs } = said;
  const settings = endpoints.map((one, index) => {
    const { url, id = url, priority = index, capabilities = [], headers = {} } = toEndpoint(one);
    const entries = Object.entries(headers).map(([name, value]) => [name, toSetting(value)]);
    return { endpoint: { id, url, priority, capabilities }, headers: Object.fromEntries(entries) };
  });
  return {
    type: 'a2a',
    config: { endpoints: settings, catalogues, mesh, timeoutMs, failoverEnabled: failover },
    ...(concurrency !== undefined && { concurrency }),
    ...(healthMs !== undefined && { healthMs }),
  };
}

type EndpointConfig = Exclude<Extract<RemoteAgentsConfig, readonly unknown[]>[number], string>;

/** How the owner wants to be told, with its variables filled in. */
export interface NotifySettings {
  readonly bell: boolean;
  readonly desktop: boolean;
  readonly webhook: { readonly url: string; readonly headers: SecretSettings } | undefined;
}

/** Throws `INVALID_CONFIG` for a webhook whose variables or address are wrong. */
export function readNotify({ bell = true, desktop = false, webhook }: NotifyConfig, env: Environment): NotifySettings {
  if (!webhook) return { bell, desktop, webhook };
  const variables = new Variables(env);
  const url = variables.expand(webhook.url);
  if (!/^https?:/.test(url) || !URL.canParse(url)) {
    throw new EclipticError('INVALID_CONFIG', 'notify.webhook.url must be an http or https URL', {});
  }
  return { bell, desktop, webhook: { url, headers: variables.expandAll(webhook.headers) } };
}

function toEndpoint(one: string | EndpointConfig): EndpointConfig {
  return typeof one === 'string' ? { url: one } : one;
}

function toSetting(value: NonNullable<EndpointConfig['headers']>[string]) {
  return typeof value === 'object' ? value : String(value);
}

type Setting = string | number | boolean;

/** A variable of the environment in a setting. */
export const VARIABLE = /\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g;

/** Replaces `${VAR}` by the environment's value, and collects the values, which may be secret. */
class Variables {
  readonly secrets = new Set<string>();
  readonly #env: Environment;

  constructor(env: Environment) {
    this.#env = env;
  }

  expand(value: Setting): string {
    return String(value).replace(VARIABLE, (_, variable: string, otherwise: string | undefined) => {
      const found = this.#env[variable] || otherwise;
      if (found === undefined) {
        throw new EclipticError('INVALID_CONFIG', `the environment has no ${variable}`, { variable });
      }
      this.secrets.add(found);
      return found;
    });
  }

  /** Expands settings; references to credentials stay as they are. */
  expandAll(settings: Readonly<Record<string, Setting | SecretSetting>> = {}): SecretSettings {
    return Object.fromEntries(
      Object.entries(settings).map(([key, value]) => [key, isCredentialRef(value) ? value : this.expand(value)]),
    );
  }
}
