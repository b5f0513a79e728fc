import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { adapterContract } from '../../../test/providers/adapter-contract.js';
import { lives, until } from '../../../test/providers/processes.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { Children } from '../../system/process/children.js';
import { MemoryWatch } from '../../system/process/memory-watch.js';
import { Secret } from '../../system/secrets/secret.js';
import type { ProviderAdapter, ProviderCrash } from '../adapter/adapter.js';
import { NormalizedProviderError } from '../adapter/errors.js';
import { Lanes } from '../host/lanes.js';
import type { ProcessConfig } from '../host/process-adapter.js';
import { CommandAdapter } from './command-adapter.js';

const PROGRAM = fileURLToPath(new URL('../../../test/providers/program.mjs', import.meta.url));
const runtime = systemRuntime();
const credentials = {
  resolve: async (_provider: string, _workspace: string, name: string) => new Secret(`the ${name}`),
};
let folder: string;
let children: Children;
let memory: MemoryWatch;
let lanes: Lanes;
let crashes: ProviderCrash[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-command-'));
  children = await Children.open(runtime, { folder: join(folder, 'children') });
  memory = new MemoryWatch(runtime, 50);
  lanes = new Lanes(join(folder, 'lanes'));
  crashes = [];
});

afterEach(async () => {
  await lanes.closeAll();
  await children.close();
  rmSync(folder, { recursive: true, force: true });
});

const config = (mode = 'good', more: Partial<ProcessConfig> = {}): ProcessConfig => ({
  command: process.execPath,
  args: [PROGRAM, mode],
  restart: { firstDelayMs: 20 },
  ...more,
});

function make(lane = 'one'): CommandAdapter {
  const adapter = new CommandAdapter(
    'worker',
    { runtime, children, memory, credentials, lane: lanes.open(lane) },
    'default',
  );
  adapter.onCrash((crash) => crashes.push(crash));
  return adapter;
}

async function started(mode = 'good', more: Partial<ProcessConfig> = {}): Promise<CommandAdapter> {
  const adapter = make();
  await adapter.init(config(mode, more));
  return adapter;
}

const outcome = (work: Promise<unknown>) =>
  work.then(
    () => expect.unreachable('it should have failed'),
    (error: NormalizedProviderError) => {
      expect(error).toBeInstanceOf(NormalizedProviderError);
      expect(error.providerSource).toBe('command');
      return error;
    },
  );

describe('a command provider', () => {
  it('starts its program, is healthy, does work and ends [FR-025-001]', async () => {
    const adapter = await started('banner');
    expect(await adapter.health()).toMatchObject({ state: 'healthy', failureCount: 0 });
    expect(await adapter.execute({ do: 'sum', upTo: 100 }, 'c1')).toBe(5_050);
    const updates: string[] = [];
    const onUpdate = ({ text }: { text: string }) => void updates.push(text);
    expect(await adapter.execute({ do: 'count', upTo: 3 }, 'c2', { onUpdate })).toBe('done');
    expect(updates).toEqual(['1', '2', '3']);
    await adapter.terminate();
    expect(children.size).toBe(0);
    expect((await outcome(adapter.execute({}, 'c3'))).code).toBe('PROVIDER_UNAVAILABLE');
  });

  it('passes the folder of its lane, and nothing of this node’s environment', async () => {
    process.env.ECLIPTIC_TEST_SECRET = 'hidden';
    const adapter = await started('good', { env: { GIVEN: 'yes', KEY: { credential: 'password' } } });
    expect(await adapter.execute({ do: 'env', name: 'ECLIPTIC_LANE_FOLDER' }, 'c')).toBe(join(folder, 'lanes', 'one'));
    expect(await adapter.execute({ do: 'env', name: 'GIVEN' }, 'c')).toBe('yes');
    expect(await adapter.execute({ do: 'env', name: 'KEY' }, 'c')).toBe('the password');
    expect(await adapter.execute({ do: 'env', name: 'ECLIPTIC_TEST_SECRET' }, 'c')).toBeNull();
  });

  it('reports the health that its program reports', async () => {
    const adapter = await started('ill');
    expect(await adapter.health()).toMatchObject({ state: 'degraded', message: 'it has a cold' });
  });

  it.each([
    ['failed', 'PROVIDER_EXECUTE_FAILED', true],
    ['invalid-input', 'PROVIDER_INVALID_INPUT', false],
    ['not-found', 'PROVIDER_TOOL_NOT_FOUND', false],
    ['rate-limited', 'PROVIDER_RATE_LIMITED', true],
    ['unavailable', 'PROVIDER_UNAVAILABLE', true],
    ['credential-missing', 'PROVIDER_CREDENTIAL_MISSING', false],
    ['credential-denied', 'PROVIDER_CREDENTIAL_DENIED', false],
    ['denied', 'PROVIDER_POLICY_DENIED', false],
    ['timeout', 'PROVIDER_TIMEOUT', true],
    ['something else', 'PROVIDER_EXECUTE_FAILED', true],
  ])('reports a program’s "%s" as %s [FR-025-011]', async (code, normalized, retryable) => {
    const adapter = await started();
    const error = await outcome(adapter.execute({ do: 'fail', code, message: 'no' }, 'c'));
    expect(error).toMatchObject({ code: normalized, retryable, message: 'no', correlationId: 'c' });
  });

  it.each([
    ['ends', 'die', {}, 'PROVIDER_INIT_FAILED'],
    ['says nothing', 'mute', { limits: { startMs: 200 } }, 'PROVIDER_INIT_FAILED'],
    ['speaks another version', 'old', {}, 'PROVIDER_PROTOCOL_MISMATCH'],
    ['does not exist', 'good', { command: '/nowhere/to/be/found' }, 'PROVIDER_INIT_FAILED'],
  ])('fails to start when its program %s, and leaves nothing [NFR-025-001]', async (_, mode, more, code) => {
    const adapter = make();
    expect((await outcome(adapter.init(config(mode, more)))).code).toBe(code);
    expect(children.size).toBe(0);
    expect(lanes.rows[0]?.providers).toEqual([]);
    await adapter.init(config());
    expect((await adapter.health()).state).toBe('healthy');
  });

  it.each([
    ['kill', { exit: { kind: 'signal', signal: 'SIGKILL' } }],
    ['exit', { exit: { kind: 'code', code: 7 } }],
  ])('tells a crash by exit code and signal: %s [FR-025-007]', async (action, details) => {
    const adapter = await started();
    const error = await outcome(adapter.execute({ do: action, code: 7 }, 'c'));
    expect(error).toMatchObject({ code: 'PROVIDER_CRASHED', retryable: true, details });
    expect(crashes).toMatchObject([{ error: { code: 'PROVIDER_CRASHED' }, looping: false }]);
    await until(() => lanes.rows[0]!.providers[0]!.state === 'running');
    expect(await adapter.execute({ value: 'again' }, 'c')).toBe('again');
  });

  it('gives up after too many crashes, until it is restarted', async () => {
    const adapter = await started();
    for (let crash = 0; crash < 5; crash++) {
      await until(() => lanes.rows[0]!.providers[0]!.state === 'running');
      expect((await outcome(adapter.execute({ do: 'kill' }, 'c'))).code).toBe('PROVIDER_CRASHED');
    }
    expect(crashes.map(({ looping }) => looping)).toEqual([false, false, false, false, true]);
    expect((await outcome(adapter.health())).code).toBe('PROVIDER_UNAVAILABLE');
    await adapter.init(config());
    expect((await adapter.health()).state).toBe('healthy');
  });

  it('ends work at its time limit, and continues with the next', async () => {
    const adapter = await started('good', { limits: { executeMs: 500 } });
    const error = await outcome(adapter.execute({ do: 'after', ms: 60_000 }, 'c'));
    expect(error).toMatchObject({ code: 'PROVIDER_TIMEOUT', retryable: true });
    expect(await adapter.execute({ value: 1 }, 'c')).toBe(1);
    expect(crashes).toEqual([]);
  });

  it('restarts a program that does not stop cancelled work', async () => {
    const adapter = await started('good', { limits: { executeMs: 50, cancelMs: 50 } });
    const before = lanes.rows[0]!.providers[0]!.pid;
    expect((await outcome(adapter.execute({ do: 'deaf' }, 'c'))).code).toBe('PROVIDER_TIMEOUT');
    await until(() => crashes.length > 0);
    expect(crashes[0]!.error).toMatchObject({ code: 'PROVIDER_CRASHED', details: { reason: 'stuck' } });
    await until(() => lanes.rows[0]!.providers[0]!.state === 'running');
    expect(lanes.rows[0]!.providers[0]!.pid).not.toBe(before);
  });

  it('cancels work when its signal aborts [FR-025-003]', async () => {
    const adapter = await started();
    const abort = new AbortController();
    const work = adapter.execute({ do: 'after', ms: 60_000 }, 'c', { signal: abort.signal });
    abort.abort();
    expect((await outcome(work)).code).toBe('PROVIDER_CANCELLED');
    expect((await outcome(adapter.execute({}, 'c', { signal: abort.signal }))).code).toBe('PROVIDER_CANCELLED');
  });

  it('fails work in flight when it is terminated', async () => {
    const adapter = await started();
    const work = outcome(adapter.execute({ do: 'hang' }, 'c'));
    await adapter.terminate();
    expect((await work).code).toBe('PROVIDER_TERMINATED');
    await adapter.terminate();
  });

  it('kills a program that hangs', async () => {
    const adapter = await started('good', { limits: { heartbeatMs: 50, silenceMs: 150 } });
    const error = await outcome(adapter.execute({ do: 'stop' }, 'c'));
    expect(error).toMatchObject({ code: 'PROVIDER_TIMEOUT', details: { reason: 'silence' } });
  });

  it('spares a program that cannot answer while it works', async () => {
    const adapter = await started('busy', { limits: { heartbeatMs: 20, silenceMs: 50 } });
    expect(await adapter.execute({ do: 'after', ms: 300, value: 'late' }, 'c')).toBe('late');
    expect(crashes).toEqual([]);
  });

  it('kills a program that exceeds its memory limit [FR-025-007]', async () => {
    const adapter = await started('good', { limits: { memoryMb: 200 } });
    const error = await outcome(adapter.execute({ do: 'grow' }, 'c'));
    expect(error).toMatchObject({ code: 'PROVIDER_CRASHED', details: { reason: 'memory', memoryMb: 200 } });
  });

  it.each(['flood', 'long', 'deafen'])('ends a program that breaks the protocol: %s', async (action) => {
    const adapter = await started('good', { limits: { heartbeatMs: 100 } });
    const error = await outcome(adapter.execute({ do: action }, 'c'));
    expect(error).toMatchObject({ code: 'PROVIDER_CRASHED', details: { reason: 'protocol' } });
  });

  it('ends everything that its program started [NFR-025-004]', async () => {
    const adapter = await started();
    let family: number[] = [];
    const onUpdate = ({ data }: { data?: unknown }) => {
      family = data as number[];
    };
    const error = await outcome(adapter.execute({ do: 'family', count: 4, die: true }, 'c', { onUpdate }));
    expect(error.code).toBe('PROVIDER_CRASHED');
    expect(family).toHaveLength(4);
    await adapter.terminate();
    expect(family.filter(lives)).toEqual([]);
  });

  it('ends with its lane, and other providers do not [FR-025-008]', async () => {
    const adapter = await started();
    const other = make('two');
    await other.init(config());
    const work = outcome(adapter.execute({ do: 'hang' }, 'c'));
    const others = other.execute({ do: 'after', ms: 100, value: 'fine' }, 'c');
    await lanes.close('one');
    expect((await work).code).toBe('PROVIDER_TERMINATED');
    expect(await others).toBe('fine');
    expect(lanes.rows.map(({ lane, closed }) => [lane, closed])).toEqual([
      ['one', true],
      ['two', false],
    ]);
    expect(children.size).toBe(1);
  });
});

adapterContract('a program that speaks JSON lines', async () => {
  const adapter = make();
  return {
    adapter: adapter as ProviderAdapter<never, never, unknown>,
    config: config('good', { restart: { firstDelayMs: 60_000 } }),
    badConfig: config('die'),
    input: { do: 'sum', upTo: 4 },
    check: (output) => expect(output).toBe(10),
    endless: { do: 'after', ms: 600_000 },
    begun: () => until(() => lanes.rows[0]!.providers[0]!.inFlight > 0),
    failing: { do: 'fail', code: 'failed', message: 'no' },
    break: async () => {
      process.kill(lanes.rows[0]!.providers[0]!.pid!, 'SIGKILL');
      await until(() => crashes.length > 0);
    },
    close: async () => {},
  };
});
