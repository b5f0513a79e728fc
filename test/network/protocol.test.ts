import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { decodeInvite, encodeInvite } from '../../src/network/membership/invite.js';
import type { Network } from '../../src/network/peers/network.js';
import { FRAME, ITEM, PROTOCOL } from '../../src/network/peers/wire.js';
import { createNode, type EclipticNode, type NodeNetworkInit } from '../../src/node/compose.js';
import { FaultyWay } from '../nodes/faulty-way.js';
import { CountingProtocol } from './counting-protocol.js';

type NetworkedNode = EclipticNode & { readonly network: Network };

const stops: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

describe('a protocol between nodes', () => {
  it('takes one file and one line, and works over WebSocket, also when the link is cut in the middle', async () => {
    const [host, guest] = [await start(), await start({})];
    const there = new CountingProtocol(host.network);
    host.network.handle(there);
    const here = new CountingProtocol(guest.network);
    guest.network.handle(here);
    const way = await join(guest, host);
    await until(() => here.events.includes('connected') && there.events.includes('connected'));
    const sent: Promise<void>[] = [];
    for (let number = 0; number < 300; number++) {
      sent.push(here.send(host.key, number));
      if (number === 100) way.fault = 'cut';
    }
    await until(() => here.events.includes('interrupted'));
    for (let number = 300; number < 400; number++) sent.push(here.send(host.key, number));
    way.fault = undefined;
    await Promise.all(sent);
    expect(there.numbers).toEqual(Array.from({ length: 400 }, (_, number) => number));
    expect(here.events).toEqual(['began', 'connected', 'interrupted', 'connected']);
    await guest.stop();
    await until(() => there.events.includes('ended'));
    await expect(there.send(guest.key, 400)).rejects.toMatchObject({ code: 'DELIVERY_FAILED' });
  });

  it('begins in existing conversations when it is added', async () => {
    const [host, guest] = [await start(), await start()];
    await join(guest, host);
    await until(() => host.network.peers.conversing.length === 1);
    const late = new CountingProtocol(host.network);
    host.network.handle(late);
    expect(late.events).toEqual(['began']);
  });

  it('cannot claim the items of another protocol', async () => {
    const { network } = await start();
    network.handle(new CountingProtocol(network));
    expect(() => network.handle(new CountingProtocol(network))).toThrow('items "count" have a protocol already');
  });

  it('that this node knows but does not run is refused, and the conversation continues', async () => {
    const [host, guest] = [await start(), await start()];
    await join(guest, host);
    await until(() => guest.network.peers.reachable(host.key));
    const lease = JSON.stringify([ITEM.leases, 'ask', 1, 'settle', {}]);
    const refused = { code: 'METHOD_NOT_FOUND', details: { outcome: 'not-delivered' } };
    await expect(guest.network.peers.sendConfirmed(host.key, lease)).rejects.toMatchObject(refused);
    expect(guest.network.peers.reachable(host.key)).toBe(true);
  });
});

describe('a node that stops', () => {
  it('says goodbye to the nodes that called it over WebSocket', async () => {
    const [host, guest] = [await start(), await start({})];
    await join(guest, host);
    await until(() => guest.network.peers.reachable(host.key));
    await host.stop();
    await until(() => !guest.network.peers.reachable(host.key));
    expect(guest.network.list().find(({ node }) => node === host.key)).toMatchObject({ reason: 'it was stopped' });
  });
});

describe('docs/wire-protocol.md', () => {
  const page = readFileSync(new URL('../../docs/wire-protocol.md', import.meta.url), 'utf8');

  it('lists exactly the frames and items of the tables, by name and kind', () => {
    expect(table('## Frames')).toEqual(Object.entries(FRAME));
    expect(table('## Items')).toEqual(Object.entries(ITEM));
  });

  it('states the versions that this release speaks', () => {
    expect(page).toContain(`speaks versions ${PROTOCOL.min} to ${PROTOCOL.max}`);
  });

  /** Name and kind of every row `| name | `["kind", …` | …`, in the section with that title. */
  function table(title: string): [string, string][] {
    const section = page.slice(page.indexOf(`${title}\n`)).split('\n## ')[0]!;
    return [...section.matchAll(/^\| (\w+) \| `\["(\w+)"/gm)].map(([, name, kind]) => [name!, kind!]);
  }
});

async function start(init: NodeNetworkInit = { listen: { host: '127.0.0.1', port: 0 } }): Promise<NetworkedNode> {
  const node = await createNode({ network: { dht: false, ...init } });
  stops.push(() => node.stop());
  return node as NetworkedNode;
}

/** Joins over a connection that can be cut; after a cut, the guest finds the host at its own address too. */
async function join(guest: NetworkedNode, host: NetworkedNode): Promise<FaultyWay> {
  const invite = decodeInvite((await host.network.invite()).code);
  const way = await FaultyWay.start(Number(new URL(invite.addresses[0]!).port));
  stops.push(() => way.stop());
  await guest.network.join(encodeInvite({ ...invite, addresses: [`ws://127.0.0.1:${way.port}`] }));
  return way;
}

async function until(done: () => boolean): Promise<void> {
  await expect.poll(done, { timeout: 20_000, interval: 10 }).toBe(true);
}
