import { describe, expect, it } from 'vitest';
import { Mesh } from '../../../test/mesh-fixture.js';
import { Nodes } from '../../../test/nodes-fixture.js';
import { CHUNKS_IN_FLIGHT } from '../../agent/streams.js';
import { createNode } from '../../node/compose.js';
import { EclipticError } from '../../runtime/errors.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';

describe('a stream from another node', () => {
  it('is not limited to one chunk for each round trip [ST.1]', async () => {
    const { nodes, sun } = await pair(1_000);
    nodes.network.faults = { latencyMs: [50, 50], loss: 0, duplication: 0 };
    const begun = nodes.runtime.now();
    expect(await nodes.settled(read(sun.stream('mars', null)))).toEqual({ chunks: [...Array(1_000).keys()] });
    // A round trip for each chunk would be 100 s.
    expect(nodes.runtime.now() - begun).toBeLessThan((1_000 / CHUNKS_IN_FLIGHT) * 2 * 100 + 2_000);
  });

  it('is whole and in order over links that lose, double and delay frames [ST.2]', async () => {
    const { nodes, sun } = await pair(2_000);
    nodes.network.faults = { latencyMs: [1, 80], loss: 0.05, duplication: 0.05 };
    expect(await nodes.settled(read(sun.stream('mars', null)))).toEqual({ chunks: [...Array(2_000).keys()] });
  });

  it('goes on after a silence in which new chunks are refused [ST.2]', async () => {
    const { nodes, here, there, sun, produced } = await pair(1_000);
    nodes.network.faults = { latencyMs: [20, 20], loss: 0, duplication: 0 };
    const reading = read(sun.stream('mars', null));
    await nodes.until(() => produced() > 100);
    nodes.network.cut(here.key, there.key);
    await nodes.until(() => !there.network.peers.reachable(here.key));
    await nodes.runtime.advance(10_000);
    expect(produced()).toBeLessThan(1_000);
    nodes.network.healAll();
    expect(await nodes.settled(reading)).toEqual({ chunks: [...Array(1_000).keys()] });
  });

  it('goes on when its producer was quiet and speaks while its reader is silent, as does an answer [ST.4]', async () => {
    const { nodes, here, there, sun } = await pair(0);
    let speak = () => {};
    const spoken = () => new Promise<void>((resolve) => (speak = resolve));
    there.agent({ id: 'venus' }).onRequest(async ({ payload }) => {
      if (payload === 'answer') return spoken().then(() => 'answered');
      return (async function* () {
        yield 'before';
        await spoken();
        yield 'in between';
        yield 'after';
      })();
    });
    await nodes.until(() => here.registry.getById('venus') !== undefined);
    for (const asked of ['stream', 'answer']) {
      const isStream = asked === 'stream';
      const got = isStream ? read(sun.stream('venus', asked)) : sun.request('venus', asked, { timeoutMs: 60_000 });
      await nodes.runtime.advance(1_000);
      nodes.network.cut(here.key, there.key);
      await nodes.until(() => !there.network.peers.reachable(here.key));
      speak();
      await nodes.runtime.advance(3_000);
      nodes.network.healAll();
      const whole = isStream ? { chunks: ['before', 'in between', 'after'] } : 'answered';
      expect(await nodes.settled<unknown>(got)).toEqual(whole);
    }
  });

  it('never has more chunks in flight than its share [ST.1]', async () => {
    const { nodes, here, there, sun, produced } = await pair(1_000);
    nodes.network.faults = { latencyMs: [500, 500], loss: 0, duplication: 0 };
    const reading = read(sun.stream('mars', null));
    await nodes.until(() => produced() > 0);
    nodes.network.cut(here.key, there.key);
    await nodes.runtime.advance(1_000);
    expect(produced()).toBe(CHUNKS_IN_FLIGHT);
    nodes.network.healAll();
    expect((await nodes.settled(reading)).chunks).toHaveLength(1_000);
  });

  it('ends its producer with the refusal when the reader has left its node [ST.2]', async () => {
    const { nodes, sun, ended, produced } = await pair(Number.POSITIVE_INFINITY);
    const reading = read(sun.stream('mars', null));
    await nodes.until(() => produced() > 500);
    sun.leave();
    expect((await nodes.settled(reading)).error).toMatchObject({ code: 'NODE_STOPPED' });
    await nodes.until(ended);
  });

  it('fails at its reader when a chunk is missing, instead of being read without it [ST.3]', async () => {
    const runtime = new SimulatedRuntime();
    const node = await createNode({ runtime });
    const mesh = new Mesh(runtime, node, undefined as never);
    const send = (to: string, type: 'stream-start' | 'stream-data', thread: string, payload: unknown, chunk?: number) =>
      mesh.send('mars', to, { type, payload, thread, metadata: chunk === undefined ? undefined : { chunk } });
    mesh.join('mars', {
      handler: async ({ sender, id, type }) => {
        if (type !== 'request') return;
        await send(sender, 'stream-start', id, null);
        for (const chunk of [0, 1, 3]) await send(sender, 'stream-data', id, chunk, chunk);
      },
    });
    const sun = node.agent({ id: 'sun' });
    expect(await read(sun.stream('mars', null))).toMatchObject({
      chunks: [0, 1],
      error: { code: 'DELIVERY_FAILED', message: expect.stringContaining('chunk 2') },
    });
  });
});

/** The chunks that were read, and the error if the stream did not end. */
async function read(stream: AsyncIterable<unknown>): Promise<{ chunks: unknown[]; error?: EclipticError }> {
  const chunks: unknown[] = [];
  try {
    for await (const chunk of stream) chunks.push(chunk);
    return { chunks };
  } catch (error) {
    if (error instanceof EclipticError) return { chunks, error };
    throw error;
  }
}

/** Two nodes over a network with faults: mars answers on one with that many numbers, sun reads on the other. */
async function pair(count: number) {
  const nodes = new Nodes({ faults: {} });
  const [here, there] = await nodes.startMesh(2);
  let produced = 0;
  let ended = false;
  there!.agent({ id: 'mars' }).onRequest(async function* () {
    try {
      while (produced < count) yield produced++;
    } finally {
      ended = true;
    }
  });
  await nodes.until(() => here!.registry.getById('mars') !== undefined);
  const sun = here!.agent({ id: 'sun' });
  return { nodes, here: here!, there: there!, sun, produced: () => produced, ended: () => ended };
}
