import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OPERATOR } from '../../src/http/auth/caller-auth.js';
import type { UpstreamStatus } from '../../src/mcp/upstream/upstream.js';
import type { A2ALogEvent } from '../../src/mesh/schemas.js';
import { loadConfig } from '../../src/node/config/load.js';
import { ControlClient } from '../../src/node/control/client.js';
import { controlPath } from '../../src/node/control/data-folder.js';
import { Host } from '../../src/node/host.js';
import type { Logger } from '../../src/runtime/runtime.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { Credentials } from '../../src/system/secrets/credentials.js';
import { BIN } from '../source-files.js';
import { tool, until } from '../upstream/harness.js';
import { BearerServer } from './bearer-server.js';
import { contents, expectNowhere } from './nowhere.js';

const WRITER = fileURLToPath(new URL('agents/writer.ts', import.meta.url));
const STDIO_SERVER = fileURLToPath(new URL('../upstream/server.mjs', import.meta.url));
const SOAK = process.env.ECLIPTIC_SOAK !== undefined;
const ROTATE_EVERY_MS = 50;
const LOAD_MS = SOAK ? 30_000 : 2_500;
/** Long enough for a machine that has much else to do. */
const GRACE_MS = 5_000;
const CALLERS = 8;

let folder: string;
let host: Host | undefined;
let client: ControlClient;
let server: BearerServer;
/** All visible output: logs, events, errors, standard output. */
let said: string[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-credentials-'));
  said = [];
  server = await BearerServer.start();
});

afterEach(async () => {
  client?.close();
  await host?.stop();
  host = undefined;
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

async function up(mcpServers: object, more: object = {}): Promise<void> {
  const file = join(folder, 'ecliptic.json');
  const credentials = { graceMs: GRACE_MS, keychain: false };
  writeFileSync(file, JSON.stringify({ roster: false, http: { port: 0 }, credentials, mcpServers, ...more }));
  const note = (fields: Record<string, unknown>, message: string) =>
    void said.push(inspect([message, fields], { depth: 9 }));
  const logger: Logger = { debug: note, info: note, warn: note, error: note };
  const loaded = loadConfig(file, folder);
  const runtime = systemRuntime({ logger });
  host = await Host.start({ runtime, loaded, dataFolder: join(folder, 'data'), env: process.env, http: { port: 0 } });
  host.node.observability.subscribe((event) => said.push(JSON.stringify(event)));
  client = await ControlClient.connect(host.control);
}

const web = (headers: object = { Authorization: { credential: 'token', scheme: 'Bearer' } }) => ({
  web: { url: server.url, headers },
});

const status = async (name = 'web') => (await client.call('tools.servers')).find((one) => one.name === name)!;

async function inState(state: UpstreamStatus['state'], name = 'web'): Promise<UpstreamStatus> {
  const deadline = Date.now() + 25_000;
  for (;;) {
    const found = await status(name);
    if (found.state === state) return found;
    if (Date.now() > deadline) throw new Error(`it is not ${state}: ${inspect(found)}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const change = (verb: 'set' | 'rotate' | 'revoke', value?: string, provider = 'web') =>
  client.call(`credentials.${verb}`, { provider, name: 'token', value });

const call = (name = 'web.echo') => host!.node.mcp.callTool(name, {}, { caller: OPERATOR });

function failure(error: unknown): { code: string } {
  said.push(inspect(error, { depth: 9 }), JSON.stringify(error));
  return error as { code: string };
}

const nowhere = (...values: readonly string[]) => expectNowhere(folder, said, ...values);

const audited = async () => {
  const store = join(folder, 'data', 'store');
  return Buffer.concat(readdirSync(store).map((name) => readFileSync(join(store, name)))).toString('latin1');
};

describe('credentials of a server over HTTP', () => {
  it(
    'rotate under load without a failed call, and without sending a value that has ended [SC-025-005 FR-025-006 T020.4a T020.4b]',
    async () => {
      let value = secretValue(0);
      const values = [value];
      server.take(value);
      await up(web());
      await inState('failed');
      await change('set', value);
      await inState('running');
      const before = await status();
      const ends = () => said.filter((line) => line.includes('provider exited')).length;
      const ended = ends();
      const deadline = Date.now() + LOAD_MS;
      let calls = 0;
      let rotated = 0;
      const failures: unknown[] = [];
      const caller = async () => {
        while (Date.now() < deadline) {
          const least = rotated;
          try {
            const { content } = (await call()) as { content: { text: string }[] };
            // The call used the value of the last rotation before it, or a later one.
            if (Number(content[0]!.text) < least) failures.push(`${content[0]!.text} after ${least}`);
            calls++;
          } catch (error) {
            failures.push(failure(error));
          }
        }
      };
      const rotating = (async () => {
        for (let n = 1; Date.now() < deadline; n++) {
          const next = secretValue(n);
          values.push(next);
          server.take(next);
          const { changedAt } = await change('rotate', next);
          server.take(value, changedAt! + GRACE_MS);
          value = next;
          rotated = n;
          await new Promise((resolve) => setTimeout(resolve, ROTATE_EVERY_MS));
        }
      })();
      await Promise.all([rotating, ...Array.from({ length: CALLERS }, caller)]);
      expect(failures).toEqual([]);
      expect(server.refused).toEqual([]);
      expect(calls).toBeGreaterThan(CALLERS);
      // None of them restarted the program.
      expect(server.used.size).toBeGreaterThan(1);
      expect(ends()).toBe(ended);
      expect(await status()).toEqual(before);

      const requests = server.requests;
      await change('revoke');
      expect(await call().catch(failure)).toMatchObject({ code: 'PROVIDER_CREDENTIAL_DENIED' });
      expect((await inState('failed')).reason).toContain(
        'was revoked; set another with: ecliptic credentials set web token',
      );
      expect(server.requests).toBe(requests);
      const topics = new Set(said.flatMap((line) => /"topic":"(credential\.\w+)"/.exec(line)?.[1] ?? []));
      expect([...topics].sort()).toEqual(
        ['accessed', 'refused', 'revoked', 'rotated', 'set'].map((kind) => `credential.${kind}`),
      );
      said.push(JSON.stringify(await client.call('doctor')), JSON.stringify(await client.call('credentials.list')));
      nowhere(...values);
      await host!.stop();
      nowhere(...values);
    },
    LOAD_MS + 60_000,
  );

  it('are audited at every use, and the audit log verifies', async () => {
    server.take('the-right-one');
    await up(web());
    await change('set', 'the-right-one');
    await inState('running');
    await call();
    expect(await client.call('audit.verify')).toMatchObject({ fault: null });
    const log = await audited();
    for (const topic of ['credential.refused', 'credential.set', 'credential.accessed']) expect(log).toContain(topic);
    nowhere('the-right-one');
  });

  it('are kept apart from those of other servers, and resolved by name [FR-025-006]', async () => {
    server.take('the-right-one');
    await up({ ...web(), other: web().web });
    await change('set', 'the-right-one');
    await inState('running');
    const { reason } = await inState('failed', 'other');
    expect(reason).toContain(
      'there is no credential "token" of "other"; set it with: ecliptic credentials set other token'.split(';')[1],
    );
    await change('set', 'a-wrong-one', 'other');
    await until(() => server.refused.includes('a-wrong-one'));
    nowhere('the-right-one', 'a-wrong-one');
  });

  it('with characters that no header may have are refused without showing them', async () => {
    await up(web());
    await change('set', 'a value\nwith lines');
    await until(() => said.some((line) => line.includes('INVALID_CONFIG') || line.includes('that no header may have')));
    expect(server.requests + server.refused.length).toBe(0);
    nowhere('a value\nwith lines');
  });
});

describe('credentials of a server that is a child', () => {
  it('are in its environment and nowhere else; a rotation replaces it, a revocation ends it [FR-025-006 T-E18]', async () => {
    const lists = join(folder, 'lists.json');
    writeFileSync(lists, JSON.stringify({ tools: [tool('echo')] }));
    const env = { API_KEY: { credential: 'token' }, PLAIN: 'yes' };
    await up({ child: { command: process.execPath, args: [STDIO_SERVER, lists, 'stdio'], env } });
    await inState('failed', 'child');
    await change('set', 'value-of-a-child', 'child');
    await inState('running', 'child');
    const echoed = async () => {
      const { content } = (await call('child.echo')) as { content: { text: string }[] };
      return (JSON.parse(content[0]!.text) as { secret: string }).secret;
    };
    expect(await echoed()).toBe('value-of-a-child');
    await change('rotate', 'next-of-a-child', 'child');
    while ((await echoed()) !== 'next-of-a-child');
    await change('set', 'last-of-a-child', 'child');
    await until(() => readFileSync(`${lists}.log`, 'utf8').split('start').length === 4);
    await inState('running', 'child');
    expect(await echoed()).toBe('last-of-a-child');
    await change('revoke', undefined, 'child');
    await inState('failed', 'child');
    expect(await call('child.echo').catch(failure)).toMatchObject({ code: 'PROVIDER_CREDENTIAL_DENIED' });
    nowhere('value-of-a-child', 'next-of-a-child', 'last-of-a-child');
  });
});

describe('actions of agents', () => {
  it('are decided by the configured rules, emitted and audited [FR-025-012]', async () => {
    const policy = [
      { agent: 'mars', action: 'fs.read', decision: 'allow' },
      { action: 'fs.write', decision: 'ask' },
    ];
    await up({}, { policy, limits: { approvalMs: 200 } });
    const events: A2ALogEvent[] = [];
    host!.node.observability.subscribe((event) => events.push(event));
    const { gate } = host!;
    const action = { agent: 'mars', provider: 'mars', subject: 'notes.txt' };
    expect(await gate.check({ ...action, action: 'fs.read' })).toMatchObject({ allowed: true });
    expect(await gate.check({ ...action, action: 'fs.write' }, { correlationId: 'c7' })).toMatchObject({
      by: 'timeout',
    });
    expect(await gate.check({ ...action, action: 'terminal.run' })).toMatchObject({ by: 'no-rule' });
    expect(events.filter(({ type }) => type === 'action')).toMatchObject([
      { topic: 'action.allowed', sender: 'mars', provider: 'mars', success: true },
      { topic: 'action.denied', code: 'PROVIDER_POLICY_DENIED', correlationId: 'c7', details: { by: 'timeout' } },
      { topic: 'action.denied', code: 'PROVIDER_POLICY_DENIED', details: { action: 'terminal.run', by: 'no-rule' } },
    ]);
    expect(await client.call('audit.verify')).toMatchObject({ fault: null });
    expect(await audited()).toContain('action.denied');
  });
});

describe('the commands', () => {
  /** Runs a command with that on its standard input; the code it ends with, and everything it said. */
  async function cli(input: string, ...words: string[]): Promise<{ code: number; out: string }> {
    const child = spawn(process.execPath, [BIN, ...words, '--data', join(folder, 'data')]);
    child.stdin.end(input);
    const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
    said.push(out, err);
    return { code: code as number, out: out + err };
  }

  it('set, rotate, list and revoke, and never show a value', async () => {
    await up({});
    expect((await cli('value-from-stdin\n', 'credentials', 'set', 'web', 'token')).out).toBe(
      'The credential "token" of web (workspace default) is set.\n',
    );
    const secret = await host!.credentials.resolve('web', 'default', 'token');
    expect(secret.reveal()).toBe('value-from-stdin');
    const rotated = await cli(
      'rotated-from-stdin',
      'credentials',
      'rotate',
      'web',
      'token',
      '--grace',
      '1ms',
      '--json',
    );
    expect(JSON.parse(rotated.out)).toMatchObject({ provider: 'web', state: 'set', revision: 2 });
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(() => secret.reveal()).toThrow(expect.objectContaining({ code: 'CREDENTIAL_DENIED' }));
    expect((await cli('in-a-workspace', 'credentials', 'set', 'web', '--workspace', 'w2')).code).toBe(0);
    const listed = (await cli('', 'credentials', 'list', 'web')).out;
    expect(listed).toMatch(/web +token +default +set +2 +20/);
    expect(listed).toMatch(/web +default +w2 +set +1 +20/);
    expect((await cli('', 'credentials', 'revoke', 'web', 'token')).out).toContain('is revoked');
    expect((await cli('x', 'credentials', 'rotate', 'web', 'token')).out).toContain('CREDENTIAL_DENIED');
    expect((await cli('', 'credentials', 'revoke', 'web', 'nothing')).out).toContain('CREDENTIAL_MISSING');
    expect(await cli('', 'credentials', 'set', 'web', 'token')).toMatchObject({ code: 2 });
    expect(await cli('x', 'credentials', 'set', 'web', 'token', 'value-on-the-command-line')).toMatchObject({
      code: 2,
    });
    nowhere('value-from-stdin', 'rotated-from-stdin', 'in-a-workspace');
  }, 120_000);

  it.skipIf(!existsSync('/usr/bin/script'))(
    'take a value that is typed at a terminal, unseen',
    async () => {
      await up({});
      const words = `credentials set web token --data ${join(folder, 'data')}`;
      const line = `${process.execPath} ${BIN} ${words}`;
      const child = spawn('/usr/bin/script', ['-qec', line, '/dev/null'], {
        env: { ...process.env, SHELL: '/bin/sh' },
      });
      child.stdout.on('data', (bytes) => said.push(String(bytes)));
      await until(() => said.join('').includes('the value of "token" for web: '));
      child.stdin.write('typed-valux\u007fe\r');
      expect((await once(child, 'exit'))[0]).toBe(0);
      expect((await host!.credentials.resolve('web', 'default', 'token')).reveal()).toBe('typed-value');
      nowhere('typed-value', 'typed-valux');
    },
    120_000,
  );

  it('leave no value in the report of a crashed node', async () => {
    server.take('value-in-a-crash');
    const file = join(folder, 'ecliptic.json');
    const credentials = { keychain: false };
    writeFileSync(
      file,
      JSON.stringify({ roster: false, http: { port: 0 }, log: 'debug', credentials, mcpServers: web() }),
    );
    const reports = `--report-on-signal --report-uncaught-exception --report-directory=${folder}`;
    const env = { ...process.env, NODE_OPTIONS: reports };
    const data = join(folder, 'data');
    const node = spawn(process.execPath, [BIN, 'up', '--config', file, '--data', data], { env });
    for (const stream of [node.stdout, node.stderr]) stream.on('data', (bytes) => said.push(String(bytes)));
    try {
      await until(() => said.join('').includes('/mcp'));
      expect((await cli('value-in-a-crash', 'credentials', 'set', 'web', 'token')).code).toBe(0);
      client = await ControlClient.connect(controlPath(data, process.env));
      await inState('running');
      const called = await cli('', 'call', 'web.echo');
      expect(called.code).toBe(0);
      node.kill('SIGUSR2');
      await until(() => readdirSync(folder).some((name) => name.startsWith('report.')));
      nowhere('value-in-a-crash');
    } finally {
      node.kill('SIGKILL');
      await once(node, 'exit');
    }
    nowhere('value-in-a-crash');
  }, 120_000);
});

describe('several processes at one folder', () => {
  const shared = { provider: 'shared', workspace: 'default', name: 'token' };
  const open = () => new Credentials({ runtime: systemRuntime(), report: () => {} }, { folder });

  function writer(name: string, count: number) {
    const child = spawn(process.execPath, ['--import', 'tsx', WRITER, folder, name, String(count)]);
    child.stderr.on('data', (bytes) => said.push(String(bytes)));
    return child;
  }

  it('lose no write', async () => {
    const count = SOAK ? 300 : 40;
    await open().set(shared, 'first');
    const writers = ['one', 'two'].map((name) => writer(name, count));
    await Promise.all(writers.map((child) => once(child.stdout, 'data')));
    for (const child of writers) child.stdin.write('go\n');
    const reader = open();
    let reading = true;
    const read = (async () => {
      let reads = 0;
      for (; reading; reads++) {
        // Whatever is read is whole.
        expect((await reader.resolve('shared', 'default', 'token')).reveal()).toMatch(
          /^(first|(one|two)-\d+-x{2000})$/,
        );
        await new Promise((resolve) => setImmediate(resolve));
      }
      return reads;
    })();
    expect(await Promise.all(writers.map(async (child) => (await once(child, 'exit'))[0]))).toEqual([0, 0]);
    reading = false;
    expect(await read).toBeGreaterThan(0);
    expect(said).toEqual([]);
    const rows = await open().list();
    expect(rows.every(({ state }) => state === 'set')).toBe(true);
    expect(rows).toHaveLength(21);
    // Each rotation was made on top of the one before it.
    expect(rows.find(({ provider }) => provider === 'shared')!.revision).toBe(1 + 2 * count);
    for (const [path] of contents(join(folder, 'credentials'))) expect(statSync(path).mode & 0o777).toBe(0o600);
  }, 120_000);

  it('leave the old value or the new one when they are killed while writing', async () => {
    await open().set(shared, 'first');
    for (let run = 0; run < (SOAK ? 30 : 3); run++) {
      const child = writer(`run${run}`, 100_000);
      await once(child.stdout, 'data');
      child.stdin.write('go\n');
      const { revision } = (await open().list('shared'))[0]!;
      while ((await open().list('shared'))[0]!.revision! < revision! + 5) await new Promise(setImmediate);
      child.kill('SIGKILL');
      await once(child, 'exit');
      expect((await open().resolve('shared', 'default', 'token')).reveal()).toMatch(/^run\d+-\d+-x{2000}$/);
      await open().rotate(shared, 'first');
    }
  }, 120_000);
});

function secretValue(n: number): string {
  return `sk-${n}-${Buffer.from(`rotation ${n} of it`).toString('hex')}`;
}
