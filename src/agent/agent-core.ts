import type { Delivery, MailHandler } from '../mail/inbox-delivery.js';
import type { Mail } from '../mail/mail.js';
import type { UnreadHandler } from '../mail/receipts.js';
import type { CheckedBy, Schema } from '../mcp/schema.js';
import { fullAddress } from '../mesh/address.js';
import type { A2AChannel } from '../mesh/channel.js';
import type { ChannelAcceptor, ChannelManager } from '../mesh/channel-manager.js';
import { toWireError } from '../mesh/codec.js';
import { BROADCAST, type EnvelopeFactory, isMessageType, type ValidEnvelope } from '../mesh/envelope.js';
import type { Receiver, Responder } from '../mesh/mailbox.js';
import { MessageSender, type SendOptions } from '../mesh/message-sender.js';
import { tracedHandler } from '../mesh/message-tracing.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { RegistryEntry } from '../mesh/registry-index.js';
import type { A2ARouter } from '../mesh/router.js';
import type { AgentCard, Recipient, RoutingResult } from '../mesh/schemas.js';
import type { ThreadTable } from '../mesh/thread-table.js';
import { isAsyncIterable } from '../runtime/async.js';
import type { DeadlineQueue } from '../runtime/deadlines.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { waitingReport } from '../work/waiting-report.js';
import { type AgentInit, buildCard } from './agent-init.js';
import { checked, checkOf } from './checked.js';
import { Conversations, type RequestOptions } from './conversations.js';
import { HandlerContext } from './handler-context.js';
import { Message } from './message.js';
import { Staffing, type WorkerHealth } from './staffing.js';
import type { StreamListener, StreamReader, StreamTap } from './streams.js';

export interface AgentCoreComponents {
  runtime: Runtime;
  factory: EnvelopeFactory;
  registry: AgentRegistry;
  router: A2ARouter;
  channels: ChannelManager;
  threads: ThreadTable;
  deadlines: DeadlineQueue;
  /** Undefined on a node without a store. */
  mail: Mail | undefined;
}

export interface ReplyOptions<S extends Schema> extends RequestOptions {
  /** What the answer must be: any Standard Schema (zod, valibot, arktype…) or a JSON Schema. */
  reply: S;
}

/** Returns the answer, a promise of it, or an async iterable whose items are streamed. */
export type RequestHandler = (message: Message) => unknown;
export type MessageHandler = (message: Message) => void | Promise<void>;
export type StreamHandler = (stream: StreamReader, message: Message) => void | Promise<void>;

/** What every agent is: a card on the mesh, conversations, and handlers for messages. It knows no feature by name. */
export abstract class AgentCore implements Receiver, Responder {
  // First what a message on the direct path needs: among many agents each cache line counts.
  readonly id: string;
  readonly #entry: RegistryEntry;
  readonly #components: AgentCoreComponents;
  #notificationHandler: MessageHandler | undefined;
  /** @internal */
  protected readonly context: HandlerContext;
  /** @internal */
  protected requestHandler: RequestHandler | undefined;
  readonly #conversations: Conversations;
  /** @internal */
  protected readonly sender: MessageSender;
  /** @internal */
  protected readonly staffing: Staffing;
  readonly #onLeave: (agent: { readonly id: string }) => void;
  #init: AgentInit;
  #streamHandler: StreamHandler | undefined;
  #messageHandler: MessageHandler | undefined;
  #stopMail: (() => void) | undefined;
  #stopUnread: (() => void) | undefined;
  #left = false;

  /** @internal */
  constructor(components: AgentCoreComponents, init: AgentInit, onLeave: (agent: { readonly id: string }) => void) {
    const { runtime, factory, registry, router } = components;
    this.#components = components;
    this.#init = init;
    this.#onLeave = onLeave;
    this.id = registry.register(buildCard(init, runtime.now())).id;
    this.requestHandler = undefined;
    this.context = new HandlerContext(this.id, components);
    this.staffing = new Staffing(runtime, registry, this.id, init.vacancy);
    this.#entry = registry.entry(this.id)!;
    this.sender = new MessageSender(this.#entry, registry.nodeKey, factory, router);
    this.#conversations = new Conversations(this.id, components, this.sender);
    router.attach(this.id, this);
  }

  /** In full, as other nodes know it. */
  get address(): string {
    return fullAddress(this.id, this.#components.registry.nodeKey);
  }

  get card(): AgentCard {
    return this.#components.registry.requireById(this.id);
  }

  /** Publishes a changed card, at the next revision. */
  update(changes: Partial<Omit<AgentInit, 'id'>>): AgentCard {
    this.assertPresent();
    const init = { ...this.#init, ...changes };
    const { registry, runtime } = this.#components;
    const card = registry.register(buildCard(init, runtime.now(), this.card.status));
    this.#init = init;
    return card;
  }

  /** Answers requests. The handler returns the answer; an error that it throws reaches the caller as a typed error. */
  onRequest(handler: RequestHandler): this {
    this.requestHandler = handler;
    this.staffing.add('request', 'task', 'proposal');
    this.#takeMail();
    return this;
  }

  onNotification(handler: MessageHandler): this {
    this.#notificationHandler = handler;
    this.staffing.addListener();
    this.#takeMail();
    return this;
  }

  /** Takes streams that others open towards this agent. */
  onStream(handler: StreamHandler): this {
    this.#streamHandler = handler;
    this.staffing.addListener();
    return this;
  }

  /** Takes every message that no other handler of this agent takes. */
  onMessage(handler: MessageHandler): this {
    this.#messageHandler = handler;
    this.staffing.add('request');
    this.#takeMail();
    return this;
  }

  /** Sends one message. Resolves when the recipient has it; rejects with the reason when it may not or cannot. */
  send(to: Recipient, payload: unknown, options?: SendOptions): Promise<RoutingResult> {
    if (options === undefined) {
      const result = this.#components.router.direct.send(this.#entry, to, payload);
      if (result !== undefined) return result;
    }
    return this.#send(to, payload, options ?? {});
  }

  #send(to: Recipient, payload: unknown, options: SendOptions): Promise<RoutingResult> {
    try {
      const { type } = options;
      if (type !== undefined && !isMessageType(type)) {
        throw new EclipticError('INVALID_ENVELOPE', `there is no message type "${type}"`);
      }
      return this.sender.send(to, type ?? 'notification', payload, options);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Sends to every other agent; the result counts deliveries, agents it was withheld from, and unreachable ones. */
  broadcast(payload: unknown, options: Pick<SendOptions, 'thread' | 'ttlMs'> = {}): Promise<RoutingResult> {
    return this.send(BROADCAST, payload, options);
  }

  /**
   * Sends a request and waits for the answer. With `reply`, the answer is checked and has the schema's type; one that does
   * not match is rejected with `INVALID_RESULT`. Without it, the answer is unknown.
   */
  request<S extends Schema>(to: Recipient, payload: unknown, options: ReplyOptions<S>): Promise<CheckedBy<S>>;
  /** `request<Answer>(…)` names the type of an answer that is not checked. */
  request<T = unknown>(to: Recipient, payload: unknown, options?: RequestOptions): Promise<NoInfer<T>>;
  request(to: Recipient, payload: unknown, options?: Partial<ReplyOptions<Schema>>): Promise<unknown> {
    if (options?.reply !== undefined) return this.#requestChecked(to, payload, options, options.reply);
    return this.#request(to, payload, options);
  }

  #request(to: Recipient, payload: unknown, options?: RequestOptions): Promise<unknown> {
    if (options?.signal === undefined) {
      const { direct } = this.#components.router;
      const answer = direct.request(this.#entry, to, payload, this.#conversations, options?.timeoutMs);
      if (answer !== undefined) return answer;
    }
    return this.#conversations.request(to, payload, options ?? {});
  }

  /** Sends a request whose answer is read as it comes. Leaving the loop tells the other side to stop. */
  stream<T = unknown>(to: Recipient, payload: unknown, options: RequestOptions = {}): StreamReader<NoInfer<T>> {
    return this.#conversations.stream(to, payload, options) as StreamReader<NoInfer<T>>;
  }

  /** @internal As `stream`, for a listener that takes each item as it arrives. */
  tap(to: Recipient, payload: unknown, listener: StreamListener): StreamTap {
    return this.#conversations.tap(to, payload, listener);
  }

  /** Sends everything an iterable yields as one stream, no faster than the other side reads it. */
  sendStream(to: string, source: AsyncIterable<unknown> | Iterable<unknown>): Promise<void> {
    return this.#conversations.write(to, source);
  }

  /** Told, once for each, of durable messages of this agent that were not read within their `readWithinMs`. */
  onUnread(handler: UnreadHandler): this {
    this.#stopUnread?.();
    this.#stopUnread = this.#components.mail?.onUnread(this.id, handler);
    return this;
  }

  /** The value that this agent stored under that name with `message.commit({ keep: … })`. */
  async kept<T = unknown>(name: string): Promise<NoInfer<T> | undefined> {
    const { mail } = this.#components;
    if (!mail) throw new EclipticError('STORE_REQUIRED', 'this node has no store to keep anything in');
    return (await mail.kept(this.id, name)) as NoInfer<T> | undefined;
  }

  openChannel(to: string): Promise<A2AChannel> {
    return this.#components.channels.openChannel(this.id, to);
  }

  /** Decides about channels that others open; without this the agent takes none. */
  onChannel(acceptor: ChannelAcceptor): () => void {
    return this.#components.channels.onChannel(this.id, acceptor);
  }

  /** @internal The health of the program, remote agent or tool server that does this agent's work. */
  get workerHealth(): WorkerHealth {
    return this.staffing.health;
  }

  set workerHealth(health: WorkerHealth) {
    this.staffing.health = health;
  }

  /** @internal An answer to a durable message, to be sent together with the message's end; undefined if it has none. */
  answerTo(envelope: ValidEnvelope, payload: unknown): ValidEnvelope | undefined {
    return this.sender.answerTo(envelope, 'response', payload);
  }

  /** @internal Tells the sender of a request how many decisions of the owner the answer waits for; its time limit stands still. */
  reportWaiting(envelope: ValidEnvelope, decisions: number): void {
    this.sender.reply(envelope, 'stream-data', waitingReport(decisions));
  }

  /** Takes the agent off the mesh. Requests that wait are rejected; messages that wait are reported undelivered. */
  leave(): void {
    if (this.#left) return;
    this.#left = true;
    this.staffing.close();
    const error = new EclipticError('NODE_STOPPED', `agent "${this.id}" has left`);
    this.endFeatures(error);
    this.context.end(error);
    this.#conversations.end(error);
    this.#components.channels.leave(this.id);
    this.sender.close();
    this.#stopMail?.();
    this.#stopUnread?.();
    this.#components.router.withdraw(this.id);
    this.#onLeave(this);
  }

  /**
   * @internal Offers a message to the features, before the author's handlers; false if it belongs to none. A promise is
   * the work that the message began. A switch in the subclass, and no table: a table costs 12 % of a local send.
   */
  protected abstract takeFeature(envelope: ValidEnvelope): boolean | Promise<void>;
  /** @internal Does a notification, request or response with this payload certainly belong to no feature? */
  protected abstract isOrdinary(payload: unknown): boolean;
  /** @internal Durable mail is about to be handled. */
  protected abstract takeAttachments(envelope: ValidEnvelope): void;

  /** @internal The agent leaves: its features end their work. */
  protected abstract endFeatures(error: EclipticError): void;

  /** @internal */
  protected assertPresent(): void {
    if (this.#left) throw new EclipticError('NODE_STOPPED', `agent "${this.id}" has left`);
  }

  /** Durable mail waits on disk until there is a handler for it. */
  #takeMail(): void {
    if (this.#left || this.#init.fetchesMail) return;
    const { mail } = this.#components;
    if (this.#stopMail) mail?.offerAgain(this.id);
    else {
      const receive: MailHandler = (envelope, delivery) => {
        this.takeAttachments(envelope);
        return this.receive(envelope, delivery);
      };
      this.#stopMail = mail?.attach(this.id, tracedHandler(this.#components.runtime.tracer, this.id, receive));
    }
  }

  async #requestChecked(to: Recipient, payload: unknown, options: RequestOptions, reply: Schema): Promise<unknown> {
    // Something that is no schema is refused before anything is sent.
    checkOf(reply);
    const answer = await this.#request(to, payload, options);
    const from = typeof to === 'string' ? to : `the agent with "${to.capability}"`;
    return checked(answer, reply, `the answer of ${from}`, 'INVALID_RESULT');
  }

  /** @internal */
  get responder(): Responder {
    return this;
  }

  /** @internal */
  receive(envelope: ValidEnvelope, delivery?: Delivery): void | Promise<void> {
    const { type } = envelope;
    const taken = this.takeFeature(envelope);
    if (taken !== false) return taken === true ? undefined : taken;
    if (type === 'request') {
      if (this.requestHandler) return this.answer(envelope, this.requestHandler, delivery);
    } else if (type === 'notification') {
      if (this.#notificationHandler) return this.#notificationHandler(new Message(envelope, this.context, delivery));
    } else if (this.#conversations.take(envelope)) return;
    else if (type === 'stream-start' && this.#streamHandler) {
      const stream = this.#conversations.incoming(envelope);
      if (stream) return this.#streamHandler(stream, new Message(envelope, this.context));
    }
    if (this.#messageHandler) return this.#messageHandler(new Message(envelope, this.context, delivery));
    if (type === 'request') this.replyError(envelope, this.staffing.refusal('request'), delivery);
    if (type === 'notification' && delivery) return delivery.leave();
    if (type === 'notification' && this.staffing.ignoresNotifications) return;
    throw new EclipticError('NOT_HANDLED', `${this.id} has no handler for this ${type}`);
  }

  /** @internal Answers a request with what the handler returns. */
  protected answer(envelope: ValidEnvelope, handler: RequestHandler, delivery?: Delivery): void | Promise<void> {
    let result: unknown;
    try {
      result = handler(new Message(envelope, this.context, delivery));
    } catch (error) {
      this.replyError(envelope, error, delivery);
    }
    return this.concludeAnswer(envelope, result, delivery);
  }

  /** @internal */
  hearsDirectly(payload: unknown): boolean {
    return this.#notificationHandler !== undefined && this.isOrdinary(payload);
  }

  /** @internal */
  runNotification(envelope: ValidEnvelope): void | Promise<void> {
    return this.#notificationHandler!(new Message(envelope, this.context));
  }

  /** @internal */
  answersDirectly(payload: unknown): boolean {
    return this.requestHandler !== undefined && this.isOrdinary(payload);
  }

  /** @internal */
  takesAnswer(payload: unknown): boolean {
    return this.isOrdinary(payload);
  }

  /** @internal */
  runRequest(envelope: ValidEnvelope): unknown {
    return this.requestHandler!(new Message(envelope, this.context));
  }

  /** @internal */
  failAnswer(envelope: ValidEnvelope, error: unknown): never {
    return this.replyError(envelope, error);
  }

  /** @internal */
  concludeAnswer(envelope: ValidEnvelope, result: unknown, delivery?: Delivery): void | Promise<void> {
    if (!(result instanceof Promise)) return this.#replyWith(envelope, result, delivery);
    return result.then(
      (value) => this.#replyWith(envelope, value, delivery),
      (error) => this.replyError(envelope, error, delivery),
    );
  }

  #replyWith(envelope: ValidEnvelope, value: unknown, delivery?: Delivery): void | Promise<void> {
    if (isAsyncIterable(value)) return this.#replyStream(envelope, value, delivery);
    try {
      this.#reply(envelope, 'response', value ?? null, delivery);
    } catch (error) {
      this.replyError(envelope, error, delivery);
    }
  }

  async #replyStream(
    envelope: ValidEnvelope,
    source: AsyncIterable<unknown>,
    delivery: Delivery | undefined,
  ): Promise<void> {
    try {
      await this.#conversations.write(envelope.sender, source, envelope.correlationId);
      delivery?.markReplied();
    } catch (error) {
      if (error instanceof EclipticError && error.code === 'CANCELLED') return;
      this.replyError(envelope, error, delivery);
    }
  }

  /** @internal Tells the caller, then lets the error reach this node's event stream too. */
  protected replyError(envelope: ValidEnvelope, error: unknown, delivery?: Delivery): never {
    // A later attempt at a durable request may still succeed.
    if (delivery?.lastAttempt !== false) this.#reply(envelope, 'error', toWireError(error), delivery);
    throw error;
  }

  /** The answer to a durable request and the end of that request are one transaction. */
  #reply(envelope: ValidEnvelope, type: 'response' | 'error', payload: unknown, delivery?: Delivery): void {
    const answer = this.sender.answerTo(envelope, type, payload);
    if (answer && !delivery?.answerWith(answer)) this.sender.post(answer);
  }
}
