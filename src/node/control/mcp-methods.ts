import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/server';
import { OPERATOR } from '../../http/auth/caller-auth.js';
import { completed } from '../../mcp/call.js';
import type { Entry } from '../../mcp/catalogue.js';
import { createProtocolServer, loadSdk } from '../../mcp/protocol-server.js';
import type { McpService } from '../../mcp/service.js';
import type { Party } from '../../mesh/policy.js';
import { aborted } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import { VERSION } from '../../runtime/package.js';
import { deciderOf } from '../devices/answer-record.js';
import { wrongParameter } from './api.js';
import { type ControlContext, completeId, type Handlers, inFull } from './context.js';
import type { CallEvent, ToolRow } from './rows.js';
import type { CallContext } from './server.js';

/** The owner's operations on tools, resources, prompts and tokens. With `as`, an agent of this node sees and calls. */
export function mcpMethods({ node, gateway, upstreams }: Pick<ControlContext, 'node' | 'gateway' | 'upstreams'>) {
  const { mcp, registry } = node;
  const principal = (as: string | undefined): Party => {
    if (as === undefined) return OPERATOR;
    const agent = registry.ownEntry(as);
    if (agent) return agent;
    throw new EclipticError('AGENT_NOT_FOUND', `this node has no agent "${as}"`, { agentId: as });
  };
  const terms = (call: { as?: string; timeoutMs?: number }, { emit, signal }: CallContext<CallEvent>) => ({
    caller: principal(call.as),
    signal,
    ...(call.timeoutMs !== undefined && { timeoutMs: call.timeoutMs }),
    onProgress: (progress: NonNullable<CallEvent['progress']>) => emit({ progress }),
    onLog: (log: NonNullable<CallEvent['log']>) => emit({ log }),
  });
  const sessions = new Map<string, SocketTransport>();
  return {
    tools: ({ as }) => toolRows(mcp, principal(as)),
    resources({ as }) {
      const viewer = principal(as);
      const fixed = mcp.list('resource', viewer).map((entry) => ({ ...shown(entry), uri: mcp.uriOf(entry) }));
      return [...fixed, ...mcp.list('template', viewer).map(shown)];
    },
    prompts: ({ as }) => mcp.list('prompt', principal(as)).map(named),
    async call({ tool: given, arguments: args, ...call }, context) {
      const tool = fullToolName(given, (address) => inFull(address, node));
      return completed(await mcp.callTool(tool, args, terms(call, context)), tool);
    },
    'call.round'({ tool: given, arguments: args, answers, state, ...call }, context) {
      const tool = fullToolName(given, (address) => inFull(address, node));
      const capabilities = { elicitation: { form: {}, url: {} } };
      const round = { ...(answers && { answers }), ...(state !== undefined && { state }) };
      return mcp.callTool(tool, args, { ...terms(call, context), capabilities, ...round });
    },
    read: async ({ uri, ...call }, context) => completed(await mcp.readResource(uri, terms(call, context)), uri),
    async prompt({ name: given, arguments: args, ...call }, context) {
      const name = fullToolName(given, (address) => inFull(address, node));
      return completed(await mcp.getPrompt(name, args, terms(call, context)), name);
    },
    invocations: ({ limit }) => mcp.invocations.recent(limit),
    'tools.servers': () => upstreams.statuses,
    async 'tools.login'({ server }, { emit }) {
      const { url, done } = await upstreams.login(server);
      emit({ url });
      await done;
      return { server };
    },
    'tools.logout'({ server }) {
      upstreams.logout(server);
      return { server };
    },
    'tools.pins': () => upstreams.pins,
    'tools.approve'({ all, subject: given }, { device }) {
      if (!all && !given) throw wrongParameter('subject', 'must be a non-empty string');
      const waiting = upstreams.pins.flatMap(({ id }) => id ?? []);
      const approved = upstreams.approve(all ? { all } : { subject: completeId(given!, waiting) }, deciderOf(device));
      return approved.map(({ id, subject, summary }) => ({ id, subject, summary }));
    },
    async 'mcp.open'({ session, as }, { emit, signal }) {
      const caller = principal(as);
      if (sessions.has(session)) throw new EclipticError('USAGE', `an MCP conversation "${session}" is already open`);
      const sdk = await loadSdk();
      const { serveStdio } = await import('@modelcontextprotocol/server/stdio');
      const transport = new SocketTransport(emit);
      sessions.set(session, transport);
      const { style } = gateway;
      const server = {
        service: mcp,
        tasks: node.toolTasks,
        principal: caller,
        style,
        name: 'ecliptic',
        version: VERSION,
      };
      const handle = serveStdio(({ era }) => createProtocolServer(sdk, { ...server, tell: era }), { transport });
      emit(null);
      await aborted(signal);
      sessions.delete(session);
      await handle.close();
    },
    'mcp.send'({ session, message }) {
      const transport = sessions.get(session);
      if (!transport) throw new EclipticError('USAGE', `no MCP conversation "${session}" is open`);
      transport.onmessage?.(message as JSONRPCMessage);
    },
    'token.create'({ name, sandbox, scopes }) {
      // A token in the name of an agent has that agent's sandbox, also while the agent is away.
      return gateway.tokens.create(name, sandbox ?? registry.ownEntry(name)?.sandboxId, scopes?.split(','));
    },
    'token.list': () => gateway.tokens.list,
    'token.rotate': () => ({ token: gateway.rotateOwners() }),
    'token.revoke'({ token }) {
      const rows = gateway.tokens.list;
      const isName = rows.some(({ name }) => name === token);
      return gateway.revoke(isName ? token : completeId(token, rows));
    },
  } satisfies Partial<Handlers>;
}

/** The tools that a viewer may call. */
export function toolRows(mcp: McpService, viewer: Party): ToolRow[] {
  return mcp.list('tool', viewer).map(named);
}

/** One MCP conversation over the control socket: `ecliptic mcp` relays the lines of its standard input and output. */
class SocketTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #emit: (message: JSONRPCMessage) => void;

  constructor(emit: (message: JSONRPCMessage) => void) {
    this.#emit = emit;
  }

  async start(): Promise<void> {}

  async send(message: JSONRPCMessage): Promise<void> {
    this.#emit(message);
  }

  async close(): Promise<void> {
    this.onclose?.();
  }
}

/**
 * `agent@node.tool` with the node's key in full. A node's name may contain dots, so the longest known name wins; an
 * unknown name stays unchanged, and the catalogue refuses it.
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

function named(entry: Entry) {
  return { ...shown(entry), name: entry.fullName };
}

function shown({ definition, owner }: Entry) {
  const { kind: _, ...rest } = definition;
  return { ...rest, agent: owner };
}
