import { Agent, request } from 'node:http';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { InMemoryTransport, McpServer } from '@modelcontextprotocol/server';
import { createNode } from 'ecliptic';
import { z } from 'zod';
import { calibrate, compareCpu, compareRunners, cpuRound, type Report, type Round } from './compare.js';
import type { McpReady, McpRole } from './mcp-peer.js';
import { Peer } from './peer-process.js';
import { sized } from './settings.js';

const SUITE = 'mcp';
const PROGRAM = './mcp-peer.js';
const CALLS = sized(3_000, 300);
const IN_FLIGHT = 32;

/** Tool calls: over HTTP, in one process and over a link, beside the SDK doing the same. */
export async function run(report: Report): Promise<void> {
  await overHttp(report, 1);
  await overHttp(report, 1_000);
  await inProcess(report);
  await overLink(report);
}

/** The CPU time of one call on the server: the same requests, from the same client, to both. */
async function overHttp(report: Report, tools: number): Promise<void> {
  const ours = await Peer.start<McpRole>({ role: 'mcp-ours', tools }, PROGRAM);
  const theirs = await Peer.start<McpRole>({ role: 'mcp-sdk', tools }, PROGRAM);
  // The SDK's cost grows with the tools; fewer calls tell it as well.
  const [our, their] = [() => calls(ours, CALLS), () => calls(theirs, tools > 1 ? CALLS / 10 : CALLS)];
  await our();
  await their();
  const name = `http-${tools}-tool${tools > 1 ? 's' : ''}/sdk`;
  report.comparison({ ...(await compareCpu(SUITE, name, our, their)), unit: 'µs of server CPU' });
  await ours.stop();
  await theirs.stop();
}

/** Only the server's CPU time. */
async function calls(peer: Peer, count: number): Promise<Round> {
  const [before, started] = [await peer.ask<number>(), performance.now()];
  await post((peer.ready as McpReady).url, count);
  const ms = performance.now() - started;
  return { count, micros: (await peer.ask<number>()) - before, ms };
}

/** Sends that many calls over kept-alive connections, with a fixed number in progress. */
async function post(url: string, calls: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: IN_FLIGHT });
  let left = calls;
  const lane = async () => {
    while (left-- > 0) await postOne(url, agent);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
  agent.destroy();
}

const KEY = 'io.modelcontextprotocol/';
const META = {
  [`${KEY}protocolVersion`]: '2026-07-28',
  [`${KEY}clientCapabilities`]: {},
  [`${KEY}clientInfo`]: { name: 'bench', version: '1.0.0' },
};
const PARAMS = { name: 'echo-0', arguments: { text: 'hello' }, _meta: META };
const BODY = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: PARAMS });
const HEADERS = {
  'Content-Type': 'application/json',
  Accept: 'application/json, text/event-stream',
  'MCP-Protocol-Version': '2026-07-28',
  'Mcp-Method': 'tools/call',
  'Mcp-Name': 'echo-0',
  'Content-Length': Buffer.byteLength(BODY),
};

function postOne(url: string, agent: Agent): Promise<void> {
  return new Promise((resolve, reject) => {
    const call = request(url, { method: 'POST', agent, headers: HEADERS }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk) => {
        text += chunk;
      });
      response.on('end', () => (text.includes('"hello"') ? resolve() : reject(new Error(text))));
    });
    call.on('error', reject);
    call.end(BODY);
  });
}

async function inProcess(report: Report): Promise<void> {
  const node = await createNode();
  node.agent({ id: 'mars' }).tool('echo', { inputSchema: z.object({ text: z.string() }) }, ({ text }) => text);
  const { mcp } = node.agent({ id: 'venus' });
  const server = new McpServer({ name: 'peer', version: '1.0.0' });
  server.registerTool('echo', { inputSchema: z.object({ text: z.string() }) }, ({ text }) => ({
    content: [{ type: 'text', text }],
  }));
  const client = new Client({ name: 'bench', version: '1.0.0' });
  const [a, b] = InMemoryTransport.createLinkedPair();
  await Promise.all([server.connect(a), client.connect(b)]);
  const args = { text: 'hello' };
  const ours = (count: number) => inLanes(count, () => mcp.call('mars.echo', args));
  const theirs = (count: number) => inLanes(count, () => client.callTool({ name: 'echo', arguments: args }));
  report.comparison(await compareRunners(SUITE, 'in-process/sdk-memory', ours, theirs));
  await client.close();
  await node.stop();
}

async function overLink(report: Report): Promise<void> {
  const node = await createNode({ network: { dht: false, listen: { host: '127.0.0.1', port: 0 } } });
  const { mcp } = node.agent({ id: 'mars' });
  const { code } = await node.network!.invite();
  const member = await Peer.start<McpRole>({ role: 'mcp-member', code }, PROGRAM);
  while (mcp.tools.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  const sdk = await Peer.start<McpRole>({ role: 'mcp-sdk', tools: 1 }, PROGRAM);
  const client = new Client({ name: 'bench', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });
  await client.connect(new StreamableHTTPClientTransport(new URL((sdk.ready as McpReady).url)));
  const args = { text: 'hello' };
  const ours = (count: number) => inLanes(count, () => mcp.call('venus.echo', args));
  const theirs = (count: number) => inLanes(count, () => client.callTool({ name: 'echo-0', arguments: args }));
  const counts = [await calibrate(ours), await calibrate(theirs)] as const;
  report.comparison(
    await compareCpu(
      SUITE,
      'link/sdk-http',
      () => cpuRound(ours, counts[0], () => member.ask<number>()),
      () => cpuRound(theirs, counts[1], () => sdk.ask<number>()),
    ),
  );
  await client.close();
  await sdk.stop();
  await member.stop();
  await node.stop();
}

async function inLanes(count: number, call: () => Promise<unknown>): Promise<void> {
  let left = count;
  const lane = async () => {
    while (left-- > 0) await call();
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
}
