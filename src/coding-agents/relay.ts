import { EclipticError } from '../runtime/errors.js';
import type { Runtime, Timer } from '../runtime/runtime.js';

export type Id = string | number;

/** A message of JSON-RPC: a request, a notification or an answer. */
export interface RpcMessage {
  readonly id?: Id | undefined;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown };
}

/** What was asked and not answered. */
interface Asked {
  readonly request: RpcMessage;
  readonly answer: (response: RpcMessage) => void;
  /** Until it goes out. */
  timer: Timer | undefined;
}

/** How long a request waits for a node. */
const PATIENCE_MS = 20_000;
const MAX_ASKED = 1_000;
const INTERNAL_ERROR = -32603;

/**
 * A client's conversation in MCP with whatever agents offer, carried to the node and back as it is. Nodes come and go:
 * each is greeted as the client greeted this side, and told again what the client wants to hear of.
 */
export class Relay {
  readonly #runtime: Runtime;
  readonly #asked = new Map<Id, Asked>();
  /** Requests whose effect a node forgets when it ends, by what they are about. */
  readonly #lasting = new Map<string, RpcMessage>();
  #send: ((message: RpcMessage) => void) | undefined;
  #isReady = false;
  #wasReady = false;
  #hello: Id | undefined;
  /** The client's own `initialize`, in the eras that begin with one. */
  greeting: Readonly<Record<string, unknown>> | undefined;
  /** Told what the node says of itself, or asks. */
  onMessage: (message: RpcMessage) => void = () => {};
  /** Told when a node can be asked; `again` when it is not the first. */
  onReady: (again: boolean) => void = () => {};

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** Asks the node, as soon as there is one; resolves with its answer, or with why there is none. */
  ask(request: RpcMessage & { readonly id: Id }): Promise<RpcMessage> {
    const { id } = request;
    if (this.#asked.size >= MAX_ASKED || this.#asked.has(id)) {
      const why = this.#asked.has(id) ? 'that id is in use' : `at most ${MAX_ASKED} requests may be open at once`;
      return Promise.resolve(failure(id, new EclipticError('QUEUE_FULL', why)));
    }
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

  /** The same, but whoever asks goes on without an answer after that time. */
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

  /** Tells the node something, if there is one. */
  tell(message: RpcMessage): void {
    if (this.#isReady) this.#send?.(message);
  }

  /** Nobody waits for that answer any more. */
  forget(id: Id): void {
    this.#asked.get(id)?.timer?.cancel();
    this.#asked.delete(id);
  }

  /** A node is there, and listens to what is sent. */
  open(send: (message: RpcMessage) => void): void {
    this.#send = send;
    if (this.greeting === undefined) {
      this.#ready();
      return;
    }
    this.#hello = this.#runtime.id();
    send({ id: this.#hello, method: 'initialize', params: this.greeting });
  }

  /** The node says something. */
  hear(message: RpcMessage): void {
    if (message.method !== undefined) this.onMessage(message);
    else if (message.id === this.#hello && this.#hello !== undefined) {
      this.#hello = undefined;
      this.#send?.({ method: 'notifications/initialized' });
      this.#ready();
    } else if (message.id !== undefined) this.#asked.get(message.id)?.answer(message);
  }

  /** The node is gone. What it was asked may have been done. */
  lost(): void {
    this.#send = undefined;
    this.#isReady = false;
    this.#hello = undefined;
    const gone = new EclipticError('NO_NODE', 'the node went away before it answered; it may have been done or not');
    for (const { request, answer, timer } of [...this.#asked.values()]) {
      if (!timer) answer(failure(request.id!, gone));
    }
  }

  /** No node will answer, for that reason. */
  failed(error: EclipticError): void {
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
