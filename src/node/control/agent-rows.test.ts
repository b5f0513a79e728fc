import { describe, expect, it } from 'vitest';
import type { ProviderRow } from '../../providers/registry/registered-provider.js';
import { Deferred } from '../../runtime/async.js';
import { queueLengths } from '../../telemetry/node-metrics.js';
import { createNode } from '../compose.js';
import { agentRows } from './agent-rows.js';
import type { ControlContext } from './context.js';

/** A node whose agent works on two requests at once, and has three. */
async function busy() {
  const node = await createNode({ limits: { concurrency: 2 } });
  const done = new Deferred<void>();
  node.agent({ id: 'worker', tier: 2 }).onRequest(() => done.promise);
  const asker = node.agent({ id: 'asker', tier: 2 });
  const asked = [1, 2, 3].map((payload) => asker.request('worker', payload));
  const loadWith = (...inFlight: readonly number[]) => {
    const rows = inFlight.map((count) => ({ id: 'worker', pool: 'worker', inFlight: count }) as ProviderRow);
    const { registry, network } = node;
    const sources = { node: { registry, network, providers: { list: () => rows } }, failures: new Map() };
    const context = { ...sources, codingAgents: { present: [] } } as unknown as ControlContext;
    return agentRows(registry.getLocalCards(), context).find(({ id }) => id === 'worker')!.load;
  };
  return { node, done, asked, loadWith };
}

describe('the load of an agent', () => {
  it('counts a message once: it waits, or it is worked on [FC.54]', async () => {
    const { node, done, asked, loadWith } = await busy();
    expect(loadWith()).toEqual({ queued: 1, working: 2 });
    expect(loadWith(2)).toEqual({ queued: 1, working: 2 });
    // One of them waits for the provider.
    expect(loadWith(1, 0)).toEqual({ queued: 2, working: 1 });
    expect(await queueLengths(node, undefined)).toMatchObject({ mailboxes: 1 });
    done.resolve();
    await Promise.all(asked);
    expect(loadWith()).toEqual({ queued: 0, working: 0 });
    await node.stop();
  });
});
