import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { FakeClaude, FakeCodex, FakeOpencode } from '../../../test/coding-agents/fake-clients.js';
import { temporaryFolder } from '../../../test/coding-agents-fixture.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { Children } from '../../system/process/children.js';
import { clientAdapters, type WakeAdapter } from './adapters.js';
import type { ClientSession } from './client-session.js';

const runtime = systemRuntime();
const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function adapterOf(session: Partial<ClientSession>): Promise<WakeAdapter> {
  const adapter = await wayTo(session);
  if (typeof adapter === 'string') throw new Error(adapter);
  return adapter;
}

async function wayTo(session: Partial<ClientSession>): Promise<WakeAdapter | string> {
  const children = await Children.open(runtime);
  ends.push(() => children.close());
  return clientAdapters(runtime, children)({ client: 'x', checkout: '/work', env: {}, ...session });
}

/** Resolves with the next prompt that the client acts on. */
function nextPrompt(client: { onPrompt: (text: string) => void }): Promise<string> {
  return new Promise((resolve) => {
    client.onPrompt = resolve;
  });
}

describe('Claude Code', () => {
  async function claude() {
    const fake = await FakeClaude.start(temporaryFolder());
    ends.push(() => fake.stop());
    return { fake, session: { client: 'claude-code', version: '2.1.270', env: fake.env } };
  }

  it('is given a turn through the inbox of its session [ON6]', async () => {
    const { fake, session } = await claude();
    const adapter = await adapterOf(session);
    expect(await adapter.probe()).toMatchObject({ open: true });
    expect(fake.lines).toEqual([]);
    const started = runtime.stopwatch();
    const prompt = nextPrompt(fake);
    expect(await adapter.surface('call mesh_inbox')).toEqual({ outcome: 'submitted' });
    expect(await prompt).toBe('call mesh_inbox');
    expect(runtime.stopwatch() - started).toBeLessThan(2_000);
    // It speaks as nobody but the session's own child.
    expect(fake.lines).toEqual([
      { type: 'auth', token: fake.token },
      { type: 'user', message: { role: 'user', content: 'call mesh_inbox' } },
    ]);
  });

  it('is closed when the session is gone, too old or unknown [ON6]', async () => {
    const { fake, session } = await claude();
    for (const version of ['2.1.223', '1.0.128', 'nightly', undefined]) {
      expect(await (await adapterOf({ ...session, version })).probe()).toMatchObject({ open: false });
    }
    expect(await wayTo({ ...session, env: {} })).toContain('SessionStart');
    const port = { ...fake.env, CLAUDE_CODE_MESSAGING_SOCKET: '22' };
    expect(await wayTo({ ...session, env: port })).toContain('SessionStart');
    const adapter = await adapterOf(session);
    await fake.stop();
    expect(await adapter.probe()).toMatchObject({ open: false });
    expect(await adapter.surface('x')).toMatchObject({ outcome: 'refused' });
  });
});

// Locks are held with a program of Linux.
describe.skipIf(process.platform !== 'linux')('Codex', () => {
  function codex() {
    const fake = new FakeCodex(temporaryFolder());
    ends.push(() => fake.quit());
    return { fake, session: { client: 'codex-mcp-client', version: '0.153.4', session: fake.thread, env: fake.env } };
  }

  it('is given a turn through the queue of a thread that a process runs [ON6]', async () => {
    const { fake, session } = codex();
    await fake.run();
    const adapter = await adapterOf(session);
    expect(await adapter.probe()).toMatchObject({ open: true });
    const prompt = nextPrompt(fake);
    const started = runtime.stopwatch();
    expect(await adapter.surface('call mesh_inbox')).toEqual({ outcome: 'submitted' });
    expect(await prompt).toBe('call mesh_inbox');
    expect(runtime.stopwatch() - started).toBeLessThan(2_000);
  });

  it('is not asked to queue for a thread that no process runs, though it would accept it [ON6]', async () => {
    const { fake, session } = codex();
    await fake.run();
    const adapter = await adapterOf(session);
    await fake.quit();
    expect(await adapter.probe()).toEqual({ open: false, about: 'no process runs its thread' });
    expect(await adapter.surface('x')).toMatchObject({ outcome: 'refused' });
    expect(fake.queued).toEqual([]);
  });

  it('is closed for "codex exec", old versions, unknown threads and a codex that fails [ON6]', async () => {
    const { fake, session } = codex();
    await fake.run();
    expect(await wayTo({ ...session, headless: true })).toContain('codex exec');
    expect(await wayTo({ ...session, session: undefined })).toContain('not known');
    expect(await wayTo({ ...session, session: '../../x' })).toContain('not valid');
    expect(await (await adapterOf({ ...session, version: '0.148.9' })).probe()).toMatchObject({ open: false });
    const env = { ...session.env, PATH: join(fake.bin, 'nowhere') };
    expect(await (await adapterOf({ ...session, env })).surface('x')).toMatchObject({ outcome: 'refused' });
  });
});

describe('opencode', () => {
  async function opencode() {
    const fake = await FakeOpencode.start('pass');
    ends.push(() => fake.stop());
    const env = { OPENCODE_SERVER_PASSWORD: 'pass' };
    return { fake, session: { client: 'opencode', server: fake.url, session: fake.session, env } };
  }

  it('is given a turn through its server [ON6]', async () => {
    const { fake, session } = await opencode();
    const adapter = await adapterOf(session);
    expect(await adapter.probe()).toMatchObject({ open: true });
    expect(fake.asked.filter((asked) => asked.startsWith('POST'))).toEqual([]);
    const prompt = nextPrompt(fake);
    expect(await adapter.surface('call mesh_inbox')).toEqual({ outcome: 'submitted' });
    expect(await prompt).toBe('call mesh_inbox');
  });

  it('is closed with another session, version, password or machine, or without its server [ON6]', async () => {
    const { fake, session } = await opencode();
    expect(await (await adapterOf({ ...session, session: 'ses_2' })).probe()).toMatchObject({ open: false });
    expect(await (await adapterOf({ ...session, env: {} })).probe()).toMatchObject({ open: false });
    expect(await wayTo({ ...session, server: 'http://10.0.0.1:4096' })).toContain('not on this machine');
    expect(await wayTo({ ...session, server: undefined })).toContain('plugin');
    const adapter = await adapterOf(session);
    fake.prompts = false;
    expect(await adapter.surface('x')).toEqual({ outcome: 'refused', reason: 'its server answered 404' });
    fake.version = '2.0.30';
    expect(await adapter.probe()).toMatchObject({ open: false });
    await fake.stop();
    expect(await adapter.probe()).toMatchObject({ open: false });
    expect(await adapter.surface('x')).toMatchObject({ outcome: 'refused' });
  });
});

describe('other clients', () => {
  it('cannot be woken', async () => {
    for (const client of ['gemini-cli-mcp-client', 'cursor-vscode', 'scripted']) {
      expect(typeof (await wayTo({ client }))).toBe('string');
    }
  });
});
