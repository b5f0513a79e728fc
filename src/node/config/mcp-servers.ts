import { resolve } from 'node:path';
import type { Endpoint } from '../../mcp/upstream/upstream.js';
import type { IdleServer } from '../../mcp/upstream/upstreams.js';
import { LIMITS } from '../../mesh/limits.js';
import type { MCPServerInit } from '../../providers/mcp/mcp-servers.js';
import { EclipticError, toEclipticError } from '../../runtime/errors.js';
import { plainSecrets, type SecretSettings } from '../../system/secrets/credential-source.js';
import type { McpServerConfig } from './schema.js';
import { Variables } from './variables.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** What of the configured servers shall run, and what does not. One that is wrong is a matter of its own. */
export interface ReadServers {
  readonly servers: readonly MCPServerInit[];
  readonly idle: readonly IdleServer[];
}

/** Up to this a timeout is seconds: no client lets a call take longer, and nobody means less than four seconds. */
const MAX_SECONDS = 3_600;

/** Reads a block of `mcpServers`; paths are relative to `folder`. */
export function readMcpServers(
  block: Readonly<Record<string, McpServerConfig>>,
  env: Environment,
  folder: string,
): ReadServers {
  const servers: MCPServerInit[] = [];
  const idle: IdleServer[] = [];
  for (const [name, config] of Object.entries(block)) {
    const agent = config.agent ?? agentNamed(name);
    if (config.disabled || config.enabled === false) {
      idle.push({ name, agent });
      continue;
    }
    try {
      servers.push({ name, agent, ...readServer(config, env, folder) });
    } catch (error) {
      idle.push({ name, agent, fault: toEclipticError(error, 'INVALID_CONFIG') });
    }
  }
  return { servers, idle };
}

/** A name of a server as that of an agent: what may not stand in one becomes a dash. */
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
    return { kind: 'stdio', ...program, cwd: resolve(folder, cwd === undefined ? '.' : expand(cwd)) };
  }
  const where = expand(url!);
  if (!/^https?:\/\//i.test(where) || !URL.canParse(where)) {
    throw new EclipticError('INVALID_CONFIG', `"${url}" is no http:// or https:// URL`);
  }
  const { clientId, clientSecret, clientMetadataUrl, scopes } = config.oauth ?? {};
  const oauth = {
    ...(clientId !== undefined && { clientId: expand(clientId) }),
    ...(clientSecret !== undefined && record({ clientSecret })),
    ...(clientMetadataUrl !== undefined && { clientMetadataUrl }),
    ...(scopes && { scope: scopes.join(' ') }),
  };
  return { kind: type === 'sse' ? 'sse' : 'http', url: new URL(where), headers: record(config.headers), oauth };
}
