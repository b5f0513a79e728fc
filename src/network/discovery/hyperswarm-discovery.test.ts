import { execFile } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { systemRuntime } from '../../runtime/system-runtime.js';
import type { Link } from '../links/link.js';
import { Identity } from '../membership/identity.js';
import type { Rendezvous } from './discovery.js';
import { HyperswarmDiscovery } from './hyperswarm-discovery.js';
import { PrivateDht } from './private-dht.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const run = promisify(execFile);
const runtime = systemRuntime();
let dht: PrivateDht;
let seekers: Seeker[] = [];

beforeAll(async () => {
  dht = await PrivateDht.start(4, '127.0.0.1', 0);
});

afterEach(async () => {
  await Promise.all(seekers.map(({ discovery }) => discovery.stop()));
  seekers = [];
});

afterAll(() => dht.stop());

describe('two nodes on a private DHT', () => {
  it('meet within two seconds, 20 of 20 times, when they join one topic at the same moment', async () => {
    const times: number[] = [];
    for (let pair = 0; pair < 20; pair++) {
      const meeting = { topic: runtime.bytes(32), role: 'member' } as const;
      const [one, other] = await Promise.all([seek(), seek()]);
      const start = performance.now();
      for (const { discovery } of [one, other]) discovery.setRendezvous([meeting]);
      await Promise.all([one.hears(other), other.hears(one)]);
      times.push(performance.now() - start);
      await Promise.all([one.discovery.stop(), other.discovery.stop()]);
    }
    expect(times).toHaveLength(20);
    expect(Math.max(...times)).toBeLessThan(2_000);
  });

  it('meet at a topic that one of them comes to later', async () => {
    const topic = runtime.bytes(32);
    const one = await seek({ topic, role: 'member' });
    const other = await seek({ topic: runtime.bytes(32), role: 'member' });
    other.discovery.setRendezvous([{ topic, role: 'member' }]);
    await Promise.all([one.hears(other), other.hears(one)]);
  });

  it('are left with one link that both have, though both have called', async () => {
    const meeting = { topic: runtime.bytes(32), role: 'member' } as const;
    const [one, other] = await Promise.all([seek(meeting), seek(meeting)]);
    await Promise.all([one.hears(other), other.hears(one)]);
    await eventually(() => {
      expect([one.open.length, other.open.length]).toEqual([1, 1]);
      expect(one.open).toEqual(other.open);
    });
  });

  it('meet again when the link between them breaks', async () => {
    const meeting = { topic: runtime.bytes(32), role: 'member' } as const;
    const [one, other] = await Promise.all([seek(meeting), seek(meeting)]);
    await Promise.all([one.hears(other), other.hears(one)]);
    const before = new Set([...one.all, ...other.all]);
    for (const link of one.links) link.close();
    await eventually(() => {
      for (const seeker of [one, other]) seeker.discovery.seek();
      expect(one.open.some((handshake) => !before.has(handshake) && other.open.includes(handshake))).toBe(true);
    });
  });
});

describe('a node on a private DHT', () => {
  it('does not find nodes on another topic', async () => {
    const [topic, another] = [runtime.bytes(32), runtime.bytes(32)];
    const [one, other, lone, partner] = await Promise.all([
      seek({ topic, role: 'member' }),
      seek({ topic, role: 'member' }),
      seek({ topic: another, role: 'member' }),
      seek({ topic: another, role: 'member' }),
    ]);
    await Promise.all([one.hears(other), other.hears(one), lone.hears(partner), partner.hears(lone)]);
    expect(new Set(lone.remotes)).toEqual(new Set([partner.key]));
    expect(new Set(one.remotes)).toEqual(new Set([other.key]));
  });

  it('is no longer found at a topic that it left', async () => {
    const [topic, another] = [runtime.bytes(32), runtime.bytes(32)];
    const one = await seek({ topic, role: 'member' });
    const witness = await seek({ topic, role: 'member' });
    await Promise.all([one.hears(witness), witness.hears(one)]);
    one.discovery.setRendezvous([{ topic: another, role: 'member' }]);
    // Whoever meets it at the other topic knows that it is there; only then does somebody look at the first.
    const partner = await seek({ topic: another, role: 'member' });
    await Promise.all([one.hears(partner), partner.hears(one)]);
    const late = await seek({ topic, role: 'member' });
    await Promise.all([late.hears(witness), witness.hears(late)]);
    expect(late.remotes).not.toContain(one.key);
  });

  it('finds, as a guest, every host, while hosts do not look for each other', async () => {
    const topic = runtime.bytes(32);
    const [first, second] = await Promise.all([seek({ topic, role: 'host' }), seek({ topic, role: 'host' })]);
    const guest = await seek({ topic, role: 'guest' });
    await Promise.all([guest.hears(first), guest.hears(second)]);
    expect(new Set(first.remotes)).toEqual(new Set([guest.key]));
    expect(new Set(second.remotes)).toEqual(new Set([guest.key]));
    expect(guest.links.every(({ initiator }) => initiator)).toBe(true);
  });

  it('is not found by other guests while it is one', async () => {
    const topic = runtime.bytes(32);
    const [one, other] = await Promise.all([seek({ topic, role: 'guest' }), seek({ topic, role: 'guest' })]);
    const host = await seek({ topic, role: 'host' });
    for (const guest of [one, other]) guest.discovery.seek();
    await Promise.all([one.hears(host), other.hears(host)]);
    expect(new Set([...one.remotes, ...other.remotes])).toEqual(new Set([host.key]));
  });

  it('takes another role at a topic when told to', { timeout: 5_000 }, async () => {
    const topic = runtime.bytes(32);
    const one = await seek({ topic, role: 'guest' });
    one.discovery.setRendezvous([{ topic, role: 'host' }]);
    const guest = await seek({ topic, role: 'guest' });
    await Promise.all([one.hears(guest), guest.hears(one)]);
  });

  it('says that it reaches the DHT as soon as it does', async () => {
    const { discovery } = await seek();
    await eventually(() => expect(discovery.status().working).toBe(true));
    expect(discovery.status()).toEqual({
      kind: 'hyperswarm',
      working: true,
      detail: `reaches the private DHT at ${dht.bootstrap.join(', ')}`,
    });
  });

  it('never says that it reaches a DHT where nothing answers, and can be stopped nevertheless', async () => {
    const silent = createSocket('udp4').bind(0, '127.0.0.1');
    await once(silent, 'listening');
    const seeker = await seek({ topic: runtime.bytes(32), role: 'member' }, [`127.0.0.1:${silent.address().port}`]);
    // It takes this long until the first attempt is given up; there is no event for it.
    const late = performance.now() + 8_000;
    const answers = new Set<string>();
    while (performance.now() < late && answers.size < 2) {
      const { working, detail } = seeker.discovery.status();
      answers.add(`${working}: ${detail.split(' ', 2).join(' ')}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const start = performance.now();
    await seeker.discovery.stop();
    silent.close();
    expect(performance.now() - start).toBeLessThan(2_000);
    expect([...answers]).toEqual(['false: cannot reach']);
  });
});

describe('a discovery that is stopped', () => {
  it('ends its links, and may be stopped again', async () => {
    const meeting = { topic: runtime.bytes(32), role: 'member' } as const;
    const [one, other] = await Promise.all([seek(meeting), seek(meeting)]);
    await Promise.all([one.hears(other), other.hears(one)]);
    await one.discovery.stop();
    await eventually(() => expect([one.open, other.open]).toEqual([[], []]));
    await one.discovery.stop();
  });

  it('is harmless if it was never started', async () => {
    const { keyPair } = Identity.create(runtime);
    await new HyperswarmDiscovery({ runtime, keyPair, shouldCall: () => true }, { bootstrap: dht.bootstrap }).stop();
  });

  it('says nothing of anybody any more', async () => {
    const meeting = { topic: runtime.bytes(32), role: 'member' } as const;
    const [one, other] = await Promise.all([seek(meeting), seek(meeting)]);
    await one.discovery.stop();
    const known = one.links.length;
    const third = await seek(meeting);
    await Promise.all([other.hears(third), third.hears(other)]);
    expect(one.links.length).toBe(known);
    expect(third.remotes).not.toContain(one.key);
    one.discovery.seek();
  });

  it('keeps no process alive', async () => {
    const script = `
      import { HyperswarmDiscovery } from './src/network/discovery/hyperswarm-discovery.js';
      import { PrivateDht } from './src/network/discovery/private-dht.js';
      import { Identity } from './src/network/membership/identity.js';
      import { systemRuntime } from './src/runtime/system-runtime.js';
      const runtime = systemRuntime();
      const dht = await PrivateDht.start(4, '127.0.0.1', 0);
      const topic = runtime.bytes(32);
      let links = 0;
      await new Promise((resolve) => {
        globalThis.discoveries = [1, 2].map(() => {
          const { keyPair } = Identity.create(runtime);
          const discovery = new HyperswarmDiscovery({ runtime, keyPair, shouldCall: () => true }, { bootstrap: dht.bootstrap });
          discovery.start((link) => {
            link.listen({ onFrame() {}, onDrain() {}, onClose() {} });
            if (++links === 2) resolve();
          });
          discovery.setRendezvous([{ topic, role: 'member' }]);
          return discovery;
        });
      });
      for (const discovery of discoveries) await discovery.stop();
      await dht.stop();
      console.log('done');
    `;
    const options = { cwd: ROOT, timeout: 10_000 };
    const { stdout } = await run(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], options);
    expect(stdout).toBe('done\n');
  });
});

/** A discovery that says its name on every link, and remembers every link and every name it hears. */
interface Seeker {
  readonly key: string;
  readonly discovery: HyperswarmDiscovery;
  readonly links: Link[];
  /** The handshake bytes of all links, and of those that are open. */
  readonly all: readonly string[];
  readonly open: readonly string[];
  readonly remotes: readonly string[];
  /** Resolves as soon as a frame from the other came over a link. */
  hears(other: Seeker): Promise<void>;
}

async function seek(meeting?: Rendezvous, bootstrap: readonly string[] = dht.bootstrap): Promise<Seeker> {
  const { keyPair, key } = Identity.create(runtime);
  const discovery = new HyperswarmDiscovery({ runtime, keyPair, shouldCall: () => true }, { bootstrap });
  const links: Link[] = [];
  const closed = new Set<Link>();
  const heard = new Map<string, { promise: Promise<void>; resolve: () => void }>();
  const hearing = (other: string) => {
    const known = heard.get(other);
    if (known) return known;
    let resolve = () => {};
    const promise = new Promise<void>((done) => {
      resolve = done;
    });
    heard.set(other, { promise, resolve });
    return { promise, resolve };
  };
  await discovery.start((link) => {
    links.push(link);
    link.listen({
      onFrame: (frame) => hearing(Buffer.from(frame).toString()).resolve(),
      onDrain: () => {},
      onClose: () => closed.add(link),
    });
    link.send(Buffer.from(key));
  });
  const seeker: Seeker = {
    key,
    discovery,
    links,
    get all() {
      return links.map(handshakeOf);
    },
    get open() {
      return links.filter((link) => !closed.has(link)).map(handshakeOf);
    },
    get remotes() {
      return links.map(({ remoteKey }) => remoteKey);
    },
    hears: (other) => hearing(other.key).promise,
  };
  seekers.push(seeker);
  if (meeting) discovery.setRendezvous([meeting]);
  return seeker;
}

function handshakeOf({ handshake }: Link): string {
  return Buffer.from(handshake).toString('hex');
}

/** Tries until it holds: where no event says that it does. */
function eventually(holds: () => void): Promise<void> {
  return vi.waitFor(holds, { timeout: 8_000, interval: 10 });
}
