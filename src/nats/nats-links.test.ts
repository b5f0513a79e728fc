import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { NatsServer } from '../../test/nats-server.js';
import type { Link } from '../network/links/link.js';
import { Identity } from '../network/membership/identity.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { NatsConnection } from './connection.js';
import { NatsLinks } from './nats-links.js';
import { HEADER_BYTES, MESSAGE, readMessage, writeMessage } from './pipe.js';

const runtime = systemRuntime();
let server: NatsServer;
let endings: (() => Promise<unknown> | unknown)[] = [];

beforeEach(async () => {
  server = await NatsServer.start();
  endings.push(() => server.stop());
});

afterEach(async () => {
  for (const end of endings.reverse()) await end();
  endings = [];
});

describe('a link over NATS', () => {
  it('whose chunk the broker lost is closed, and not taken for tampering [NX.2]', async () => {
    const { caller, called, wire } = await pair();
    const ears = [hear(caller), hear(called)];
    let dropped = 0;
    wire.drop = ({ type }) => type === MESSAGE.data && ++dropped > 0;
    caller.send(Buffer.from('lost'));
    await until(() => dropped > 0);
    wire.drop = undefined;
    caller.send(Buffer.from('next'));
    await until(() => ears.every(({ closes }) => closes.length > 0));
    expect(ears[1]!.closes).toEqual([[expect.stringMatching(/the broker lost a message/), false]]);
    expect(ears[0]!.closes).toEqual([[expect.stringMatching(/the other end is gone/), false]]);
    expect(ears[1]!.frames).toEqual([]);
  });

  it('whose bytes the broker changed is closed as tampered with [NX.3]', async () => {
    const { caller, called, wire } = await pair();
    const ear = hear(called);
    wire.change = (data) => {
      data[data.length - 1]! ^= 1;
    };
    caller.send(Buffer.from('changed'));
    await until(() => ear.closes.length > 0);
    expect(ear.closes).toEqual([[expect.any(String), true]]);
    expect(ear.frames).toEqual([]);
  });

  it('ends when a recorded chunk is replayed, with its number or as the next one [NX.3]', async () => {
    for (const renumber of [false, true]) {
      const { caller, called, calledKey, wire } = await pair();
      const ear = hear(called);
      caller.send(Buffer.from('once'));
      await until(() => ear.frames.length === 1);
      await wire.caughtUp();
      const recorded = wire.seen.findLast(
        ({ subject, data }) => subject.includes(`.l.${calledKey}.`) && data[0] === MESSAGE.data,
      )!;
      const data = Buffer.from(recorded.data);
      if (renumber) data.writeUIntBE(readMessage(data)!.count + 1, HEADER_BYTES - 6, 6);
      wire.inject(recorded.subject, data);
      await until(() => ear.closes.length > 0);
      expect(ear.closes[0]![1]).toBe(renumber);
      expect(ear.frames.map(String)).toEqual(['once']);
    }
  });

  it('cannot be opened by replaying the handshake of an earlier one [NX.3]', async () => {
    const { caller, called, calledKey, wire, arrived, failures, ends } = await pair();
    caller.send(Buffer.from('hello'));
    await until(() => wire.seen.some(({ data }) => data.length > 100));
    const recorded = wire.seen.filter(({ subject }) => subject.includes(`.l.${calledKey}.`));
    const ears = [hear(caller), hear(called)];
    caller.close();
    await until(() => ears.every(({ closes }) => closes.length > 0));
    await Promise.all(ends.map(({ links }) => links.drained()));
    for (const { subject, data } of recorded) wire.inject(subject, data);
    await until(() => failures.length > 0);
    expect(arrived).toHaveLength(0);
  });

  it('is refused to a node that calls on the subject of another [NX.3]', async () => {
    const { calledKey, callerKey, arrived, failures } = await pair();
    const rogue = Identity.create(runtime);
    // It sends on the caller's subject, which a pinned broker would not let it.
    const keyPair = { publicKey: Buffer.from(callerKey, 'hex'), secretKey: rogue.keyPair.secretKey };
    const forged = { key: callerKey, seed: rogue.seed, keyPair };
    const end = await open(forged, server.url);
    // Its own end may look open for a moment; the called node never sees a link.
    await end.links.dial(calledKey).then(hear, () => {});
    await until(() => failures.length > 0);
    expect(arrived).toHaveLength(0);
  });

  it('ends at once when the broker is lost, and when the other process does not know it any more', async () => {
    const { caller, called, ends } = await pair();
    const ears = [hear(caller), hear(called)];
    // The other process crashed and came back: its links are unknown to the new one.
    await ends[1]!.crash();
    await open(ends[1]!.identity, server.url);
    caller.send(Buffer.from('still there?'));
    await until(() => ears[0]!.closes.length > 0);
    expect(ears[0]!.closes).toEqual([[expect.stringMatching(/the other end is gone/), false]]);
    const second = await pair();
    const others = [hear(second.caller), hear(second.called)];
    await server.kill();
    await until(() => others.every(({ closes }) => closes.length > 0));
    for (const { closes } of others) expect(closes).toEqual([[expect.stringMatching(/NATS: the connection/), false]]);
  });

  it('to a node that is not there is given up', async () => {
    const { ends } = await pair();
    await expect(ends[0]!.links.dial('a'.repeat(64))).rejects.toMatchObject({ code: 'PEER_UNREACHABLE' });
  });

  it('shows the broker nothing but keys and ciphertext [NX.3]', async () => {
    const { caller, called, wire } = await pair();
    const ear = hear(called);
    caller.send(Buffer.from('a very secret frame'));
    await until(() => ear.frames.length === 1);
    expect(wire.seen.length).toBeGreaterThan(3);
    for (const { data } of wire.seen) expect(Buffer.from(data).includes('secret')).toBe(false);
  });

  it('puts the frames of one turn into one message [NX.2]', async () => {
    const { caller, called, wire } = await pair();
    const ear = hear(called);
    const before = wire.seen.length;
    for (let count = 0; count < 500; count++) caller.send(Buffer.from(`frame ${count}`));
    await until(() => ear.frames.length === 500);
    expect(wire.seen.slice(before).filter(({ data }) => data[0] === MESSAGE.data).length).toBeLessThan(5);
  });

  it('works with a broker whose messages are small', async () => {
    await server.reload('max_payload: 1024');
    await vi.waitFor(async () => {
      const { connection } = await open(Identity.create(runtime), server.url);
      expect(connection.core.info?.max_payload).toBe(1_024);
    }, 10_000);
    const { caller, called } = await pair();
    const ear = hear(called);
    const frame = randomBytes(50_000);
    caller.send(frame);
    await until(() => ear.frames.length === 1);
    expect(frame.equals(ear.frames[0]!)).toBe(true);
  });

  it('that acknowledges bytes that were not sent is closed', async () => {
    const { called, calledKey, callerKey, wire } = await pair();
    const ear = hear(called);
    const id = Buffer.from(readMessage(wire.seen[0]!.data)!.id, 'hex');
    wire.inject(`ecl.main.l.${calledKey}.${callerKey}`, writeMessage(MESSAGE.credit, id, 1_000_000_000));
    await until(() => ear.closes.length > 0);
    expect(ear.closes[0]![0]).toMatch(/were not sent/);
  });

  it('that carries more than was granted is closed, so a sender cannot fill the memory', async () => {
    const { called, calledKey, callerKey, wire } = await pair();
    const closed = vi.fn();
    const id = Buffer.from(readMessage(wire.seen[0]!.data)!.id, 'hex');
    const sent = wire.seen.filter(
      ({ subject, data }) => subject.includes(`.l.${calledKey}.`) && data[0] === MESSAGE.data,
    );
    for (let chunk = 0; chunk < 32; chunk++) {
      const message = writeMessage(MESSAGE.data, id, sent.length + chunk, [Buffer.alloc(65_536)]);
      wire.inject(`ecl.main.l.${calledKey}.${callerKey}`, message);
    }
    await until(() => wire.seen.some(({ data }) => data[0] === MESSAGE.gone));
    called.listen({ onFrame: () => {}, onDrain: () => {}, onClose: closed });
    await until(() => closed.mock.calls.length > 0);
  });

  it('is refused to callers beyond 256 that do not complete their handshakes [NX.8]', async () => {
    const { calledKey, wire, failures } = await pair();
    for (let count = 0; count < 2_000; count++) {
      wire.inject(`ecl.main.l.${calledKey}.${'b'.repeat(64)}`, writeMessage(MESSAGE.open, runtime.bytes(8), 0));
    }
    const refused = () => wire.seen.filter(({ data }) => data[0] === MESSAGE.gone).length;
    await until(() => refused() >= 2_000 - 256);
    expect(failures.length).toBeLessThanOrEqual(256);
  });
});

interface End {
  identity: Pick<Identity, 'key' | 'seed' | 'keyPair'>;
  connection: NatsConnection;
  links: NatsLinks;
  arrived: Link[];
  failures: string[];
  crash(): Promise<void>;
}

async function open(identity: End['identity'], url: string): Promise<End> {
  const connection = new NatsConnection({ runtime, identity }, { servers: [url] });
  await connection.start();
  await connection.ready(5_000);
  const arrived: Link[] = [];
  const failures: string[] = [];
  const onFailure = (_: string, reason: string) => failures.push(reason);
  const { keyPair } = identity;
  const links = new NatsLinks({ runtime, keyPair, connection, onLink: (link) => arrived.push(link), onFailure });
  links.start();
  await connection.core.flush();
  endings.push(async () => {
    links.close();
    await connection.stop();
  });
  const crash = async () => {
    await connection.core.close();
    await connection.stop();
  };
  return { identity, connection, links, arrived, failures, crash };
}

/** Two nodes with a link, the caller behind a proxy that can change and drop what it publishes. */
async function pair() {
  const wire = await Wire.start(server.port);
  const [from, to] = [
    await open(Identity.create(runtime), `nats://127.0.0.1:${wire.port}`),
    await open(Identity.create(runtime), server.url),
  ];
  const observer = await open(Identity.create(runtime), server.url);
  observer.connection.core.subscribe('ecl.main.l.*.*', {
    callback: (_, { subject, data }) => void wire.seen.push({ subject, data: Uint8Array.from(data) }),
  });
  await observer.connection.core.flush();
  wire.inject = (subject, data) => observer.connection.core.publish(subject, data);
  wire.caughtUp = () => observer.connection.core.flush();
  const [callerKey, calledKey] = [from.identity.key, to.identity.key];
  const caller = await from.links.dial(calledKey);
  await until(() => to.arrived.length > 0);
  const called = to.arrived.shift()!;
  await wire.caughtUp();
  const { arrived, failures } = to;
  return { caller, called, callerKey, calledKey, wire, arrived, failures, ends: [from, to] };
}

/** A proxy before the broker that reads the messages on link subjects. */
class Wire {
  readonly seen: { subject: string; data: Uint8Array }[] = [];
  drop: ((message: { type: number }) => boolean) | undefined;
  change: ((data: Uint8Array) => void) | undefined;
  inject: (subject: string, data: Uint8Array) => void = () => {};
  /** Resolves when `seen` has every message that was delivered before. */
  caughtUp: () => Promise<void> = async () => {};
  readonly port: number;

  private constructor(port: number) {
    this.port = port;
  }

  static async start(target: number): Promise<Wire> {
    const proxy = createServer({ noDelay: true });
    await once(proxy.listen(0, '127.0.0.1'), 'listening');
    const wire = new Wire((proxy.address() as AddressInfo).port);
    proxy.on('connection', (forth) => {
      const back = connect({ port: target, host: '127.0.0.1', noDelay: true });
      forth.on('data', (chunk) => back.write(wire.#pass(chunk)));
      back.on('data', (chunk) => forth.write(chunk));
      for (const [one, other] of [
        [forth, back],
        [back, forth],
      ] as const) {
        one.on('close', () => other.destroy());
        one.on('error', () => {});
      }
    });
    endings.push(() => proxy.close());
    return wire;
  }

  /** Small messages arrive whole in one chunk on loopback. */
  #pass(chunk: Buffer): Buffer {
    const parts: Buffer[] = [];
    let rest = chunk;
    for (;;) {
      const end = rest.indexOf('\r\n');
      const [, length] = /^PUB ecl\.main\.l\.\S+ (\d+)$/.exec(rest.toString('latin1', 0, Math.max(0, end))) ?? [];
      if (end < 0 || length === undefined) break;
      const whole = end + 2 + Number(length) + 2;
      const data = rest.subarray(end + 2, whole - 2);
      if (data[0] === MESSAGE.data) this.change?.(data);
      if (!this.drop?.({ type: data[0]! })) parts.push(rest.subarray(0, whole));
      rest = rest.subarray(whole);
    }
    return Buffer.concat([...parts, rest]);
  }
}

function hear(link: Link) {
  const heard = { frames: [] as Uint8Array[], closes: [] as [string, boolean][] };
  link.listen({
    onFrame: (frame) => heard.frames.push(frame),
    onDrain: () => {},
    onClose: (reason, tampered) => heard.closes.push([reason, tampered]),
  });
  return heard;
}

async function until(condition: () => boolean): Promise<void> {
  await vi.waitFor(() => expect(condition()).toBe(true), { timeout: 10_000, interval: 5 });
}
