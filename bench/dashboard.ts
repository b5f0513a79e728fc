import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type ClientRequest, get, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { compareGrowth, type Report, type Round } from './compare.js';
import { sized } from './settings.js';

const SUITE = 'dashboard';
const BIN = fileURLToPath(new URL('../../bin/ecliptic', import.meta.url));
const PER_SECOND = 5_000;
const SLOT_MS = sized(2_000, 300);
/** Of each kind, in turn. */
const SLOTS = sized(25, 3);
const AGENTS_SHOWN = sized(500, 50);
const MESSAGES = sized(100_000, 2_000);
const TASKS = sized(10_000, 100);
const VISITS = sized(7, 2);

/** Sends messages at a steady rate for a while, and tells the CPU time that the whole node used meanwhile. */
const AGENTS = `
export const setup = (agent) => {
  if (agent.id === 'sink') return agent.onNotification(() => {});
  agent.onRequest(async ({ payload }) => {
    const { perSecond, forMs } = payload;
    const before = process.cpuUsage();
    const started = performance.now();
    let count = 0;
    while (performance.now() - started < forMs) {
      const due = ((performance.now() - started) * perSecond) / 1_000;
      while (count < due) {
        void agent.send('sink', { step: count++, text: 'build the login page' });
        if (count % 100 === 0) await new Promise(setImmediate);
      }
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    const { user, system } = process.cpuUsage(before);
    return { count, micros: user + system, ms: performance.now() - started };
  });
};`;

/** Answers each task with its own text. */
const WORKER = `export const setup = (agent) => agent.onTask((task) => task.text);`;

interface BenchNode {
  readonly http: string;
  readonly token: string;
  /** A link to the dashboard that works once. */
  readonly page: string;
  stop(): Promise<void>;
}

/** The program with this configuration, in a folder of its own. */
async function startNode(agents: Record<string, object>, modules: Record<string, string>): Promise<BenchNode> {
  const folder = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
  for (const [name, source] of Object.entries(modules)) await writeFile(join(folder, name), source);
  await writeFile(join(folder, 'ecliptic.json'), JSON.stringify({ roster: false, agents }));
  const args = [BIN, 'up', '--data', join(folder, 'data'), '--json', '--log', 'error', '--no-dht', '--port', '0'];
  const up = spawn(process.execPath, args, { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(createInterface(up.stdout), 'line')) as [string];
  const ready = JSON.parse(line) as Omit<BenchNode, 'stop'>;
  const stop = async () => {
    up.kill('SIGTERM');
    await once(up, 'exit');
    await rm(folder, { recursive: true, force: true });
  };
  return { ...ready, stop };
}

const SENDERS = { source: { tier: 0, module: './agents.mjs' }, sink: { tier: 1, module: './agents.mjs' } };

export async function run(report: Report): Promise<void> {
  await withAndWithout(report);
  await firstScreen(report);
}

/**
 * The node's CPU time for a message at 5,000 messages a second, with a page attached and without, in short slots in turn.
 * The spread is wide: the store's merges, which take as much CPU as a slot's messages, fall into some slots.
 */
async function withAndWithout(report: Report): Promise<void> {
  const node = await startNode(SENDERS, { 'agents.mjs': AGENTS });
  const flood = () => send(node, PER_SECOND, SLOT_MS);
  try {
    await flood();
    const watched = async () => {
      const page = await follow(node);
      const round = await flood();
      page.destroy();
      return round;
    };
    report.comparison(await compareGrowth(SUITE, 'message with a page/without', watched, flood, SLOTS));
  } finally {
    await node.stop();
  }
}

/** From the request of the page to its first screen with data, in Chromium, beside a node with much history. */
async function firstScreen(report: Report): Promise<void> {
  const crowd = Array.from({ length: AGENTS_SHOWN }, (_, at) => [`agent-${at}`, { tier: 1 + (at % 3) }]);
  const worker = { worker: { tier: 2, module: './worker.mjs', capabilities: ['work'] } };
  const node = await startNode(
    { ...Object.fromEntries(crowd), ...SENDERS, ...worker },
    { 'agents.mjs': AGENTS, 'worker.mjs': WORKER },
  );
  const profile = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
  try {
    let messages = 0;
    while (messages < MESSAGES) messages += (await send(node, MESSAGES, SLOT_MS)).count;
    await makeTasks(node, TASKS);
    const browser = await chromium.launchPersistentContext(profile, {
      executablePath: process.env.ECLIPTIC_CHROMIUM || '/usr/bin/chromium',
      args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'],
    });
    const times: number[] = [];
    for (let visit = 0; visit < VISITS; visit++) {
      const page = await browser.newPage();
      const started = performance.now();
      // The link works once; the browser has a session from then on.
      await page.goto(visit === 0 ? node.page : node.http);
      await page.locator('.connection.good').waitFor();
      await page.getByText('Nothing waits for you.').waitFor();
      await page.locator('.orrery canvas[data-bodies]').waitFor();
      times.push(performance.now() - started);
      await page.close();
    }
    await browser.close();
    const about = `first screen: ${AGENTS_SHOWN} agents, ${MESSAGES / 1_000}k messages, ${TASKS / 1_000}k tasks`;
    const [best, middle, worst] = [Math.min(...times), quantile(times, 0.5), Math.max(...times)].map(Math.round);
    report.figure(SUITE, about, middle!, 'ms by the clock', [best!, worst!]);
  } finally {
    await node.stop();
    await rm(profile, { recursive: true, force: true });
  }
}

function quantile(values: readonly number[], part: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * part)]!;
}

/** Lets the source send messages for a while. */
function send(node: BenchNode, perSecond: number, forMs: number): Promise<Round> {
  const payload = { perSecond, forMs };
  return post<Round>(node, 'request', { as: 'sink', to: 'source', payload, timeoutMs: forMs + 60_000 });
}

/** Tasks of outside callers, some at a time. */
async function makeTasks(node: BenchNode, count: number): Promise<void> {
  let left = count;
  const lane = async () => {
    while (left-- > 0) {
      const message = { messageId: `bench-${left}`, role: 'ROLE_USER', parts: [{ text: `task ${left}` }] };
      const params = { message, tenant: 'worker' };
      await http(node, '/a2a/rpc', { jsonrpc: '2.0', id: left, method: 'SendMessage', params });
    }
  };
  await Promise.all(Array.from({ length: 16 }, lane));
}

async function post<T>(node: BenchNode, operation: string, params: object): Promise<T> {
  return (await http(node, `/api/${operation}`, params)) as T;
}

async function http({ http: base, token }: BenchNode, path: string, body: object): Promise<unknown> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'A2A-Version': '1.0' };
  const call = request(`${base}${path}`, { method: 'POST', headers });
  call.end(JSON.stringify(body));
  const [response] = (await once(call, 'response')) as [IncomingMessage];
  let text = '';
  for await (const part of response) text += part;
  const answer = JSON.parse(text) as { error?: unknown };
  if (response.statusCode !== 200 || answer?.error) throw new Error(text);
  return answer;
}

/** What an open page does: it follows what waits and the agents, and reads all that it is sent. */
async function follow({ http: base, token }: BenchNode): Promise<ClientRequest> {
  const headers = { authorization: `Bearer ${token}` };
  const page = get(`${base}/api/events?read=waiting&read=agents`, { headers });
  const [response] = (await once(page, 'response')) as [IncomingMessage];
  if (response.statusCode !== 200) throw new Error(`the stream answers ${response.statusCode}`);
  response.on('error', () => {});
  page.on('error', () => {});
  response.resume();
  return page;
}
