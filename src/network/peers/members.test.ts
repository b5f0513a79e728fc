import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Life, World } from '../../../test/durable/simulated-mail.js';
import { addresses, inbox, outbox, permits, receipts } from '../../mail/tables.js';
import type { EclipticError } from '../../runtime/errors.js';
import { cursors } from '../../store/common-tables.js';
import type { Table } from '../../store/table.js';

let world: World;
let owner: Life;
let device: Life;
let other: Life;

beforeEach(async () => {
  world = new World();
  [owner, device, other] = (await world.mesh(3)) as [Life, Life, Life];
});

afterEach(() => world.end());

const rowOf = (life: Life, { station }: Life) => life.node.network.list().find(({ node }) => node === station.key);

describe('a member that is switched off', () => {
  it('is listed with its name and tiers after a restart of this node [T-F1 T-G1]', async () => {
    await world.stop(device);
    await world.stop(owner);
    owner = await world.start(owner.station);
    expect(rowOf(owner, device)).toMatchObject({
      name: 'b',
      state: 'connecting',
      reason: expect.stringMatching(/not met since this node started, last met 2020-01-01/),
      tiers: [0, 1, 2, 3],
    });
  });

  it('can be removed after a restart of this node, and stays removed everywhere [T-F1]', async () => {
    await world.stop(device);
    await world.stop(owner);
    owner = await world.start(owner.station);
    owner.node.network.remove(device.station.key.slice(0, 12));
    expect(rowOf(owner, device)).toBeUndefined();
    await world.until(() => rowOf(other, device) === undefined);
    await world.stop(owner);
    owner = await world.start(owner.station);
    device = await world.start(device.station);
    await world.runtime.advance(30_000);
    for (const life of [owner, other]) {
      expect(life.node.network.peers.reachable(device.station.key)).toBe(false);
      expect(rowOf(life, device)).toBeUndefined();
    }
  });

  it('that another member let in can be removed although it was never met here [T-F1]', async () => {
    await world.stop(owner);
    const late = await world.start(world.station('d'));
    await world.nodes.join(late.node, other.node);
    await world.stop(late);
    owner = await world.start(owner.station);
    await world.until(() => owner.node.network.peers.reachable(other.station.key));
    await world.until(() => rowOf(owner, late) !== undefined);
    owner.node.network.remove(late.station.key);
    await world.until(() => rowOf(other, late) === undefined);
  });
});

describe('a node that people name', () => {
  it('is found by its own name although another node’s key begins with that text [T-B4]', () => {
    const { network } = owner.node;
    const [keyed, named] = [device.station.key, network.peers.get(other.station.key)!];
    for (const length of [1, 2, 3]) {
      named.name = keyed.slice(0, length);
      expect(network.find(named.name).node).toBe(other.station.key);
    }
    named.name = keyed.slice(0, 4);
    expect(network.matching(named.name).sort()).toEqual([device.station.key, other.station.key].sort());
    expect(() => network.find(named.name)).toThrow(expect.objectContaining({ code: 'PEER_NOT_FOUND' }));
  });

  it('is found by four characters of its key, and never by fewer [T-B4]', () => {
    const { network } = owner.node;
    expect(network.find(device.station.key.slice(0, 4)).node).toBe(device.station.key);
    expect(network.matching(device.station.key.slice(0, 3))).toEqual([]);
  });
});

describe('the removal of a member', () => {
  it('gives back the share of its agents in the requests that wait for an answer [T-F1]', async () => {
    const ann = owner.node.agent({ id: 'ann', tier: 0 });
    ann.onRequest(() => new Promise(() => {}));
    const bob = device.node.agent({ id: 'bob', tier: 0 });
    const annThere = `ann@${owner.station.key}`;
    await world.until(() => device.node.registry.entry(annThere) !== undefined);
    const before = owner.node.threads.waiting;
    const asked = bob.request(annThere, 1).catch(() => {});
    await world.until(() => owner.node.threads.waiting === before + 1);
    owner.node.network.remove(device.station.key);
    expect(owner.node.threads.waiting).toBe(before);
    await world.settled(asked);
  });

  it('ends mail to and from it, and leaves neither addresses, cursors nor rights to answer behind [T-F1]', async () => {
    const ann = owner.node.agent({ id: 'ann', tier: 0 });
    const bob = device.node.agent({ id: 'bob', tier: 0 });
    const knows = (life: Life, id: string) => life.node.registry.entry(id) !== undefined;
    const [annThere, bobHere] = [`ann@${owner.station.key}`, `bob@${device.station.key}`];
    await world.until(() => knows(owner, bobHere) && knows(device, annThere));
    // Nothing of ann's takes mail, so bob's stays in her inbox.
    await world.settled(bob.send(annThere, 'from the device', { durable: true, type: 'request', thread: 'talk' }));
    await world.until(() => owner.events.some(({ receiptState }) => receiptState === 'arrived'));
    await world.stop(device);
    const sent = await world.settled(
      ann.send(bobHere, 'to the device', { durable: true, type: 'request', thread: 'talk' }),
    );
    expect((await world.rows(owner, permits)).length).toBe(2);
    owner.node.network.remove(device.station.key);
    const gone = async () => {
      const tables: Table[] = [outbox, inbox, addresses, cursors, permits];
      const rows = await Promise.all(tables.map((table) => world.rows(owner, table)));
      return rows.flat().filter((row) => JSON.stringify(row).includes(device.station.key));
    };
    let left: unknown[] = [0];
    for (let tries = 0; left.length > 0 && tries < 100; tries++) {
      await world.runtime.advance(100);
      left = await gone();
    }
    expect(left).toEqual([]);
    const { state, story } = await owner.node.mail!.receipt(sent.messageId!);
    expect(state).toBe('undeliverable');
    expect(story.at(-1)!.reason).toMatch(/removed from the mesh/);
    expect((await world.rows(owner, receipts)).map(({ news }) => news)).toEqual([null, null]);
    await expect(ann.send(bobHere, 'again', { durable: true })).rejects.toMatchObject({
      code: 'AGENT_NOT_FOUND',
    } satisfies Partial<EclipticError>);
    expect(owner.errors).toEqual([]);
  });
});
