import { describe, expect, it } from 'vitest';
import { createNode } from '../node/compose.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { MemoryStore } from '../store/memory-store.js';
import { toolTaskEnds, toolTasks } from './tables.js';

const HOUR_MS = 60 * 60_000;
const CALLER = { address: 'caller', node: 'n', tier: 3, sandboxId: undefined } as const;

describe('the tasks of tool calls', () => {
  it('can be read for an hour after their end, and are removed then [MT.6]', async () => {
    const runtime = new SimulatedRuntime();
    const store = new MemoryStore();
    const node = await createNode({ runtime, store });
    node.agent({ id: 'worker' }).tool('quick', { tasks: 'optional', timeoutMs: HOUR_MS }, () => 'done');
    const entry = node.mcp.find('tool', 'worker.quick', CALLER, 'safe');
    const { row } = await node.toolTasks.begin(
      entry,
      { kind: 'tool', name: 'quick', arguments: {} },
      { caller: CALLER },
    );
    const { row: ended } = await node.toolTasks.settled(row.id, CALLER, new AbortController().signal);
    expect([ended.status, ended.expiresAt - ended.createdAt]).toEqual(['completed', 2 * HOUR_MS]);
    await runtime.advance(2 * HOUR_MS - 60_001);
    await expect(node.toolTasks.get(row.id, CALLER)).resolves.toMatchObject({ row: { status: 'completed' } });
    await runtime.advance(120_002);
    await expect(node.toolTasks.get(row.id, CALLER)).rejects.toMatchObject({ code: 'TASK_NOT_FOUND' });
    await expect.poll(async () => [await store.count(toolTasks), await store.count(toolTaskEnds)]).toEqual([0, 0]);
    await node.stop();
  });

  it('fail when nobody answers their question for a day [MT.6]', async () => {
    const runtime = new SimulatedRuntime();
    const node = await createNode({ runtime });
    const worker = node.agent({ id: 'worker' });
    const requestedSchema = { type: 'object' as const, properties: {} };
    const request = { method: 'elicitation/create' as const, params: { message: 'Go on?', requestedSchema } };
    worker.tool('ask', { tasks: 'required' }, (_, call) => call.ask({ sure: request }));
    const entry = node.mcp.find('tool', 'worker.ask', CALLER, 'safe');
    const options = { caller: CALLER, capabilities: { elicitation: {} } };
    const { row } = await node.toolTasks.begin(entry, { kind: 'tool', name: 'ask', arguments: {} }, options);
    const asked = await node.toolTasks.settled(row.id, CALLER, new AbortController().signal);
    expect(asked.row.status).toBe('input_required');
    const ended = new Promise((resolve) => node.toolTasks.onChange((view) => resolve(view.row.status)));
    await runtime.advance(24 * HOUR_MS + 60_000);
    expect(await ended).toBe('failed');
    await node.stop();
  });
});
