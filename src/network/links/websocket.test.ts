import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { stablePort } from '../../../test/ports.js';
import type { Runtime } from '../../runtime/runtime.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { Identity } from '../membership/identity.js';
import type { Link, LinkListener } from './link.js';
import { dialWebsocket, WebsocketListener } from './websocket.js';

const MEBIBYTE = 1_048_576;
const CROWD = 100;
const MAX_UNPROVEN = 128;
/** How long a handshake may take. */
const HANDSHAKE_MS = 5_000;
const HURRY = 10;

const system = systemRuntime();
/** Five seconds for a handshake become half a second. */
const hurried = withTimers((task, ms) => system.setTimer(task, ms / HURRY));
/** No clock runs out here: what happens must happen by itself. */
const timeless = withTimers(() => ({ cancel() {} }));
const genuine = Identity.create(system);
let cleanUps: (() => unknown)[];

beforeEach(() => {
  cleanUps = [];
});

afterEach(async () => {
  for (const cleanUp of cleanUps.reverse()) await cleanUp();
});

describe('a websocket listener', () => {
  it('says at which address it can be called', async () => {
    const { address, addresses } = await listen();
    expect(addresses).toEqual([address]);
    expect(address).toMatch(/^ws:\/\/127\.0\.0\.1:\d+$/);
    await meet(address);
  });

  it('writes an IPv6 address as an address', async () => {
    const { addresses } = await listen(system, '::1');
    expect(addresses).toEqual([expect.stringMatching(/^ws:\/\/\[::1\]:\d+$/)]);
  });

  it.each(['0.0.0.0', '::'])(
    'that listens everywhere (%s) names addresses that others can call',
    async (everywhere) => {
      const { addresses, port } = await listen(system, everywhere);
      expect(addresses.length).toBeGreaterThan(0);
      for (const address of addresses) {
        expect(address).toMatch(new RegExp(`^ws://\\d+\\.\\d+\\.\\d+\\.\\d+:${port}$`));
        expect(address).not.toContain('//0.0.0.0:');
        await meet(address);
      }
    },
  );

  it.each([
    ['a port that is taken', async () => ['127.0.0.1', await takenPort()] as const],
    ['an address that is not of this machine', async () => ['192.0.2.1', 0] as const],
  ])('refuses %s with ADDRESS_UNUSABLE', async (_, place) => {
    const [host, port] = await place();
    const components = { runtime: system, keyPair: genuine.keyPair, onLink: () => {}, onFailure: () => {} };
    const listener = new WebsocketListener(components);
    await expect(listener.listen(host, port)).rejects.toMatchObject({ code: 'ADDRESS_UNUSABLE' });
    await listener.close();
  });

  it('may be closed before it listened', async () => {
    const { listener } = await listen();
    await Promise.all([listener.close(), listener.close()]);
    const components = { runtime: system, keyPair: genuine.keyPair, onLink: () => {}, onFailure: () => {} };
    await new WebsocketListener(components).close();
  });

  it('ends every link and every call under way when it is closed', async () => {
    const host = await listen();
    const { caller, called } = await meet(host.address, host);
    const halfway = await upgraded(host.port);
    await host.listener.close();
    await eventually(() => expect([caller.closes.length, called.closes.length]).toEqual([1, 1]));
    expect([...caller.closes, ...called.closes].map(({ tampered }) => tampered)).toEqual([false, false]);
    await halfway.closed;
    await expect(dialWebsocket(hurried, host.address, genuine.keyPair)).rejects.toMatchObject({
      code: 'PEER_UNREACHABLE',
    });
  });

  it('can be closed while a silent caller is connected', async () => {
    const host = await listen();
    const silent = await raw(host.port);
    const closed = host.listener.close().then(() => 'closed');
    const late = new Promise((resolve) => setTimeout(resolve, 2_000, 'still open'));
    expect(await Promise.race([closed, late])).toBe('closed');
    await silent.closed;
  });
});

describe('among callers that are no nodes, a websocket listener', () => {
  it.each<[string, (port: number) => Promise<Intruder>]>([
    ['send bytes that are no HTTP', (port) => raw(port, randomBytes(200))],
    ['send HTTP that asks for something else', (port) => raw(port, 'GET / HTTP/1.1\r\nHost: x\r\n\r\n')],
    ['send bytes that are no WebSocket after the upgrade', (port) => upgraded(port, randomBytes(500))],
    ['send random WebSocket messages', (port) => upgraded(port, message(randomBytes(1 + Math.random() * 400)))],
    ['send the beginning of a handshake and go', leavesMidHandshake],
    ['connect and go', (port) => raw(port).then(hangUp)],
  ])(`reports each of ${CROWD} that %s once, and takes a node meanwhile and afterwards`, async (_, intrude) => {
    const hourglass = new Hourglass();
    const host = await listen(hourglass.runtime);
    const crowd = Promise.all(Array.from({ length: CROWD }, () => intrude(host.port)));
    await meet(host.address, host);
    const intruders = await crowd;
    await meet(host.address, host);
    // What may still become a handshake is dropped when its time is over.
    hourglass.pass(HANDSHAKE_MS);
    for (const intruder of intruders) await intruder.closed;
    await eventually(() => expect(host.failures.length).toBe(CROWD));
    await meet(host.address, host);
    expect(host.failures.length).toBe(CROWD);
    for (const failure of host.failures) expect(failure).toMatch(/^127\.0\.0\.1: ./);
  });

  it.each<[string, (port: number) => Promise<Intruder>, (at: number) => Buffer]>([
    ['an HTTP request', (port) => raw(port), (at) => Buffer.from('GET / HTTP/1.1'.charAt(at))],
    ['a WebSocket message', (port) => upgraded(port), (at) => message(Buffer.alloc(100)).subarray(at, at + 1)],
    [
      'a Noise handshake',
      (port) => upgraded(port, message(Buffer.from([48, 0, 0]))),
      (at) => message(Buffer.from([at])),
    ],
  ])(
    'drops one that dribbles %s and never finishes it, when the handshake’s time is over',
    async (_, intrude, drop) => {
      const hourglass = new Hourglass();
      const host = await listen(hourglass.runtime);
      const intruder = await intrude(host.port);
      for (let at = 0; at < 9; at++) {
        intruder.socket.write(drop(at));
        await new Promise((resolve) => setTimeout(resolve, 10));
        hourglass.pass(HANDSHAKE_MS / 10);
      }
      expect(host.failures).toEqual([]);
      expect(intruder.socket.readyState).toBe('open');
      hourglass.pass(HANDSHAKE_MS / 10 + 1);
      const late = new Promise((resolve) => setTimeout(resolve, 3_000, 'still open'));
      expect(await Promise.race([intruder.closed.then(() => 'dropped'), late])).toBe('dropped');
      await eventually(() => expect(host.failures.length).toBe(1));
      await meet(host.address, host);
      expect(host.failures.length).toBe(1);
    },
  );

  it('takes in little of a WebSocket message of 100 MB', async () => {
    const host = await listen();
    const header = Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0x06, 0x40, 0, 0, 0, 0, 0, 0]);
    const intruder = await upgraded(host.port, header);
    expect(await flood(intruder, Buffer.alloc(65_536), 100 * MEBIBYTE)).toBeLessThan(20 * MEBIBYTE);
    await eventually(() => expect(host.failures.length).toBe(1));
    await meet(host.address, host);
    expect(host.failures.length).toBe(1);
  });

  it('takes in little of a WebSocket message of 100 MB in small fragments', async () => {
    const host = await listen();
    const intruder = await upgraded(host.port, message(Buffer.alloc(1), 0x02));
    expect(await flood(intruder, message(Buffer.alloc(65_000), 0x00), 100 * MEBIBYTE)).toBeLessThan(20 * MEBIBYTE);
    await eventually(() => expect(host.failures.length).toBe(1));
    await meet(host.address, host);
  });

  it('takes in little of a handshake that claims to be as large as can be', async () => {
    const host = await listen();
    const intruder = await upgraded(host.port, message(Buffer.from([255, 255, 255])));
    expect(await flood(intruder, message(Buffer.alloc(65_000)), 100 * MEBIBYTE)).toBeLessThan(12 * MEBIBYTE);
    await eventually(() => expect(host.failures.length).toBe(1));
    await meet(host.address, host);
    expect(host.failures.length).toBe(1);
  });

  it('lets the oldest unproven ones go for newcomers, so idle connections keep no node out [T-F11]', async () => {
    const host = await listen();
    const silent = Array.from({ length: 3 * MAX_UNPROVEN }, () => connect(host.port, '127.0.0.1'));
    for (const socket of silent) socket.on('error', () => {});
    await eventually(() => expect(host.failures.length).toBe(2 * MAX_UNPROVEN));
    await meet(host.address, host);
    const upgrading = await Promise.all(Array.from({ length: MAX_UNPROVEN }, () => upgraded(host.port)));
    await meet(host.address, host);
    for (const socket of silent) socket.destroy();
    for (const intruder of upgrading) hangUp(intruder);
    await eventually(() => expect(host.failures.length).toBe(4 * MAX_UNPROVEN));
    await meet(host.address, host);
  });

  it('counts a node that has proven itself no more', async () => {
    const host = await listen();
    for (let count = 0; count < MAX_UNPROVEN + 10; count++) await meet(host.address, host);
    expect(host.failures).toEqual([]);
  });
});

describe('a call', () => {
  it.each<[string, () => string | Promise<string>]>([
    ['nobody', async () => `ws://127.0.0.1:${await stablePort()}`],
    ['something that is no address', () => 'nonsense'],
    ['an empty address', () => ''],
    ['an address with a port that cannot be', () => 'ws://127.0.0.1:99999'],
    ['an address of another kind', () => 'ftp://127.0.0.1:1'],
    ['a name that nobody has', () => 'ws://nobody.invalid:1'],
    ['a server that only speaks HTTP', httpServer],
    ['a server that says nothing', () => tcpServer(() => {})],
    ['a server that answers nonsense', () => tcpServer((socket) => socket.write(randomBytes(300)))],
    ['a server that hangs up', () => tcpServer((socket) => socket.end())],
    ['a WebSocket server that says nothing', () => websocketServer(() => {})],
    ['a WebSocket server that answers nonsense', () => websocketServer((socket) => socket.send(randomBytes(300)))],
    ['a WebSocket server that answers text', () => websocketServer((socket) => socket.send('hello'))],
    ['a WebSocket server that hangs up', () => websocketServer((socket) => socket.close())],
    ['a WebSocket server that breaks off', () => websocketServer((socket) => socket.terminate())],
    ['a WebSocket server that echoes', () => websocketServer((s) => s.on('message', (data) => s.send(data)))],
  ])('to %s fails with PEER_UNREACHABLE', async (_, place) => {
    const address = await place();
    const error = await dialWebsocket(hurried, address, genuine.keyPair).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'PEER_UNREACHABLE', details: { address } });
  });

  it.each<[string, () => Promise<string>]>([
    ['before the upgrade', () => tcpServer((socket) => socket.end())],
    ['after the upgrade', () => websocketServer((socket) => socket.close())],
    ['without a word', () => websocketServer((socket) => socket.terminate())],
  ])('fails at once when the other side hangs up %s', { timeout: 5_000 }, async (_, place) => {
    const dialing = dialWebsocket(timeless, await place(), genuine.keyPair);
    await expect(dialing).rejects.toMatchObject({ code: 'PEER_UNREACHABLE' });
  });
});

describe('an established websocket link', () => {
  it.each(['caller', 'called'] as const)(
    'ends as tampered with when a byte that the %s sent was changed',
    async (by) => {
      const { proxy, sender, receiver } = await through(by);
      proxy.tamper = (bytes) => {
        proxy.tamper = undefined;
        const changed = Buffer.from(bytes);
        changed[changed.length - 1]! ^= 1;
        return [changed];
      };
      sender.link.send(Buffer.from('changed'));
      await eventually(() => expect([receiver.closes.length, sender.closes.length]).toEqual([1, 1]));
      expect(receiver.closes[0]).toMatchObject({ tampered: true });
      expect(sender.closes[0]).toMatchObject({ tampered: false });
      expect(receiver.texts).toEqual(['genuine']);
    },
  );

  it.each<[string, (first: Buffer, second: Buffer) => Buffer[]]>([
    ['repeated', (first, second) => [first, first, second]],
    ['swapped', (first, second) => [second, first]],
    ['left out', (_, second) => [second]],
    [
      'made up',
      (first, second) => [
        first,
        message(Buffer.concat([Buffer.from([57, 0, 0]), randomBytes(57)]), 0x82, false),
        second,
      ],
    ],
    ['too large to be one', (first) => [first, Buffer.from([0x82, 0x7f, 0, 0, 0, 0, 0x06, 0x40, 0, 0])]],
  ])('ends as tampered with when a frame is %s', async (_, tamper) => {
    const { proxy, sender, receiver } = await through('called');
    const held: Buffer[] = [];
    proxy.tamper = (bytes) => {
      held.push(bytes);
      return held.length === 2 ? tamper(held[0]!, held[1]!) : [];
    };
    sender.link.send(Buffer.from('first'));
    await eventually(() => expect(held.length).toBe(1));
    sender.link.send(Buffer.from('second'));
    await eventually(() => expect([receiver.closes.length, sender.closes.length]).toEqual([1, 1]));
    expect(receiver.closes[0]).toMatchObject({ tampered: true });
    expect(sender.closes[0]).toMatchObject({ tampered: false });
    expect(['genuine', 'genuine,first']).toContain(receiver.texts.join());
  });

  it('delivers nothing that was not sent, whichever byte of a frame is changed', async () => {
    const host = await listen();
    const proxy = await startProxy(host.port);
    const ends: End[] = [];
    for (let at = 0; at < 32; at++) {
      const { caller, called } = await meet(proxy.address, host);
      let changed = false;
      proxy.tamper = (bytes, from) => {
        if (from !== 'called' || changed) return [bytes];
        changed = true;
        const copy = Buffer.from(bytes);
        copy[at % copy.length]! ^= 1 << (at & 7);
        return [copy];
      };
      for (const text of ['changed', 'next', 'last']) called.link.send(Buffer.from(text));
      await eventually(() => expect(changed).toBe(true));
      ends.push(caller);
      proxy.tamper = undefined;
    }
    await eventually(() => expect(ends.filter(({ closes }) => closes.length > 0).length).toBeGreaterThan(24));
    for (const { texts, closes } of ends) {
      expect(['', 'changed', 'changed,next']).toContain(texts.join());
      expect(closes.length).toBeLessThanOrEqual(1);
    }
  });

  it('ends, but not as tampered with, when an end closes it', async () => {
    const { sender, receiver } = await through('caller');
    sender.link.close();
    await eventually(() => expect([receiver.closes.length, sender.closes.length]).toEqual([1, 1]));
    expect([...receiver.closes, ...sender.closes].map(({ tampered }) => tampered)).toEqual([false, false]);
  });

  it.each(['reset', 'ended'] as const)(
    'ends at both ends, but not as tampered with, when the connection is %s',
    async (how) => {
      const { proxy, sender, receiver } = await through('caller');
      for (const socket of proxy.sockets) how === 'reset' ? socket.resetAndDestroy() : socket.end();
      await eventually(() => expect([receiver.closes.length, sender.closes.length]).toEqual([1, 1]));
      expect([...receiver.closes, ...sender.closes].map(({ tampered }) => tampered)).toEqual([false, false]);
      expect(sender.link.send(Buffer.from('late'))).toBe(false);
    },
  );

  it('closes in time though the other end takes nothing in', async () => {
    const { proxy, sender } = await through('caller');
    for (const socket of proxy.sockets) socket.pause();
    while (sender.link.send(randomBytes(65_536)));
    sender.link.close();
    await eventually(() => expect(sender.closes).toEqual([{ reason: 'this end closed it', tampered: false }]));
  });

  it('lets no node in between see a key, a frame or the bytes that proofs are bound to [ON16]', async () => {
    const { proxy, sender, receiver } = await through('caller');
    const handshake = Buffer.from(sender.link.handshake);
    expect(handshake.equals(receiver.link.handshake)).toBe(true);
    const seen = Buffer.concat(proxy.seen);
    for (const secret of [handshake, Buffer.from(genuine.key, 'hex'), Buffer.from('genuine')]) {
      expect(seen.includes(secret)).toBe(false);
    }
  });
});

interface Host {
  listener: WebsocketListener;
  addresses: string[];
  /** The first of them. */
  address: string;
  port: number;
  links: Link[];
  failures: string[];
}

/** A connection of somebody who is no node. */
interface Intruder {
  socket: Socket;
  closed: Promise<unknown>;
}

interface Proxy {
  address: string;
  sockets: Socket[];
  /** Everything that went through, in the clear. */
  seen: Buffer[];
  /** What becomes of bytes that one side sent; without it they go on as they are. */
  tamper: ((bytes: Buffer, from: 'caller' | 'called') => Buffer[]) | undefined;
}

/** Listens to one end of a link and writes down what it hears. */
class End implements LinkListener {
  readonly link: Link;
  readonly texts: string[] = [];
  readonly closes: { reason: string; tampered: boolean }[] = [];

  constructor(link: Link) {
    this.link = link;
    link.listen(this);
  }

  onFrame(frame: Uint8Array): void {
    this.texts.push(Buffer.from(frame).toString());
  }

  onDrain(): void {}

  onClose(reason: string, tampered: boolean): void {
    this.closes.push({ reason, tampered });
  }
}

async function listen(on: Runtime = system, at = '127.0.0.1'): Promise<Host> {
  const links: Link[] = [];
  const failures: string[] = [];
  const listener = new WebsocketListener({
    runtime: on,
    keyPair: Identity.create(system).keyPair,
    onLink: (link) => links.push(link),
    onFailure: (from, reason) => failures.push(`${from}: ${reason}`),
  });
  cleanUps.push(() => listener.close());
  const addresses = await listener.listen(at, 0);
  const address = addresses[0]!;
  return { listener, addresses, address, port: Number(new URL(address).port), links, failures };
}

/** A genuine node calls. */
async function meet(address: string, host?: Host): Promise<{ caller: End; called: End }> {
  const known = host?.links.length ?? 0;
  const caller = new End(await dialWebsocket(system, address, genuine.keyPair));
  cleanUps.push(() => caller.link.close());
  if (!host) return { caller, called: caller };
  await eventually(() => expect(host.links.length).toBe(known + 1));
  const called = new End(host.links[known]!);
  expect(called.link.remoteKey).toBe(genuine.key);
  return { caller, called };
}

/** A genuine link with somebody in the middle, who touches only what one side sends. */
async function through(sends: 'caller' | 'called'): Promise<{ proxy: Proxy; sender: End; receiver: End }> {
  const host = await listen();
  const whole = await startProxy(host.port);
  const { caller, called } = await meet(whole.address, host);
  const [sender, receiver] = sends === 'caller' ? [caller, called] : [called, caller];
  sender.link.send(Buffer.from('genuine'));
  await eventually(() => expect(receiver.texts).toEqual(['genuine']));
  const proxy: Proxy = {
    ...whole,
    set tamper(tamper: Proxy['tamper']) {
      whole.tamper = tamper && ((bytes, from) => (from === sends ? tamper(bytes, from) : [bytes]));
    },
  };
  return { proxy, sender, receiver };
}

async function startProxy(port: number): Promise<Proxy> {
  const proxy: Proxy = { address: '', sockets: [], seen: [], tamper: undefined };
  const server = createServer({ noDelay: true }, (near) => {
    const far = connect({ port, host: '127.0.0.1', noDelay: true });
    for (const [from, one, other] of [['caller', near, far] as const, ['called', far, near] as const]) {
      proxy.sockets.push(one);
      one.on('error', () => {});
      one.on('close', () => other.destroy());
      one.on('data', (bytes) => {
        proxy.seen.push(bytes);
        for (const part of proxy.tamper ? proxy.tamper(bytes, from) : [bytes]) other.write(part);
      });
    }
  });
  proxy.address = `ws://127.0.0.1:${await portOf(server)}`;
  cleanUps.push(() => {
    for (const socket of proxy.sockets) socket.destroy();
  });
  return proxy;
}

/** Opens a TCP connection and says something. */
async function raw(port: number, first?: Uint8Array | string): Promise<Intruder> {
  const socket = connect(port, '127.0.0.1');
  // What a server answers to nonsense must be read, or the end would never be seen.
  socket.resume();
  socket.on('error', () => {});
  const closed = new Promise((resolve) => socket.once('close', resolve));
  cleanUps.push(() => socket.destroy());
  await once(socket, 'connect');
  if (first !== undefined) socket.write(first);
  return { socket, closed };
}

/** Opens a WebSocket by hand and says something that may be none. */
async function upgraded(port: number, first?: Uint8Array): Promise<Intruder> {
  const intruder = await raw(
    port,
    'GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
  );
  const [answer] = (await once(intruder.socket, 'data')) as [Buffer];
  expect(answer.toString()).toMatch(/^HTTP\/1\.1 101 /);
  if (first) intruder.socket.write(first);
  return intruder;
}

async function leavesMidHandshake(port: number): Promise<Intruder> {
  const intruder = await upgraded(port, message(Buffer.from([32, 0, 0, 1, 2, 3])));
  return hangUp(intruder);
}

function hangUp(intruder: Intruder): Intruder {
  intruder.socket.end();
  return intruder;
}

/** A WebSocket message of up to 64 KiB, masked with zeros as a client must. */
function message(bytes: Buffer, head = 0x82, masked = true): Buffer {
  const mask = masked ? 0x80 : 0;
  const { length } = bytes;
  const size = length < 126 ? [mask | length] : [mask | 126, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([head, ...size]), Buffer.alloc(masked ? 4 : 0), bytes]);
}

/** Writes as fast as the other side takes it in, until it hangs up. Returns how many bytes went out. */
async function flood({ socket, closed }: Intruder, chunk: Buffer, most: number): Promise<number> {
  let open = true;
  void closed.then(() => {
    open = false;
  });
  let sent = 0;
  while (open && sent < most) {
    sent += chunk.length;
    if (!socket.write(chunk)) await Promise.race([once(socket, 'drain').catch(() => {}), closed]);
  }
  await closed;
  return Math.max(socket.bytesWritten - socket.writableLength, 0);
}

function httpServer(): Promise<string> {
  return serve(createHttpServer((_, response) => response.end('hello')));
}

function tcpServer(onSocket: (socket: Socket) => void): Promise<string> {
  const sockets: Socket[] = [];
  cleanUps.push(() => {
    for (const socket of sockets) socket.destroy();
  });
  return serve(
    createServer((socket) => {
      sockets.push(socket);
      socket.on('error', () => {});
      onSocket(socket);
    }),
  );
}

async function websocketServer(onSocket: (socket: WebSocket) => void): Promise<string> {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  cleanUps.push(() => {
    for (const socket of server.clients) socket.terminate();
    server.close();
  });
  server.on('connection', (socket) => {
    socket.on('error', () => {});
    onSocket(socket);
  });
  await once(server, 'listening');
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function serve(server: Server): Promise<string> {
  return `ws://127.0.0.1:${await portOf(server)}`;
}

async function portOf(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanUps.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

function takenPort(): Promise<number> {
  return portOf(createServer());
}

/** Tries until it holds: where no event says that it does. */
function eventually(holds: () => void): Promise<void> {
  return vi.waitFor(holds, { timeout: 5_000, interval: 2 });
}

/** A runtime whose timers run when the test says so. */
class Hourglass {
  readonly runtime = withTimers((task, ms) => {
    const grain = { due: this.#now + ms, task };
    this.#grains.add(grain);
    return { cancel: () => this.#grains.delete(grain) };
  });
  readonly #grains = new Set<{ due: number; task: () => void }>();
  #now = 0;

  pass(ms: number): void {
    this.#now += ms;
    for (const grain of [...this.#grains].sort((a, b) => a.due - b.due)) {
      if (grain.due <= this.#now && this.#grains.delete(grain)) grain.task();
    }
  }
}

/** The machine's runtime with other timers. */
function withTimers(setTimer: Runtime['setTimer']): Runtime {
  return {
    now: () => system.now(),
    stopwatch: () => system.stopwatch(),
    setTimer,
    defer: (task) => system.defer(task),
    hold: () => system.hold(),
    id: () => system.id(),
    random: () => system.random(),
    bytes: (count) => system.bytes(count),
    logger: system.logger,
  };
}
