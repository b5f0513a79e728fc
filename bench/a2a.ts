import { deepStrictEqual } from 'node:assert';
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { A2AReady, A2ARole, A2AUse } from './a2a-peer.js';
import { compareCpu, isWanted, type Report, type Round } from './compare.js';
import { Peer } from './peer-process.js';
import { isRepeat, sized } from './settings.js';

const SUITE = 'a2a';
const PROGRAM = './a2a-peer.js';
const CALLS = sized(3_000, 300);
const DURABLE_CALLS = sized(1_000, 100);
/** A server that runs all day is warm; none is measured before it is. */
const WARM_UP = sized(20_000, 1_000);
const IN_FLIGHT = 32;
const MANY_TASKS = sized(200_000, 2_000);
const MEBIBYTE = 1_048_576;

type Answer = A2ARole['answer'];

/**
 * Blocking sends to an agent that echoes, beside the official SDK behind express, and beside a bare `node:http` server
 * that reads the request as JSON and writes the same answer. Each server is a process of its own; what counts is its
 * CPU time, with the same requests from the same client.
 */
export async function run(report: Report): Promise<void> {
  await inMemory(report, 'task');
  await inMemory(report, 'message');
  await durable(report);
  if (!isRepeat()) await memory(report);
}

async function inMemory(report: Report, answer: Answer): Promise<void> {
  const peers = await startAll(['ours', 'sdk', 'bare'], answer);
  const [ours, sdk, bare] = peers as [Peer, Peer, Peer];
  for (const peer of peers) await post(peer, answer, WARM_UP);
  const rounds = (peer: Peer) => () => round(peer, answer, CALLS);
  report.comparison(await compareCpu(SUITE, `${answer}/sdk`, rounds(ours), rounds(sdk)));
  const bareHttp = `${answer}/bare-http`;
  if (isWanted(SUITE, bareHttp)) report.comparison(await compareCpu(SUITE, bareHttp, rounds(ours), rounds(bare)));
  for (const peer of peers) await peer.stop();
}

/** Tasks that are on disk when they are answered, with many in progress at once. */
async function durable(report: Report): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
  try {
    const peers = await startAll(['ours', 'sdk'], 'task', folder);
    const [ours, sdk] = peers as [Peer, Peer];
    for (const peer of peers) await post(peer, 'task', DURABLE_CALLS * 3);
    const rounds = (peer: Peer) => () => round(peer, 'task', DURABLE_CALLS);
    report.comparison(await compareCpu(SUITE, 'durable-task/sdk-sqlite', rounds(ours), rounds(sdk)));
    for (const peer of peers) await peer.stop();
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function memory(report: Report): Promise<void> {
  const peer = await Peer.start<A2ARole>({ server: 'ours', answer: 'task' }, PROGRAM);
  await post(peer, 'task', MANY_TASKS / 100);
  const before = await peer.ask<A2AUse>('memory');
  await post(peer, 'task', MANY_TASKS);
  const { heap, rss } = await peer.ask<A2AUse>('memory');
  const tasks = MANY_TASKS.toLocaleString('en');
  report.figure(SUITE, `heap growth over ${tasks} tasks`, Math.round((heap - before.heap) / MEBIBYTE) || 0, 'MiB');
  report.figure(SUITE, `resident after ${tasks} tasks`, Math.round(rss / MEBIBYTE), 'MiB');
  await peer.stop();
}

/** Starts the servers, and makes sure that they give the same answer. */
async function startAll(servers: readonly A2ARole['server'][], answer: Answer, folder?: string): Promise<Peer[]> {
  const peers: Peer[] = [];
  const answers: unknown[] = [];
  for (const server of servers) {
    const own = folder === undefined ? {} : { folder: await mkdtemp(join(folder, `${server}-`)) };
    const peer = await Peer.start<A2ARole>({ server, answer, ...own }, PROGRAM);
    peers.push(peer);
    const agent = new Agent();
    answers.push(comparable(JSON.parse(await postOne(peer, agent))));
    agent.destroy();
  }
  for (const other of answers) deepStrictEqual(other, answers[0]);
  return peers;
}

/** The answer with its ids and times as their types: their values differ. */
function comparable(value: unknown, member = ''): unknown {
  if (Array.isArray(value)) return value.map((entry) => comparable(entry));
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, comparable(entry, name)]));
  }
  if (!/id$|^timestamp$/i.test(member)) return value;
  return typeof value;
}

async function round(peer: Peer, answer: Answer, count: number): Promise<Round> {
  const { cpu } = await peer.ask<A2AUse>();
  const started = performance.now();
  await post(peer, answer, count);
  const ms = performance.now() - started;
  return { count, micros: (await peer.ask<A2AUse>()).cpu - cpu, ms };
}

/** Sends that many messages over kept-alive connections, with a fixed number in progress. */
async function post(peer: Peer, answer: Answer, calls: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: IN_FLIGHT });
  const expected = answer === 'task' ? '"TASK_STATE_COMPLETED"' : '"ROLE_AGENT"';
  let left = calls;
  const lane = async () => {
    while (left-- > 0) {
      const text = await postOne(peer, agent);
      if (!text.includes(expected)) throw new Error(text);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
  agent.destroy();
}

let sent = 0;

/** Every message is one of its own: the same one again would be the same task. */
function postOne(peer: Peer, agent: Agent): Promise<string> {
  const messageId = `bench-${process.pid}-${++sent}`;
  const message = { messageId, role: 'ROLE_USER', parts: [{ text: 'hello' }] };
  const body = JSON.stringify({ jsonrpc: '2.0', id: sent, method: 'SendMessage', params: { message } });
  const headers = {
    'Content-Type': 'application/json',
    'A2A-Version': '1.0',
    'Content-Length': Buffer.byteLength(body),
  };
  return new Promise((resolve, reject) => {
    const { url } = peer.ready as A2AReady;
    const call = request(url, { method: 'POST', agent, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk) => {
        text += chunk;
      });
      response.on('end', () => resolve(text));
    });
    call.on('error', reject);
    call.end(body);
  });
}
