import { afterEach, describe, expect, it, vi } from 'vitest';
import { NatsServer } from '../../../test/nats-server.js';
import { Broker } from '../../nats/broker.js';
import { MAX_ENTRY_BYTES, NatsDirectory } from '../../nats/nats-directory.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { DirectoryKey } from '../membership/directory-key.js';
import { Identity } from '../membership/identity.js';
import { headOf } from '../peers/directory-entry.js';
import { GossipDirectory } from '../peers/gossip-directory.js';
import type { Item } from '../peers/wire.js';
import type { Directory, DirectoryEntry, DirectoryListener } from './directory.js';
import { MemoryDirectories } from './memory-directory.js';

/** A node's end of a directory, with what it has heard. */
interface End extends DirectoryListener {
  readonly node: string;
  readonly directory: Directory;
  readonly texts: string[];
  readonly gone: string[];
  readonly heard: string[];
  /** The entry of this node that says `text`. */
  entry(text: string): DirectoryEntry;
  start(): Promise<void>;
  stop(): Promise<void>;
  /** The process ends without a word. */
  crash(): Promise<void>;
}

interface Workbench {
  /** A node's directory, not started yet. */
  end(): Promise<End>;
  stop(): Promise<void>;
  /** Lets time pass, on a clock of its own if it has one. */
  pass?(ms: number): Promise<void>;
}

const LAST_WORDS = 'last words';
const runtime = systemRuntime();
let running: Workbench[] = [];

afterEach(async () => {
  for (const bench of running) await bench.stop();
  running = [];
});

describe.each<[string, () => Promise<Workbench>]>([
  ['memory', memory],
  ['nats', () => nats()],
  ['gossip', gossip],
])('a directory in %s', (kind, setUp) => {
  it('brings an entry to the others, and not back to its node', async () => {
    const [one, other] = await ends(2);
    one!.directory.publish(entry(one!, 'hello'));
    await until(() => other!.texts.length > 0);
    expect(other!.texts).toEqual(['hello']);
    expect(one!.texts).toEqual([]);
  });

  it('brings entries of before to a newcomer', async () => {
    const bench = await start();
    const [one, other] = [await bench.end(), await bench.end()];
    for (const end of [one, other]) {
      await end.start();
      end.directory.publish(entry(end, `of ${end.node}`));
    }
    await until(() => one.texts.length > 0 && other.texts.length > 0);
    const late = await bench.end();
    await late.start();
    await until(() => late.texts.length === 2);
    expect(late.texts.toSorted()).toEqual([`of ${one.node}`, `of ${other.node}`].sort());
  });

  it('brings the latest of many entries', async () => {
    const [one, other] = await ends(2);
    for (let version = 1; version <= 500; version++) one!.directory.publish(entry(one!, `version ${version}`));
    await until(() => other!.texts.at(-1) === 'version 500');
    expect(other!.texts.length).toBeLessThanOrEqual(500);
  });

  it('says that a node is gone that stopped, once, and lists it when it starts and publishes again', async () => {
    const [one, other] = await ends(2);
    one!.directory.publish(entry(one!, 'here'));
    await until(() => other!.texts.length === 1);
    one!.directory.publish(entry(one!, LAST_WORDS));
    await one!.stop();
    await until(() => other!.gone.length > 0);
    await one!.stop();
    await pass(50);
    expect(other!.gone).toEqual([one!.node]);
    // A bucket may have only the latest of two changes that follow each other.
    expect(['here', LAST_WORDS].slice(0, other!.texts.length)).toEqual(other!.texts);
    await one!.start();
    one!.directory.publish(entry(one!, 'again'));
    await until(() => other!.texts.at(-1) === 'again');
  });

  it('says again and again that a node is alive', async () => {
    const [one, other] = await ends(2);
    one!.directory.publish(entry(one!, 'here'));
    await until(() => other!.heard.length > 2, 15_000);
    expect(new Set(other!.heard)).toEqual(new Set([one!.node]));
    expect(one!.heard).toEqual([]);
  });

  it('is silent once it is stopped', async () => {
    const [one, other] = await ends(2);
    await other!.stop();
    one!.directory.publish(entry(one!, 'unheard'));
    await pass(100);
    expect(other!.texts).toEqual([]);
  });

  it('carries a large entry whole', async () => {
    const [one, other] = await ends(2);
    const text = `${kind} `.repeat(60_000);
    one!.directory.publish(entry(one!, text));
    await until(() => other!.texts.length > 0);
    expect(other!.texts[0] === text).toBe(true);
  });

  it('carries the entries of twenty nodes to each of them', async () => {
    const all = await ends(20);
    for (const end of all) end.directory.publish(entry(end, end.node));
    await until(() => all.every(({ texts }) => texts.length === 19));
    for (const end of all) expect(new Set([...end.texts, end.node]).size).toBe(20);
  });

  async function start(): Promise<Workbench> {
    const bench = await setUp();
    running.push(bench);
    return bench;
  }

  async function ends(count: number): Promise<End[]> {
    const bench = await start();
    const made = await Promise.all(Array.from({ length: count }, () => bench.end()));
    for (const end of made) await end.start();
    return made;
  }
});

describe('the directory in NATS', () => {
  it('says that a node is gone that crashed, and does not list it to newcomers [NX.9]', async () => {
    const bench = await nats();
    running.push(bench);
    const [one, other] = [await bench.end(), await bench.end()];
    for (const end of [one, other]) await end.start();
    one.directory.publish(entry(one, 'here'));
    await until(() => other.texts.length === 1);
    await one.crash();
    await until(() => other.gone.length > 0, 15_000);
    expect(other.gone).toEqual([one.node]);
    const late = await bench.end();
    await late.start();
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(late.texts).toEqual([]);
  });

  it('publishes again what a broker forgot, and keeps what was listed while the broker is away', async () => {
    const server = await NatsServer.start();
    const bench = await nats(server);
    running.push(bench);
    const [one, other] = [await bench.end(), await bench.end()];
    for (const end of [one, other]) await end.start();
    one.directory.publish(entry(one, 'before'));
    await until(() => other.texts.length === 1);
    await server.kill();
    one.directory.publish(entry(one, 'meanwhile'));
    await server.forget();
    await server.start();
    await until(() => other.texts.at(-1) === 'meanwhile', 15_000);
    expect(other.gone).toEqual([]);
  });

  it('publishes and reads nothing without the key, and ignores values under another key or of another node [NX.9]', async () => {
    const server = await NatsServer.start();
    let key: Uint8Array | undefined;
    const [blind, sighted, stranger] = [
      await nats(server, () => key),
      await nats(server),
      await nats(server, () => new Uint8Array(32).fill(9)),
    ];
    running.push(blind, stranger, sighted);
    const [one, other, third] = [await blind.end(), await sighted.end(), await stranger.end()];
    for (const end of [one, other, third]) await end.start();
    one.directory.publish(entry(one, 'unsealed'));
    third.directory.publish(entry(third, 'of another mesh'));
    other.directory.publish(entry(other, 'secret'));
    await until(() => (other.directory as NatsDirectory).ignored > 0 && (third.directory as NatsDirectory).ignored > 0);
    expect([one.texts, other.texts, third.texts]).toEqual([[], [], []]);
    // The key has come: entries of before are read with it.
    key = KEY;
    one.directory.publish(entry(one, 'sealed'));
    await until(() => other.texts.includes('sealed') && one.texts.includes('secret'));
  });

  it('does not publish an entry that is too large, and says so', async () => {
    const server = await NatsServer.start();
    const published = vi.fn();
    const bench = await nats(server, () => KEY, published);
    running.push(bench);
    const one = await bench.end();
    await one.start();
    one.directory.publish(entry(one, 'x'.repeat(MAX_ENTRY_BYTES + 1)));
    await until(() => published.mock.calls.length > 0);
    expect(published.mock.calls).toEqual([[false]]);
    one.directory.publish(entry(one, 'x'));
    await until(() => published.mock.calls.length > 1);
    expect(published.mock.calls[1]).toEqual([true]);
  });
});

const KEY = new Uint8Array(32).fill(7);

async function memory(): Promise<Workbench> {
  const shared = new MemoryDirectories(runtime);
  const made: End[] = [];
  return {
    end: async () => {
      const { key: node } = Identity.create(runtime);
      const end = heard(node, shared.join(node), async () => {});
      made.push(end);
      return end;
    },
    stop: async () => {
      for (const { directory } of made) await directory.stop();
    },
  };
}

/** Gossip among nodes of which each has a link to all others, on a clock of its own. */
async function gossip(): Promise<Workbench> {
  const clock = new SimulatedRuntime({ seed: 1 });
  const started = new Map<string, GossipDirectory>();
  return {
    pass: (ms) => clock.advance(ms),
    end: async () => {
      const identity = Identity.create(clock);
      const own = identity.key;
      const directory = new GossipDirectory({
        ...{ runtime: clock, identity, key: new DirectoryKey(clock) },
        say: (node, text) => clock.defer(() => started.get(node)?.take(own, JSON.parse(text) as Item)),
        isFullMember: () => true,
        isNeighbour: () => true,
        onKey() {},
      });
      const end = heard(own, directory, async () => {});
      let version = 0;
      return Object.assign(end, {
        entry: (text: string) => ({ node: own, version: ++version, text: JSON.stringify([own, version, text, '']) }),
        onEntry(signed: string) {
          const text = (JSON.parse(signed) as string[])[2]!;
          end.texts.push(text);
          // Its readers see by the last entry that a node has stopped.
          if (text === LAST_WORDS) end.gone.push(headOf(signed).node);
          return true;
        },
        async start() {
          await directory.start(end);
          for (const [node, other] of started) {
            other.began(own);
            directory.began(node);
          }
          started.set(own, directory);
        },
        async stop() {
          await directory.stop();
          await clock.advance(1);
          if (!started.delete(own)) return;
          for (const other of started.values()) other.ended(own);
        },
      });
    },
    async stop() {
      for (const directory of started.values()) await directory.stop();
    },
  };
}

async function nats(
  given?: NatsServer,
  key: () => Uint8Array | undefined = () => KEY,
  onPublished?: (stored: boolean) => void,
): Promise<Workbench> {
  const server = given ?? (await NatsServer.start());
  const endings: (() => Promise<void>)[] = [];
  return {
    end: async () => {
      const identity = Identity.create(runtime);
      const broker = new Broker({ runtime, identity }, { servers: [server.url] });
      await broker.start();
      broker.presence.announce([]);
      const { connection, presence } = broker;
      const directory = new NatsDirectory({ runtime, connection, presence, key, onPublished });
      endings.push(async () => {
        await directory.stop();
        await broker.stop();
      });
      const crash = async () => {
        await connection.stop();
        await broker.stop();
      };
      await connection.ready(5_000);
      return heard(identity.key, directory, crash);
    },
    stop: async () => {
      for (const end of endings) await end();
      await server.stop();
    },
  };
}

function heard(node: string, directory: Directory, crash: () => Promise<void>): End {
  const end: End = {
    node,
    directory,
    texts: [],
    gone: [],
    heard: [],
    onEntry: (text) => end.texts.push(text) > 0,
    onOutdone() {},
    onHeard: (other) => end.heard.push(other),
    onGone: (other) => end.gone.push(other),
    entry: (text) => ({ node, version: 1, text }),
    start: () => directory.start(end),
    stop: () => directory.stop(),
    crash,
  };
  return end;
}

function entry(end: End, text: string): DirectoryEntry {
  return end.entry(text);
}

async function until(condition: () => boolean, timeout = 8_000): Promise<void> {
  const deadline = performance.now() + timeout;
  while (!condition() && performance.now() < deadline) await pass(5);
  expect(condition()).toBe(true);
}

async function pass(ms: number): Promise<void> {
  const own = running.at(-1)?.pass;
  if (own) await own(20 * ms);
  else await new Promise((resolve) => setTimeout(resolve, ms));
}
