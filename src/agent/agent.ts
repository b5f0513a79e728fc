import type { A2AChannel } from '../a2a/channel.js';
import type { ChannelAcceptor, ChannelManager } from '../a2a/channel-manager.js';
import { BROADCAST, type EnvelopeFactory, isMessageType, type ValidEnvelope } from '../a2a/envelope.js';
import type { AgentRegistry } from '../a2a/registry.js';
import type { A2ARouter } from '../a2a/router.js';
import type { AgentCard, RoutingResult } from '../a2a/schemas.js';
import type { ThreadTable } from '../a2a/thread-table.js';
import type { Delivery } from '../mail/delivery.js';
import type { Mail, UnreadHandler } from '../mail/mail.js';
import type { DeadlineQueue } from '../runtime/deadlines.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { type AgentInit, buildCard } from './agent-init.js';
import { Conversations, type RequestOptions } from './conversations.js';
import { Message } from './message.js';
import { assertDelivered, isPromise, Outbox, type Recipient, type SendOptions } from './outbox.js';
import type { StreamReader } from './streams.js';
import { toWireError } from './wire-error.js';

export interface AgentComponents {
  runtime: Runtime;
  factory: EnvelopeFactory;
  registry: AgentRegistry;
  router: A2ARouter;
  channels: ChannelManager;
  threads: ThreadTable;
  deadlines: DeadlineQueue;
  /** Durable mail, if the node keeps any. */
  mail: () => Mail | undefined;
}

/** Returns the answer, a promise of it, or an async iterable whose items are streamed. */
export type RequestHandler = (message: Message) => unknown;
export type MessageHandler = (message: Message) => void | Promise<void>;
export type StreamHandler = (stream: StreamReader, message: Message) => void | Promise<void>;

/** A live agent: what its author writes against. Made by `node.agent()`. */
export class Agent {
  readonly id: string;
  readonly #components: AgentComponents;
  readonly #outbox: Outbox;
  readonly #conversations: Conversations;
  readonly #onLeave: (agent: Agent) => void;
  #init: AgentInit;
  #requestHandler: RequestHandler | undefined;
  #notificationHandler: MessageHandler | undefined;
  #streamHandler: StreamHandler | undefined;
  #messageHandler: MessageHandler | undefined;
  #stopMail: (() => void) | undefined;
  #left = false;

  /** @internal */
  constructor(components: AgentComponents, init: AgentInit, onLeave: (agent: Agent) => void) {
    const { runtime, factory, registry, router } = components;
    this.#components = components;
    this.#init = init;
    this.#onLeave = onLeave;
    this.id = registry.register(buildCard(init, runtime.now())).id;
    this.#outbox = new Outbox(registry.entry(this.id)!, factory, router);
    this.#conversations = new Conversations(this.id, components, this.#outbox);
    router.onReceive(this.id, (envelope) => this.#receive(envelope));
  }

  get card(): AgentCard {
    return this.#components.registry.requireById(this.id);
  }

  /** Publishes a changed card, at the next revision. */
  update(changes: Partial<Omit<AgentInit, 'id'>>): AgentCard {
    if (this.#left) throw new EclipticError('NODE_STOPPED', `agent "${this.id}" has left`);
    const init = { ...this.#init, ...changes };
    const card = this.#components.registry.register(buildCard(init, this.#components.runtime.now()));
    this.#init = init;
    return card;
  }

  /** Answers requests. What the handler returns is the answer; what it throws reaches the caller as a typed error. */
  onRequest(handler: RequestHandler): this {
    this.#requestHandler = handler;
    this.#takeMail();
    return this;
  }

  onNotification(handler: MessageHandler): this {
    this.#notificationHandler = handler;
    this.#takeMail();
    return this;
  }

  /** Takes streams that others open towards this agent. */
  onStream(handler: StreamHandler): this {
    this.#streamHandler = handler;
    return this;
  }

  /** Takes every message that no other handler of this agent takes. */
  onMessage(handler: MessageHandler): this {
    this.#messageHandler = handler;
    this.#takeMail();
    return this;
  }

  /** Sends one message. Resolves when the recipient has it; rejects with the reason when it may not or cannot. */
  send(to: Recipient, payload: unknown, options: SendOptions = {}): Promise<RoutingResult> {
    try {
      const { type } = options;
      if (type !== undefined && !isMessageType(type)) {
        throw new EclipticError('INVALID_ENVELOPE', `there is no message type "${type}"`);
      }
      const result = this.#outbox.route(to, type ?? 'notification', payload, options);
      return isPromise(result) ? result.then(assertDelivered) : Promise.resolve(assertDelivered(result));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Sends to every other agent; the result counts who got it, from whom it was withheld, and who is not reachable. */
  broadcast(payload: unknown, options: Pick<SendOptions, 'thread' | 'ttlMs'> = {}): Promise<RoutingResult> {
    return this.send(BROADCAST, payload, options);
  }

  /** Sends a request and waits for the answer. */
  request<T = unknown>(to: Recipient, payload: unknown, options: RequestOptions = {}): Promise<T> {
    return this.#conversations.request(to, payload, options) as Promise<T>;
  }

  /** Sends a request whose answer is read as it comes. Leaving the loop tells the other side to stop. */
  stream<T = unknown>(to: Recipient, payload: unknown, options: RequestOptions = {}): StreamReader<T> {
    return this.#conversations.stream(to, payload, options) as StreamReader<T>;
  }

  /** Sends everything an iterable yields as one stream, no faster than the other side reads it. */
  sendStream(to: string, source: AsyncIterable<unknown> | Iterable<unknown>): Promise<void> {
    return this.#conversations.write(to, source);
  }

  /** Told, once for each, of durable messages of this agent that were not read within their `readWithinMs`. */
  onUnread(handler: UnreadHandler): this {
    this.#components.mail()?.onUnread(this.id, handler);
    return this;
  }

  /** What this agent kept under that name, with `message.commit({ keep: … })`. */
  async kept<T = unknown>(name: string): Promise<T | undefined> {
    const mail = this.#components.mail();
    if (!mail) throw new EclipticError('STORE_REQUIRED', 'this node has no store to keep anything in');
    return (await mail.kept(this.id, name)) as T | undefined;
  }

  openChannel(to: string): Promise<A2AChannel> {
    return this.#components.channels.openChannel(this.id, to);
  }

  /** Decides about channels that others open; without this the agent takes none. */
  onChannel(acceptor: ChannelAcceptor): () => void {
    return this.#components.channels.onChannel(this.id, acceptor);
  }

  /** Takes the agent off the mesh. Requests that wait are rejected; messages that wait are reported undelivered. */
  leave(): void {
    if (this.#left) return;
    this.#left = true;
    this.#conversations.end(new EclipticError('NODE_STOPPED', `agent "${this.id}" has left`));
    this.#components.channels.leave(this.id);
    this.#outbox.close();
    this.#stopMail?.();
    this.#components.router.withdraw(this.id);
    this.#onLeave(this);
  }

  /** Durable mail waits on disk until there is a handler for it. */
  #takeMail(): void {
    if (this.#left) return;
    const take = (envelope: ValidEnvelope, delivery: Delivery) => this.#receive(envelope, delivery);
    this.#stopMail ??= this.#components.mail()?.attach(this.id, take);
  }

  #receive(envelope: ValidEnvelope, delivery?: Delivery): void | Promise<void> {
    switch (envelope.type) {
      case 'request':
        if (this.#requestHandler) return this.#answer(envelope, this.#requestHandler, delivery);
        break;
      case 'notification':
        if (this.#notificationHandler) return this.#notificationHandler(new Message(envelope, delivery));
        break;
      default:
        if (this.#conversations.take(envelope)) return;
        if (envelope.type === 'stream-start' && this.#streamHandler) {
          const stream = this.#conversations.incoming(envelope);
          if (stream) return this.#streamHandler(stream, new Message(envelope));
        }
    }
    if (this.#messageHandler) return this.#messageHandler(new Message(envelope, delivery));
    const error = new EclipticError('NOT_HANDLED', `${this.id} has no handler for this ${envelope.type}`);
    if (envelope.type === 'request') this.#replyError(envelope, error);
    throw error;
  }

  #answer(envelope: ValidEnvelope, handler: RequestHandler, delivery?: Delivery): void | Promise<void> {
    let result: unknown;
    try {
      result = handler(new Message(envelope, delivery));
    } catch (error) {
      this.#replyError(envelope, error);
    }
    delivery?.replied();
    if (!(result instanceof Promise)) return this.#replyWith(envelope, result);
    return result.then(
      (value) => this.#replyWith(envelope, value),
      (error) => this.#replyError(envelope, error),
    );
  }

  #replyWith(envelope: ValidEnvelope, value: unknown): void | Promise<void> {
    if (isAsyncIterable(value)) return this.#replyStream(envelope, value);
    try {
      this.#outbox.reply(envelope, 'response', value ?? null);
    } catch (error) {
      this.#replyError(envelope, error);
    }
  }

  async #replyStream(envelope: ValidEnvelope, source: AsyncIterable<unknown>): Promise<void> {
    try {
      await this.#conversations.write(envelope.sender, source, envelope.correlationId);
    } catch (error) {
      if (error instanceof EclipticError && error.code === 'CANCELLED') return;
      this.#replyError(envelope, error);
    }
  }

  /** Tells the caller, then lets the error reach this node's event stream too. */
  #replyError(envelope: ValidEnvelope, error: unknown): never {
    this.#outbox.reply(envelope, 'error', toWireError(error));
    throw error;
  }
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}
