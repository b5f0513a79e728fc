import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Agent } from '../../src/agent/agent.js';
import type { Gateway } from '../../src/http/gateway.js';
import { createNode, type EclipticNode } from '../../src/node/compose.js';
import type { Config } from '../../src/node/config/schema.js';
import { Host } from '../../src/node/host.js';
import type { Logger } from '../../src/runtime/runtime.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { lives } from '../providers/processes.js';
import { until } from '../upstream/harness.js';
import { expectNowhere } from './nowhere.js';

const PROGRAM = fileURLToPath(new URL('../providers/program.mjs', import.meta.url));
const ACP_AGENT = fileURLToPath(new URL('../providers/acp-agent.mjs', import.meta.url));
const ROTATIONS = process.env.ECLIPTIC_SOAK === undefined ? 10 : 200;

let folder: string;
let host: Host;
let sun: Agent;
let said: string[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-credentials-'));
  said = [];
});

afterEach(async () => {
  await host.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function start(agents: Config['agents']): Promise<void> {
  const note = (fields: Record<string, unknown>, message: string) =>
    void said.push(inspect([message, fields], { depth: 9 }));
  const logger: Logger = { debug: note, info: note, warn: note, error: note };
  const config: Config = {
    roster: false,
    network: { dht: false },
    credentials: { keychain: false },
    agents: { sun: {}, moon: {}, ...agents },
  };
  const loaded = { config, file: undefined, folder };
  host = await Host.start({
    runtime: systemRuntime({ logger }),
    loaded,
    dataFolder: folder,
    env: process.env,
    http: { port: 0 },
  });
  host.node.observability.subscribe((event) => said.push(JSON.stringify(event)));
  sun = host.node.agentById('sun');
}

const stateOf = (id: string) => host.providers.list().find((row) => row.id === id)?.state;
const messageOf = (id: string) => host.providers.list().find((row) => row.id === id)?.message ?? '';
const place = (provider: string) => ({ provider, workspace: 'default', name: 'token' });

function failure(error: unknown): unknown {
  said.push(inspect(error, { depth: 9 }), JSON.stringify(error));
  return error;
}

describe('credentials of remote A2A agents', () => {
  let remote: EclipticNode;
  let gateway: Gateway;
  let finish: (() => void)[];

  beforeEach(async () => {
    finish = [];
    remote = await createNode();
    remote.agent({ id: 'worker' }).onTask(async (task) => {
      if (task.text === 'long') await new Promise<void>((resolve) => finish.push(resolve));
      return `did ${task.text}`;
    });
    gateway = await remote.serve({ port: 0 });
  });

  afterEach(() => remote.stop());

  it('are resolved for each request: a new one is used at once, and work in flight continues [SC-025-005 FR-025-002 T020.4a T020.4b]', async () => {
    const headers = { authorization: { credential: 'token', scheme: 'Bearer' } };
    await start({ fleet: { a2a: [{ url: gateway.url, headers }] } });
    const tokens: string[] = [];
    // The same caller, with another token each time.
    const fresh = () => {
      const { token, id } = gateway.tokens.create('visitor');
      tokens.push(token);
      return { token, id };
    };
    let current = fresh();
    await host.credentials.set(place('fleet'), current.token);
    expect(await sun.request('fleet', 'first')).toBe('did first');
    const long = sun.request('fleet', 'long', { timeoutMs: 60_000 });
    await until(() => finish.length === 1);
    for (let n = 0; n < ROTATIONS; n++) {
      const next = fresh();
      await host.credentials.rotate(place('fleet'), next.token);
      // Whoever still came with the old one would be sent away.
      gateway.tokens.revoke(current.id);
      current = next;
      expect(await sun.request('fleet', `call ${n}`)).toBe(`did call ${n}`);
    }
    finish[0]!();
    expect(await long).toBe('did long');
    await host.credentials.revoke(place('fleet'));
    expect(await sun.request('fleet', 'late').catch(failure)).toMatchObject({ code: 'PROVIDER_CREDENTIAL_DENIED' });
    // The missing credential is back: work does not wait for the next check.
    current = fresh();
    await host.credentials.set(place('fleet'), current.token);
    await until(() => JSON.stringify(host.providers.describe('fleet')).includes('"down":null'));
    expect(await sun.request('fleet', 'again')).toBe('did again');
    expectNowhere(folder, said, ...tokens);
  });
});

describe('credentials of agents that are programs', () => {
  it('are in their environment; a revocation restarts the program, and a rotation interrupts no work [FR-025-002 FR-025-006 SC-025-005 T-E18]', async () => {
    const env = { KEY: { credential: 'token' } };
    await start({
      worker: { command: { command: process.execPath, args: [PROGRAM], env } },
      mars: { acp: { command: process.execPath, args: [ACP_AGENT], env } },
    });
    await until(() => messageOf('mars').includes('ecliptic credentials set mars token'));
    await host.credentials.set(place('mars'), 'first-of-an-agent');
    await until(() => messageOf('worker').includes('ecliptic credentials set worker token'));
    await host.credentials.set(place('worker'), 'first-of-a-program');
    await until(() => stateOf('worker') === 'healthy');
    const key = () => sun.request('worker', { do: 'env', name: 'KEY' });
    expect(await key()).toBe('first-of-a-program');
    const pid = await sun.request<number>('worker', { do: 'pid' });
    const telling = { do: 'fail', code: 'failed', message: 'first-of-a-program is what I was given' };
    expect(await sun.request('worker', telling).catch(failure)).toMatchObject({
      message: '[secret] is what I was given',
    });
    // A replacement has the new value; the old program finishes its work.
    await until(() => stateOf('mars') === 'healthy');
    const working = sun.request('worker', { do: 'after', ms: 2_000, value: 'done' }, { timeoutMs: 60_000 });
    const prompted = sun.request('mars', 'do:rest 2000\ndo:env KEY', { timeoutMs: 60_000 });
    await until(() => ['worker', 'mars'].every((id) => host.providers.get(id).inFlight === 1));
    await host.credentials.rotate(place('worker'), 'second-of-a-program');
    await host.credentials.rotate(place('mars'), 'second-of-an-agent');
    while ((await key()) !== 'second-of-a-program');
    while ((await host.node.agentById('moon').request('mars', 'do:env KEY')) !== 'second-of-an-agent');
    expect(await sun.request('worker', { do: 'pid' })).not.toBe(pid);
    expect(await working).toBe('done');
    expect(await prompted).toBe('first-of-an-agent');
    await until(() => !lives(pid));
    expect(host.providers.get('worker')).toMatchObject({ state: 'healthy', phase: 'ready' });
    await host.credentials.set(place('worker'), 'third-of-a-program');
    await until(() => stateOf('worker') === 'healthy' && host.providers.get('worker').phase === 'ready');
    expect(await sun.request('worker', { do: 'pid' })).not.toBe(pid);
    await host.credentials.revoke(place('worker'));
    await until(() => stateOf('worker') === 'unavailable' && messageOf('worker').includes('was revoked'));
    said.push(inspect(host.providers.list(), { depth: 9 }));
    // The programs themselves reported the second one.
    expectNowhere(folder, said, 'third-of-a-program');
  });
});
