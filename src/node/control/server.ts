import { createServer, type Server, type Socket } from 'node:net';
import { weighJson } from '../../mesh/json-value.js';
import { EclipticError, toEclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { RefusedConnections } from '../../system/process/descriptors.js';
import type { AskingDevice } from '../devices/answer-record.js';
import {
  checkRequest,
  negotiate,
  PROTOCOL,
  type RequestFrame,
  readFrames,
  type ServerHello,
  writeFrame,
} from './protocol.js';

export interface CallContext<Event = unknown> {
  /** Sends an event to the caller. A subscription emits until `signal` aborts. */
  readonly emit: (event: Event) => void;
  /** Resolves when the caller has read most of the output, or has disconnected. */
  readonly drained: () => Promise<void>;
  /** Aborts when the caller disconnects. */
  readonly signal: AbortSignal;
  /** The other device of the owner that asks; absent where the owner uses this one. */
  readonly device?: AskingDevice;
}

export type ControlMethod = (params: RequestFrame['params'], context: CallContext) => unknown;

export interface ControlServerComponents {
  runtime: Runtime;
  methods: Readonly<Record<string, ControlMethod>>;
  identity: Omit<ServerHello, 'hello'>;
}

export interface ControlServerInit {
  /** Connections at once. Default 64. */
  connections?: number;
  /** Calls of one connection at once. Default 256. */
  callsPerConnection?: number;
  /** How long a connection may take to say hello. Default 5 s. */
  helloMs?: number;
  /** Unread output after which a caller is dropped. Default 16 MiB. */
  backlogBytes?: number;
}

/** How long the other side may take to close its end. */
const CLOSE_MS = 500;

/** Serves the owner's socket. A faulty caller gets a typed error or is disconnected; other callers do not notice. */
export class ControlServer {
  readonly #components: ControlServerComponents;
  readonly #init: Required<ControlServerInit>;
  readonly #server: Server;
  readonly #connections = new Set<Socket>();
  #refusing = false;

  constructor(components: ControlServerComponents, init: ControlServerInit = {}) {
    this.#components = components;
    this.#init = {
      connections: init.connections ?? 64,
      callsPerConnection: init.callsPerConnection ?? 256,
      helloMs: init.helloMs ?? 5_000,
      backlogBytes: init.backlogBytes ?? 16 * 1_048_576,
    };
    this.#server = createServer((socket) => this.#accept(socket));
    this.#server.maxConnections = this.#init.connections;
  }

  /** Listens; the umask makes the socket private to this user from its creation. */
  listen(path: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const fail = (error: Error) => {
        reject(new EclipticError('DATA_FOLDER', `cannot listen on ${path}: ${error.message}`, { path }, error));
      };
      this.#server.once('error', fail);
      const umask = process.umask(0o177);
      this.#server.listen(path, () => {
        this.#server.off('error', fail);
        const refused = new RefusedConnections(this.#components.runtime, 'control socket');
        this.#server.on('error', (error) => refused.note(error));
        this.#server.on('drop', () => refused.note(`${this.#init.connections} connections are open`));
        resolve();
      });
      process.umask(umask);
    });
  }

  /** Connections that are open. */
  get clients(): number {
    return this.#connections.size;
  }

  /** Refuses new connections and calls; calls in progress may finish. Removes the socket file. */
  refuse(): void {
    this.#refusing = true;
    if (this.#server.listening) this.#server.close();
  }

  async close(): Promise<void> {
    this.refuse();
    const closed = [...this.#connections].map((socket) => new Promise((resolve) => socket.once('close', resolve)));
    for (const socket of this.#connections) socket.end();
    const timer = this.#components.runtime.setTimer(() => {
      for (const socket of this.#connections) socket.destroy();
    }, CLOSE_MS);
    await Promise.all(closed);
    timer.cancel();
  }

  #accept(socket: Socket): void {
    const gone = new AbortController();
    const { runtime, identity } = this.#components;
    this.#connections.add(socket);
    let greeted = false;
    let ended = false;
    let calls = 0;
    const disconnect = (error: EclipticError) => {
      ended = true;
      writeFrame(socket, { id: -1, error });
      socket.end();
      runtime.setTimer(() => socket.destroy(), CLOSE_MS);
    };
    const late = runtime.setTimer(() => {
      disconnect(new EclipticError('INVALID_FRAME', 'no hello arrived in time'));
    }, this.#init.helloMs);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      late.cancel();
      gone.abort();
      this.#connections.delete(socket);
    });
    readFrames(socket, {
      onFault: disconnect,
      onFrame: (frame) => {
        if (ended) return;
        try {
          if (greeted) {
            const request = checkRequest(frame);
            if (calls >= this.#init.callsPerConnection) throw tooManyCalls();
            calls++;
            void this.#call(socket, request, gone.signal).finally(() => calls--);
          } else {
            negotiate(frame);
            greeted = true;
            late.cancel();
          }
        } catch (error) {
          disconnect(error as EclipticError);
        }
      },
    });
    writeFrame(socket, { hello: PROTOCOL, ...identity });
  }

  async #call(socket: Socket, request: RequestFrame, signal: AbortSignal): Promise<void> {
    const { id, method, params } = request;
    const write = (frame: object) => {
      writeFrame(socket, frame);
      if (socket.writableLength > this.#init.backlogBytes) socket.destroy();
    };
    const emit = (event: unknown) => write({ id, event });
    const drained = () => drain(socket, signal);
    try {
      const { methods } = this.#components;
      if (this.#refusing) throw new EclipticError('NODE_STOPPED', 'the node is stopping');
      if (!Object.hasOwn(methods, method))
        throw new EclipticError('METHOD_NOT_FOUND', `there is no method "${method}"`);
      const result = await methods[method]!(params, { emit, drained, signal });
      write({ id, result: result ?? null });
    } catch (error) {
      const { code, message, details } = toEclipticError(error, 'HANDLER_FAILED');
      write({ id, error: { code, message, details: typeof weighJson(details) === 'number' ? details : {} } });
    }
  }
}

function drain(socket: Socket, signal: AbortSignal): Promise<void> {
  if (!socket.writableNeedDrain || signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = () => {
      socket.off('drain', end);
      signal.removeEventListener('abort', end);
      resolve();
    };
    socket.on('drain', end);
    signal.addEventListener('abort', end);
  });
}

function tooManyCalls(): EclipticError {
  return new EclipticError('QUEUE_FULL', 'too many calls at once on this connection');
}
