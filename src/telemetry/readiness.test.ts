import { describe, expect, it } from 'vitest';
import { SimulatedDisk } from '../../test/simulated-disk.js';
import { readExposition } from '../../test/telemetry/exposition.js';
import { composeNode, createNode } from '../node/compose.js';
import { openStore } from '../node/tables.js';
import { Parts } from '../runtime/part.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { meta } from '../store/common-tables.js';

describe('/readyz', () => {
  it('is 503 while the node starts [FC.42]', async () => {
    const parts = new Parts();
    const node = await composeNode({}, parts);
    try {
      const { url } = await node.serve({ port: 0 });
      const answer = await fetch(`${url}/readyz`);
      expect(answer.status).toBe(503);
      expect(await answer.json()).toEqual({
        status: 'not-ready',
        reasons: [{ part: 'node', state: 'starting', message: 'the node is starting' }],
      });
      expect((await fetch(`${url}/healthz`)).status).toBe(200);
    } finally {
      await parts.stop();
    }
  });

  it('is 503 with the reason while the disk is full, and 200 once there is room again [FC.42]', async () => {
    const disk = new SimulatedDisk();
    const store = await openStore('', { disk, runtime: systemRuntime() });
    const node = await createNode({ store });
    try {
      const { url, tokens } = await node.serve({ port: 0 });
      const ready = async () => {
        const answer = await fetch(`${url}/readyz`);
        return { status: answer.status, body: (await answer.json()) as unknown };
      };
      const writable = async () => {
        const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${tokens.owners}` } });
        const families = readExposition(await answer.text());
        return {
          writable: families.get('ecliptic_store_writable')?.samples[0]?.value,
          failures: families
            .get('ecliptic_store_failures_total')
            ?.samples.find(({ labels }) => labels.operation === 'write')?.value,
        };
      };
      expect(await ready()).toEqual({ status: 200, body: { status: 'ready', reasons: [] } });
      expect(await writable()).toEqual({ writable: 1, failures: 0 });
      disk.capacity = 0;
      await expect(store.write([meta.put({ name: 'any', value: 'x' })])).rejects.toThrow('full');
      const message = 'the store cannot be written: the disk is full';
      const full = {
        status: 503,
        body: { status: 'not-ready', reasons: [{ part: 'store', state: 'failed', message }] },
      };
      expect(await ready()).toEqual(full);
      const { writable: now, failures } = await writable();
      expect(now).toBe(0);
      expect(failures).toBeGreaterThan(0);
      disk.capacity = Number.POSITIVE_INFINITY;
      // The check itself tries to write, at most once a second: an idle node becomes ready again too.
      await expect.poll(ready, { timeout: 5_000 }).toEqual({ status: 200, body: { status: 'ready', reasons: [] } });
    } finally {
      await node.stop();
    }
    expect((await node.readiness()).status).toBe('not-ready');
    expect((await node.readiness()).reasons[0]).toMatchObject({ part: 'node', state: 'stopping' });
  });
});
