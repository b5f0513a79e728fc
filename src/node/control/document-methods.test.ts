import { afterEach, describe, expect, it } from 'vitest';
import { createNode, type EclipticNode } from '../compose.js';
import { documentMethods } from './document-methods.js';
import { checked } from './methods.js';
import type { DocumentRow, HistoryRow } from './rows.js';
import type { CallContext } from './server.js';

let node: EclipticNode;

afterEach(() => node.stop());

async function start() {
  node = await createNode();
  node.agent({ id: 'mars' });
  node.agent({ id: 'venus' });
  const methods = checked(documentMethods({ node }));
  const controller = new AbortController();
  const events: unknown[] = [];
  const context: CallContext = {
    emit: (event) => void events.push(event),
    drained: () => Promise.resolve(),
    signal: controller.signal,
  };
  const call = (method: string, params: Record<string, unknown> = {}) => methods[method]!(params, context);
  return { call, controller, events };
}

describe('the owner’s view of shared documents', () => {
  it('writes and reads maps, lists, notes and texts by path', async () => {
    const { call } = await start();
    const document = node.agentById('mars').state('plan');
    await document.ready;
    document.text('draft').insert(0, 'zero');
    await call('stateSet', { name: 'plan', as: 'mars', path: 'tasks.v1.0', value: { title: 'login', tags: ['a'] } });
    await call('stateSet', { name: 'plan', path: 'log[]', value: 1 });
    await call('stateSet', { name: 'plan', path: 'draft', value: 'first' });
    await call('stateSet', { name: 'plan', path: 'draft', value: 'second' });
    await call('stateSet', { name: 'plan', path: 'step', value: 7 });
    expect(await call('stateGet', { name: 'plan' })).toEqual({
      tasks: { 'v1.0': { title: 'login', tags: ['a'] } },
      log: [1],
      draft: 'second',
      notes: { step: 7 },
    });
    expect(await call('stateGet', { name: 'plan', path: 'tasks.v1.0.tags.0' })).toBe('a');
    expect(await call('stateGet', { name: 'plan', as: 'venus', path: 'log.0' })).toBe(1);
    const nothing = expect.objectContaining({ code: 'INVALID_ARGUMENTS' });
    await expect(call('stateGet', { name: 'plan', path: 'tasks.v2' })).rejects.toThrowError(nothing);
    const usage = expect.objectContaining({ code: 'USAGE' });
    await expect(call('stateSet', { name: 'plan', path: 'draft', value: 7 })).rejects.toThrowError(usage);
    await expect(call('stateGet', { name: 'unknown' })).rejects.toThrowError(usage);
  });

  it('begins a document as the owner, where no agent has it open [T-G5]', async () => {
    const { call } = await start();
    await call('stateSet', { name: 'fresh', path: 'm.a', value: 1 });
    expect(await call('stateGet', { name: 'fresh' })).toEqual({ m: { a: 1 } });
    expect((call('states') as DocumentRow[]).map(({ agent }) => agent)).toEqual(['operator']);
  });

  it('changes a document that an agent has open as the owner, unless it belongs to a sandbox [T-B9]', async () => {
    const { call } = await start();
    node.agent({ id: 'boxed', sandbox: 'lab' });
    for (const [id, name] of [
      ['mars', 'plan'],
      ['boxed', 'inner'],
    ] as const) {
      await node.agentById(id).state(name).ready;
      await call('stateSet', { name, path: 'm.a', value: 1 });
      expect(await call('stateGet', { name, as: id })).toEqual({ m: { a: 1 } });
      const [row] = (await call('stateHistory', { name })) as HistoryRow[];
      expect(row!.author.split('@')[0]).toBe(name === 'plan' ? 'operator' : 'boxed');
    }
  });

  it('lists them, and who wrote what, when, in which order [T-B9]', async () => {
    const { call } = await start();
    expect(call('states')).toEqual([]);
    await call('stateSet', { name: 'plan', as: 'mars', path: 'm.a', value: 1 });
    await call('stateSet', { name: 'plan', as: 'venus', path: 'm.b', value: 2 });
    const rows = call('states') as DocumentRow[];
    expect(rows.map(({ name, agent, holds, segments }) => [name, agent, holds, segments])).toEqual([
      ['plan', 'mars', ['m'], 2],
      ['plan', 'venus', ['m'], 2],
    ]);
    const history = (await call('stateHistory', { name: 'plan' })) as HistoryRow[];
    const now = Date.now();
    for (const { at, since } of history) {
      expect(at).toBeGreaterThan(now - 60_000);
      expect(since).toBeLessThanOrEqual(at!);
    }
    await call('stateSet', { name: 'plan', as: 'venus', path: 'm.a', value: { again: true } });
    await call('stateSet', { name: 'plan', as: 'mars', path: 'log[]', value: 'begun' });
    await call('stateSet', { name: 'plan', as: 'mars', path: 'log[]', value: 'ended' });
    const later = (await call('stateHistory', { name: 'plan' })) as HistoryRow[];
    expect(later.map(({ author, changes }) => [author.split('@')[0], changes])).toEqual([
      ['mars', ['m.a = 1']],
      ['venus', ['m.b = 2']],
      ['venus', ['m.a = {"again":true}']],
      ['mars', ['log[] + "begun"']],
      ['mars', ['log[] + "ended"']],
    ]);
  });

  it('follows a document until the owner goes away', async () => {
    const { call, controller, events } = await start();
    await call('stateSet', { name: 'plan', as: 'mars', path: 'm.a', value: 1 });
    const watching = call('stateWatch', { name: 'plan' }) as Promise<void>;
    while (events.length === 0) await Promise.resolve();
    await call('stateSet', { name: 'plan', as: 'mars', path: 'm.a', value: 2 });
    controller.abort();
    await watching;
    expect(events).toEqual([
      { by: null, content: { m: { a: 1 } } },
      { by: `mars@${node.key}`, content: { m: { a: 2 } } },
    ]);
  });
});
