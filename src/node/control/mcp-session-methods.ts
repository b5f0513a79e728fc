import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/server';
import { createProtocolServer, loadSdk } from '../../mcp/protocol-server.js';
import { aborted } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import { VERSION } from '../../runtime/package.js';
import { type McpMethodsComponents, principalOf } from './mcp-methods.js';
import { Params } from './params.js';
import type { ControlMethod } from './server.js';

/** One MCP conversation that comes over the owner's socket: what `ecliptic mcp` reads goes in, what it writes comes out. */
class SocketTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #emit: (event: unknown) => void;

  constructor(emit: (event: unknown) => void) {
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

/** MCP over the owner's socket, for processes that speak it on their standard input and output. */
export function mcpSessionMethods({
  mcp,
  registry,
  gateway,
}: Omit<McpMethodsComponents, 'inFull'>): Readonly<Record<string, ControlMethod>> {
  const sessions = new Map<string, SocketTransport>();
  return {
    /** Opens a conversation, whose messages come as events until the caller goes away. */
    async 'mcp.open'(params, { emit, signal }) {
      const read = new Params(params);
      const principal = principalOf(read, registry);
      const session = read.string('session');
      if (sessions.has(session)) throw new EclipticError('USAGE', 'there is a conversation of that name already');
      const sdk = await loadSdk();
      const { serveStdio } = await import('@modelcontextprotocol/server/stdio');
      const transport = new SocketTransport(emit);
      sessions.set(session, transport);
      const { style } = gateway();
      const server = { service: mcp, principal, style, name: 'ecliptic', version: VERSION };
      const handle = serveStdio(({ era }) => createProtocolServer(sdk, { ...server, tell: era }), { transport });
      emit(null);
      await aborted(signal);
      sessions.delete(session);
      await handle.close();
    },
    /** Gives one message to a conversation of this connection. */
    'mcp.send'(params) {
      const read = new Params(params);
      const transport = sessions.get(read.string('session'));
      if (!transport) throw new EclipticError('USAGE', 'there is no conversation of that name');
      transport.onmessage?.(read.value('message') as JSONRPCMessage);
    },
  };
}
