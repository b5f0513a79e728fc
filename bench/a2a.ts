import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { A2AReady, A2ARole, A2AUse } from './a2a-peer.js';
import { type Comparison, compare, type Report } from './compare.js';
import { Peer } from './peer-process.js';

const SUITE = 'a2a';
const PROGRAM = './a2a-peer.js';
const CALLS = 3_000;
/** A server that runs all day is warm; neither is measured before it is. */
const WARM_UP = 20_000;
const ROUNDS = 5;
const IN_FLIGHT = 32;
const MANY_TASKS = 200_000;
const MEBIBYTE = 1_048_576;

/** Blocking sends to an agent that echoes, beside the official SDK behind express. */
export async function run(report: Report): Promise<void> {
  report.comparison(await serverCost('task/sdk', { answer: 'task' }));
  report.comparison(await serverCost('message/sdk', { answer: 'message' }));
  report.comparison(await serverCost('signed/sdk', { answer: 'message', signed: true }));
  await durable(report);
  await memory(report);
}

/** The CPU time of one send on the server: the same requests, from the same client, to both. */
async function serverCost(name: string, role: Omit<A2ARole, 'server'>): Promise<Comparison> {
  const [ours, theirs] = await bothOf(role);
  await cost(ours, WARM_UP);
  await cost(theirs, WARM_UP);
  const rounds: { ours: number; theirs: number }[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    rounds.push({ ours: await cost(ours, CALLS), theirs: await cost(theirs, CALLS) });
  }
  rounds.sort((a, b) => a.theirs / a.ours - b.theirs / b.ours);
  const middle = rounds[ROUNDS >> 1]!;
  await ours.stop();
  await theirs.stop();
  return {
    suite: SUITE,
    name,
    ours: Math.round(middle.ours),
    theirs: Math.round(middle.theirs),
    ratio: Math.round((middle.theirs / middle.ours) * 100) / 100,
    unit: 'µs of server CPU a send',
  };
}

/** Tasks that are on disk when they are answered, with many in progress at once. */
async function durable(report: Report): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
  try {
    const own = async (server: A2ARole['server']) => {
      const role = { server, answer: 'task', folder: await mkdtemp(join(folder, `${server}-`)) } as const;
      return Peer.start<A2ARole>(role, PROGRAM);
    };
    const [ours, theirs] = [await own('ours'), await own('sdk')];
    const sends = (peer: Peer) => (count: number) => post(urlOf(peer), count);
    report.comparison(await compare(SUITE, 'durable-task/sdk-sqlite', sends(ours), sends(theirs), 'tasks/s'));
    await ours.stop();
    await theirs.stop();
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function memory(report: Report): Promise<void> {
  const peer = await Peer.start<A2ARole>({ server: 'ours', answer: 'task' }, PROGRAM);
  await post(urlOf(peer), MANY_TASKS / 100);
  const before = await peer.ask<A2AUse>('memory');
  await post(urlOf(peer), MANY_TASKS);
  const { heap, rss } = await peer.ask<A2AUse>('memory');
  const tasks = MANY_TASKS.toLocaleString('en');
  report.figure(SUITE, `heap growth over ${tasks} tasks`, Math.round((heap - before.heap) / MEBIBYTE), 'MiB');
  report.figure(SUITE, `resident after ${tasks} tasks`, Math.round(rss / MEBIBYTE), 'MiB');
  await peer.stop();
}

async function bothOf(role: Omit<A2ARole, 'server'>): Promise<[ours: Peer, theirs: Peer]> {
  const start = (server: A2ARole['server']) => Peer.start<A2ARole>({ server, ...role }, PROGRAM);
  return [await start('ours'), await start('sdk')];
}

function urlOf(peer: Peer): string {
  return (peer.ready as A2AReady).url;
}

async function cost(peer: Peer, calls: number): Promise<number> {
  const before = await peer.ask<A2AUse>();
  await post(urlOf(peer), calls);
  return ((await peer.ask<A2AUse>()).cpu - before.cpu) / calls;
}

/** Sends that many messages over kept-alive connections, with a fixed number in progress. */
async function post(url: string, calls: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: IN_FLIGHT });
  let left = calls;
  const lane = async () => {
    while (left-- > 0) await postOne(url, agent);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
  agent.destroy();
}

let sent = 0;

/** Every message is one of its own: the same one again would be the same task. */
function postOne(url: string, agent: Agent): Promise<void> {
  const messageId = `bench-${process.pid}-${++sent}`;
  const message = { messageId, role: 'ROLE_USER', parts: [{ text: 'hello' }] };
  const body = JSON.stringify({ jsonrpc: '2.0', id: sent, method: 'SendMessage', params: { message } });
  const headers = {
    'Content-Type': 'application/json',
    'A2A-Version': '1.0',
    'Content-Length': Buffer.byteLength(body),
  };
  return new Promise((resolve, reject) => {
    const call = request(url, { method: 'POST', agent, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk) => {
        text += chunk;
      });
      response.on('end', () => (text.includes('"result"') ? resolve() : reject(new Error(text))));
    });
    call.on('error', reject);
    call.end(body);
  });
}
