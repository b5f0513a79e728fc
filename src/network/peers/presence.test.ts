import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Life } from '../../../test/durable/simulated-mail.js';
import { type LargeMesh, largeMesh } from '../../../test/large-mesh.js';

const SEEDS = process.env.ECLIPTIC_SOAK ? 40 : 2;

// Twenty whole nodes for minutes of virtual time.
vi.setConfig({ testTimeout: 120_000 });

let mesh: LargeMesh;

afterEach(() => mesh.world.end());

/** What each other node says of this one. */
function statesOf(life: Life): (string | undefined)[] {
  return mesh.lives.filter((other) => other !== life).map((other) => mesh.state(other, life));
}

function knowing(agent: string): number {
  return mesh.lives.filter(({ node }) => node.registry.listAll().some(({ id }) => id === agent)).length;
}

describe('a node of a large mesh', () => {
  it('that stops is gone everywhere within seconds, and comes back with its agents [DR.5]', async () => {
    mesh = await largeMesh(20);
    const [leaving] = mesh.strangers();
    const { station } = leaving;
    await mesh.world.stop(leaving);
    await mesh.world.until(() => mesh.isConverged(), 4_000);
    await mesh.world.runtime.advance(90_000);
    expect(mesh.isConverged(), 'nobody believes in it later').toBe(true);
    const back = await mesh.world.start(station);
    back.node.agent({ id: 'returned', tier: 1 });
    await mesh.world.until(() => mesh.isConverged() && knowing('returned') === 20, 15_000);
  });

  it('that crashes is suspected by its neighbours at once, and gone everywhere in little more than a minute [DR.5]', async () => {
    mesh = await largeMesh(20);
    const [crashing] = mesh.strangers();
    const agent = crashing.node.registry.getLocalCards()[0]!.id;
    const linked = mesh.lives.filter((life) => life !== crashing && mesh.state(life, crashing) === 'connected');
    mesh.world.crash(crashing, true);
    await mesh.world.until(() => linked.every((life) => mesh.state(life, crashing) === 'suspected'), 3_000);
    await mesh.world.until(() => mesh.isConverged() && knowing(agent) === 0, 75_000);
  });

  it.each([1_000, 120_000])(
    'that restarts %i ms after a crash with an older clock is known with its new agents [DR.5]',
    async (pauseMs) => {
      mesh = await largeMesh(20);
      const [crashing] = mesh.strangers();
      const { station } = crashing;
      mesh.world.crash(crashing, true);
      await mesh.world.runtime.advance(pauseMs);
      station.aheadMs = -1_800_000;
      const back = await mesh.world.start(station);
      back.node.agent({ id: 'new', tier: 1 });
      await mesh.world.until(() => knowing('new') === 20, 30_000);
      await mesh.world.runtime.advance(70_000);
      expect([mesh.isConverged(), knowing('new')], 'its confirmations count').toEqual([true, 20]);
    },
  );

  it('whose clock is ahead for a moment stays known after its clock is right again [DR.5]', async () => {
    mesh = await largeMesh(12);
    const [wrong] = mesh.lives;
    wrong!.runtime.aheadMs = 86_400_000;
    await mesh.world.runtime.advance(20_000);
    wrong!.runtime.aheadMs = 0;
    for (let passed = 0; passed < 120; passed += 10) {
      await mesh.world.runtime.advance(10_000);
      expect(statesOf(wrong!).every((state) => state === 'idle' || state === 'connected')).toBe(true);
    }
    wrong!.node.agent({ id: 'late', tier: 1 });
    await mesh.world.until(() => knowing('late') === 12, 5_000);
  });

  it('that a member removes is forgotten by nodes that never talked to it, and its entry is refused from then on [DR.6]', async () => {
    mesh = await largeMesh(20);
    const [remover] = mesh.strangers();
    const removed = mesh.lives.find((life) => mesh.state(remover, life) === 'idle')!;
    const agent = removed.node.registry.getLocalCards()[0]!.id;
    const others = mesh.lives.filter((life) => life !== removed);
    remover.node.network.remove(removed.station.key);
    const without = () => others.every((life) => mesh.state(life, removed) === undefined);
    await mesh.world.until(without, 3_000);
    await mesh.world.runtime.advance(30_000);
    expect([without(), knowing(agent)]).toEqual([true, 1]);
    const refusals = others.flatMap(({ events }) => events.filter(({ type }) => type === 'security'));
    expect(refusals.length, 'its entry is not asked for again and again').toBeLessThan(3 * others.length);
  });
});

describe('a large mesh', () => {
  it('that was cut in two for five minutes comes together again, with every card everywhere [DR.5]', async () => {
    mesh = await largeMesh(20);
    const halves = [mesh.lives.slice(0, 10), mesh.lives.slice(10)] as const;
    mesh.cut(...halves);
    await mesh.world.runtime.advance(150_000);
    for (const half of halves) for (const { node } of half) expect(node.registry.size).toBe(10);
    halves[0][3]!.node.agent({ id: 'meanwhile', tier: 1 });
    halves[1][3]!.node.agent({ id: 'elsewhere', tier: 1 });
    await mesh.world.runtime.advance(150_000);
    mesh.world.nodes.network.healAll();
    await mesh.world.until(
      () => mesh.isConverged() && mesh.lives.every(({ node }) => node.registry.size === 22),
      30_000,
    );
  });

  it(`whose links lose 15 % of their frames knows every card everywhere (${SEEDS} seeds) [DR.5]`, async () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      mesh = await largeMesh(12, { seed, faults: { latencyMs: [1, 20], loss: 0.15 } });
      mesh.lives[3]!.node.agent({ id: 'another', tier: 1 });
      await mesh.world.until(() => knowing('another') === 12, 60_000);
      await mesh.world.stop(mesh.lives[5]!);
      // A farewell may be lost.
      await mesh.world.until(() => mesh.lives.every(({ node }) => node.registry.size === 12), 90_000);
      if (seed < SEEDS) mesh.world.end();
    }
  }, 600_000);
});
