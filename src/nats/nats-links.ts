import NoiseSecretStream from '@hyperswarm/secret-stream';
import type { Link } from '../network/links/link.js';
import { SecretStreamLink } from '../network/links/secret-stream-link.js';
import type { NoiseKeyPair } from '../network/links/websocket.js';
import { NODE_KEY } from '../network/membership/identity.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { CoreConnection, NatsConnection } from './connection.js';
import { ID_BYTES, MESSAGE, Pipe, readMessage, writeMessage } from './pipe.js';

const HANDSHAKE_MS = 5_000;
/** Links whose handshake is not done. Further callers are refused until one is. */
const MAX_UNPROVEN = 256;
const MAX_HANDSHAKE_BYTES = 4_096;

export interface NatsLinksComponents {
  runtime: Runtime;
  keyPair: NoiseKeyPair;
  connection: NatsConnection;
  onLink: (link: Link) => void;
  /** Called for each caller that did not complete the handshake. */
  onFailure: (from: string, reason: string) => void;
}

/**
 * Links to other nodes over the broker: the Noise secret stream of every other kind of link, carried by a `Pipe` on a
 * subject for each pair and direction. The broker sees keys and ciphertext.
 */
export class NatsLinks {
  readonly #components: NatsLinksComponents;
  readonly #own: string;
  /** By the other node's key and the pipe's id. */
  readonly #pipes = new Map<string, Pipe>();
  readonly #unsubscribe: (() => void)[] = [];
  #core: CoreConnection | undefined;
  #unproven = 0;
  #open = true;

  constructor(components: NatsLinksComponents) {
    this.#components = components;
    this.#own = Buffer.from(components.keyPair.publicKey).toString('hex');
  }

  start(): void {
    const { connection } = this.#components;
    this.#unsubscribe.push(
      connection.onConnected(() => this.#subscribe(connection.core)),
      connection.onDisconnected((reason) => this.#closeAll(`NATS: ${reason}`)),
    );
  }

  /** Calls a node. Rejects with `PEER_UNREACHABLE`. */
  async dial(node: string): Promise<Link> {
    const { runtime } = this.#components;
    const id = runtime.bytes(ID_BYTES);
    const pipe = this.#pipe(node, id);
    this.#post(node, writeMessage(MESSAGE.open, id, 0));
    try {
      return await this.#secure(pipe, node, true);
    } catch (error) {
      const message = `${node.slice(0, 8)} cannot be reached over NATS: ${describeError(error)}`;
      throw new EclipticError('PEER_UNREACHABLE', message, { node }, error);
    }
  }

  /** Closes what was not closed before. */
  close(): void {
    this.#open = false;
    for (const remove of this.#unsubscribe.splice(0)) remove();
    this.#closeAll('this node stopped');
  }

  /** Resolves when the links that were closed before have said so to the other end, or have been given up. */
  async drained(): Promise<void> {
    await Promise.all(
      [...this.#pipes.values()].map((pipe) => new Promise<void>((resolve) => pipe.once('close', () => resolve()))),
    );
  }

  /** The client keeps subscriptions when it reconnects. */
  #subscribe(core: CoreConnection): void {
    if (!this.#open || this.#core === core) return;
    this.#core = core;
    const { connection } = this.#components;
    const subscription = core.subscribe(connection.names.link(this.#own, '*'), {
      callback: (error, message) => {
        if (!error) this.#take(message.subject, message.data);
      },
    });
    this.#unsubscribe.push(() => subscription.unsubscribe());
  }

  #take(subject: string, data: Uint8Array): void {
    const from = subject.slice(subject.lastIndexOf('.') + 1);
    const message = readMessage(data);
    if (!message) return;
    const { type, id, count, bytes } = message;
    const pipe = this.#pipes.get(`${from} ${id}`);
    if (pipe) pipe.receive(type, count, bytes);
    else if (type === MESSAGE.open) this.#accept(from, Buffer.from(id, 'hex'));
    else if (type !== MESSAGE.gone) this.#refuse(from, Buffer.from(id, 'hex'), '');
  }

  #accept(from: string, id: Uint8Array): void {
    const { onLink, onFailure } = this.#components;
    if (!NODE_KEY.test(from) || from === this.#own || !this.#open) return;
    if (this.#unproven >= MAX_UNPROVEN) {
      this.#refuse(from, id, 'too many callers');
      return;
    }
    this.#secure(this.#pipe(from, id), from, false).then(onLink, (error: unknown) => {
      if (this.#open) onFailure(from.slice(0, 8), describeError(error));
    });
  }

  #refuse(to: string, id: Uint8Array, reason: string): void {
    if (NODE_KEY.test(to)) this.#post(to, writeMessage(MESSAGE.gone, id, 0, [Buffer.from(reason)]));
  }

  #pipe(node: string, id: Uint8Array): Pipe {
    const { connection } = this.#components;
    const maxPayload = connection.core.info?.max_payload ?? 0;
    const pipe = new Pipe({ id, maxPayload, post: (message) => this.#post(node, message) });
    const name = `${node} ${Buffer.from(id).toString('hex')}`;
    this.#pipes.set(name, pipe);
    pipe.on('close', () => this.#pipes.delete(name));
    // Errors are reported by the stream on top; a pipe without one must not end the process.
    pipe.on('error', () => {});
    return pipe;
  }

  #post(node: string, message: Uint8Array): void {
    const { connection } = this.#components;
    if (connection.isConnected) connection.core.publish(connection.names.link(node, this.#own), message);
  }

  #closeAll(reason: string): void {
    for (const pipe of this.#pipes.values()) pipe.destroy(new EclipticError('BROKER_UNREACHABLE', reason));
  }

  /** Runs the Noise handshake, and checks that the other end has the key that its subject names. */
  async #secure(pipe: Pipe, node: string, initiator: boolean): Promise<Link> {
    const { runtime, keyPair } = this.#components;
    this.#unproven++;
    try {
      const stream = await shake(runtime, pipe, initiator, keyPair);
      const link = new SecretStreamLink(runtime, 'nats', stream);
      if (link.remoteKey === node && this.#open) return link;
      link.close();
      throw new EclipticError('PEER_UNREACHABLE', `another node answered: ${link.remoteKey.slice(0, 8)}`);
    } finally {
      this.#unproven--;
    }
  }
}

function shake(runtime: Runtime, pipe: Pipe, initiator: boolean, keyPair: NoiseKeyPair): Promise<NoiseSecretStream> {
  return new Promise((resolve, reject) => {
    const stream = new NoiseSecretStream(initiator, pipe, { keyPair });
    let open = false;
    const timer = runtime.setTimer(() => fail('no handshake came'), HANDSHAKE_MS);
    const fail = (reason: string) => {
      if (open) return;
      timer.cancel();
      reject(new EclipticError('PEER_UNREACHABLE', reason));
      stream.destroy();
      pipe.destroy();
    };
    stream.on('error', (error) => fail(error.message));
    stream.on('close', () => fail('the connection was closed'));
    // A stream that is not open yet does not report that the other end is gone.
    pipe.on('end', () => runtime.defer(() => fail('the connection was closed')));
    pipe.maxBytes = MAX_HANDSHAKE_BYTES;
    stream.on('handshake', () => {
      pipe.maxBytes = Number.POSITIVE_INFINITY;
    });
    stream.on('open', () => {
      open = true;
      timer.cancel();
      resolve(stream);
    });
  });
}
