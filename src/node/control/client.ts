import { createConnection, type Socket } from 'node:net';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import type { EventOf, Method, ParamsOf, ResultOf } from './api.js';
import {
  errorFrom,
  negotiate,
  PROTOCOL,
  type ReplyFrame,
  readFrames,
  type ServerHello,
  writeFrame,
} from './protocol.js';

/** Parameters and event listener of a call; parameters may be left out where none is required. */
export type CallArguments<M extends Method> =
  Record<string, never> extends ParamsOf<M>
    ? [params?: ParamsOf<M>, onEvent?: (event: EventOf<M>) => void]
    : [params: ParamsOf<M>, onEvent?: (event: EventOf<M>) => void];

/** How long a node may take to say hello. */
const ANSWER_MS = 5_000;

interface Call {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: EclipticError) => void;
  readonly onEvent: ((event: unknown) => void) | undefined;
}

/** A connection to a running node's control socket. */
export class ControlClient {
  readonly server: ServerHello;
  /** Resolves when the connection has ended. */
  readonly closed: Promise<void>;
  readonly #socket: Socket;
  readonly #calls = new Map<number, Call>();
  #nextId = 1;
  #ended: EclipticError | undefined;

  private constructor(socket: Socket, server: ServerHello) {
    this.#socket = socket;
    this.server = server;
    this.closed = new Promise((resolve) => socket.once('close', () => resolve()));
  }

  /** Connects to the socket; rejects with `NO_NODE` if no process listens there. */
  static connect(path: string, runtime: Runtime = systemRuntime(), answerMs = ANSWER_MS): Promise<ControlClient> {
    return new Promise((resolve, reject) => {
      const socket = createConnection(path);
      let client: ControlClient | undefined;
      const late = runtime.setTimer(() => {
        fail(new EclipticError('NO_NODE', 'the node does not answer; it may be stopped or stuck', { path }));
      }, answerMs);
      const fail = (error: EclipticError) => {
        late.cancel();
        socket.destroy();
        if (client) client.#end(error);
        else reject(error);
      };
      socket.on('error', (error: NodeJS.ErrnoException) => fail(connectionError(error, path)));
      socket.on('close', () => fail(new EclipticError('NO_NODE', 'the node closed the connection')));
      readFrames(socket, {
        onFault: fail,
        onFrame: (frame) => {
          if (client) {
            client.#take(frame);
            return;
          }
          try {
            negotiate(frame);
          } catch (error) {
            fail(error as EclipticError);
            return;
          }
          late.cancel();
          client = new ControlClient(socket, frame as ServerHello);
          writeFrame(socket, { hello: PROTOCOL });
          resolve(client);
        },
      });
    });
  }

  /** Calls an operation of the API. Its events go to `onEvent` until it ends or the connection is closed. */
  call<M extends Method>(method: M, ...[params, onEvent]: CallArguments<M>): Promise<ResultOf<M>> {
    return new Promise<unknown>((resolve, reject) => {
      if (this.#ended) return reject(this.#ended);
      const id = this.#nextId++;
      this.#calls.set(id, { resolve, reject, onEvent: onEvent as Call['onEvent'] });
      writeFrame(this.#socket, { id, method, params: params ?? {} });
    }) as Promise<ResultOf<M>>;
  }

  close(): void {
    this.#end(new EclipticError('CANCELLED', 'the connection was closed'));
    this.#socket.end();
  }

  #take(received: unknown): void {
    if (typeof received !== 'object' || received === null) {
      this.#end(new EclipticError('INVALID_FRAME', 'the node sent an invalid frame'));
      this.#socket.destroy();
      return;
    }
    const frame = received as ReplyFrame;
    const call = this.#calls.get(frame.id);
    if (!call) {
      if ('error' in frame) this.#end(errorFrom(frame.error));
      return;
    }
    if ('event' in frame) {
      call.onEvent?.(frame.event);
      return;
    }
    this.#calls.delete(frame.id);
    if ('error' in frame) call.reject(errorFrom(frame.error));
    else call.resolve(frame.result);
  }

  #end(error: EclipticError): void {
    this.#ended ??= error;
    for (const call of this.#calls.values()) call.reject(this.#ended);
    this.#calls.clear();
  }
}

function connectionError(error: NodeJS.ErrnoException, path: string): EclipticError {
  const details = { path, cause: error.code };
  if (error.code === 'ENOENT' || error.code === 'ECONNREFUSED') {
    return new EclipticError('NO_NODE', 'no node runs here', details, error);
  }
  return new EclipticError('DATA_FOLDER', `cannot use ${path}: ${error.message}`, details, error);
}
