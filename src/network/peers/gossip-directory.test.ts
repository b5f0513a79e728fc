import { describe, expect, it } from 'vitest';
import { GossipModel } from '../../../test/gossip-model.js';

/** Meshes of more than a hundred nodes are meant to have a broker, and converge without. */
const COUNTS = process.env.ECLIPTIC_SOAK ? [100, 300, 1_000] : [60];

describe('gossip', () => {
  it.each(COUNTS)(
    'among %i nodes that come, stop, crash and come back brings every node to list exactly those that run [DR.7]',
    (count) => {
      const before = process.cpuUsage();
      const model = new GossipModel(count, 7);
      const { runtime, nodes } = model;
      const first = nodes.slice(count / 20);
      for (const [index, node] of first.entries()) {
        model.start(node);
        runtime.pass(Math.ceil(15_000 / count));
        if (index % Math.ceil(count / 10) === 0) model.link();
      }
      model.link();
      const joinedMs = model.converge(20_000);
      runtime.pass(15_000);
      const cost = model.cost(15_000);
      for (let round = 0; round < 6; round++) {
        for (let change = 0; change < count / 50; change++) {
          // The first few nodes were not there before.
          const among = change % 3 === 0 ? count / 20 : count;
          const node = nodes[Math.floor(runtime.random() * among)]!;
          if (!node.gossip) model.start(node);
          else if (change % 2 === 0) model.stop(node);
          else model.crash(node);
        }
        runtime.pass(3_000);
        model.link();
      }
      expect(model.isConverged(), 'nodes that crashed are still listed').toBe(false);
      const settledMs = model.converge(80_000);
      if (process.env.ECLIPTIC_SOAK) {
        const cpuSeconds = Math.round(process.cpuUsage(before).user / 1_000_000);
        console.log({ count, joinedMs, settledMs, ...cost, cpuSeconds });
      }
      expect(cost.frames, 'frames that a node sends in a second').toBeLessThan(6);
      expect(cost.chars / count, 'characters that a node sends in a second, for each node').toBeLessThan(50);
    },
    900_000,
  );
});
