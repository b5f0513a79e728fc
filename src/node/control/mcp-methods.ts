import { OPERATOR } from '../../http/auth/caller-auth.js';
import type { Gateway } from '../../http/gateway.js';
import { completed } from '../../mcp/call.js';
import type { Entry } from '../../mcp/catalogue.js';
import type { McpService } from '../../mcp/service.js';
import type { Party } from '../../mesh/policy.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import { EclipticError } from '../../runtime/errors.js';
import { Params } from './params.js';
import type { CallContext, ControlMethod } from './server.js';

export interface McpMethodsComponents {
  mcp: McpService;
  registry: AgentRegistry;
  gateway: () => Gateway;
  /** An address that a person may have shortened, in full. */
  inFull(address: string): string;
}

/** The owner's operations on tools, resources, prompts and tokens. With `as`, an agent of this node sees and calls. */
export function mcpMethods({
  mcp,
  registry,
  gateway,
  inFull,
}: McpMethodsComponents): Readonly<Record<string, ControlMethod>> {
  const principal = (params: Params) => principalOf(params, registry);
  const terms = (params: Params, { emit, signal }: CallContext) => ({
    caller: principal(params),
    signal,
    ...timeout(params),
    onProgress: (progress: object) => emit({ progress }),
    onLog: (log: object) => emit({ log }),
  });
  return {
    tools(params) {
      return mcp
        .list('tool', principal(new Params(params)))
        .map((entry) => ({ ...shown(entry), name: entry.fullName }));
    },
    resources(params) {
      const viewer = principal(new Params(params));
      const fixed = mcp.list('resource', viewer).map((entry) => ({ ...shown(entry), uri: mcp.uriOf(entry) }));
      return [...fixed, ...mcp.list('template', viewer).map(shown)];
    },
    prompts(params) {
      return mcp
        .list('prompt', principal(new Params(params)))
        .map((entry) => ({ ...shown(entry), name: entry.fullName }));
    },
    async call(params, context) {
      const read = new Params(params);
      const tool = fullToolName(read.string('tool'), inFull);
      return completed(await mcp.callTool(tool, record(read.value('arguments')), terms(read, context)), tool);
    },
    async read(params, context) {
      const read = new Params(params);
      const uri = read.string('uri');
      return completed(await mcp.readResource(uri, terms(read, context)), uri);
    },
    async prompt(params, context) {
      const read = new Params(params);
      const name = fullToolName(read.string('name'), inFull);
      return completed(await mcp.getPrompt(name, strings(read.value('arguments')), terms(read, context)), name);
    },
    invocations(params) {
      return mcp.invocations.recent(new Params(params).optional({ limit: 'number' }).limit);
    },
    'token.create'(params) {
      const read = new Params(params);
      const name = read.string('name');
      // Who acts in the name of an agent is where that agent is, also while it is away.
      const { sandbox = registry.ownEntry(name)?.sandboxId, scopes } = read.optional({
        sandbox: 'string',
        scopes: 'string',
      });
      return gateway().tokens.create(name, sandbox, scopes?.split(','));
    },
    'token.list'() {
      return gateway().tokens.list;
    },
    'token.rotate'() {
      return { token: gateway().rotateOwners() };
    },
    'token.revoke'(params) {
      return gateway().revoke(new Params(params).string('token'));
    },
  };
}

/**
 * `agent@node.tool` with the node in full. A node's name may have dots too, so the longest one that is known is meant;
 * a name that no node goes by stays as it is, for the catalogue to refuse.
 */
function fullToolName(name: string, inFull: (address: string) => string): string {
  const at = name.indexOf('@');
  if (at < 0) return name;
  let failure: unknown;
  for (let dot = name.lastIndexOf('.'); dot > at; dot = name.lastIndexOf('.', dot - 1)) {
    try {
      return `${inFull(name.slice(0, dot))}${name.slice(dot)}`;
    } catch (error) {
      failure = error;
    }
  }
  if (failure !== undefined) throw failure;
  return name;
}

/** The owner, or the agent of this node that the owner acts as. */
export function principalOf(params: Params, registry: AgentRegistry): Party {
  const { as } = params.optional({ as: 'string' });
  if (as === undefined) return OPERATOR;
  const agent = registry.ownEntry(as);
  if (agent) return agent;
  throw new EclipticError('AGENT_NOT_FOUND', `this node has no agent "${as}"`, { agentId: as });
}

function timeout(params: Params): { timeoutMs?: number } {
  const { timeoutMs } = params.optional({ timeoutMs: 'number' });
  return timeoutMs === undefined ? {} : { timeoutMs };
}

function shown({ definition, owner }: Entry): Record<string, unknown> & { agent: string } {
  const { kind: _, ...rest } = definition;
  return { ...rest, agent: owner };
}

function record(value: unknown): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new EclipticError('USAGE', 'a tool’s arguments are a JSON object', { parameter: 'arguments' });
}

function strings(value: unknown): Record<string, string> {
  const found = record(value);
  if (Object.values(found).every((one) => typeof one === 'string')) return found as Record<string, string>;
  throw new EclipticError('USAGE', 'a prompt’s arguments are texts', { parameter: 'arguments' });
}
