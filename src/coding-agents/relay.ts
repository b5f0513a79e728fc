import { EclipticError } from '../runtime/errors.js';
import type { Runtime, Timer } from '../runtime/runtime.js';

export type Id = string | number;

export interface RpcMessage {
  readonly id?: Id | undefined;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown };
}

/** An open request. */
interface Asked {
  readonly request: RpcMessage;
  readonly answer: (response: RpcMessage) => void;
  /** Set while the request waits for a node. */
  timer: Timer | undefined;
}

const PATIENCE_MS = 20_000;
const MAX_ASKED = 1_000;
const INTERNAL_ERROR = -32603;

/**
 * Carries a client's MCP conversation about other agents' tools to the node and back. The node may restart: each new
 * one gets the client's `initialize` and its subscriptions again.
 */
export class Relay {
  readonly #runtime: Runtime;
  readonly #asked = new Map<Id, Asked>();
  /** Requests to repeat for each new node: subscriptions by URI, and the log level. */
  readonly #lasting = new Map<string, RpcMessage>();
  #send: ((message: RpcMessage) => void) | undefined;
  #isReady = false;
  #wasReady = false;
  #hello: Id | undefined;
  /** Why no node will answer, until one is connected. */
  #failure: EclipticError | undefined;
  /** The client's own `initialize`, in the eras that begin with one. */
  greeting: Readonly<Record<string, unknown>> | undefined;
  /** Called with notifications and requests of the node. */
  onMessage: (message: RpcMessage) => void = () => {};
  /** Called when a node can be asked; `again` when it is not the first. */
  onReady: (again: boolean) => void = () => {};

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** Asks the node as soon as there is one; resolves with its answer or with an error response. */
  ask(request: RpcMessage & { readonly id: Id }): Promise<RpcMessage> {
    const { id } = request;
    if (this.#asked.size >= MAX_ASKED || this.#asked.has(id)) {
      const why = this.#asked.has(id) ? 'that id is in use' : `at most ${MAX_ASKED} requests may be open at once`;
      return Promise.resolve(failure(id, new EclipticError('QUEUE_FULL', why)));
    }
    if (this.#failure) return Promise.resolve(failure(id, this.#failure));
    return new Promise((resolve) => {
      const answer = (response: RpcMessage) => {
        this.forget(id);
        resolve(response);
      };
      const late = new EclipticError('NO_NODE', 'the mesh cannot be reached at present; nothing was done');
      const timer = this.#runtime.setTimer(() => answer(failure(id, late)), PATIENCE_MS);
      const asked: Asked = { request, answer, timer };
      this.#asked.set(id, asked);
      if (this.#isReady) this.#put(asked);
    });
  }

  /** Like `ask`, but gives up after that time. */
  askWithin(request: RpcMessage & { readonly id: Id }, ms: number): Promise<RpcMessage | undefined> {
    return new Promise((resolve) => {
      const timer = this.#runtime.setTimer(() => {
        this.forget(request.id);
        resolve(undefined);
      }, ms);
      void this.ask(request).then((response) => {
        timer.cancel();
        resolve(response);
      });
    });
  }

  /** Sends a message without an answer, if there is a node. */
  tell(message: RpcMessage): void {
    if (this.#isReady) this.#send?.(message);
  }

  forget(id: Id): void {
    this.#asked.get(id)?.timer?.cancel();
    this.#asked.delete(id);
  }

  /** A node is connected. */
  open(send: (message: RpcMessage) => void): void {
    this.#send = send;
    this.#failure = undefined;
    if (this.greeting === undefined) {
      this.#ready();
      return;
    }
    this.#hello = this.#runtime.id();
    send({ id: this.#hello, method: 'initialize', params: this.greeting });
  }

  /** Takes a message of the node. */
  hear(message: RpcMessage): void {
    if (message.method !== undefined) this.onMessage(message);
    else if (message.id === this.#hello && this.#hello !== undefined) {
      this.#hello = undefined;
      this.#send?.({ method: 'notifications/initialized' });
      this.#ready();
    } else if (message.id !== undefined) this.#asked.get(message.id)?.answer(message);
  }

  /** The connection ended. Requests that were sent may have been carried out. */
  lost(): void {
    this.#send = undefined;
    this.#isReady = false;
    this.#hello = undefined;
    const gone = new EclipticError(
      'NO_NODE',
      'the node stopped before it answered; the request may or may not have been carried out',
    );
    for (const { request, answer, timer } of [...this.#asked.values()]) {
      if (!timer) answer(failure(request.id!, gone));
    }
  }

  /** No node will answer: fails all open requests, and those that come before a node is connected. */
  failed(error: EclipticError): void {
    this.#failure = error;
    for (const { request, answer } of [...this.#asked.values()]) answer(failure(request.id!, error));
  }

  #ready(): void {
    this.#isReady = true;
    for (const { method, params } of this.#lasting.values()) {
      this.#send?.({ id: this.#runtime.id(), method: method!, params: params ?? {} });
    }
    for (const asked of this.#asked.values()) this.#put(asked);
    this.onReady(this.#wasReady);
    this.#wasReady = true;
  }

  #put(asked: Asked): void {
    asked.timer?.cancel();
    asked.timer = undefined;
    this.#keep(asked.request);
    this.#send?.(asked.request);
  }

  #keep(request: RpcMessage): void {
    const about = `${request.params?.uri}`;
    if (request.method === 'resources/unsubscribe') this.#lasting.delete(about);
    else if (request.method === 'logging/setLevel') this.#lasting.set('', request);
    else if (request.method === 'resources/subscribe' && this.#lasting.size < MAX_ASKED) {
      this.#lasting.set(about, request);
    }
  }
}

function failure(id: Id, { code, message }: EclipticError): RpcMessage {
  return { id, error: { code: INTERNAL_ERROR, message, data: { code } } };
}
