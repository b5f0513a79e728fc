import { createServer, type Server } from 'node:http';
import { isIP, type LookupFunction, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import type { Duplex } from 'node:stream';
import NoiseSecretStream from '@hyperswarm/secret-stream';
import { createWebSocketStream, WebSocket, WebSocketServer } from 'ws';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { descriptorLimit, RefusedConnections } from '../../system/process/descriptors.js';
import { type Link, MAX_FRAME_BYTES } from './link.js';
import { SecretStreamLink } from './secret-stream-link.js';

const GOODBYE_MS = 500;
const HANDSHAKE_MS = 5_000;
/** Connections whose handshake is not done. For one more, the oldest of the address with most of them is closed. */
const MAX_UNPROVEN = 128;
/** The share of the process's file descriptors that they may have. */
const UNPROVEN_PART = 1 / 8;
const MAX_HANDSHAKE_BYTES = 4_096;
/** A secret-stream frame is spread over as many WebSocket messages as it needs. */
const MAX_MESSAGE_BYTES = 2 * MAX_FRAME_BYTES;

export interface NoiseKeyPair {
  readonly publicKey: Uint8Array;
  readonly secretKey: Uint8Array;
}

interface WebsocketListenerComponents {
  runtime: Runtime;
  keyPair: NoiseKeyPair;
  onLink: (link: Link) => void;
  /** Called for each caller that did not complete the handshake. */
  onFailure: (from: string, reason: string) => void;
}

interface Caller {
  readonly from: string;
  readonly socket: Socket;
  /** Takes it off the list of unproven callers; false when it was off already. */
  settle(): boolean;
}

/** Accepts links from nodes that call over WebSocket. The Noise handshake on top proves their keys. */
export class WebsocketListener {
  readonly #components: WebsocketListenerComponents;
  readonly #callers = new Map<Socket, Caller>();
  #http: Server | undefined;
  readonly #unproven = new Set<Caller>();
  readonly #maxUnproven = Math.max(1, Math.min(MAX_UNPROVEN, Math.floor(descriptorLimit() * UNPROVEN_PART)));

  constructor(components: WebsocketListenerComponents) {
    this.#components = components;
  }

  /** Resolves with the addresses at which other nodes can call. */
  listen(host: string, port: number): Promise<string[]> {
    return new Promise((resolve, reject) => {
      const http = createServer((request, response) => {
        response.writeHead(426, { connection: 'close' }).end();
        this.#fail(request.socket, 'it asks for something else');
      });
      this.#http = http;
      http.on('connection', (socket) => this.#admit(socket));
      http.on('clientError', (error, socket) => {
        this.#fail(socket as Socket, error.message);
        socket.destroy();
      });
      const server = new WebSocketServer({ server: http, maxPayload: MAX_MESSAGE_BYTES, perMessageDeflate: false });
      server.once('error', (error) => {
        reject(
          new EclipticError('ADDRESS_UNUSABLE', `cannot listen on ${host}:${port}: ${error.message}`, { host, port }),
        );
      });
      server.once('listening', () => {
        const refused = new RefusedConnections(this.#components.runtime, 'websocket');
        server.on('error', (error) => refused.note(error));
        const { address, port: bound } = http.address() as { address: string; port: number };
        resolve(reachableAt(address).map((name) => `ws://${name.includes(':') ? `[${name}]` : name}:${bound}`));
      });
      server.on('connection', (socket, request) => this.#accept(socket, request.socket));
      http.listen(port, host);
    });
  }

  /** Links that were closed before may still send their goodbye; everything else ends at once. */
  async close(): Promise<void> {
    const http = this.#http;
    if (!http) return;
    for (const { socket } of this.#unproven) socket.destroy();
    const timer = this.#components.runtime.setTimer(() => {
      for (const socket of this.#callers.keys()) socket.destroy();
    }, GOODBYE_MS);
    await new Promise<void>((resolve) => http.close(() => resolve()));
    timer.cancel();
  }

  #admit(socket: Socket): void {
    const { runtime } = this.#components;
    const from = socket.remoteAddress ?? 'somewhere';
    if (this.#unproven.size >= this.#maxUnproven) this.#makeRoom();
    const timer = runtime.setTimer(() => {
      this.#fail(socket, 'no handshake came');
      socket.destroy();
    }, HANDSHAKE_MS);
    let settled = false;
    const settle = () => {
      if (settled) return false;
      settled = true;
      timer.cancel();
      this.#unproven.delete(caller);
      return true;
    };
    const caller: Caller = { from, socket, settle };
    this.#callers.set(socket, caller);
    this.#unproven.add(caller);
    socket.on('close', () => {
      this.#fail(socket, 'the connection was closed');
      this.#callers.delete(socket);
    });
  }

  /** A handshake takes a moment only, so this ends a silent connection, and not a caller at its handshake. */
  #makeRoom(): void {
    const counts = new Map<string, number>();
    for (const { from } of this.#unproven) counts.set(from, (counts.get(from) ?? 0) + 1);
    const most = Math.max(...counts.values());
    for (const { from, socket } of this.#unproven) {
      if (counts.get(from) !== most) continue;
      this.#fail(
        socket,
        `${this.#maxUnproven} connections have not proven themselves yet, and most of them are its own`,
      );
      socket.destroy();
      return;
    }
  }

  #accept(socket: WebSocket, raw: Socket): void {
    const { runtime, keyPair, onLink } = this.#components;
    secure(runtime, socket, false, keyPair)
      .then((link) => {
        this.#callers.get(raw)?.settle();
        onLink(link);
      })
      .catch((error: unknown) => this.#fail(raw, describeError(error)));
  }

  #fail(socket: Socket, reason: string): void {
    const caller = this.#callers.get(socket);
    if (caller?.settle()) this.#components.onFailure(caller.from, reason);
  }
}

/** A node that listens on every interface can be called at each of this machine's addresses. */
function reachableAt(address: string): string[] {
  if (address !== '0.0.0.0' && address !== '::') return [address];
  const own = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const outside = own.filter(({ internal, family }) => !internal && family === 'IPv4');
  return outside.length > 0 ? outside.slice(0, 4).map((each) => each.address) : ['127.0.0.1'];
}

/** Calls a node at a `ws://` address; with `at`, at one of these IP addresses and no other. Rejects with `PEER_UNREACHABLE`. */
export async function dialWebsocket(
  runtime: Runtime,
  address: string,
  keyPair: NoiseKeyPair,
  at?: readonly string[],
): Promise<Link> {
  const limits = { handshakeTimeout: HANDSHAKE_MS, maxPayload: MAX_MESSAGE_BYTES, perMessageDeflate: false };
  const options = at ? { ...limits, lookup: pinned(at) } : limits;
  let socket: WebSocket;
  try {
    socket = new WebSocket(address, options);
  } catch (error) {
    throw unreachable(address, error);
  }
  return secure(runtime, socket, true, keyPair).catch((error: unknown) => {
    throw unreachable(address, error);
  });
}

/** Runs the Noise handshake over a WebSocket. */
function secure(runtime: Runtime, socket: WebSocket, initiator: boolean, keyPair: NoiseKeyPair): Promise<Link> {
  return new Promise((resolve, reject) => {
    const raw: Duplex = createWebSocketStream(socket);
    const stream = new NoiseSecretStream(initiator, raw, { keyPair });
    const timer = runtime.setTimer(
      () => fail(new EclipticError('PEER_UNREACHABLE', 'no handshake came')),
      HANDSHAKE_MS,
    );
    const fail = (error: Error) => {
      timer.cancel();
      reject(error);
      stream.destroy();
      socket.terminate();
    };
    stream.on('error', fail);
    stream.on('close', () => {
      fail(new EclipticError('PEER_UNREACHABLE', 'the connection was closed'));
    });
    // A stream that is not open yet does not report that the other end is gone.
    let open = false;
    raw.on('end', () =>
      runtime.defer(() => open || fail(new EclipticError('PEER_UNREACHABLE', 'the connection was closed'))),
    );
    let shaken = false;
    stream.on('handshake', () => {
      shaken = true;
    });
    let received = 0;
    socket.on('message', (data: Buffer) => {
      if (shaken) return;
      received += data.byteLength;
      if (received > MAX_HANDSHAKE_BYTES) fail(new EclipticError('PEER_UNREACHABLE', 'it sends no handshake'));
    });
    stream.on('open', () => {
      open = true;
      timer.cancel();
      resolve(new SecretStreamLink(runtime, 'websocket', stream));
    });
  });
}

/** Resolves every name to these addresses, so that exactly the checked addresses are dialled. */
function pinned(addresses: readonly string[]): LookupFunction {
  const all = addresses.map((address) => ({ address, family: isIP(address) }));
  return (_host, options, callback) => {
    if (options.all) callback(null, all);
    else callback(null, all[0]!.address, all[0]!.family);
  };
}

function unreachable(address: string, error: unknown): EclipticError {
  return new EclipticError(
    'PEER_UNREACHABLE',
    `${address} cannot be reached: ${describeError(error)}`,
    { address },
    error,
  );
}
