import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ACPClientAdapter, type ACPConfig } from '../../src/providers/acp/acp-client.js';
import type { ProviderUpdate } from '../../src/providers/adapter/adapter.js';
import { Lanes } from '../../src/providers/host/lanes.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { MemoryStore } from '../../src/store/memory-store.js';
import { Children } from '../../src/system/process/children.js';
import { MemoryWatch } from '../../src/system/process/memory-watch.js';

const AGENT = fileURLToPath(new URL('acp-agent.mjs', import.meta.url));
const runtime = systemRuntime();
let folder: string;
let children: Children;
let lanes: Lanes;
let store: MemoryStore;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-sessions-'));
  children = await Children.open(runtime, { folder: join(folder, 'children') });
  lanes = new Lanes(join(folder, 'lanes'));
  store = new MemoryStore();
});

afterEach(async () => {
  await lanes.closeAll();
  await children.close();
  rmSync(folder, { recursive: true, force: true });
});

async function started(mode: string, more: Partial<ACPConfig> = {}): Promise<ACPClientAdapter> {
  const credentials = { resolve: () => expect.unreachable('there are none') };
  const memory = new MemoryWatch(runtime);
  const parts = { runtime, children, memory, lane: lanes.open('mars'), credentials, store };
  const adapter = new ACPClientAdapter('mars', parts, 'default');
  await adapter.init({ command: process.execPath, args: [AGENT, mode], ...more });
  return adapter;
}

/** The answer, and the session that it was given in. */
async function say(adapter: ACPClientAdapter, prompt: string, conversation = 'sun 1') {
  const updates: ProviderUpdate[] = [];
  const onUpdate = (update: ProviderUpdate) => updates.push(update);
  const { text } = await adapter.execute({ prompt, conversation }, 'c', { onUpdate });
  const [session] = updates.filter(({ kind }) => kind === 'session');
  return { text, session: session!.data as { id: string; state: string; reason?: string }, said: session!.text };
}

describe('a conversation with a coding agent whose process ended', () => {
  it.each(['load', 'resume'])('goes on in its session where the agent offers to %s it [SN.2]', async (mode) => {
    const before = await started(mode);
    const first = await say(before, 'do:remember one');
    expect(first.session).toEqual({ id: first.session.id, state: 'new' });
    expect((await say(before, 'do:recall')).session).toEqual({ id: first.session.id, state: 'continued' });
    await before.terminate();
    const after = await started(mode);
    const again = await say(after, 'do:recall');
    expect(again).toMatchObject({ text: 'one', session: { id: first.session.id, state: 'loaded' } });
    expect(again.said).toContain('has loaded the session');
    // Another conversation has nothing of it.
    expect(await say(after, 'do:recall', 'sun 2')).toMatchObject({ text: '', session: { state: 'new' } });
  });

  it('goes on in a new session with a summary where the agent loads none, and says so [SN.3]', async () => {
    const before = await started('good');
    await say(before, 'do:say blue');
    await say(before, 'do:fail').catch(() => {});
    await before.terminate();
    const after = await started('good');
    const again = await say(after, 'do:summary');
    expect(again.session).toMatchObject({ state: 'summarised', reason: 'the agent loads no sessions' });
    expect(again.said).toContain('a new one begins with a summary');
    expect(again.text).toContain('They asked:\ndo:say blue\n\nYou answered:\nblue');
    expect(again.text).toContain('They asked:\ndo:fail\n\n(The work was interrupted.)');
    // Once.
    expect((await say(after, 'do:say on')).session.state).toBe('continued');
  });

  it('goes on in the session that the agent cannot close, though there is room for one session only [SN.2]', async () => {
    const adapter = await started('unclosable', { limits: { memoryMb: 256 } });
    const { id } = (await say(adapter, 'do:say blue')).session;
    expect((await say(adapter, 'do:say red', 'sun 2')).session).toMatchObject({ state: 'new' });
    expect((await say(adapter, 'do:say on')).session).toEqual({ id, state: 'continued' });
  });

  it('goes on with a summary where the agent has lost the session, or works in another folder [SN.3]', async () => {
    const before = await started('load');
    // This agent stores a session with the first `remember` only.
    await say(before, 'do:say blue');
    await say(before, 'do:remember one', 'sun 2');
    await before.terminate();
    const after = await started('load');
    const lost = await say(after, 'do:summary');
    expect(lost.session.state).toBe('summarised');
    expect(lost.session.reason).toMatch(/not found/i);
    await after.terminate();
    const moved = await started('load', { cwd: folder });
    expect((await say(moved, 'do:summary', 'sun 2')).session.reason).toBe('the agent works in another folder now');
  });
});

describe('a prompt to a coding agent', () => {
  it('reports its tokens and its part of the session’s cost, which the agent’s worker sums up [SN.4]', async () => {
    const adapter = await started('good');
    const costs: unknown[] = [];
    for (const prompt of ['do:cost 0.5', 'do:cost 0.25']) {
      const onUpdate = ({ kind, data }: ProviderUpdate) => void (kind === 'usage' && costs.push(data));
      await adapter.execute({ prompt }, 'c', { onUpdate });
    }
    const tokens = { inputTokens: 10, outputTokens: 2, modelCalls: 0 };
    expect(costs).toEqual([
      { ...tokens, costUsd: 0.5 },
      { ...tokens, costUsd: 0.25 },
    ]);
    const summed = { inputTokens: 20, outputTokens: 4, modelCalls: 0, costUsd: 0.75 };
    expect(adapter.describe()).toMatchObject({ usage: summed });
  });
});

describe('the sessions of a coding agent', () => {
  it('have the mode, the model and the options of the configuration [SN.5]', async () => {
    const chosen = { mode: 'ask', model: 'large', options: { effort: 'high', fast: true } };
    const adapter = await started('options', chosen);
    const set = { permissions: 'ask', brain: 'large', effort: 'high', fast: true };
    expect(JSON.parse((await say(adapter, 'do:chosen')).text)).toEqual(set);
    // What the agent has chosen already is not set.
    const same = await started('options', { model: 'small', options: { fast: false } });
    expect((await say(same, 'do:chosen')).text).toBe('null');
  });

  it('have the model of the configuration where the agent lists models beside its options [SN.5]', async () => {
    const adapter = await started('models', { model: 'large' });
    expect(JSON.parse((await say(adapter, 'do:chosen')).text)).toEqual({ model: 'large' });
    const lacks = await started('models', { model: 'huge' });
    expect(await lacks.health()).toMatchObject({ message: 'mars has no model "huge"; it has: small, large' });
  });

  it.each([
    [{ model: 'huge' }, 'mars has no brain "huge"; it has: small, large'],
    [{ mode: 'wild' }, 'mars has no permissions "wild"; it has: free, ask'],
    [{ options: { colour: 'red' } }, 'mars has no option "colour"; it has: permissions, brain, effort, fast'],
    [{ options: { fast: 'yes' } }, 'mars has no fast "yes"; it has: true, false'],
  ])('are not opened with a choice that the agent does not have: %j [SN.5]', async (choices, message) => {
    const adapter = await started('options', choices);
    expect(await adapter.health()).toMatchObject({ state: 'degraded', needsOwner: true, message });
  });
});
