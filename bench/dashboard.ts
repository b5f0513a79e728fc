import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type ClientRequest, get, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Report, Round } from './compare.js';

const SUITE = 'dashboard';
const BIN = fileURLToPath(new URL('../../bin/ecliptic', import.meta.url));
const PER_SECOND = 5_000;
const SLOT_MS = 2_000;
/** Of each kind, in turn. */
const SLOTS = 24;

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

interface Ready {
  readonly http: string;
  readonly token: string;
}

/**
 * The node's CPU time for a message at 5,000 messages a second, with a page attached and without, in short slots in turn.
 * The medians are compared: the store's merges, which take as much CPU as a slot's messages, fall into some slots.
 */
export async function run(report: Report): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'ecliptic-bench-'));
  const module = join(folder, 'agents.mjs');
  await writeFile(module, AGENTS);
  const config = { roster: false, agents: { source: { tier: 0, module }, sink: { tier: 1, module } } };
  await writeFile(join(folder, 'ecliptic.json'), JSON.stringify(config));
  const args = [BIN, 'up', '--data', join(folder, 'data'), '--json', '--log', 'warn', '--no-dht', '--port', '0'];
  const up = spawn(process.execPath, args, { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const [line] = (await once(createInterface(up.stdout), 'line')) as [string];
    const node = JSON.parse(line) as Ready;
    await flood(node);
    const [alone, watched] = [[] as number[], [] as number[]];
    for (let slot = 0; slot < SLOTS; slot++) {
      alone.push(perMessage(await flood(node)));
      const page = await follow(node);
      watched.push(perMessage(await flood(node)));
      page.destroy();
    }
    const ratio = quantile(alone, 0.5) / quantile(watched, 0.5);
    report.comparison({
      ...{ suite: SUITE, name: 'dashboard/none', unit: 'µs CPU a message', ratio: round(ratio) },
      ours: round(quantile(watched, 0.5)),
      theirs: round(quantile(alone, 0.5)),
    });
    for (const [name, slots] of [
      ['with a page', watched],
      ['without', alone],
    ] as const) {
      const quarters = [0.25, 0.75].map((part) => round(quantile(slots, part)));
      report.figure(SUITE, `${name}, first quarter of slots`, quarters[0]!, 'µs CPU a message');
      report.figure(SUITE, `${name}, last quarter of slots`, quarters[1]!, 'µs CPU a message');
    }
  } finally {
    up.kill('SIGTERM');
    await once(up, 'exit');
    await rm(folder, { recursive: true, force: true });
  }
}

function perMessage({ count, micros }: Round): number {
  return micros / count;
}

function quantile(values: readonly number[], part: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * part)]!;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

async function flood({ http, token }: Ready): Promise<Round> {
  const call = request(`${http}/api/request`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
  });
  const payload = { perSecond: PER_SECOND, forMs: SLOT_MS };
  call.end(JSON.stringify({ as: 'sink', to: 'source', payload, timeoutMs: SLOT_MS + 30_000 }));
  const [response] = (await once(call, 'response')) as [IncomingMessage];
  let text = '';
  for await (const part of response) text += part;
  if (response.statusCode !== 200) throw new Error(text);
  return JSON.parse(text) as Round;
}

/** What an open page does: it follows what waits and the agents, and reads all that it is sent. */
async function follow({ http, token }: Ready): Promise<ClientRequest> {
  const headers = { authorization: `Bearer ${token}` };
  const page = get(`${http}/api/events?read=waiting&read=agents`, { headers });
  const [response] = (await once(page, 'response')) as [IncomingMessage];
  if (response.statusCode !== 200) throw new Error(`the stream answers ${response.statusCode}`);
  response.on('error', () => {});
  page.on('error', () => {});
  response.resume();
  return page;
}
