import type { Duplex } from 'node:stream';
import NoiseSecretStream from '@hyperswarm/secret-stream';
import { createWebSocketStream, WebSocket, WebSocketServer } from 'ws';
import { describeError, EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { type Link, MAX_FRAME_BYTES } from './link.js';
import { SecretStreamLink } from './secret-stream-link.js';

/** How long a connection may take until its handshake is done. */
const HANDSHAKE_MS = 5_000;
/** Connections whose handshake is not done; more are refused. */
const MAX_UNPROVEN = 128;
/** What one WebSocket message may hold: a secret-stream frame is spread over as many as it needs. */
const MAX_MESSAGE_BYTES = 2 * MAX_FRAME_BYTES;

export interface NoiseKeyPair {
  readonly publicKey: Uint8Array;
  readonly secretKey: Uint8Array;
}

export interface WebsocketListenerComponents {
  runtime: Runtime;
  keyPair: NoiseKeyPair;
  onLink: (link: Link) => void;
  /** Told of callers that did not get as far as a link. */
  onFailure: (from: string, reason: string) => void;
}

/** Takes links from nodes that call over WebSocket. The Noise handshake on top says who they are. */
export class WebsocketListener {
  readonly #components: WebsocketListenerComponents;
  #server: WebSocketServer | undefined;
  #unproven = 0;

  constructor(components: WebsocketListenerComponents) {
    this.#components = components;
  }

  /** Listens; resolves with the address that others can call. */
  listen(host: string, port: number): Promise<string> {
    return new Promise((resolve, reject) => {
      const options = { host, port, maxPayload: MAX_MESSAGE_BYTES, perMessageDeflate: false, clientTracking: true };
      const server = new WebSocketServer(options);
      this.#server = server;
      server.once('error', (error) => {
        reject(
          new EclipticError('ADDRESS_UNUSABLE', `cannot listen on ${host}:${port}: ${error.message}`, { host, port }),
        );
      });
      server.once('listening', () => {
        server.on('error', (err) => this.#components.runtime.logger.error({ err }, 'websocket listener'));
        const address = server.address() as { address: string; port: number; family: string };
        const name = address.address.includes(':') ? `[${address.address}]` : address.address;
        resolve(`ws://${name}:${address.port}`);
      });
      server.on('connection', (socket, request) => this.#accept(socket, request.socket.remoteAddress ?? 'somewhere'));
    });
  }

  /** Takes no more calls, and ends those under way. */
  close(): Promise<void> {
    const server = this.#server;
    if (!server) return Promise.resolve();
    for (const socket of server.clients) socket.terminate();
    return new Promise((resolve) => server.close(() => resolve()));
  }

  #accept(socket: WebSocket, from: string): void {
    const { runtime, keyPair, onLink, onFailure } = this.#components;
    if (this.#unproven >= MAX_UNPROVEN) {
      socket.on('error', () => {});
      socket.terminate();
      onFailure(from, `${MAX_UNPROVEN} others have not proven themselves yet`);
      return;
    }
    this.#unproven++;
    secure(runtime, socket, false, keyPair)
      .finally(() => this.#unproven--)
      .then(onLink, (error: unknown) => onFailure(from, describeError(error)));
  }
}

/** Calls a node at a `ws://` address. Rejects with `PEER_UNREACHABLE`. */
export async function dialWebsocket(runtime: Runtime, address: string, keyPair: NoiseKeyPair): Promise<Link> {
  const options = { handshakeTimeout: HANDSHAKE_MS, maxPayload: MAX_MESSAGE_BYTES, perMessageDeflate: false };
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
    stream.on('open', () => {
      timer.cancel();
      resolve(new SecretStreamLink(runtime, 'websocket', stream));
    });
  });
}

function unreachable(address: string, error: unknown): EclipticError {
  return new EclipticError(
    'PEER_UNREACHABLE',
    `${address} cannot be reached: ${describeError(error)}`,
    { address },
    error,
  );
}
