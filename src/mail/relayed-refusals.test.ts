import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MemoryCustodian } from '../../test/durable/memory-custodian.js';
import { type Life, World } from '../../test/durable/simulated-mail.js';
import type { Agent } from '../agent/agent.js';
import { outbox, receipts } from './tables.js';

/** More than a node remembers that it refused. */
const MESSAGES = 1_100;

let world: World;
let a: Life;
let b: Life;
let low: Agent;
let heard: unknown[];

beforeEach(async () => {
  world = new World();
  world.custodian = new MemoryCustodian(() => 1);
  [a, b] = (await world.mesh(2)) as [Life, Life];
  low = a.node.agent({ id: 'low', tier: 3 });
  heard = [];
  listen(b);
  judge(a, 'allow');
  await world.until(() => a.node.registry.getById(bob()) !== undefined);
});

afterEach(() => world.end());

describe('mail that was refused over a link, and that a custodian still has', () => {
  it.each([
    ['in the same process', false],
    ['after a restart', true],
  ])('stays refused when it comes from there %s [NM.15]', async (_when, restarts) => {
    world.crash(b);
    const sent = [];
    for (let n = 0; n < MESSAGES; n++) sent.push(low.send(bob(), n, { durable: true }));
    await world.settled(Promise.all(sent));
    await world.until(() => world.custodian!.stored >= 3);
    world.custodian!.down = true;
    await start('forbid');
    await until(async () => (await world.rows(a, outbox)).length === 0);
    expect((await world.rows(b, receipts)).length).toBeLessThan(MESSAGES);
    if (restarts) {
      world.crash(b);
      await start('allow');
    }
    judge(b, 'allow');
    world.custodian!.down = false;
    await world.settled(low.send(bob(), 'further', { durable: true }));
    await until(async () => heard.includes('further'));
    await world.runtime.advance(10_000);
    expect(heard).toEqual(['further']);
    for (const { events } of [a, b]) expect(events.filter(({ code }) => code === 'STORE_RESTORED')).toEqual([]);
    const ends = (await world.rows(a, receipts)).filter(({ steps }) => !/"arrived"|"done"/.test(steps));
    expect(ends.filter(({ steps }) => steps.includes('"refused"'))).toHaveLength(MESSAGES);
  });
});

function bob(): string {
  return `bob@${b.station.key}`;
}

async function start(rule: Rule): Promise<void> {
  b = await world.start(b.station);
  judge(b, rule);
  listen(b);
}

type Rule = 'allow' | 'forbid';

function judge({ node }: Life, rule: Rule): void {
  const allowedTargetTiers: (0 | 1 | 2 | 3)[] = rule === 'allow' ? [0, 1, 2, 3] : [3];
  const requiresEscalationJustification = false;
  node.router.setTierConfig({ rules: [{ sourceTier: 3, allowedTargetTiers, requiresEscalationJustification }] });
}

function listen({ node }: Life): void {
  node.agent({ id: 'bob', tier: 0 }).onNotification(({ payload }) => void heard.push(payload));
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 3_000; tries++) {
    if (await condition()) return;
    await world.runtime.advance(100);
  }
  throw new Error('it never came to that');
}
