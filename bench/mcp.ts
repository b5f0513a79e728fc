import { Agent, request } from 'node:http';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { InMemoryTransport, McpServer } from '@modelcontextprotocol/server';
import { createNode } from 'ecliptic';
import { z } from 'zod';
import { compare, type Report } from './compare.js';
import type { McpReady, McpRole } from './mcp-peer.js';
import { Peer } from './peer-process.js';

const SUITE = 'mcp';
const PROGRAM = './mcp-peer.js';
const CALLS = 3_000;
const ROUNDS = 5;
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
  const rounds: { ours: number; theirs: number }[] = [];
  await cost(ours, CALLS);
  await cost(theirs, CALLS / 10);
  for (let round = 0; round < ROUNDS; round++) {
    // The SDK's cost grows with the tools; fewer calls tell it as well.
    rounds.push({ ours: await cost(ours, CALLS), theirs: await cost(theirs, tools > 1 ? CALLS / 10 : CALLS) });
  }
  rounds.sort((a, b) => a.theirs / a.ours - b.theirs / b.ours);
  const middle = rounds[ROUNDS >> 1]!;
  const ratio = Math.round((middle.theirs / middle.ours) * 100) / 100;
  const name = `http-${tools}-tool${tools > 1 ? 's' : ''}/sdk`;
  const [us, them] = [Math.round(middle.ours), Math.round(middle.theirs)];
  report.comparison({ suite: SUITE, name, ours: us, theirs: them, ratio, unit: 'µs of server CPU a call' });
  await ours.stop();
  await theirs.stop();
}

async function cost(peer: Peer, calls: number): Promise<number> {
  const before = await peer.ask<number>();
  await post((peer.ready as McpReady).url, calls);
  return ((await peer.ask<number>()) - before) / calls;
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
  report.comparison(await compare(SUITE, 'in-process/sdk-memory', ours, theirs, 'calls/s'));
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
  report.comparison(await compare(SUITE, 'link/sdk-http', ours, theirs, 'calls/s'));
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
