import type { DocumentOptions, SharedDocument } from '../documents/document.js';
import type { Documents } from '../documents/documents.js';
import type { Delivery } from '../mail/inbox-delivery.js';
import type { Mail } from '../mail/mail.js';
import type { UnreadHandler } from '../mail/receipts.js';
import type { Offer } from '../mcp/catalogue.js';
import type { Kind } from '../mcp/definitions.js';
import {
  offerPrompt,
  offerResource,
  offerTool,
  type PromptHandler,
  type PromptInit,
  type ResourceInit,
  type ResourceLoader,
  type ToolHandler,
  type ToolInit,
  type ToolOptions,
} from '../mcp/offering.js';
import type { RequestState } from '../mcp/request-state.js';
import type { OutputOf, Schema } from '../mcp/schema.js';
import type { McpService } from '../mcp/service.js';
import { fullAddress } from '../mesh/address.js';
import type { A2AChannel } from '../mesh/channel.js';
import type { ChannelAcceptor, ChannelManager } from '../mesh/channel-manager.js';
import { BROADCAST, type EnvelopeFactory, isMessageType, type ValidEnvelope } from '../mesh/envelope.js';
import { assertDelivered, isPromise, MessageSender, type Recipient, type SendOptions } from '../mesh/message-sender.js';
import type { A2AObservability } from '../mesh/observability.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { A2ARouter } from '../mesh/router.js';
import type { AgentCard, RoutingResult } from '../mesh/schemas.js';
import type { ThreadTable } from '../mesh/thread-table.js';
import { toWireError } from '../mesh/wire-error.js';
import type { DeadlineQueue } from '../runtime/deadlines.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Negotiation, ProposalHandler, ProposalInit, TaskNegotiator } from '../work/proposals/proposal.js';
import type { ProposalRecords } from '../work/proposals/proposal-records.js';
import { isOfProposal } from '../work/proposals/proposal-wire.js';
import type { ProposalSide } from '../work/proposals/task-negotiator.js';
import type { SwarmCoordinator } from '../work/swarm/swarm-coordinator.js';
import type { Swarms } from '../work/swarm/swarms.js';
import { type AgentInit, buildCard } from './agent-init.js';
import { AgentProposals } from './agent-proposals.js';
import { AgentSwarms, type SwarmInit, type SwarmRun } from './agent-swarms.js';
import {
  AgentTasks,
  isAsyncIterable,
  plainAnswer,
  plainPayload,
  type TaskHandler,
  type TaskNews,
  type TaskOpening,
  type TaskOptions,
  taskIn,
} from './agent-tasks.js';
import { AgentTools } from './agent-tools.js';
import { Conversations, type RequestOptions } from './conversations.js';
import { Message } from './message.js';
import { Staffing, type WorkerHealth } from './staffing.js';
import type { StreamReader } from './streams.js';

export interface AgentComponents {
  runtime: Runtime;
  factory: EnvelopeFactory;
  registry: AgentRegistry;
  router: A2ARouter;
  channels: ChannelManager;
  threads: ThreadTable;
  deadlines: DeadlineQueue;
  /** Durable mail, if the node keeps any. */
  mail: Mail | undefined;
  /** Durable proposals, if the node keeps any. */
  proposals: ProposalRecords | undefined;
  observability: A2AObservability;
  mcp: McpService;
  documents: Documents;
  swarms: Swarms;
}

/** Returns the answer, a promise of it, or an async iterable whose items are streamed. */
export type RequestHandler = (message: Message) => unknown;
export type MessageHandler = (message: Message) => void | Promise<void>;
export type StreamHandler = (stream: StreamReader, message: Message) => void | Promise<void>;

/** A live agent: what its author writes against. Made by `node.agent()`. */
export class Agent {
  readonly id: string;
  readonly #components: AgentComponents;
  readonly #sender: MessageSender;
  readonly #conversations: Conversations;
  readonly #onLeave: (agent: Agent) => void;
  readonly #staffing: Staffing;
  #init: AgentInit;
  #requestHandler: RequestHandler | undefined;
  #notificationHandler: MessageHandler | undefined;
  #streamHandler: StreamHandler | undefined;
  #tasks: AgentTasks | undefined;
  #messageHandler: MessageHandler | undefined;
  #stopMail: (() => void) | undefined;
  #stopUnread: (() => void) | undefined;
  /** Made with the first proposal: most agents never have one. */
  #proposals: AgentProposals | undefined;
  #swarms: AgentSwarms | undefined;
  #left = false;

  /** @internal */
  constructor(components: AgentComponents, init: AgentInit, onLeave: (agent: Agent) => void) {
    const { runtime, factory, registry, router } = components;
    this.#components = components;
    this.#init = init;
    this.#onLeave = onLeave;
    this.id = registry.register(buildCard(init, runtime.now())).id;
    this.#staffing = new Staffing(runtime, registry, this.id, init.vacancy);
    this.#sender = new MessageSender(registry.entry(this.id)!, registry.nodeKey, factory, router);
    this.#conversations = new Conversations(this.id, components, this.#sender);
    router.onReceive(this.id, (envelope) => this.#receive(envelope));
    if (components.proposals?.has(this.id)) this.#negotiating();
    if (components.swarms.has(this.id)) this.#swarming();
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
    if (this.#left) throw new EclipticError('NODE_STOPPED', `agent "${this.id}" has left`);
    const init = { ...this.#init, ...changes };
    const { registry, runtime } = this.#components;
    const card = registry.register(buildCard(init, runtime.now(), this.card.status));
    this.#init = init;
    return card;
  }

  /** Answers requests. What the handler returns is the answer; what it throws reaches the caller as a typed error. */
  onRequest(handler: RequestHandler): this {
    this.#requestHandler = handler;
    this.#staffing.add('request', 'task', 'proposal');
    this.#proposals?.resume();
    this.#takeMail();
    return this;
  }

  /** Works on tasks, as A2A knows them: with progress, artifacts and questions. */
  onTask(handler: TaskHandler, options: TaskOptions = {}): this {
    this.#tasks = new AgentTasks(this.#components.runtime, this.address, handler, options);
    this.#staffing.add('task', 'proposal');
    this.#proposals?.resume();
    return this;
  }

  onNotification(handler: MessageHandler): this {
    this.#notificationHandler = handler;
    this.#staffing.addListener();
    this.#takeMail();
    return this;
  }

  /** Takes streams that others open towards this agent. */
  onStream(handler: StreamHandler): this {
    this.#streamHandler = handler;
    this.#staffing.addListener();
    return this;
  }

  /** Takes every message that no other handler of this agent takes. */
  onMessage(handler: MessageHandler): this {
    this.#messageHandler = handler;
    this.#staffing.add('request');
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
      const result = this.#sender.route(to, type ?? 'notification', payload, options);
      return isPromise(result) ? result.then(assertDelivered) : Promise.resolve(assertDelivered(result));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Sends to every other agent; the result counts who got it, from whom it was withheld, and who is not reachable. */
  broadcast(payload: unknown, options: Pick<SendOptions, 'thread' | 'ttlMs'> = {}): Promise<RoutingResult> {
    return this.send(BROADCAST, payload, options);
  }

  /** Sends a request and waits for the answer, which is unknown unless the caller says what it expects: `request<Answer>(…)`. */
  request<T = unknown>(to: Recipient, payload: unknown, options: RequestOptions = {}): Promise<NoInfer<T>> {
    return this.#conversations.request(to, payload, options) as Promise<NoInfer<T>>;
  }

  /** Sends a request whose answer is read as it comes. Leaving the loop tells the other side to stop. */
  stream<T = unknown>(to: Recipient, payload: unknown, options: RequestOptions = {}): StreamReader<NoInfer<T>> {
    return this.#conversations.stream(to, payload, options) as StreamReader<NoInfer<T>>;
  }

  /** Sends everything an iterable yields as one stream, no faster than the other side reads it. */
  sendStream(to: string, source: AsyncIterable<unknown> | Iterable<unknown>): Promise<void> {
    return this.#conversations.write(to, source);
  }

  /** Proposes work to another agent, or to whoever has the capabilities it needs. */
  propose(init: ProposalInit): Negotiation {
    return this.#negotiating().propose(init);
  }

  /** Proposes work to everyone who has the capabilities it needs; the best bid gets it, and the others are told. */
  proposeToAll(init: Omit<ProposalInit, 'to'>): Negotiation {
    return this.#negotiating().proposeToAll(init);
  }

  /** Decides about proposals to this agent. Without this, its task or request handler takes what it is able to do. */
  onProposal(handler: ProposalHandler): this {
    this.#negotiating().handle(handler);
    this.#staffing.add('proposal');
    return this;
  }

  /** This agent's proposals by their ids. */
  get negotiator(): TaskNegotiator {
    return this.#negotiating().negotiator;
  }

  /** Proposals that this agent made, those of an earlier run of a durable one too. */
  get negotiations(): readonly Negotiation[] {
    return this.#proposals?.negotiator.negotiations ?? [];
  }

  /** @internal Proposals that this agent made and got, as far as they are remembered. */
  get proposalSides(): readonly ProposalSide[] {
    return this.#proposals?.negotiator.sides ?? [];
  }

  /** Told, once for each, of durable messages of this agent that were not read within their `readWithinMs`. */
  onUnread(handler: UnreadHandler): this {
    this.#stopUnread?.();
    this.#stopUnread = this.#components.mail?.onUnread(this.id, handler);
    return this;
  }

  /** What this agent kept under that name, with `message.commit({ keep: … })`. */
  async kept<T = unknown>(name: string): Promise<NoInfer<T> | undefined> {
    const { mail } = this.#components;
    if (!mail) throw new EclipticError('STORE_REQUIRED', 'this node has no store to keep anything in');
    return (await mail.kept(this.id, name)) as NoInfer<T> | undefined;
  }

  /** Offers a tool under `agent.name` to everyone who may use this agent's tools. */
  tool<I extends Schema = Schema, O extends Schema = Schema>(
    name: string,
    options: ToolOptions<I, O>,
    handler: ToolHandler<OutputOf<I>>,
  ): this {
    return this.#offer([offerTool(this.#seal, name, options, handler)]);
  }

  /** Offers several tools at once: all of them, or, if one is refused, none. */
  tools(list: readonly ToolInit[]): this {
    const seal = this.#seal;
    return this.#offer(
      list.map(({ name, handler, ...options }) => offerTool(seal, name, options, handler as ToolHandler<unknown>)),
    );
  }

  /** Offers a resource, or with a `uriTemplate` all that it describes; the loader is asked at every reading. */
  resource(init: ResourceInit, loader: ResourceLoader): this {
    return this.#offer([offerResource(this.#seal, init, loader)]);
  }

  /** Offers a prompt: a template with `{{argument}}` in it, or a handler that makes the messages. */
  prompt(init: PromptInit, handler?: PromptHandler): this {
    return this.#offer([offerPrompt(this.#seal, init, handler)]);
  }

  /** Takes back a tool or a prompt by its name, or a resource by its URI. */
  withdraw(kind: Kind, ...names: string[]): this {
    this.#components.mcp.catalogue.remove(this.id, kind, names);
    return this;
  }

  /** @internal Tools of this agent came or went, its own or those of a server that it owns. */
  toolsChanged(names: Iterable<string>, gone: boolean): void {
    this.#staffing.toolsChanged(names, gone);
  }

  /** @internal How the program, remote agent or tool server is that does this agent's work. */
  set workerHealth(health: WorkerHealth) {
    this.#staffing.health = health;
  }

  /** @internal How a tool server that this agent owns is. */
  setServerHealth(server: string, health: WorkerHealth): void {
    this.#staffing.setServerHealth(server, health);
  }

  /** Tells those who watch a resource of this agent that its content has changed. */
  resourceUpdated(uri: string): void {
    this.#components.mcp.resourceUpdated(this.id, uri);
  }

  /** What other agents offer, to this one. */
  get mcp(): AgentTools {
    return new AgentTools(this.#components.mcp, () => {
      if (this.#left) throw new EclipticError('NODE_STOPPED', `agent "${this.id}" has left`);
      return this.#components.registry.entry(this.id)!;
    });
  }

  /** This agent's replica of a document that it shares with every agent that opens the same name and may. */
  state(name: string, options?: DocumentOptions): SharedDocument {
    if (this.#left) throw new EclipticError('NODE_STOPPED', `agent "${this.id}" has left`);
    return this.#components.documents.open(this.#sender, name, options);
  }

  /** The shared documents that this agent has open. */
  get documents(): SharedDocument[] {
    return this.#components.documents.list.flatMap(({ agentId, document }) => (agentId === this.id ? [document] : []));
  }

  /** Forms a swarm of agents that have the capabilities, which do the task between them, and reports the outcome. */
  swarm(task: string, init: SwarmInit): SwarmRun {
    return this.#swarming().run(task, init);
  }

  /** This agent's swarms by their ids: those it formed, and those it takes part in. */
  get swarms(): SwarmCoordinator {
    return this.#swarming().coordinator;
  }

  openChannel(to: string): Promise<A2AChannel> {
    return this.#components.channels.openChannel(this.id, to);
  }

  /** Decides about channels that others open; without this the agent takes none. */
  onChannel(acceptor: ChannelAcceptor): () => void {
    return this.#components.channels.onChannel(this.id, acceptor);
  }

  /** @internal An answer to a durable message, to be sent together with the message's end; undefined if it has none. */
  answerTo(envelope: ValidEnvelope, payload: unknown): ValidEnvelope | undefined {
    return this.#sender.answerTo(envelope, 'response', payload);
  }

  /** Takes the agent off the mesh. Requests that wait are rejected; messages that wait are reported undelivered. */
  leave(): void {
    if (this.#left) return;
    this.#left = true;
    this.#staffing.close();
    const error = new EclipticError('NODE_STOPPED', `agent "${this.id}" has left`);
    this.#tasks?.end(error);
    this.#proposals?.end(error);
    this.#conversations.end(error);
    this.#components.swarms.leave(this.id);
    this.#components.documents.leave(this.id);
    this.#components.channels.leave(this.id);
    this.#components.mcp.catalogue.removeOwner(this.id);
    this.#sender.close();
    this.#stopMail?.();
    this.#stopUnread?.();
    this.#components.router.withdraw(this.id);
    this.#onLeave(this);
  }

  get #seal(): RequestState {
    return this.#components.mcp.requestState.of(this.id);
  }

  #offer(offers: readonly Offer[]): this {
    if (this.#left) throw new EclipticError('NODE_STOPPED', `agent "${this.id}" has left`);
    this.#components.mcp.catalogue.add(this.id, undefined, offers);
    return this;
  }

  #negotiating(): AgentProposals {
    if (this.#proposals) return this.#proposals;
    if (this.#left) throw new EclipticError('NODE_STOPPED', `agent "${this.id}" has left`);
    const { registry, mail, proposals, ...rest } = this.#components;
    this.#proposals = new AgentProposals({
      ...rest,
      registry,
      sender: this.#sender,
      records: proposals,
      knows: (address) => registry.entry(address) !== undefined || mail?.find(address) !== undefined,
      card: () => this.card,
      worker: () => ({ tasks: this.#tasks, answer: this.#requestHandler }),
      refusal: () => this.#staffing.refusal('proposal'),
      onObserved: () => this.#staffing.add('proposal'),
      enterSwarm: (engagement, from, bid) => this.#swarming().coordinator.enter(engagement, from, bid),
    });
    return this.#proposals;
  }

  #swarming(): AgentSwarms {
    if (this.#swarms) return this.#swarms;
    if (this.#left) throw new EclipticError('NODE_STOPPED', `agent "${this.id}" has left`);
    this.#swarms = new AgentSwarms({
      runtime: this.#components.runtime,
      swarms: this.#components.swarms,
      sender: this.#sender,
      card: () => this.card,
      proposals: () => this.#negotiating(),
      ask: (to, payload, timeoutMs) => this.request(to, payload, { timeoutMs }),
    });
    return this.#swarms;
  }

  /** Durable mail waits on disk until there is a handler for it. */
  #takeMail(): void {
    if (this.#left || this.#init.fetchesMail) return;
    const take = (envelope: ValidEnvelope, delivery: Delivery) => this.#receive(envelope, delivery);
    this.#stopMail ??= this.#components.mail?.attach(this.id, take);
  }

  #receive(envelope: ValidEnvelope, delivery?: Delivery): void | Promise<void> {
    if (isOfProposal(envelope) && this.#negotiating().take(envelope)) return;
    switch (envelope.type) {
      case 'request':
        if (taskIn(envelope.payload) !== undefined) return this.#work(envelope);
        if (this.#requestHandler) return this.#answer(envelope, this.#requestHandler, delivery);
        break;
      case 'notification':
        // What is said of a task is nothing for other handlers, also where nobody works on it any more.
        if (taskIn(envelope.payload) !== undefined) return this.#hearOfTask(envelope);
        if (this.#notificationHandler) return this.#notificationHandler(new Message(envelope, delivery));
        break;
      case 'stream-data':
        if (this.#components.swarms.take(this.id, envelope)) return;
        if (this.#components.documents.take(this.id, envelope)) return;
        if (this.#conversations.take(envelope)) return;
        break;
      default:
        if (this.#conversations.take(envelope)) return;
        if (envelope.type === 'stream-start' && this.#streamHandler) {
          const stream = this.#conversations.incoming(envelope);
          if (stream) return this.#streamHandler(stream, new Message(envelope));
        }
    }
    if (this.#messageHandler) return this.#messageHandler(new Message(envelope, delivery));
    if (envelope.type === 'request') this.#replyError(envelope, this.#staffing.refusal('request'), delivery);
    if (envelope.type === 'notification' && this.#staffing.ignoresNotifications) return;
    throw new EclipticError('NOT_HANDLED', `${this.id} has no handler for this ${envelope.type}`);
  }

  /** A task that somebody gives to this agent: one that only answers requests is asked what the task asks. */
  #work(envelope: ValidEnvelope): void | Promise<void> {
    const opening = taskIn<TaskOpening>(envelope.payload)!;
    const tasks = this.#tasks;
    if (tasks) return this.#answer(envelope, (message) => tasks.run(message, opening));
    const handler = this.#requestHandler;
    if (!handler) this.#replyError(envelope, this.#staffing.refusal('task'));
    return this.#answer(envelope, (message) => {
      const answer = handler(message.withPayload(plainPayload(opening)));
      return answer instanceof Promise ? plainAnswer(answer) : answer;
    });
  }

  #hearOfTask({ sender, payload }: ValidEnvelope): void {
    this.#tasks?.take(sender, taskIn<TaskNews>(payload)!);
  }

  #answer(envelope: ValidEnvelope, handler: RequestHandler, delivery?: Delivery): void | Promise<void> {
    let result: unknown;
    try {
      result = handler(new Message(envelope, delivery));
    } catch (error) {
      this.#replyError(envelope, error, delivery);
    }
    if (!(result instanceof Promise)) return this.#replyWith(envelope, result, delivery);
    return result.then(
      (value) => this.#replyWith(envelope, value, delivery),
      (error) => this.#replyError(envelope, error, delivery),
    );
  }

  #replyWith(envelope: ValidEnvelope, value: unknown, delivery?: Delivery): void | Promise<void> {
    if (isAsyncIterable(value)) return this.#replyStream(envelope, value, delivery);
    try {
      this.#reply(envelope, 'response', value ?? null, delivery);
    } catch (error) {
      this.#replyError(envelope, error, delivery);
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
      this.#replyError(envelope, error, delivery);
    }
  }

  /** Tells the caller, then lets the error reach this node's event stream too. */
  #replyError(envelope: ValidEnvelope, error: unknown, delivery?: Delivery): never {
    // A durable question that is asked again may yet have an answer.
    if (delivery?.lastAttempt !== false) this.#reply(envelope, 'error', toWireError(error), delivery);
    throw error;
  }

  /** Whoever asked durably is answered by one transaction with the end of the question. */
  #reply(envelope: ValidEnvelope, type: 'response' | 'error', payload: unknown, delivery?: Delivery): void {
    const answer = this.#sender.answerTo(envelope, type, payload);
    if (answer && !delivery?.answerWith(answer)) this.#sender.post(answer);
  }
}
