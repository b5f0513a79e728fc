import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  watch,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Config } from '../src/node/config/schema.js';
import { ControlClient } from '../src/node/control/client.js';
import { ControlServer } from '../src/node/control/server.js';
import { Host } from '../src/node/host.js';
import type { Runtime } from '../src/runtime/runtime.js';
import { systemRuntime } from '../src/runtime/system-runtime.js';
import { childEnvironment } from './child-environment.js';
import { echoing } from './echo-agents.js';
import { BIN } from './source-files.js';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'exit', 'beforeExit', 'uncaughtException', 'unhandledRejection'];

let folder: string;
let data: string;
let cleanUps: (() => unknown)[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-life-'));
  data = join(folder, 'data');
  cleanUps = [];
});

afterEach(async () => {
  for (const cleanUp of cleanUps.reverse()) await cleanUp();
  rmSync(folder, { recursive: true, force: true });
});

/** The content of a node's data folder while the node is stopped. */
const KEPT = ['node.key', 'owner.token', 'store'];
/** The same once its owner has stopped it. */
const KEPT_STOPPED = [...KEPT, 'stopped-at'].sort();

describe('a host', () => {
  it('restricts a key file that others can read, and warns of that [T-F14]', async () => {
    await (await start()).stop();
    chmodSync(join(data, 'node.key'), 0o644);
    const said: string[] = [];
    const runtime = new ObservedRuntime();
    runtime.logger.warn = (_fields: unknown, message: string) => void said.push(message);
    await (await start({ runtime })).stop();
    expect(statSync(join(data, 'node.key')).mode & 0o777).toBe(0o600);
    expect(said).toContainEqual(expect.stringMatching(/^key file was open to other users/));
    said.length = 0;
    await (await start({ runtime })).stop();
    expect(said).toEqual([]);
  });

  it('started and stopped again and again leaves no socket, lock, handle or listener', {
    timeout: 300_000,
  }, async () => {
    const runtime = new ObservedRuntime();
    const cycle = async () => {
      const host = await start({ runtime, config: { agents: echoing('mars') } });
      const client = await ControlClient.connect(host.control);
      expect(await client.call('agents')).toHaveLength(21);
      expect(await client.call('request', { as: 'sun', to: 'mars', payload: 1 })).toMatchObject({ echo: 1 });
      client.call('tail', {}, () => {}).catch(() => {});
      await host.stop();
      await client.closed;
      expect(readdirSync(data)).toEqual(KEPT);
    };
    await cycle();
    const handles = activeHandles();
    const listeners = SIGNALS.map((signal) => process.listenerCount(signal));
    const rounds = process.env.ECLIPTIC_SOAK ? 100 : 25;
    for (let round = 0; round < rounds; round++) await cycle();
    await vi.waitFor(() => expect(activeHandles()).toBe(handles), 20_000);
    expect(SIGNALS.map((signal) => process.listenerCount(signal))).toEqual(listeners);
    expect(runtime.holds).toBe(0);
  });

  it('may be stopped by several at once', async () => {
    const host = await start();
    await Promise.all([host.stop(), host.stop(), host.stopped]);
    await host.stop();
    expect(readdirSync(data)).toEqual(KEPT);
  });

  it('stops at a client’s request, and notifies all waiting callers', async () => {
    const host = await start();
    const client = await ControlClient.connect(host.control);
    expect(await client.call('down')).toBeNull();
    await Promise.all([host.stopped, client.closed]);
    expect(readdirSync(data)).toEqual(KEPT_STOPPED);
  });

  it('rejects work that still hangs at the drain deadline with NODE_STOPPED, and ends', async () => {
    writeFileSync(
      join(folder, 'hanging.mjs'),
      'export const setup = (agent) => agent.onRequest(() => new Promise(() => {}));',
    );
    const host = await start({
      runtime: new ObservedRuntime({ hurry: 100 }),
      config: { agents: { hanging: { module: './hanging.mjs' } } },
    });
    const client = await ControlClient.connect(host.control);
    const request = { as: 'sun', to: 'hanging', payload: 1, timeoutMs: 1_000_000 };
    const answer = client.call('request', request).catch((error) => error);
    await client.call('metrics');
    await host.stop();
    expect(await answer).toMatchObject({ code: 'NODE_STOPPED' });
    expect(readdirSync(data)).toEqual(KEPT);
  });

  it('refuses a second host on its folder, and keeps running', async () => {
    const host = await start();
    await expect(start()).rejects.toMatchObject({ code: 'NODE_EXISTS', details: { pid: process.pid } });
    const client = await ControlClient.connect(host.control);
    expect(await client.call('agents')).toHaveLength(21);
    client.close();
  });

  it('replaces the socket that a dead process left', async () => {
    mkdirSync(data);
    const left = createServer().listen(join(data, 'first.sock'));
    await once(left, 'listening');
    renameSync(join(data, 'first.sock'), join(data, 'control.sock'));
    left.close();
    await once(left, 'close');
    const host = await start();
    const client = await ControlClient.connect(host.control);
    expect(client.server.node).toBe(host.node.key);
    client.close();
  });

  it('leaves the socket of a running process alone, and names the process', async () => {
    mkdirSync(data);
    const identity = { node: 'other', pid: 4711, version: '0' };
    const other = new ControlServer({ runtime: systemRuntime(), methods: {}, identity });
    await other.listen(join(data, 'control.sock'));
    cleanUps.push(() => other.close());
    await expect(start()).rejects.toMatchObject({ code: 'NODE_EXISTS', details: { pid: 4711 } });
    expect(readdirSync(data)).toEqual(['control.sock']);
    const client = await ControlClient.connect(join(data, 'control.sock'));
    expect(client.server.node).toBe('other');
    client.close();
  });

  it.each<[string, Config]>([
    ['an agent is not valid', { agents: { ['x'.repeat(65)]: {} } }],
    ['the tier rules are not valid', { tiers: { rules: [{ sourceTier: 9 }] } as unknown as Config['tiers'] }],
  ])('leaves nothing behind when its start fails because %s', async (_, config) => {
    const runtime = new ObservedRuntime();
    await expect(start({ runtime, config })).rejects.toMatchObject({ code: expect.stringMatching(/^INVALID_/) });
    expect(readdirSync(data)).toEqual(KEPT.filter((name) => name !== 'owner.token'));
    expect(runtime.holds).toBe(0);
    await start();
  });

  it('leaves nothing behind when it cannot listen', async () => {
    mkdirSync(join(data, 'control.sock', 'occupied'), { recursive: true });
    const runtime = new ObservedRuntime();
    await expect(start({ runtime })).rejects.toMatchObject({ code: 'DATA_FOLDER' });
    expect(readdirSync(data)).toEqual(['control.sock']);
    expect(runtime.holds).toBe(0);
  });
});

describe('a killed node', () => {
  it('does not block the next start, five times in a row', { timeout: 60_000 }, async () => {
    writeFileSync(join(folder, 'ecliptic.json'), JSON.stringify({ agents: echoing('mars') }));
    let before: string | undefined;
    for (let round = 0; round < 5; round++) {
      const { child, ready } = await up();
      expect(ready.node).toBe(before ?? ready.node);
      const client = await ControlClient.connect(ready.control);
      expect(client.server).toMatchObject({ node: ready.node, pid: child.pid });
      expect(await client.call('request', { as: 'sun', to: 'mars', payload: round })).toMatchObject({ echo: round });
      await kill(child);
      await client.closed;
      expect(existsSync(ready.control)).toBe(true);
      before = ready.node;
    }
    const last = await up();
    last.child.kill('SIGTERM');
    expect(await once(last.child, 'exit')).toEqual([0, null]);
    expect(readdirSync(data)).toEqual(KEPT_STOPPED);
  });

  it('does not block the next start when it was killed while starting', { timeout: 60_000 }, async () => {
    mkdirSync(data);
    for (let round = 0; round < 5; round++) {
      const watcher = watch(data);
      const child = launch();
      const locking = new Promise((resolve) => {
        watcher.on('change', (_, name) => String(name).startsWith('node.lock') && resolve('locking'));
      });
      expect(await Promise.race([locking, once(child, 'exit')])).toBe('locking');
      await kill(child);
      watcher.close();
    }
    const { ready } = await up();
    const client = await ControlClient.connect(ready.control);
    expect(await client.call('agents')).toHaveLength(21);
    client.close();
  });

  async function up(): Promise<{ child: ChildProcess; ready: { node: string; control: string } }> {
    const child = launch();
    const lines = createInterface({ input: child.stdout! });
    const ended = once(child, 'exit').then(() => undefined);
    const line = await Promise.race([once(lines, 'line').then(([first]) => first as string), ended]);
    if (line === undefined) throw new Error('the node did not start');
    return { child, ready: JSON.parse(line) };
  }

  function launch(): ChildProcess {
    const child = spawn(process.execPath, [BIN, 'up', '--json', '--log', 'error', '--data', data], {
      cwd: folder,
      env: childEnvironment(folder, { TMPDIR: folder, PORT: '0' }),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    cleanUps.push(() => kill(child));
    return child;
  }

  async function kill(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }
});

async function start({ runtime = systemRuntime(), config = {} }: { runtime?: Runtime; config?: Config } = {}) {
  const loaded = { config, file: undefined, folder };
  const host = await Host.start({ runtime, loaded, dataFolder: data, env: {}, http: { port: 0 } });
  cleanUps.push(() => host.stop());
  return host;
}

function activeHandles(): number {
  return (process as unknown as { _getActiveHandles(): unknown[] })._getActiveHandles().length;
}

/** The machine's runtime; counts handles that keep the process alive, and can speed its timers up by a factor. */
class ObservedRuntime implements Runtime {
  holds = 0;
  readonly logger;
  readonly #runtime = systemRuntime();
  readonly #hurry: number;

  constructor({ hurry = 1 }: { hurry?: number } = {}) {
    this.#hurry = hurry;
    this.logger = { ...this.#runtime.logger };
  }

  now() {
    return this.#runtime.now();
  }

  stopwatch() {
    return this.#runtime.stopwatch();
  }

  setTimer(task: () => void, ms: number) {
    return this.#runtime.setTimer(task, ms / this.#hurry);
  }

  defer(task: () => void) {
    this.#runtime.defer(task);
  }

  hold() {
    const timer = this.#runtime.hold();
    this.holds++;
    return {
      cancel: () => {
        this.holds--;
        timer.cancel();
      },
    };
  }

  id() {
    return this.#runtime.id();
  }

  random() {
    return this.#runtime.random();
  }

  bytes(count: number) {
    return this.#runtime.bytes(count);
  }
}
