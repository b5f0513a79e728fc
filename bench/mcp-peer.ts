import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { createNode } from 'ecliptic';
import { z } from 'zod';

/** The role of the other process: our endpoint or the SDK's, with that many tools, or a node whose tool is called over a link. */
export type McpRole =
  | { readonly role: 'mcp-ours' | 'mcp-sdk'; readonly tools: number }
  | { readonly role: 'mcp-member'; readonly code: string };

export interface McpReady {
  readonly url: string;
}

const INPUT = z.object({ text: z.string() });

const role = JSON.parse(process.argv[2]!) as McpRole;
const ready = role.role === 'mcp-member' ? await member(role.code) : await endpoint(role);
// Asked how much CPU it has used, it says so.
process.on('message', () => {
  const { user, system } = process.cpuUsage();
  process.send!(user + system);
});
process.on('disconnect', () => process.exit(0));
process.send!(ready);

function endpoint({ role, tools }: Extract<McpRole, { tools: number }>): Promise<McpReady> {
  return role === 'mcp-ours' ? ours(tools) : theirs(tools);
}

async function ours(tools: number): Promise<McpReady> {
  const node = await createNode();
  const agent = node.agent({ id: 'mars' });
  for (let i = 0; i < tools; i++) {
    agent.tool(`echo-${i}`, { description: 'Echoes.', inputSchema: INPUT }, ({ text }) => text);
  }
  const { mcpUrl } = await node.serve({
    port: 0,
    open: true,
    names: 'bare',
    requestsPerMinute: Number.POSITIVE_INFINITY,
  });
  return { url: mcpUrl };
}

async function theirs(tools: number): Promise<McpReady> {
  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: 'peer', version: '1.0.0' });
    for (let i = 0; i < tools; i++) {
      server.registerTool(`echo-${i}`, { description: 'Echoes.', inputSchema: INPUT }, ({ text }) => ({
        content: [{ type: 'text', text }],
      }));
    }
    return server;
  });
  const serve = toNodeHandler(handler);
  const server = createServer((request, response) => void serve(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp` };
}

async function member(code: string): Promise<McpReady> {
  const node = await createNode({ network: { dht: false, listen: { host: '127.0.0.1', port: 0 } } });
  node.agent({ id: 'venus' }).tool('echo', { inputSchema: INPUT }, ({ text }) => text);
  await node.network!.join(code);
  return { url: '' };
}
