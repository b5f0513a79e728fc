import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { adapterContract } from '../../../test/providers/adapter-contract.js';
import { lives, until } from '../../../test/providers/processes.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { ActionGate, type ActionRule } from '../../system/approvals/action-gate.js';
import { Approvals } from '../../system/approvals/approvals.js';
import { Children } from '../../system/process/children.js';
import { MemoryWatch } from '../../system/process/memory-watch.js';
import type { ProviderAdapter, ProviderUpdate } from '../adapter/adapter.js';
import { DEFAULT_RULES } from '../adapter/default-rules.js';
import { NormalizedProviderError } from '../adapter/errors.js';
import { Lanes } from '../host/lanes.js';
import { ACPClientAdapter, type ACPConfig } from './acp-client.js';

const AGENT = fileURLToPath(new URL('../../../test/providers/acp-agent.mjs', import.meta.url));
const runtime = systemRuntime();
let folder: string;
let home: string;
let children: Children;
let approvals: Approvals;
let lanes: Lanes;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-acp-'));
  children = await Children.open(runtime, { folder: join(folder, 'children') });
  approvals = new Approvals(runtime);
  lanes = new Lanes(join(folder, 'lanes'));
  home = lanes.open('mars').folder;
});

afterEach(async () => {
  await lanes.closeAll();
  await children.close();
  approvals.close();
  rmSync(folder, { recursive: true, force: true });
});

function make(rules: readonly ActionRule[] = [], timeoutMs = 60_000): ACPClientAdapter {
  const gate = new ActionGate({ approvals, report: () => {} }, { rules: [...rules, ...DEFAULT_RULES], timeoutMs });
  const memory = new MemoryWatch(runtime);
  const lane = lanes.open('mars');
  const credentials = { resolve: () => expect.unreachable('there are none') };
  const parts = { runtime, children, memory, lane, gate, credentials, mcpServers: () => [] };
  return new ACPClientAdapter('mars', parts, 'default');
}

const config = (mode = 'good', more: Partial<ACPConfig> = {}): ACPConfig => ({
  command: process.execPath,
  args: [AGENT, mode],
  restart: { firstDelayMs: 20 },
  ...more,
});

async function started(mode = 'good', more: Partial<ACPConfig> = {}, rules: readonly ActionRule[] = []) {
  const adapter = make(rules);
  await adapter.init(config(mode, more));
  return adapter;
}

const say = async (adapter: ACPClientAdapter, prompt: string, conversation?: string) =>
  (await adapter.execute({ prompt, conversation }, 'c')).text;

const outcome = (work: Promise<unknown>) =>
  work.then(
    () => expect.unreachable('it should have failed'),
    (error: NormalizedProviderError) => {
      expect(error).toBeInstanceOf(NormalizedProviderError);
      expect(error.providerSource).toBe('acp');
      return error;
    },
  );

describe('an agent over the Agent Client Protocol', () => {
  it('initialises, is healthy, and streams the answer to a prompt [FR-025-003 T-G3]', async () => {
    const adapter = await started();
    expect(adapter.description).toMatchObject({ name: 'test-agent', version: '1.2.3', protocol: 1, mcpOverHttp: true });
    expect(await adapter.health()).toMatchObject({ state: 'healthy' });
    const updates: ProviderUpdate[] = [];
    const prompt = 'do:think hm\ndo:plan look,write\ndo:tool open a.txt\ndo:say all is well';
    const answer = await adapter.execute({ prompt }, 'c1', { onUpdate: (update) => updates.push(update) });
    expect(answer).toEqual({ text: 'all is well ', stopReason: 'end_turn' });
    expect(updates[0]).toEqual({ kind: 'session', text: '', data: { id: 's1', state: 'new' } });
    expect(updates.slice(1).map(({ kind, text }) => [kind, text])).toEqual([
      ['progress', 'hm'],
      ['plan', '[ ] look\n[ ] write'],
      ['tool-call', 'open a.txt: pending'],
      ['tool-call', 'open a.txt: completed'],
      ...['all ', 'is ', 'well '].map((text) => ['text', text]),
    ]);
    await adapter.terminate();
    expect(children.size).toBe(0);
  });

  it('keeps conversations apart, and the prompts of each in order', async () => {
    const adapter = await started();
    await Promise.all(['one', 'two', 'three'].map((word) => say(adapter, `do:remember ${word}`, 'a')));
    await say(adapter, 'do:remember other', 'b');
    expect(await say(adapter, 'do:recall', 'a')).toBe('one|two|three');
    expect(await say(adapter, 'do:recall', 'b')).toBe('other');
  });

  it('closes the session that was idle longest when there are too many', async () => {
    const adapter = await started();
    for (let n = 0; n <= 8; n++) await say(adapter, `do:remember ${n}`, `c${n}`);
    expect(await say(adapter, 'do:recall', 'c8')).toBe('8');
    expect(await say(adapter, 'do:recall', 'c0')).toBe('');
  });

  it('makes a conversation wait while every session is busy [T-E1]', async () => {
    const adapter = await started('good', { limits: { memoryMb: 512 } });
    const abort = new AbortController();
    const { signal } = abort;
    const busy = ['a', 'b'].map((conversation) =>
      adapter.execute({ prompt: 'do:hang', conversation }, 'c', { signal }).catch(() => {}),
    );
    await until(() => lanes.rows[0]!.providers[0]!.inFlight === 2);
    const third = say(adapter, 'do:sessions', 'c');
    abort.abort();
    await Promise.all(busy);
    expect(await third).toBe('2 of 3');
  });

  it('completes many tasks, each in its own conversation, although sessions use memory [T-E1]', async () => {
    const args = ['--expose-gc', AGENT, 'heavy'];
    const adapter = await started('heavy', { args, limits: { memoryMb: 512 } });
    const pid = await say(adapter, 'do:pid', 'first');
    for (let n = 0; n < 6; n++) {
      expect(await adapter.health()).toMatchObject({ state: 'healthy' });
      expect(await say(adapter, 'do:pid', `task ${n}`)).toBe(pid);
    }
    expect(await say(adapter, 'do:sessions', 'last')).toMatch(/^[12] of/);
    expect(lanes.rows[0]!.providers[0]).toMatchObject({ crashes: 0 });
  });

  it('opens one session for health checks, and gives it to the next conversation [T-E1]', async () => {
    const adapter = await started();
    for (let n = 0; n < 3; n++) await adapter.health();
    expect(await say(adapter, 'do:sessions', 'a')).toBe('1 of 1');
    await adapter.health();
    expect(await say(adapter, 'do:sessions', 'b')).toBe('2 of 2');
  });

  it('continues a prompt when a waiting one is cancelled [T-E3]', async () => {
    const adapter = await started('good', { limits: { cancelMs: 100 } });
    const updates: string[] = [];
    const working = adapter.execute({ prompt: 'do:say begin\ndo:rest 600\ndo:say end' }, 'c', {
      onUpdate: ({ text }) => updates.push(text),
    });
    await until(() => updates.length > 0);
    const abort = new AbortController();
    const waiting = adapter.execute({ prompt: 'do:say never' }, 'c', { signal: abort.signal });
    abort.abort();
    expect((await outcome(waiting)).code).toBe('PROVIDER_CANCELLED');
    expect(await working).toMatchObject({ text: 'begin end ' });
    expect(lanes.rows[0]!.providers[0]).toMatchObject({ crashes: 0 });
  });

  it('sends files that the agent accepts, and refuses others [T-E8]', async () => {
    const adapter = await started('good', { args: [AGENT, 'good', 'plain'] });
    const raw = (text: string) => Buffer.from(text).toString('base64');
    const files = [
      { url: 'https://example.org/docs/plan.pdf', mediaType: 'application/pdf' },
      { raw: raw('pixels'), mediaType: 'image/png', filename: 'a.png' },
      { raw: raw('# Notes'), mediaType: 'text/markdown', filename: 'notes.md' },
    ];
    const { text } = await adapter.execute({ prompt: 'do:blocks', files }, 'c');
    expect(JSON.parse(text)).toEqual([
      { type: 'resource_link', uri: files[0]!.url, name: 'plan.pdf', mimeType: 'application/pdf' },
      { type: 'image', data: raw('pixels'), mimeType: 'image/png' },
      { type: 'text', text: 'notes.md:\n\n# Notes' },
    ]);
    const binary = [{ raw: raw('zip'), mediaType: 'application/zip' }];
    const error = await outcome(adapter.execute({ prompt: 'do:blocks', files: binary }, 'c'));
    expect(error).toMatchObject({
      code: 'PROVIDER_INVALID_INPUT',
      message: expect.stringContaining('application/zip'),
    });
  });

  it('begins sessions in the configured mode, and offers no file access where that is configured [T-A12 T-E16]', async () => {
    const adapter = await started('modes', { mode: 'read-only', fs: false });
    expect(await say(adapter, 'do:mode')).toBe('read-only read-only');
    expect(JSON.parse(await say(adapter, 'do:capabilities'))).toMatchObject({
      fs: { readTextFile: false, writeTextFile: false },
    });
    await adapter.init(config('modes', { mode: 'careful' }));
    const error = await outcome(adapter.execute({ prompt: 'do:mode' }, 'c'));
    expect(error.message).toBe('mars has no mode "careful"; it has: agent, read-only');
  });

  it('limits the silence of the agent, not its work or the wait for the operator [T-G3]', async () => {
    const adapter = await started('good', { limits: { executeMs: 500 } });
    await adapter.execute({ prompt: 'do:work 1200' }, 'c');
    const asking = say(adapter, 'do:ask Edit a.txt');
    await until(() => approvals.waiting.length > 0);
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    approvals.decide('allow-once', 'operator', approvals.waiting[0]!.id);
    expect(await asking).toBe('once');
    expect((await outcome(adapter.execute({ prompt: 'do:hang' }, 'c'))).code).toBe('PROVIDER_TIMEOUT');
    expect(await outcome(adapter.execute({ prompt: 'do:limited' }, 'c'))).toMatchObject({
      code: 'PROVIDER_RATE_LIMITED',
      retryable: true,
    });
  });

  it('sends the correlation id with each prompt [T-E17]', async () => {
    const adapter = await started();
    const { text } = await adapter.execute({ prompt: 'do:meta' }, 'thread-7');
    expect(JSON.parse(text)).toEqual({ 'ecliptic/correlationId': 'thread-7' });
  });

  it('cancels a turn, and continues in the same session [FR-025-003]', async () => {
    const adapter = await started();
    await say(adapter, 'do:remember before');
    const abort = new AbortController();
    const work = adapter.execute({ prompt: 'do:say begin\ndo:hang' }, 'c', {
      signal: abort.signal,
      onUpdate: () => abort.abort(),
    });
    expect((await outcome(work)).code).toBe('PROVIDER_CANCELLED');
    expect(await say(adapter, 'do:recall')).toBe('before');
  });

  it('reports an agent that requires a login as such', async () => {
    const adapter = await started('login');
    const health = await adapter.health();
    expect(health).toMatchObject({ state: 'degraded' });
    expect(health.message).toContain('API key (key)');
    const error = await outcome(adapter.execute({ prompt: 'do:say hi' }, 'c'));
    expect(error).toMatchObject({ code: 'PROVIDER_CREDENTIAL_MISSING', retryable: false });
    expect(lanes.rows[0]!.providers[0]).toMatchObject({ state: 'running', crashes: 0 });
  });

  it.each([
    ['has no model', 'no-model', 'PROVIDER_INIT_FAILED', 'mars has no model'],
    ['has a key that its service refuses', 'bad-key', 'PROVIDER_CREDENTIAL_MISSING', 'Invalid API key'],
  ])('says of an agent that %s what its owner has to do [T-G3 T-E6]', async (_, mode, code, reason) => {
    const adapter = await started(mode);
    const error = await outcome(adapter.execute({ prompt: 'do:say hi' }, 'c'));
    expect(error.code).toBe(code);
    expect(error.message).toContain(reason);
    expect(await adapter.health()).toMatchObject({
      state: 'degraded',
      needsOwner: true,
      message: expect.stringContaining(reason),
    });
  });

  it('logs in with the configured method', async () => {
    const adapter = await started('login', { auth: 'key' });
    expect(await adapter.health()).toMatchObject({ state: 'healthy' });
    expect(await say(adapter, 'do:say hi')).toBe('hi ');
  });

  it.each([
    ['speaks another version', 'future', {}, 'PROVIDER_PROTOCOL_MISMATCH'],
    ['does not answer', 'mute', { limits: { startMs: 300 } }, 'PROVIDER_INIT_FAILED'],
    ['is not there', 'good', { command: 'no-such-agent' }, 'PROVIDER_INIT_FAILED'],
  ])('fails to start one that %s', async (_, mode, more, code) => {
    expect((await outcome(make().init(config(mode, more)))).code).toBe(code);
    expect(children.size).toBe(0);
  });

  it.each([
    ['do:fail', 'PROVIDER_EXECUTE_FAILED'],
    ['do:refuse', 'PROVIDER_EXECUTE_FAILED'],
    ['do:die', 'PROVIDER_CRASHED'],
    ['do:flood', 'PROVIDER_CRASHED'],
    ['', 'PROVIDER_INVALID_INPUT'],
  ])('reports "%s" as %s [FR-025-011]', async (prompt, code) => {
    const adapter = await started();
    expect((await outcome(adapter.execute({ prompt }, 'c'))).code).toBe(code);
    await until(() => lanes.rows[0]!.providers[0]!.state === 'running');
    expect(await say(adapter, 'do:say again')).toBe('again ');
  });

  describe('asks for permission', () => {
    it.each([
      ['allow-once', 'once'],
      // The agent’s own "always" would allow more than this edit.
      ['allow-always', 'once'],
      ['deny', 'no'],
    ] as const)('and the operator decides: %s [FR-025-012]', async (verdict, answer) => {
      const adapter = await started();
      const work = say(adapter, 'do:ask Edit a.txt');
      await until(() => approvals.waiting.length > 0);
      const [question] = approvals.waiting;
      expect(question).toMatchObject({
        summary: 'mars asks: Edit a.txt',
        details: { agent: 'mars', action: 'permission.edit', subject: 'Edit a.txt', input: { path: 'a.txt' } },
      });
      approvals.decide(verdict, 'operator', question!.id);
      expect(await work).toBe(answer);
    });

    it('and is refused without a decision in time, which its caller is told [FR-025-012 AP.2]', async () => {
      const adapter = make([], 50);
      await adapter.init(config());
      const waits: unknown[] = [];
      const onUpdate = ({ kind, text, data }: ProviderUpdate) => void (kind === 'waiting' && waits.push([data, text]));
      expect((await adapter.execute({ prompt: 'do:ask Edit a.txt' }, 'c', { onUpdate })).text).toBe('no');
      expect(waits).toEqual([
        [1, expect.stringMatching(/^waits for its owner’s approval: mars asks: Edit a\.txt \(\w+\)$/)],
        [0, 'mars asks: Edit a.txt: no decision came in time'],
      ]);
    });

    it('and is granted exactly what a rule allows [FR-025-012]', async () => {
      const allowed = await started('good', {}, [{ action: 'permission.edit', match: 'Edit *', decision: 'allow' }]);
      expect(await say(allowed, 'do:ask Edit a.txt')).toBe('once');
      await allowed.terminate();
      const denied = await started('good', {}, [{ agent: 'mars', action: 'permission.*', decision: 'deny' }]);
      expect(await say(denied, 'do:ask Edit a.txt')).toBe('no');
    });

    it('and the question is withdrawn when the agent exits', async () => {
      const adapter = await started();
      const work = outcome(adapter.execute({ prompt: 'do:ask Edit a.txt' }, 'c'));
      await until(() => approvals.waiting.length > 0);
      process.kill(lanes.rows[0]!.providers[0]!.pid!, 'SIGKILL');
      expect((await work).code).toBe('PROVIDER_CRASHED');
      await until(() => approvals.waiting.length === 0);
    });

    it('and the question is withdrawn when its turn is cancelled', async () => {
      const adapter = await started();
      const abort = new AbortController();
      const work = adapter.execute({ prompt: 'do:ask Edit a.txt' }, 'c', { signal: abort.signal });
      await until(() => approvals.waiting.length > 0);
      abort.abort();
      expect((await outcome(work)).code).toBe('PROVIDER_CANCELLED');
      await until(() => approvals.waiting.length === 0);
    });
  });

  describe('in its folder', () => {
    it('reads and writes', async () => {
      const adapter = await started();
      expect(await say(adapter, `do:write ${home}/deep/er/a.txt hello there`)).toBe('written');
      expect(readFileSync(join(home, 'deep/er/a.txt'), 'utf8')).toBe('hello there');
      expect(await say(adapter, `do:read ${home}/deep/er/a.txt`)).toBe('hello there');
      expect(await say(adapter, `do:read ${home}/none.txt`)).toBe('refused -32002');
    });

    it('reaches nothing outside, by no path and no link', async () => {
      const outside = join(folder, 'outside');
      mkdirSync(outside);
      writeFileSync(join(outside, 'secret.txt'), 'secret');
      symlinkSync(join(outside, 'secret.txt'), join(home, 'link.txt'));
      symlinkSync(outside, join(home, 'folder'));
      symlinkSync(join(outside, 'new.txt'), join(home, 'dangling.txt'));
      mkdirSync(join(home, 'inside'));
      symlinkSync(join(home, 'inside'), join(home, 'fine'));
      const adapter = await started();
      const { length } = approvals.items;
      for (const path of [
        join(outside, 'secret.txt'),
        join(home, '..', '..', 'outside', 'secret.txt'),
        join(home, 'link.txt'),
        join(home, 'folder', 'secret.txt'),
        join(home, 'folder', '..', 'outside', 'secret.txt'),
        '/proc/self/environ',
      ]) {
        expect(await say(adapter, `do:read ${path}`)).toMatch(/^refused/);
      }
      for (const path of [
        join(outside, 'secret.txt'),
        join(home, 'link.txt'),
        join(home, 'folder', 'new.txt'),
        join(home, 'dangling.txt'),
      ]) {
        expect(await say(adapter, `do:write ${path} overwritten`)).toBe('refused -32602');
      }
      expect(readFileSync(join(outside, 'secret.txt'), 'utf8')).toBe('secret');
      expect(existsSync(join(outside, 'new.txt'))).toBe(false);
      expect(approvals.items.length).toBe(length);
      expect(await say(adapter, `do:write ${join(home, 'fine', 'b.txt')} b`)).toBe('written');
    });

    it('runs allowed commands, and no others', async () => {
      const adapter = await started('good', {}, [
        { action: 'terminal.run', match: 'sh -c echo hi; *', decision: 'allow' },
      ]);
      expect(await say(adapter, 'do:run echo hi; pwd; echo oops >&2; exit 3')).toBe(`3:hi\n${home}\noops\n`);
      const work = say(adapter, 'do:run rm -rf /');
      await until(() => approvals.waiting.length > 0);
      expect(approvals.waiting[0]!.details).toMatchObject({ action: 'terminal.run', subject: 'rm -rf /' });
      approvals.decide('deny', 'operator', approvals.waiting[0]!.id);
      expect(await work).toBe('refused -32602');
    });

    it('leaves no command running [NFR-025-004]', async () => {
      const adapter = await started('good', {}, [{ action: 'terminal.run', decision: 'allow' }]);
      const pid = Number(await say(adapter, 'do:background echo $$; exec sleep 1000'));
      expect(lives(pid)).toBe(true);
      expect((await outcome(adapter.execute({ prompt: 'do:die' }, 'c'))).code).toBe('PROVIDER_CRASHED');
      await until(() => !lives(pid));
    });
  });
});

adapterContract('an agent over the Agent Client Protocol', async () => {
  const adapter = make();
  let crashed = false;
  adapter.onCrash(() => {
    crashed = true;
  });
  return {
    adapter: adapter as ProviderAdapter<never, never, unknown>,
    config: config('good', { restart: { firstDelayMs: 60_000 } }),
    badConfig: config('future'),
    input: { prompt: 'do:say well' },
    check: (output) => expect(output).toEqual({ text: 'well ', stopReason: 'end_turn' }),
    endless: { prompt: 'do:hang', conversation: 'other' },
    begun: () => until(() => lanes.rows[0]!.providers[0]!.inFlight > 0),
    failing: { prompt: 'do:fail' },
    invalid: { prompt: '' },
    break: async () => {
      process.kill(lanes.rows[0]!.providers[0]!.pid!, 'SIGKILL');
      await until(() => crashed);
    },
    close: async () => {},
  };
});
