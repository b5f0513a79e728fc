import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Life, World } from '../../../test/durable/simulated-mail.js';
import type { EclipticError } from '../../runtime/errors.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

let world: World;
let a: Life;
let b: Life;

beforeEach(async () => {
  world = new World();
  [a, b] = (await world.mesh(2)) as [Life, Life];
});

afterEach(() => world.end());

const stateAt = (life: Life, { station }: Life) =>
  life.node.network.list().find(({ node }) => node === station.key)?.state;

describe('a wrong clock', () => {
  it('two years ahead for a moment cuts no member off [T-F7]', async () => {
    a.runtime.aheadMs = 730 * DAY;
    await world.runtime.advance(1_500);
    a.runtime.aheadMs = 0;
    await world.runtime.advance(1_500);
    expect([stateAt(a, b), stateAt(b, a)]).toEqual(['connected', 'connected']);
    await world.stop(b);
    await world.stop(a);
    [a, b] = [await world.start(a.station), await world.start(b.station)];
    await world.connected();
  });

  it('two years ahead for hours lets go of members, and they come back when it is right [T-F7]', async () => {
    a.runtime.aheadMs = 730 * DAY;
    await world.runtime.advance(2 * HOUR);
    // The founder has the root key: it renews its own certificate, from the future to everybody else.
    expect(stateAt(a, b)).toBe('lost');
    expect(a.node.network.list()[0]!.reason).toMatch(/expired/);
    a.runtime.aheadMs = 0;
    await world.until(
      () => a.node.network.peers.reachable(b.station.key) && b.node.network.peers.reachable(a.station.key),
      600_000,
    );
    await world.stop(a);
    a = await world.start(a.station);
    await world.connected();
  });

  it('20 minutes behind does not keep a node from joining; two hours do, and the reason says so [T-G1]', async () => {
    const slow = world.station('slow');
    slow.aheadMs = -20 * MINUTE;
    const late = await world.start(slow);
    await world.nodes.join(late.node, a.node);
    expect(stateAt(late, a)).toBe('connected');
    const slower = world.station('slower');
    slower.aheadMs = -2 * HOUR;
    const later = await world.start(slower);
    const { code } = await world.settled(a.node.network.invite());
    const error = await world.settled(later.node.network.join(code).catch((thrown: EclipticError) => thrown));
    expect(error).toMatchObject({ code: 'MEMBERSHIP_REFUSED' });
    expect((error as EclipticError).message).toMatch(
      /issued 120 minutes ahead of this node’s clock, and 60 are allowed/,
    );
  });
});

describe('a clock that jumps by eight days', () => {
  const sendTo = async (from: Life, to: Life, text: string) => {
    const address = `bob@${to.station.key}`;
    const ann = from.node.agents.find(({ id }) => id === 'ann') ?? from.node.agent({ id: 'ann', tier: 0 });
    await world.until(() => from.node.mail!.find(address) !== undefined);
    return (await world.settled(ann.send(address, text, { durable: true }))).messageId!;
  };
  const statesOf = async (life: Life, ids: string[]) =>
    Promise.all(ids.map(async (id) => (await life.node.mail!.receipt(id)).state));

  it('expires no mail on either side until it has lasted for an hour, and hands none over meanwhile [T-G4]', async () => {
    b.node.agent({ id: 'bob', tier: 0 });
    const ids = [await sendTo(a, b, 'one')];
    await world.until(() => b.events.some(({ receiptState }) => receiptState === 'arrived'));
    await world.stop(b);
    ids.push(await sendTo(a, b, 'two'));
    a.runtime.aheadMs = 8 * DAY;
    b.station.aheadMs = 8 * DAY;
    b = await world.start(b.station);
    const heard: unknown[] = [];
    b.node.agent({ id: 'bob', tier: 0 }).onMessage((message) => void heard.push(message.payload));
    await world.runtime.advance(30 * MINUTE);
    expect(await statesOf(a, ids)).toEqual(['arrived', 'arrived']);
    expect(heard).toEqual([]);
    a.runtime.aheadMs = 0;
    b.runtime.aheadMs = 0;
    await world.until(() => heard.length === 2, 10 * MINUTE);
    expect(heard).toEqual(['one', 'two']);
  });

  it('and stays there expires it after an hour [T-G4]', async () => {
    const bob = b.node.agent({ id: 'bob', tier: 0 });
    const [id] = [await sendTo(a, b, 'one')];
    await world.until(() => b.events.some(({ receiptState }) => receiptState === 'arrived'));
    b.runtime.aheadMs = 8 * DAY;
    await world.runtime.advance(50 * MINUTE);
    expect(await statesOf(b, [id!])).toEqual(['arrived']);
    await world.runtime.advance(20 * MINUTE);
    expect(await statesOf(b, [id!])).toEqual(['expired']);
    bob.leave();
  });
});
