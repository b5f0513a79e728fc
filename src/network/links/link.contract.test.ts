import { randomBytes } from 'node:crypto';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { NatsServer } from '../../../test/nats-server.js';
import { NatsConnection } from '../../nats/connection.js';
import { NatsLinks } from '../../nats/nats-links.js';
import type { Runtime } from '../../runtime/runtime.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { HyperswarmDiscovery } from '../discovery/hyperswarm-discovery.js';
import { PrivateDht } from '../discovery/private-dht.js';
import { Identity } from '../membership/identity.js';
import { type Link, type LinkKind, type LinkListener, MAX_FRAME_BYTES } from './link.js';
import { linkInProcess, MemoryNetwork } from './memory-network.js';
import { dialWebsocket, WebsocketListener } from './websocket.js';

const FRAME_SIZES = [1, 2, 3, 255, 256, 16_384, 65_535, 65_536, 65_537, 1_048_576, 1_572_864, MAX_FRAME_BYTES];

/** Both ends of a link, and what they should say of each other. */
interface Pair {
  caller: Link;
  called: Link;
  callerKey: string;
  calledKey: string;
}

/** A way to make links, and to let them work. */
interface Workbench {
  open(): Promise<Pair>;
  /** Lets everything under way go on until the condition holds; fails when it never does. */
  until(condition: () => boolean): Promise<void>;
  /** From now on, no timer that a link sets runs out. */
  freeze(): void;
  /** Lets everything under way arrive. */
  settle(): Promise<void>;
  /** Ends everything, and says what would still keep a process alive. */
  stop(): Promise<string[]>;
}

let running: Workbench[] = [];

afterEach(async () => {
  for (const bench of running) await bench.stop();
  running = [];
});

describe.each<[LinkKind, () => Promise<Workbench>]>([
  ['in-process', inProcess],
  ['memory', memory],
  ['websocket', websocket],
  ['hyperswarm', hyperswarm],
  ['nats', nats],
])('a link of kind %s', (kind, setUp) => {
  it('says of what kind it is, and knows the key at its other end', async () => {
    const { caller, called, callerKey, calledKey } = await open();
    expect([caller.kind, called.kind]).toEqual([kind, kind]);
    expect([caller.remoteKey, called.remoteKey]).toEqual([calledKey, callerKey]);
  });

  it('has exactly one end that called', async () => {
    const { caller, called } = await open();
    expect([caller.initiator, called.initiator]).toEqual([true, false]);
  });

  it('has handshake bytes that both ends share and no other link has', async () => {
    const bench = await start();
    const links = [await bench.open(), await bench.open()];
    for (const { caller, called } of links) {
      expect(caller.handshake.byteLength).toBeGreaterThanOrEqual(32);
      expect(hex(called.handshake)).toBe(hex(caller.handshake));
    }
    expect(hex(links[0]!.caller.handshake)).not.toBe(hex(links[1]!.caller.handshake));
  });

  it('delivers frames of every size whole and equal, in order and once, both ways at once', async () => {
    const { caller, called, bench } = await open();
    const [callerEar, calledEar] = [new Ear(caller), new Ear(called)];
    const [there, back] = [frames(FRAME_SIZES), frames(FRAME_SIZES.toReversed())];
    for (let at = 0; at < FRAME_SIZES.length; at++) {
      caller.send(there[at]!);
      called.send(back[at]!);
    }
    await bench.until(() => calledEar.frames.length >= there.length && callerEar.frames.length >= back.length);
    await bench.settle();
    expect(same(calledEar.frames, there)).toBe(true);
    expect(same(callerEar.frames, back)).toBe(true);
  });

  it('delivers a thousand small frames in order and once, both ways at once', async () => {
    const { caller, called, bench } = await open();
    const [callerEar, calledEar] = [new Ear(caller), new Ear(called)];
    const sent = Array.from({ length: 1_000 }, (_, n) => Buffer.from(`frame ${n}`));
    for (const frame of sent) {
      caller.send(frame);
      called.send(frame);
    }
    await bench.until(() => calledEar.frames.length >= sent.length && callerEar.frames.length >= sent.length);
    await bench.settle();
    expect(calledEar.texts).toEqual(sent.map(String));
    expect(callerEar.texts).toEqual(sent.map(String));
  });

  it('keeps frames for an end that does not listen yet', async () => {
    const { caller, called, bench } = await open();
    const sent = frames([10, 1_000, 4_000]);
    for (const frame of sent) caller.send(frame);
    await bench.settle();
    const ear = new Ear(called);
    caller.send(sent[0]!);
    await bench.until(() => ear.frames.length >= 4);
    expect(same(ear.frames, [...sent, sent[0]!])).toBe(true);
  });

  it('hands every frame to the latest listener, also when it is replaced from within a frame', async () => {
    const { caller, called, bench } = await open();
    const sent = frames([10, 20, 30]);
    for (const frame of sent) caller.send(frame);
    await bench.settle();
    let next: Ear | undefined;
    const first = new Ear(called, {
      onFrame: () => {
        next ??= new Ear(called);
      },
    });
    await bench.until(() => next?.frames.length === 2);
    caller.close();
    await bench.until(() => next?.closes.length === 1);
    expect(same(first.frames, sent.slice(0, 1))).toBe(true);
    expect(same(next!.frames, sent.slice(1))).toBe(true);
    expect(first.closes).toEqual([]);
  });

  it('asks a sender to wait, tells it when to go on, and holds only so much in between', async () => {
    const { caller, called, bench } = await open();
    const frame = randomBytes(65_536);
    const total = 512;
    const ear = new Ear(called);
    let [sent, waits, most] = [0, 0, 0];
    const pump = () => {
      while (sent < total) {
        sent++;
        const more = caller.send(frame);
        most = Math.max(most, sent - ear.frames.length);
        if (more) continue;
        waits++;
        return;
      }
    };
    const callerEar = new Ear(caller, { onDrain: pump });
    pump();
    expect(sent).toBeLessThan(total);
    await bench.until(() => ear.frames.length >= total);
    expect(ear.frames.length).toBe(total);
    expect(ear.frames.every((got) => frame.equals(got))).toBe(true);
    expect(waits).toBeGreaterThan(1);
    await bench.until(() => callerEar.drains >= waits);
    expect(most * frame.byteLength).toBeLessThan(12 * 1_048_576);
  });

  it.each(['caller', 'called'] as const)('tells both ends once when the %s closes it', async (closer) => {
    const pair = await open();
    const other = closer === 'caller' ? 'called' : 'caller';
    const ears = { caller: new Ear(pair.caller), called: new Ear(pair.called) };
    pair[closer].close();
    await pair.bench.until(() => ears.caller.closes.length > 0 && ears.called.closes.length > 0);
    await pair.bench.settle();
    expect(ears[closer].closes).toEqual([{ reason: 'this end closed it', tampered: false }]);
    expect(ears[other].closes).toEqual([{ reason: 'the other end closed it', tampered: false }]);
  });

  it('needs no clock to run out in order to close', async () => {
    const { caller, called, bench } = await open();
    const ears = [new Ear(caller), new Ear(called)];
    bench.freeze();
    caller.close();
    await bench.until(() => ears.every(({ closes }) => closes.length > 0));
  });

  it('ignores frames that are sent after the close', async () => {
    const { caller, called, bench } = await open();
    const ears = [new Ear(caller), new Ear(called)];
    called.close();
    expect(called.send(Buffer.from('at once'))).toBe(false);
    await bench.until(() => ears.every(({ closes }) => closes.length > 0));
    for (const link of [caller, called]) expect(link.send(Buffer.from('later'))).toBe(false);
    await bench.settle();
    expect(ears.flatMap(({ texts }) => texts)).toEqual([]);
  });

  it('lets sent frames arrive before it closes', async () => {
    const { caller, called, bench } = await open();
    const [callerEar, ear] = [new Ear(caller), new Ear(called)];
    const sent = frames(Array.from({ length: 50 }, () => 20_000));
    for (const frame of sent) caller.send(frame);
    caller.close();
    await bench.until(() => ear.closes.length > 0 && callerEar.closes.length > 0);
    await bench.settle();
    expect(ear.frames.length).toBe(sent.length);
    expect(same(ear.frames, sent)).toBe(true);
    expect(ear.history.at(-1)).toBe('close');
  });

  it('may be closed twice, and by both ends at once', async () => {
    const { caller, called, bench } = await open();
    const ears = [new Ear(caller), new Ear(called)];
    for (const link of [caller, called, caller, called]) link.close();
    await bench.until(() => ears.every(({ closes }) => closes.length > 0));
    for (const link of [caller, called]) link.close();
    await bench.settle();
    expect(ears.map(({ closes }) => closes.length)).toEqual([1, 1]);
  });

  it('hands waiting frames to a listener that is added after the close, and then tells it', async () => {
    const { caller, called, bench } = await open();
    const callerEar = new Ear(caller);
    for (const text of ['one', 'two']) caller.send(Buffer.from(text));
    caller.close();
    await bench.settle();
    const ear = new Ear(called);
    await bench.until(() => ear.closes.length > 0 && callerEar.closes.length > 0);
    await bench.settle();
    expect(ear.texts).toEqual(['one', 'two']);
    expect(ear.history).toEqual(['frame', 'frame', 'close']);
  });

  it('tells a listener that is added after its own end closed', async () => {
    const { caller, called, bench } = await open();
    const calledEar = new Ear(called);
    caller.close();
    await bench.until(() => calledEar.closes.length > 0);
    await bench.settle();
    const ear = new Ear(caller);
    await bench.until(() => ear.closes.length > 0);
    await bench.settle();
    expect(ear.closes).toEqual([{ reason: 'this end closed it', tampered: false }]);
  });

  it('may be closed from within a frame that had waited for a listener', async () => {
    const { caller, called, bench } = await open();
    const callerEar = new Ear(caller);
    for (const text of ['one', 'two', 'three']) caller.send(Buffer.from(text));
    await bench.settle();
    const ear = new Ear(called, { onFrame: () => called.close() });
    await bench.until(() => ear.closes.length > 0 && callerEar.closes.length > 0);
    await bench.settle();
    expect(ear.history).toEqual(['frame', 'close']);
    expect(callerEar.closes.length).toBe(1);
  });

  it('says nothing more once it said that it is closed', async () => {
    const { caller, called, bench } = await open();
    const ears = [new Ear(caller), new Ear(called)];
    for (const link of [caller, called]) while (link.send(randomBytes(65_536)));
    caller.close();
    await bench.until(() => ears.every(({ closes }) => closes.length > 0));
    await bench.settle();
    for (const { history } of ears) expect(history.indexOf('close')).toBe(history.length - 1);
  });

  it('keeps no process alive when everything is closed', async () => {
    const bench = await start();
    for (const closer of ['caller', 'called'] as const) {
      const pair = await bench.open();
      const ears = [new Ear(pair.caller), new Ear(pair.called)];
      pair.caller.send(randomBytes(100_000));
      pair[closer].close();
      await bench.until(() => ears.every(({ closes }) => closes.length > 0));
    }
    expect(await bench.stop()).toEqual([]);
  });

  async function start(): Promise<Workbench> {
    const bench = await setUp();
    running.push(bench);
    return bench;
  }

  async function open(): Promise<Pair & { bench: Workbench }> {
    const bench = await start();
    return { ...(await bench.open()), bench };
  }
});

/** Listens to one end of a link and writes down what it hears. */
class Ear implements LinkListener {
  readonly frames: Uint8Array[] = [];
  readonly closes: { reason: string; tampered: boolean }[] = [];
  readonly history: ('frame' | 'close' | 'drain')[] = [];
  drains = 0;
  readonly #also: { onFrame?: () => void; onDrain?: () => void };

  constructor(link: Link, also: { onFrame?: () => void; onDrain?: () => void } = {}) {
    this.#also = also;
    link.listen(this);
  }

  get texts(): string[] {
    return this.frames.map((frame) => Buffer.from(frame).toString());
  }

  onFrame(frame: Uint8Array): void {
    this.frames.push(frame);
    this.history.push('frame');
    this.#also.onFrame?.();
  }

  onDrain(): void {
    this.drains++;
    if (this.closes.length > 0) this.history.push('drain');
    this.#also.onDrain?.();
  }

  onClose(reason: string, tampered: boolean): void {
    this.closes.push({ reason, tampered });
    this.history.push('close');
  }
}

async function inProcess(): Promise<Workbench> {
  const runtime = systemRuntime();
  const [callerKey, calledKey] = [Identity.create(runtime).key, Identity.create(runtime).key];
  return {
    open: async () => {
      const [caller, called] = linkInProcess(runtime, callerKey, calledKey);
      return { caller, called, callerKey, calledKey };
    },
    until: patiently(turn),
    freeze: () => {},
    settle: turn,
    stop: async () => [],
  };
}

async function memory(): Promise<Workbench> {
  const runtime = new SimulatedRuntime();
  const network = new MemoryNetwork(runtime);
  const [callerKey, calledKey] = [Identity.create(runtime).key, Identity.create(runtime).key];
  return {
    open: async () => {
      const [caller, called] = network.connect(callerKey, calledKey)!;
      return { caller, called, callerKey, calledKey };
    },
    until: patiently(() => runtime.advance(1)),
    freeze: () => {},
    settle: () => runtime.advance(100),
    stop: async () => Array.from({ length: runtime.pending }, () => 'a task'),
  };
}

async function websocket(): Promise<Workbench> {
  const { runtime, freeze } = freezable();
  const before = resources();
  const [caller, called] = [Identity.create(runtime), Identity.create(runtime)];
  const failures: string[] = [];
  const arrived: Link[] = [];
  const listener = new WebsocketListener({
    runtime,
    keyPair: called.keyPair,
    onLink: (link) => arrived.push(link),
    onFailure: (_, reason) => failures.push(reason),
  });
  const [address] = await listener.listen('127.0.0.1', 0);
  const until = patiently(moment);
  return {
    open: async () => {
      const link = await dialWebsocket(runtime, address!, caller.keyPair);
      await until(() => arrived.length > 0);
      return { caller: link, called: arrived.shift()!, callerKey: caller.key, calledKey: called.key };
    },
    until,
    freeze,
    settle: aWhile,
    stop: async () => {
      await listener.close();
      expect(failures).toEqual([]);
      return leftOver(before);
    },
  };
}

async function hyperswarm(): Promise<Workbench> {
  const { runtime, freeze } = freezable();
  const before = resources();
  const dht = await PrivateDht.start(4, '127.0.0.1', 0);
  const discoveries: HyperswarmDiscovery[] = [];
  const until = patiently(moment);
  const join = async (topic: Uint8Array, role: 'host' | 'guest') => {
    const { keyPair, key } = Identity.create(runtime);
    const links: Link[] = [];
    const discovery = new HyperswarmDiscovery(
      { runtime, keyPair, shouldCall: () => true },
      { bootstrap: dht.bootstrap },
    );
    discoveries.push(discovery);
    await discovery.start((link) => links.push(link));
    discovery.setRendezvous([{ topic, role }]);
    return { key, links };
  };
  return {
    open: async () => {
      const topic = runtime.bytes(32);
      const host = await join(topic, 'host');
      const guest = await join(topic, 'guest');
      await until(() => host.links.length > 0 && guest.links.length > 0);
      return { caller: guest.links[0]!, called: host.links[0]!, callerKey: guest.key, calledKey: host.key };
    },
    until,
    freeze,
    settle: aWhile,
    stop: async () => {
      await Promise.all(discoveries.map((discovery) => discovery.stop()));
      await dht.stop();
      return leftOver(before);
    },
  };
}

async function nats(): Promise<Workbench> {
  const { runtime, freeze } = freezable();
  const server = await NatsServer.start();
  const before = resources();
  const failures: string[] = [];
  const onFailure = (_: string, reason: string) => failures.push(reason);
  const ends = await Promise.all(
    [Identity.create(runtime), Identity.create(runtime)].map(async (identity) => {
      const connection = new NatsConnection({ runtime, identity }, { servers: [server.url] });
      await connection.start();
      await connection.ready(5_000);
      const arrived: Link[] = [];
      const { keyPair } = identity;
      const links = new NatsLinks({ runtime, keyPair, connection, onLink: (link) => arrived.push(link), onFailure });
      links.start();
      await connection.core.flush();
      return { identity, connection, arrived, links };
    }),
  );
  const [caller, called] = [ends[0]!, ends[1]!];
  const until = patiently(moment);
  return {
    open: async () => {
      const link = await caller.links.dial(called.identity.key);
      await until(() => called.arrived.length > 0);
      const [callerKey, calledKey] = [caller.identity.key, called.identity.key];
      return { caller: link, called: called.arrived.shift()!, callerKey, calledKey };
    },
    until,
    freeze,
    settle: aWhile,
    stop: async () => {
      for (const { links, connection } of ends) {
        links.close();
        await connection.stop();
      }
      expect(failures).toEqual([]);
      const left = await leftOver(before);
      await server.stop();
      return left;
    },
  };
}

/** The machine's runtime, whose timers can be told to run out no more. */
function freezable(): { runtime: Runtime; freeze: () => void } {
  const runtime = systemRuntime();
  const freeze = () => {
    runtime.setTimer = () => ({ cancel() {} });
  };
  return { runtime, freeze };
}

/** Goes on step by step until a condition holds. */
function patiently(step: () => Promise<void>): Workbench['until'] {
  return async (condition) => {
    const start = performance.now();
    while (!condition()) {
      if (performance.now() - start > 8_000) expect.fail(`in vain for 8 s: ${condition}`);
      await step();
    }
  };
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function moment(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 2));
}

/** As long as anything on this machine’s own network could be under way. */
function aWhile(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 100));
}

/** What keeps this process alive, timers aside: those of the test runner come and go. */
function resources(): string[] {
  return process.getActiveResourcesInfo().filter((name) => !/^(Timeout|Immediate)$/.test(name));
}

async function leftOver(before: readonly string[]): Promise<string[]> {
  const more = () => {
    const left = resources();
    for (const name of before) if (left.includes(name)) left.splice(left.indexOf(name), 1);
    return left;
  };
  await vi.waitFor(() => expect(more()).toEqual([]), { timeout: 2_000, interval: 10 }).catch(() => {});
  return more();
}

function frames(sizes: readonly number[]): Buffer[] {
  return sizes.map((size) => randomBytes(size));
}

/** Compares bytes: a matcher would take seconds to describe megabytes. */
function same(got: readonly Uint8Array[], wanted: readonly Buffer[]): boolean {
  return got.length === wanted.length && wanted.every((frame, at) => frame.equals(got[at]!));
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
