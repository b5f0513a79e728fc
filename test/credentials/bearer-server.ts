import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, Server as McpServer } from '@modelcontextprotocol/server';

/** An MCP server over HTTP that looks at the bearer token of each request. */
export class BearerServer {
  /** Until when each token is taken, as the clock of this machine has it. */
  readonly #taken = new Map<string, number>();
  readonly #server: Server;
  /** Tokens that were shown and not taken. */
  readonly refused: string[] = [];
  /** How often each token was taken. */
  readonly used = new Map<string, number>();

  private constructor() {
    const serve = toNodeHandler(createMcpHandler(build));
    this.#server = createServer((request, response) => {
      const token = (request.headers.authorization ?? '').replace(/^Bearer /, '');
      if (Date.now() <= (this.#taken.get(token) ?? Number.NEGATIVE_INFINITY)) {
        this.used.set(token, (this.used.get(token) ?? 0) + 1);
        return void serve(request, response);
      }
      this.refused.push(token);
      response.writeHead(401).end(`what is ${token}?`);
    });
  }

  static async start(): Promise<BearerServer> {
    const made = new BearerServer();
    await new Promise<void>((resolve) => made.#server.listen(0, '127.0.0.1', resolve));
    return made;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/mcp`;
  }

  get requests(): number {
    return [...this.used.values()].reduce((sum, one) => sum + one, 0);
  }

  take(token: string, until = Number.POSITIVE_INFINITY): void {
    this.#taken.set(token, until);
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

function build(): McpServer {
  const server = new McpServer({ name: 'bearer', version: '1.0.0' }, { capabilities: { tools: {} } });
  server.setRequestHandler('tools/list', () => ({ tools: [{ name: 'echo', inputSchema: { type: 'object' } }] }));
  server.setRequestHandler('tools/call', (_request, { http }) => ({
    // Which of the tests' tokens it came with, without the token.
    content: [
      { type: 'text', text: /^Bearer sk-(\d+)-/.exec(http?.req?.headers.get('authorization') ?? '')?.[1] ?? '' },
    ],
  }));
  return server;
}
