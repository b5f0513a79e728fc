import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type ClientRequest, get, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { compareCpu, type Report, type Round } from './compare.js';

const SUITE = 'dashboard';
const BIN = fileURLToPath(new URL('../../bin/ecliptic', import.meta.url));
const PER_SECOND = 5_000;
const ROUND_MS = 4_000;

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

/** The node's CPU time for a message at 5,000 messages a second, with a page attached and without. */
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
    const measured = () => flood(node, ROUND_MS);
    const watched = async () => {
      const page = await follow(node);
      try {
        return await measured();
      } finally {
        page.destroy();
      }
    };
    await measured();
    await watched();
    report.comparison(await compareCpu(SUITE, 'dashboard/none', watched, measured));
  } finally {
    up.kill('SIGTERM');
    await once(up, 'exit');
    await rm(folder, { recursive: true, force: true });
  }
}

async function flood({ http, token }: Ready, forMs: number): Promise<Round> {
  const call = request(`${http}/api/request`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
  });
  const payload = { perSecond: PER_SECOND, forMs };
  call.end(JSON.stringify({ as: 'sink', to: 'source', payload, timeoutMs: forMs + 30_000 }));
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
