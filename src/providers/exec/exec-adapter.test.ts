import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { adapterContract } from '../../../test/providers/adapter-contract.js';
import { lives, openFiles, processesWith, until } from '../../../test/providers/processes.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { Children } from '../../system/process/children.js';
import { MemoryWatch } from '../../system/process/memory-watch.js';
import { Secret } from '../../system/secrets/secret.js';
import type { ProviderAdapter, ProviderUpdate } from '../adapter/adapter.js';
import { NormalizedProviderError } from '../adapter/errors.js';
import type { WorkerTask } from '../adapter/worker-task.js';
import { Lanes } from '../host/lanes.js';
import { ExecAdapter, type ExecConfig } from './exec-adapter.js';

const runtime = systemRuntime();
let stored: Record<string, string>;
const credentials = {
  resolve: async (_provider: string, _workspace: string, name: string) => {
    const value = stored[name];
    if (value === undefined) throw Object.assign(new Error(`there is no ${name}`), { status: 401 });
    return new Secret(value);
  },
};
let folder: string;
let children: Children;
let memory: MemoryWatch;
let lanes: Lanes;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-exec-'));
  children = await Children.open(runtime, { folder: join(folder, 'children') });
  memory = new MemoryWatch(runtime, 50);
  lanes = new Lanes(join(folder, 'lanes'));
  stored = { key: 'swordfish-1' };
});

afterEach(async () => {
  await lanes.closeAll();
  await children.close();
  rmSync(folder, { recursive: true, force: true });
});

function make(lane = 'one'): ExecAdapter {
  return new ExecAdapter('worker', { runtime, children, memory, credentials, lane: lanes.open(lane) });
}

async function started(config: ExecConfig): Promise<ExecAdapter> {
  const adapter = make();
  await adapter.init(config);
  return adapter;
}

/** A command line. */
const sh = (command: string, more: Partial<ExecConfig> = {}) => started({ command, shell: true, ...more });
/** A script for Node. */
const script = (code: string, more: Partial<ExecConfig> = {}) =>
  started({ command: process.execPath, args: ['-e', code], ...more });

function task(text = 'do it', more: Partial<WorkerTask> = {}): WorkerTask {
  return { text, context: {}, payload: text, conversation: 'talk-1', from: 'sun', ...more };
}

const outcome = (work: Promise<unknown>) =>
  work.then(
    (value) => expect.unreachable(`it should have failed, and gave ${JSON.stringify(value)}`),
    (error: NormalizedProviderError) => {
      expect(error).toBeInstanceOf(NormalizedProviderError);
      expect(error.providerSource).toBe('exec');
      return error;
    },
  );

const inFlight = () => lanes.rows[0]!.providers[0]!.inFlight;
/** Resolves when a program has written that file. */
const written = (name: string) => until(() => contentOf(name) !== '');

function contentOf(name: string): string {
  try {
    return readFileSync(join(folder, 'lanes', 'one', name), 'utf8');
  } catch {
    return '';
  }
}

describe('the task of an exec provider', () => {
  it('is on standard input as text, with its context as JSON behind a blank line [WK.E1]', async () => {
    const adapter = await sh('cat; printf .');
    expect(await adapter.execute(task('say hello'), 'c')).toBe('say hello\n.');
    expect(await adapter.execute(task('two lines\nin one\n'), 'c')).toBe('two lines\nin one\n.');
    const context = { input: { file: 'a.txt' }, attempt: 2 };
    expect(await adapter.execute(task('read it', { context }), 'c')).toBe(
      `read it\n\n${JSON.stringify(context, null, 2)}\n.`,
    );
  });

  it('is one JSON document on standard input where that is wanted [WK.E1]', async () => {
    const adapter = await started({ command: 'cat', stdin: 'json' });
    const plain = { text: 'x', context: { input: [1] }, from: 'sun', conversation: 'talk-1' };
    expect(await adapter.execute(task('x', { context: { input: [1] } }), 'c')).toEqual(plain);
    const outputSchema = { type: 'object' };
    expect(await adapter.execute(task('x', { context: { input: [1] }, outputSchema }), 'c')).toEqual({
      ...plain,
      outputSchema,
    });
  });

  it('is in environment variables, and never in the command line [WK.E1]', async () => {
    const adapter = await script('console.log(JSON.stringify([process.argv, process.env]))');
    const context = { input: { n: 1 }, results: { first: 'ok' }, feedback: ['too short', 'again'], attempt: 3 };
    const text = '$(touch gone); `touch gone`; "quoted" \\';
    const [argv, env] = (await adapter.execute(task(text, { context }), 'c-7')) as [string[], object];
    expect(argv).toEqual([process.execPath]);
    expect(env).toMatchObject({
      ECLIPTIC_TASK_TEXT: text,
      ECLIPTIC_TASK_INPUT: '{"n":1}',
      ECLIPTIC_TASK_RESULTS: '{"first":"ok"}',
      ECLIPTIC_TASK_FEEDBACK: 'too short\nagain',
      ECLIPTIC_TASK_ATTEMPT: '3',
      ECLIPTIC_TASK_ID: 'c-7',
      ECLIPTIC_TASK_FROM: 'sun',
    });
    const [, plain] = (await adapter.execute(task('x'), 'c-8')) as [string[], Record<string, string>];
    expect(Object.keys(plain).filter((name) => name.startsWith('ECLIPTIC_TASK_'))).toEqual([
      ...['ECLIPTIC_TASK_TEXT', 'ECLIPTIC_TASK_ATTEMPT', 'ECLIPTIC_TASK_ID', 'ECLIPTIC_TASK_FROM'],
    ]);
    expect(plain.ECLIPTIC_TASK_ATTEMPT).toBe('1');
  });

  it('is left out of the environment where it does not fit, and complete on standard input [WK.E1]', async () => {
    const adapter = await sh('env | grep -c "^ECLIPTIC_TASK_\\(TEXT\\|INPUT\\)"; cat | wc -c');
    const large = 'ä'.repeat(200_000);
    const context = { input: large };
    const bytes = Buffer.byteLength(`${large}\n\n${JSON.stringify(context, null, 2)}\n`);
    expect(await adapter.execute(task(large, { context }), 'c')).toBe(`0\n${bytes}`);
    expect(await adapter.execute(task('a\0b'), 'c')).toBe('0\n4');
  });

  it('is refused without a text and a context', async () => {
    const adapter = await sh('cat');
    for (const input of [undefined, 'text', { text: 7, context: {} }, { text: 'x', context: null }]) {
      expect((await outcome(adapter.execute(input as never, 'c'))).code).toBe('PROVIDER_INVALID_INPUT');
    }
    expect(children.size).toBe(0);
  });
});

describe('the result of an exec provider', () => {
  it.each([
    ['text without its last newline', 'printf "one\\ntwo\\n\\n"', 'one\ntwo\n'],
    ['text of Windows', 'printf "one\\r\\n"', 'one'],
    ['the value of a JSON object', 'echo " {\\"a\\": [1]} "', { a: [1] }],
    ['the value of a JSON array', 'echo "[1,2]"', [1, 2]],
    ['text that only begins as JSON', 'echo "[INFO] started"', '[INFO] started'],
    ['text where JSON is only a part', 'printf "{}\\n{}\\n"', '{}\n{}'],
    ['text that is a JSON number', 'echo 42', '42'],
    ['empty without output', 'true', ''],
  ])('is %s [WK.E2]', async (_, command, result) => {
    expect(await (await sh(command)).execute(task(), 'c')).toEqual(result);
  });

  it('has at most 1 MiB; a program that prints more is stopped [WK.E2]', async () => {
    const full = await script('process.stdout.write("x".repeat(1_048_576))');
    expect(await full.execute(task(), 'c')).toHaveLength(1_048_576);
    const flood = await sh('echo $$ > pid; yes');
    const error = await outcome(flood.execute(task(), 'c'));
    expect(error).toMatchObject({
      code: 'PROVIDER_EXECUTE_FAILED',
      message: 'worker printed more than 1048576 bytes',
      details: { reason: 'output' },
    });
    expect(lives(Number(contentOf('pid')))).toBe(false);
  });

  it('is a failure with the exit code and the end of output and errors [WK.E2]', async () => {
    const adapter = await sh('seq 1 20000; echo "3 tests failed"; echo "see the log" >&2; exit 3');
    const { code, message, details, retryable } = await outcome(adapter.execute(task(), 'c-1'));
    expect({ code, details, retryable }).toMatchObject({
      code: 'PROVIDER_EXECUTE_FAILED',
      details: { exit: { kind: 'code', code: 3 }, correlationId: 'c-1' },
      retryable: true,
    });
    expect(message).toMatch(/^worker ended with code 3: 3 tests failed\n/);
    expect(message).toMatch(/19999\n20000\n3 tests failed\nsee the log$/);
    expect(message.length).toBeLessThan(8_300);
    expect((await outcome((await sh('exit 9')).execute(task(), 'c'))).message).toBe('worker ended with code 9');
  });

  it('is a crash where a signal ends the program [WK.E2]', async () => {
    const adapter = await sh('echo "out of luck" >&2; kill -KILL $$');
    expect(await outcome(adapter.execute(task(), 'c'))).toMatchObject({
      code: 'PROVIDER_CRASHED',
      message: 'worker was ended by SIGKILL; it said: out of luck',
      details: { exit: { kind: 'signal', signal: 'SIGKILL' } },
    });
    expect(lanes.rows[0]!.providers[0]!.crashes).toBe(1);
  });
});

describe('the progress of an exec provider', () => {
  async function progressOf(adapter: ExecAdapter, given = task()): Promise<string[]> {
    const updates: ProviderUpdate[] = [];
    await adapter.execute(given, 'c', { onUpdate: (update) => updates.push(update) });
    expect(updates.filter(({ kind }) => kind !== 'progress')).toEqual([]);
    return updates.map(({ text }) => text);
  }

  it('is each line of standard error, in order, before the result [WK.E3]', async () => {
    const adapter = await sh('echo one >&2; echo out; echo >&2; echo two >&2; printf three >&2');
    expect(await progressOf(adapter)).toEqual(['one', 'two', 'three']);
  });

  it('is limited in rate and length, whatever the program writes [WK.E3]', async () => {
    const long = await progressOf(await script('console.error("y".repeat(5_000_000))'));
    expect(long).toEqual(['y'.repeat(1_024)]);
    const flood = await script(`const line = 'x'.repeat(99) + '\\n';
      for (let n = 0; n < 500; n++) require('fs').writeSync(2, line.repeat(1_000));`);
    const before = process.memoryUsage().rss;
    const lines = await progressOf(flood);
    expect(process.memoryUsage().rss - before).toBeLessThan(100 * 1_048_576);
    const skipped = lines.map((line) => Number(/^… (\d+) lines left out$/.exec(line)?.[1] ?? 0));
    const reported = skipped.filter((count) => count === 0).length;
    expect(reported).toBeGreaterThanOrEqual(20);
    expect(reported + skipped.reduce((sum, count) => sum + count, 0)).toBe(500_000);
    expect(lines.length).toBeLessThan(500);
  });

  it('has no secrets, and neither has a failure [WK.E3]', async () => {
    const env = { KEY: { credential: 'key' } };
    // A cut through a secret leaves nothing of it.
    const said = 'head -c 1020 /dev/zero | tr "\\0" x >&2; echo "$KEY" >&2; echo "key $KEY" >&2; echo "given-1" >&2';
    const adapter = await sh(said, { env, secrets: ['given-1'] });
    expect(await progressOf(adapter)).toEqual([`${'x'.repeat(1_020)}[sec`, 'key [secret]', '[secret]']);
    const failing = await sh('echo "out $KEY"; head -c 4090 /dev/zero | tr "\\0" x; echo "err $KEY" >&2; exit 1', {
      env,
    });
    const { message, details } = await outcome(failing.execute(task(), 'c'));
    expect(message).toContain('err [secret]');
    expect(`${message} ${JSON.stringify(details)}`).not.toMatch(/fish|swordf/);
  });

  it('does not suffer from a listener that throws', async () => {
    const adapter = await sh('echo one >&2; echo done');
    const onUpdate = () => {
      throw new Error('no');
    };
    expect(await adapter.execute(task(), 'c', { onUpdate })).toBe('done');
  });
});

describe('the program of an exec provider', () => {
  it('runs in the folder of its lane, or in its own [WK.E4]', async () => {
    expect(await (await sh('pwd')).execute(task(), 'c')).toBe(join(folder, 'lanes', 'one'));
    expect(await (await started({ command: 'pwd', cwd: folder })).execute(task(), 'c')).toBe(folder);
  });

  it('inherits few variables, and gets the latest credentials for each piece of work [WK.E4]', async () => {
    vi.stubEnv('ECLIPTIC_TEST_SECRET', 'hidden');
    const adapter = await sh('echo "$GIVEN $KEY $ECLIPTIC_TEST_SECRET."; which cat > found', {
      env: { GIVEN: 'yes', KEY: { credential: 'key' } },
    });
    expect(await adapter.execute(task(), 'c')).toBe('yes swordfish-1 .');
    stored.key = 'swordfish-2';
    expect(await adapter.execute(task(), 'c')).toBe('yes swordfish-2 .');
    expect(contentOf('found')).toMatch(/cat\n$/);
    delete stored.key;
    expect((await outcome(adapter.execute(task(), 'c'))).code).toBe('PROVIDER_CREDENTIAL_MISSING');
    expect(await adapter.health()).toMatchObject({ state: 'unavailable', needsOwner: true });
    vi.unstubAllEnvs();
  });

  it('gets its arguments as they are, without a shell [WK.E4]', async () => {
    const args = ['%s\\n', '$HOME', '*', 'a b', '; exit 1'];
    const adapter = await started({ command: 'printf', args });
    expect(await adapter.execute(task(), 'c')).toBe('$HOME\n*\na b\n; exit 1');
  });

  it('is stopped with its process group when its time is over [WK.E5]', async () => {
    const adapter = await sh('echo $$ > pid; sleep 600 & echo $! > child; wait', { timeoutMs: 300 });
    const error = await outcome(adapter.execute(task(), 'c'));
    expect(error).toMatchObject({ code: 'PROVIDER_TIMEOUT', details: { timeoutMs: 300 }, correlationId: 'c' });
    expect([contentOf('pid'), contentOf('child')].map(Number).filter(lives)).toEqual([]);
    expect(children.size).toBe(0);
  });

  it('is stopped with its process group when its caller cancels [WK.E5]', async () => {
    const adapter = await sh('echo $$ > pid; sleep 600 & echo $! > child; wait');
    const abort = new AbortController();
    const work = outcome(adapter.execute(task(), 'c', { signal: abort.signal }));
    await written('child');
    abort.abort('enough');
    expect((await work).code).toBe('PROVIDER_CANCELLED');
    expect([contentOf('pid'), contentOf('child')].map(Number).filter(lives)).toEqual([]);
  });

  it('does not get its task where the work is given up while it starts [WK.E5]', async () => {
    const adapter = await sh('cat > task; sleep 600');
    for (let turns = 0; turns < 10; turns++) {
      const abort = new AbortController();
      const work = outcome(adapter.execute(task(), 'c', { signal: abort.signal }));
      for (let turn = 0; turn < turns; turn++) await Promise.resolve();
      abort.abort();
      expect((await work).code).toBe('PROVIDER_CANCELLED');
      expect(inFlight()).toBe(0);
    }
    await adapter.terminate();
    expect(children.size).toBe(0);
  });

  it('is given up also while its credentials are looked up [WK.E5]', async () => {
    const config = { command: 'cat', env: { KEY: { credential: 'key' } }, timeoutMs: 50 };
    const lookups: ((secret: Secret) => void)[] = [];
    let late = false;
    const resolve = () => {
      return late ? new Promise<Secret>((found) => lookups.push(found)) : Promise.resolve(new Secret('swordfish'));
    };
    const parts = { runtime, children, memory, credentials: { resolve }, lane: lanes.open('one') };
    const adapter = new ExecAdapter('worker', parts);
    await adapter.init(config);
    late = true;
    expect((await outcome(adapter.execute(task(), 'c'))).code).toBe('PROVIDER_TIMEOUT');
    const starting = outcome(adapter.init(config));
    await until(() => lookups.length === 2);
    await adapter.terminate();
    for (const found of lookups) found(new Secret('swordfish'));
    expect((await starting).code).toBe('PROVIDER_TERMINATED');
    expect((await outcome(adapter.execute(task(), 'c'))).code).toBe('PROVIDER_UNAVAILABLE');
    expect(lanes.rows[0]!.providers).toEqual([]);
    expect(children.size).toBe(0);
  });

  it('is killed when it ignores the request to end [WK.E5]', async () => {
    const deaf = `process.on('SIGTERM', () => {}); setInterval(() => {}, 1000);
      require('fs').writeFileSync('pid', String(process.pid));`;
    const adapter = await script(deaf, { timeoutMs: 500 });
    expect((await outcome(adapter.execute(task(), 'c'))).code).toBe('PROVIDER_TIMEOUT');
    expect(lives(Number(contentOf('pid')))).toBe(false);
  });

  it('is killed when it takes too much memory [WK.E5]', async () => {
    const adapter = await script('const all = []; setInterval(() => all.push(Buffer.alloc(20e6, 1)), 10)', {
      limits: { memoryMb: 200 },
    });
    expect(await outcome(adapter.execute(task(), 'c'))).toMatchObject({
      code: 'PROVIDER_CRASHED',
      details: { reason: 'memory', memoryMb: 200 },
    });
    expect(children.size).toBe(0);
  });

  it('ends with its provider, and leaves no process [WK.E5]', async () => {
    const adapter = await sh('echo $$ >> pids; sleep 600 & echo $! >> pids; wait');
    const work = [1, 2, 3].map((n) => outcome(adapter.execute(task(), `c-${n}`)));
    await until(() => contentOf('pids').trim().split('\n').length === 6);
    expect(adapter.describe()).toMatchObject({ inFlight: 3, state: 'running', folder: join(folder, 'lanes', 'one') });
    await Promise.all([adapter.terminate(), adapter.terminate()]);
    expect((await Promise.all(work)).map(({ code }) => code)).toEqual(Array(3).fill('PROVIDER_TERMINATED'));
    expect(contentOf('pids').trim().split('\n').map(Number).filter(lives)).toEqual([]);
    expect(children.size).toBe(0);
    expect(lanes.rows[0]!.providers).toEqual([]);
    expect(adapter.describe()).toEqual({});
  });

  it('ends with its lane, and programs of other lanes do not [WK.E5]', async () => {
    const adapter = await sh('echo $$ > pid; sleep 600');
    const other = make('two');
    await other.init({ command: 'until [ -e go ]; do sleep 0.02; done; echo fine', shell: true });
    const others = other.execute(task(), 'c');
    const work = outcome(adapter.execute(task(), 'c'));
    await written('pid');
    await lanes.close('one');
    expect((await work).code).toBe('PROVIDER_TERMINATED');
    expect(lives(Number(contentOf('pid')))).toBe(false);
    expect((await outcome(adapter.execute(task(), 'c'))).code).toBe('PROVIDER_UNAVAILABLE');
    writeFileSync(join(folder, 'lanes', 'two', 'go'), '');
    expect(await others).toBe('fine');
    expect((await outcome(adapter.init({ command: 'cat' }))).code).toBe('PROVIDER_UNAVAILABLE');
  });
});

describe('a program with bad manners', () => {
  it('may leave its input unread [WK.E6]', async () => {
    const large = task('z'.repeat(900_000));
    expect(await (await sh('echo done')).execute(large, 'c')).toBe('done');
    expect(await (await sh('exec <&-; sleep 0.1; echo done')).execute(large, 'c')).toBe('done');
  });

  it('may close its output early [WK.E6]', async () => {
    const adapter = await sh('echo early; exec >&- 2>&-; sleep 0.2; echo x > end');
    expect(await adapter.execute(task(), 'c')).toBe('early');
    expect(contentOf('end')).toBe('x\n');
  });

  it.each([
    ['in its group', ''],
    ['that ignores SIGTERM', 'trap "" TERM;'],
    ['in another session', ''],
  ])('cannot hold its output open with a process %s [WK.E6]', async (how, before) => {
    const inner = `(${before} echo $$ > /dev/null; sh -c 'echo $PPID $$ > pids; sleep 600')`;
    const start = how === 'in another session' ? `setsid sh -c "${inner.replaceAll('$', '\\$')}"` : inner;
    const adapter = await sh(`${start} & until [ -s pids ]; do sleep 0.02; done; echo done`);
    const began = performance.now();
    expect(await adapter.execute(task(), 'c')).toBe('done');
    expect(performance.now() - began).toBeLessThan(5_000);
    await adapter.terminate();
    const pids = contentOf('pids').trim().split(' ').map(Number);
    expect(pids).toHaveLength(2);
    expect(pids.filter(lives)).toEqual([]);
    expect(children.size).toBe(0);
  });

  it('leaves no process, no file and no record behind, however often it runs [WK.E6]', async () => {
    const adapter = await sh('case $ECLIPTIC_TASK_TEXT in (*3) exit 1;; (*4) kill -9 $$;; (*) cat;; esac');
    await adapter.execute(task('warm'), 'c');
    await until(() => children.size === 0);
    const before = openFiles();
    const all = Array.from({ length: 60 }, (_, n) =>
      adapter.execute(task(`n${n}`), 'c').then(
        (result) => result,
        ({ code }: NormalizedProviderError) => code,
      ),
    );
    const expected = Array.from({ length: 60 }, (_, n) =>
      n % 10 === 3 ? 'PROVIDER_EXECUTE_FAILED' : n % 10 === 4 ? 'PROVIDER_CRASHED' : `n${n}`,
    );
    expect(await Promise.all(all)).toEqual(expected);
    await adapter.terminate();
    expect(children.size).toBe(0);
    expect(processesWith(`ECLIPTIC_LANE_FOLDER=${join(folder, 'lanes', 'one')}`)).toEqual([]);
    expect(openFiles()).toBeLessThanOrEqual(before);
  });
});

describe('the health of an exec provider', () => {
  it.each<[string, (at: string) => ExecConfig, RegExp]>([
    ['program on the PATH', () => ({ command: 'no-such-program' }), /no program "no-such-program" on the PATH/],
    ['program file', (at) => ({ command: join(at, 'nothing') }), /no program .*nothing/],
    ['right to execute it', (at) => ({ command: join(at, 'plain') }), /plain may not be executed/],
    ['folder', (at) => ({ command: 'cat', cwd: join(at, 'nowhere') }), /no folder .*nowhere/],
    [
      'first program of a line',
      () => ({ command: 'no-such-program test', shell: true }),
      /no program "no-such-program"/,
    ],
    ['command', () => ({ command: '  ', shell: true }), /command is empty/],
    ['place for arguments', () => ({ command: 'cat', args: ['x'], shell: true }), /belong into the command line/],
  ])('is bad without a %s, and it does not start [WK.E7]', async (_, bad, message) => {
    writeFileSync(join(folder, 'plain'), 'x');
    const adapter = make();
    const error = await outcome(adapter.init(bad(folder)));
    expect(error).toMatchObject({ code: 'PROVIDER_INIT_FAILED', message: expect.stringMatching(message) });
    expect(lanes.rows[0]!.providers).toEqual([]);
    expect((await outcome(adapter.health())).code).toBe('PROVIDER_UNAVAILABLE');
  });

  it('changes with the program, without starting it [WK.E7]', async () => {
    const program = join(folder, 'program');
    writeFileSync(program, '#!/bin/sh\necho ran >> ran\n', { mode: 0o755 });
    const adapter = await started({ command: program });
    expect(await adapter.health()).toMatchObject({ state: 'healthy', failureCount: 0, lastCheck: expect.any(Date) });
    chmodSync(program, 0o600);
    expect(await adapter.health()).toMatchObject({
      state: 'unavailable',
      needsOwner: true,
      message: `worker cannot be run: ${program} may not be executed`,
    });
    chmodSync(program, 0o755);
    expect((await adapter.health()).state).toBe('healthy');
    expect(contentOf('ran')).toBe('');
    rmSync(join(folder, 'lanes', 'one'), { recursive: true });
    expect(await adapter.health()).toMatchObject({
      state: 'unavailable',
      message: expect.stringContaining('no folder'),
    });
    expect(children.size).toBe(0);
  });
});

adapterContract('a program that is started for each piece of work', async () => {
  const program = join(folder, 'contract');
  const code = 'read -r word; case $word in (sum) echo 10;; (endless) echo $$ > begun; sleep 600;; (*) exit 1;; esac';
  writeFileSync(program, `#!/bin/sh\n${code}\n`, { mode: 0o755 });
  return {
    adapter: make() as ProviderAdapter<never, never, unknown>,
    config: { command: program },
    badConfig: { command: join(folder, 'nothing') },
    input: task('sum'),
    check: (output) => expect(output).toBe('10'),
    endless: task('endless'),
    begun: () => written('begun'),
    failing: task('fail'),
    invalid: { prompt: 'x' },
    break: async () => rmSync(program),
    close: async () => {},
  };
});
