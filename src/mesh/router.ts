import { describeError, EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { splitAddress } from './address.js';
import { Admission, type Failure } from './admission.js';
import { Availability } from './availability.js';
import { Broadcaster } from './broadcaster.js';
import { CapableAgents } from './capable-agents.js';
import { carryTo, failureOf } from './carrying.js';
import { BROADCAST, checkEnvelope, type ValidEnvelope } from './envelope.js';
import { Dispatcher, type EnvelopeHandler, Mailbox } from './mailbox.js';
import type { A2AObservability } from './observability.js';
import type { Decision, Party, Policy } from './policy.js';
import type { Carrier, Journal, Postbox, SharedThreads } from './ports.js';
import type { AgentRegistry } from './registry.js';
import type { RegistryEntry } from './registry-index.js';
import { RoutingReporter } from './routing-reporter.js';
import type { A2AEnvelope, A2AMessageType, RoutingResult, SandboxRoutingConfig, TierRoutingConfig } from './schemas.js';
import { vacancyFor, workOf } from './staffing.js';
import { REPLIES } from './thread.js';
import type { ThreadTable } from './thread-table.js';

export interface A2ARouterComponents {
  runtime: Runtime;
  registry: AgentRegistry;
  policy: Policy;
  observability: A2AObservability;
  threads: ThreadTable;
  /** The way to other nodes; without one, remote agents are known but not reachable. */
  carrier?: Carrier;
  /** Keeps durable messages; without one they are refused. */
  postbox?: Postbox;
  /** Records every decision about a message to one recipient. */
  journal?: Journal;
  /** Threads of documents and swarms that sender and recipient share. */
  sharedThreads?: SharedThreads;
}

/** A durable message that may be kept, as this node names its ends. */
export interface StoredAdmission {
  readonly envelope: ValidEnvelope;
  readonly target: Party;
  /** To be called once it is kept. */
  readonly report: () => void;
}

export interface A2ARouterInit {
  /** Envelopes that may wait for one agent. Default 10,000. */
  mailboxCapacity?: number;
  /** Handlers of one agent that may run at once. Default 1,000. */
  concurrency?: number;
}

/**
 * Takes an envelope from its sender to its recipient: checks it, asks policy, finds the target, hands it over, and
 * says on the event stream what it did. Malformed input is a thrown error; a refusal is a result.
 */
export class A2ARouter {
  readonly #registry: AgentRegistry;
  readonly #policy: Policy;
  readonly #carrier: Carrier | undefined;
  readonly #postbox: Postbox | undefined;
  readonly #journal: Journal | undefined;
  readonly #sharedThreads: SharedThreads | undefined;
  readonly #admission: Admission;
  readonly #reporter: RoutingReporter;
  readonly #dispatcher: Dispatcher;
  readonly #availability: Availability;
  readonly #capable: CapableAgents;
  readonly #broadcaster: Broadcaster;

  constructor(components: A2ARouterComponents, init: A2ARouterInit = {}) {
    this.#registry = components.registry;
    this.#policy = components.policy;
    this.#carrier = components.carrier;
    this.#postbox = components.postbox;
    this.#journal = components.journal;
    this.#sharedThreads = components.sharedThreads;
    this.#admission = new Admission(components);
    this.#reporter = new RoutingReporter(components.runtime, components.observability);
    const { registry, policy, carrier } = components;
    const capacity = init.mailboxCapacity ?? 10_000;
    this.#dispatcher = new Dispatcher(components.runtime, {
      capacity,
      concurrency: init.concurrency ?? 1_000,
      onHandlerError: (address, envelope, error) => {
        components.runtime.logger.error({ agent: address, envelope: envelope.id, err: error }, 'a handler threw');
        const code = error instanceof EclipticError ? error.code : 'HANDLER_FAILED';
        this.#reporter.about('error', envelope, address, { code, reason: describeError(error) });
      },
      onExpired: (address, envelope) => {
        const failure: Failure = { code: 'EXPIRED', reason: 'its time to live ran out while it waited' };
        this.#reporter.about('delivery-failure', envelope, address, failure);
      },
    });
    this.#availability = new Availability(carrier, capacity);
    const parts = { registry, policy, admission: this.#admission, availability: this.#availability };
    this.#capable = new CapableAgents(parts);
    this.#broadcaster = new Broadcaster({ ...parts, carrier, reporter: this.#reporter, dispatcher: this.#dispatcher });
  }

  /** Routes a message of a local agent. */
  send(envelope: A2AEnvelope): Promise<RoutingResult> {
    try {
      const result = this.route(checkEnvelope(envelope));
      return result instanceof Promise ? result : Promise.resolve(result);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * @internal As `send`, without a promise where none is needed. With `needsAnswer`, a target whose answer policy
   * would not let back is refused at once. A caller that knows the entries of both ends hands them over.
   */
  route(
    envelope: ValidEnvelope,
    needsAnswer = false,
    source = this.#registry.ownEntry(envelope.sender),
    known = this.#registry.entry(envelope.recipient),
  ): RoutingResult | Promise<RoutingResult> {
    const { recipient, metadata } = envelope;
    const started = this.#reporter.start(source, known);
    if (!source) {
      const reason = `"${envelope.sender}" is not an agent of this node`;
      return this.#reporter.refused(envelope, recipient, { code: 'SENDER_REFUSED', reason }, started);
    }
    if (metadata !== undefined) {
      const contradiction = this.#admission.contradiction(envelope, source);
      if (contradiction) return this.#reporter.refused(envelope, recipient, contradiction, started);
      if (metadata.durable) return this.#toPostbox(envelope, source, started);
      if (metadata.routingHint === 'capability') return this.#toCapability(envelope, source, started, needsAnswer);
    }
    if (recipient === BROADCAST) return this.#broadcaster.send(envelope, source);
    const target = known ?? this.#lookUp(recipient, source);
    if (target instanceof EclipticError) {
      const { code, message: reason, details } = target;
      const candidates = details.candidates as string[] | undefined;
      return this.#reporter.refused(envelope, recipient, { code, reason, candidates }, started);
    }
    return this.#toOne(envelope, source, target, started, needsAnswer);
  }

  /**
   * @internal May this durable message, which came from another node, be kept for an agent of this one? Throws why
   * not; returns it as this node names its ends. The sender may be away by now, and is then judged as it was known.
   */
  admitStored(wire: ValidEnvelope, node: string): StoredAdmission {
    const started = this.#reporter.startTimed();
    const claimed = splitAddress(wire.sender);
    const sender = `${claimed.id}@${node}`;
    const { id } = splitAddress(wire.recipient);
    const envelope = wire.readdress(sender, id);
    const source = this.#registry.entry(sender) ?? this.#postbox?.find(sender);
    const target = this.#registry.ownEntry(id) ?? this.#postbox?.find(id);
    const forged = claimed.node !== undefined && claimed.node !== node;
    const failure: Failure | undefined =
      !source || forged
        ? { code: 'SENDER_REFUSED', reason: `node ${node} has no known agent "${wire.sender}"` }
        : !target
          ? { code: 'AGENT_NOT_FOUND', reason: `this node has never had an agent "${id}"` }
          : (this.#admission.contradiction(wire, source) ?? this.#enterStored(envelope, source, target, true));
    if (!failure) {
      const report = () => void this.#reporter.routed(envelope, source!, target!, started);
      return { envelope, target: target!, report };
    }
    this.#reporter.refused(envelope, id, failure, started);
    throw new EclipticError(failure.code, failure.reason);
  }

  /** @internal Where a durable message of a local agent goes, if it may. Throws why it may not. */
  admitDurable(made: ValidEnvelope): StoredAdmission {
    const started = this.#reporter.startTimed();
    const source = this.#registry.resolve(made.sender);
    const target = this.#durableTarget(made, source, this.#postbox!);
    if (target instanceof EclipticError) throw target;
    const envelope = made.readdress(made.sender, target.address);
    const failure = this.#enterStored(envelope, source, target);
    if (failure) throw new EclipticError(failure.code, failure.reason);
    return { envelope, target, report: () => void this.#reporter.routed(envelope, source, target, started) };
  }

  /** @internal The entry stored under exactly this address. */
  exactly(address: string): RegistryEntry | undefined {
    return this.#registry.entry(address);
  }

  /** Routes a message that came from another node, over a link that proved it is that node. */
  async receive(envelope: A2AEnvelope, node: string): Promise<RoutingResult> {
    return this.take(checkEnvelope(envelope), node);
  }

  /** @internal As `receive`, at once. */
  take(wire: ValidEnvelope, node: string): RoutingResult {
    const claimed = splitAddress(wire.sender);
    // Whatever it calls itself, it is an agent of that node, and is spoken of as one.
    const sender = `${claimed.id}@${node}`;
    const target = this.#registry.ownEntry(wire.recipient);
    const source = this.#registry.entry(sender);
    const started = this.#reporter.start(source, target);
    const inbound = wire.readdress(sender, target?.address ?? wire.recipient);
    const refused = (failure: Failure) => this.#reporter.refused(inbound, wire.recipient, failure, started);
    if (!source || (claimed.node !== undefined && claimed.node !== node)) {
      return refused({ code: 'SENDER_REFUSED', reason: `node ${node} has no announced agent "${wire.sender}"` });
    }
    if (wire.metadata !== undefined) {
      const contradiction = this.#admission.contradiction(wire, source);
      if (contradiction) return refused(contradiction);
    }
    if (!target) return refused({ code: 'AGENT_NOT_FOUND', reason: `this node has no agent "${wire.recipient}"` });
    if (this.#isOrphan(inbound, source, target)) return refused(FORGOTTEN);
    return this.#toLocal(inbound, source, target, started, false);
  }

  /**
   * Admits an envelope that a channel will deliver: the same questions, the same traces. Throws the refusal; returns
   * what to call once it was delivered.
   */
  admit(envelope: ValidEnvelope): () => void {
    const started = this.#reporter.startTimed();
    const source = this.#registry.resolve(envelope.sender);
    const target = this.#lookUp(envelope.recipient, source);
    if (target instanceof EclipticError) {
      this.#reporter.refused(envelope, envelope.recipient, failureOf(target), started);
      throw target;
    }
    const thread = this.#admission.threadOf(envelope);
    const inReply = thread?.isReply(envelope.type, source.address, target.address) === true;
    const failure =
      this.#admission.contradiction(envelope, source) ??
      this.#admission.refusal(envelope, source, target, inReply) ??
      this.#admission.enter(envelope, source, target, thread, inReply);
    this.#journal?.note({ envelope, source, target, inReply, code: failure?.code ?? null });
    if (!failure) return () => void this.#reporter.routed(envelope, source, target, started);
    this.#reporter.refused(envelope, target.address, failure, started);
    throw new EclipticError(failure.code, failure.reason, { sender: source.address, recipient: target.address });
  }

  /** Calls `handler` with every envelope for a registered local agent. Returns the way to stop. */
  onReceive(agentId: string, handler: EnvelopeHandler): () => void {
    const entry = this.#registry.ownEntry(agentId);
    if (!entry) throw new EclipticError('AGENT_NOT_FOUND', `register "${agentId}" before listening`, { agentId });
    entry.mailbox ??= new Mailbox(this.#dispatcher, entry.address);
    return entry.mailbox.attach(handler);
  }

  /** Takes a local agent off the mesh. What still waited for it is reported as not delivered. */
  withdraw(agentId: string): boolean {
    const entry = this.#registry.ownEntry(agentId);
    if (!entry) return false;
    this.#registry.unregister(agentId);
    for (const envelope of entry.mailbox?.close() ?? []) {
      const failure: Failure = { code: 'AGENT_UNAVAILABLE', reason: 'the agent left before taking it' };
      this.#reporter.about('delivery-failure', envelope, entry.address, failure);
    }
    return true;
  }

  /** Opens no more conversations; resolves when everything under way has been handled. */
  drain(): Promise<void> {
    this.#admission.close();
    return this.#dispatcher.whenIdle();
  }

  /** What policy would say to a message that opens a conversation. Asks the same question; leaves no trace. */
  explain(sender: string, recipient: string, type: A2AMessageType, justification?: string): Decision {
    return this.#policy.ask(this.#registry.resolve(sender), this.#registry.resolve(recipient), type, justification);
  }

  /**
   * @internal Who offers all these capabilities, may be asked by a message of this type, and can be reached: local
   * before remote, least loaded first, then earliest registered. With none, why the first was passed over.
   */
  capable(
    sender: string,
    capabilities: readonly string[],
    type: A2AMessageType,
    justification?: string,
  ): { found: readonly RegistryEntry[]; refusal: Failure | undefined } {
    return this.#capable.all(this.#registry.resolve(sender), capabilities, type, justification);
  }

  setTierConfig(config: TierRoutingConfig): void {
    this.#policy.setTierConfig(config);
  }

  setSandboxConfig(config: SandboxRoutingConfig): void {
    this.#policy.setSandboxConfig(config);
  }

  #toOne(
    envelope: ValidEnvelope,
    source: RegistryEntry,
    target: RegistryEntry,
    started: number,
    needsAnswer = false,
  ): RoutingResult | Promise<RoutingResult> {
    if (target.node === undefined) return this.#toLocal(envelope, source, target, started, needsAnswer);
    const failure = this.#enter(envelope, source, target, needsAnswer);
    if (failure) return this.#reporter.refused(envelope, target.address, failure, started);
    return this.#toRemote(envelope, source, target);
  }

  /** Puts a durable message where it cannot get lost; the recipient may be away. */
  #toPostbox(given: ValidEnvelope, source: RegistryEntry, started: number): RoutingResult | Promise<RoutingResult> {
    const { recipient } = given;
    const refused = (failure: Failure) => this.#reporter.refused(given, recipient, failure, started);
    const postbox = this.#postbox;
    if (!postbox) return refused({ code: 'STORE_REQUIRED', reason: 'a durable message needs a node with a store' });
    if (recipient === BROADCAST) return refused({ code: 'INVALID_ENVELOPE', reason: 'a broadcast cannot be durable' });
    const target = this.#durableTarget(given, source, postbox);
    if (target instanceof EclipticError) {
      const candidates = target.details.candidates as string[] | undefined;
      return refused({ code: target.code, reason: target.message, candidates });
    }
    const envelope = given.readdress(given.sender, target.address);
    const failure = this.#enterStored(envelope, source, target);
    if (failure) return refused(failure);
    return postbox.keep(envelope, target).then(
      () => {
        this.#reporter.routed(envelope, source, target, started);
        const path = target.node === undefined ? 'local' : 'remote';
        const about = { path, targetAgentId: target.address, latencyMs: 0, messageId: envelope.id } as const;
        return { delivered: false, stored: true, ...about };
      },
      (error: unknown) => {
        this.#admission.retract(envelope, source);
        return refused(failureOf(error));
      },
    );
  }

  #durableTarget(envelope: ValidEnvelope, source: RegistryEntry, postbox: Postbox): Party | EclipticError {
    const { recipient } = envelope;
    if (envelope.metadata?.routingHint === 'capability') {
      const chosen = this.#capable.choose(envelope, source, false);
      if (chosen) return chosen;
      const vacancy = this.#capable.vacancy(envelope, source);
      if (vacancy) return new EclipticError(vacancy.code, vacancy.reason);
      return new EclipticError('CAPABILITY_NOT_FOUND', `no reachable agent offers "${recipient}"`);
    }
    const found = this.#registry.entry(recipient) ?? postbox.find(recipient);
    if (found) return found;
    const present = this.#lookUp(recipient, source);
    if (!(present instanceof EclipticError) || present.code !== 'AGENT_NOT_FOUND') return present;
    const away = postbox.named(recipient).filter((party) => this.#policy.mayDiscover(source, party));
    if (away.length <= 1) return away[0] ?? present;
    const candidates = away.map(({ address }) => address);
    const reason = `several nodes had an agent "${recipient}"; write its full address`;
    return new EclipticError('AMBIGUOUS_AGENT', reason, { agentId: recipient, candidates });
  }

  /** As `#enter`, for a message that may wait. One that came from another node is not kept out by a node that stops. */
  #enterStored(envelope: ValidEnvelope, source: Party, target: Party, arriving = false): Failure | undefined {
    const { id, correlationId, type } = envelope;
    if (LONE_SURROGATE.test(id) || (correlationId !== undefined && LONE_SURROGATE.test(correlationId))) {
      const reason = 'the ids of a durable message and of its thread must be well-formed text';
      return { code: 'INVALID_ENVELOPE', reason };
    }
    const thread = this.#admission.threadOf(envelope);
    const remembered = thread?.isReply(type, source.address, target.address) === true;
    const inReply =
      remembered ||
      (correlationId !== undefined &&
        REPLIES.has(type) &&
        this.#postbox?.mayReply(correlationId, source.address, target.address) === true);
    const failure =
      this.#admission.refusal(envelope, source, target, inReply, arriving) ??
      this.#vacancy(envelope, target) ??
      (remembered || !inReply ? this.#admission.enter(envelope, source, target, thread, inReply) : undefined);
    this.#journal?.note({ envelope, source, target, inReply, code: failure?.code ?? null });
    return failure;
  }

  /**
   * Durable work is refused where its node's owner has to configure a worker first. Otherwise it waits on disk, as the
   * author of the agent may attach a handler at any time.
   */
  #vacancy({ type }: ValidEnvelope, { address }: Party): Failure | undefined {
    const kind = workOf(type);
    const card = kind && this.#registry.entry(address)?.card;
    return card?.status?.fix === undefined ? undefined : vacancyFor(card, kind);
  }

  /**
   * An answer from another node in a thread that is not known here: this process may have asked in an earlier life. It
   * opens nothing, where the tiers forbid that; but nobody tried anything either.
   */
  #isOrphan(envelope: ValidEnvelope, source: RegistryEntry, target: RegistryEntry): boolean {
    const { correlationId, type } = envelope;
    if (correlationId === undefined || !REPLIES.has(type) || this.#admission.threadOf(envelope)) return false;
    if (this.#isShared(envelope, source, target)) return false;
    const decision = this.#policy.judge(envelope, source, target, false);
    return !decision.allowed && decision.code === 'TIER_VIOLATION';
  }

  #toLocal(
    envelope: ValidEnvelope,
    source: RegistryEntry,
    target: RegistryEntry,
    started: number,
    needsAnswer: boolean,
  ): RoutingResult {
    const failure = this.#enter(envelope, source, target, needsAnswer);
    if (failure) return this.#reporter.refused(envelope, target.address, failure, started);
    const result = this.#reporter.routed(envelope, source, target, started);
    target.mailbox!.deliver(envelope);
    return result;
  }

  /** Every question, and then the thread; returns why the message does not go. */
  #enter(
    envelope: ValidEnvelope,
    source: RegistryEntry,
    target: RegistryEntry,
    needsAnswer: boolean,
  ): Failure | undefined {
    if (this.#isShared(envelope, source, target)) return this.#enterShared(envelope, source, target);
    const thread = this.#admission.threadOf(envelope);
    const inReply = thread?.isReply(envelope.type, source.address, target.address) === true;
    const failure =
      this.#admission.refusal(envelope, source, target, inReply) ??
      (needsAnswer ? this.#admission.unanswerable(source, target) : undefined) ??
      this.#availability.refusal(target) ??
      this.#admission.enter(envelope, source, target, thread, inReply);
    this.#journal?.note({ envelope, source, target, inReply, needsAnswer, code: failure?.code ?? null });
    return failure;
  }

  /** Is this said in a thread that both were admitted to? Such a one is open to them in every direction. */
  #isShared({ type, correlationId }: ValidEnvelope, source: Party, target: Party): boolean {
    if (type !== 'stream-data' || correlationId === undefined) return false;
    return this.#sharedThreads?.admits(correlationId, source, target) === true;
  }

  /** It goes on until the node has stopped, and is remembered by those who share it, not as a conversation. */
  #enterShared(envelope: ValidEnvelope, source: RegistryEntry, target: RegistryEntry): Failure | undefined {
    const failure = this.#admission.refusal(envelope, source, target, true, true) ?? this.#availability.refusal(target);
    const code = failure?.code ?? null;
    this.#journal?.note({ envelope: envelope.withoutPayload(), source, target, inReply: true, code });
    return failure;
  }

  #toRemote(envelope: ValidEnvelope, source: RegistryEntry, target: RegistryEntry): Promise<RoutingResult> {
    const started = this.#reporter.startTimed();
    return carryTo(this.#carrier!, envelope, source, target).then(
      () => this.#reporter.routed(envelope, source, target, started),
      (error: unknown) => {
        const failure = failureOf(error);
        this.#admission.retract(envelope, source);
        if (failure.code === 'DELIVERY_FAILED')
          this.#reporter.about('delivery-failure', envelope, target.address, failure);
        return this.#reporter.refused(envelope, target.address, failure, started);
      },
    );
  }

  #toCapability(envelope: ValidEnvelope, source: RegistryEntry, started: number, needsAnswer: boolean) {
    const unfit = this.#admission.unfit(envelope);
    if (unfit) return this.#reporter.refused(envelope, envelope.recipient, unfit, started);
    const target = this.#capable.choose(envelope, source, needsAnswer);
    if (target) return this.#toOne(envelope, source, target, started, needsAnswer);
    const barred = this.#capable.barred(envelope, source);
    if (barred) this.#reporter.about('security', envelope, barred.entry.address, barred.failure);
    const reason = `no reachable agent that ${source.address} may address offers "${envelope.recipient}"`;
    const failure = this.#capable.vacancy(envelope, source) ?? ({ code: 'CAPABILITY_NOT_FOUND', reason } as const);
    return this.#reporter.refused(envelope, envelope.recipient, failure, started);
  }

  /**
   * The slow half of finding a target; an ambiguous id names only candidates that the sender may discover. To a
   * sandboxed sender, an agent that is hidden from it and one that does not exist look the same.
   */
  #lookUp(agentId: string, source: RegistryEntry): RegistryEntry | EclipticError {
    try {
      const found = this.#registry.candidate(agentId, source);
      if (source.sandboxId === undefined || this.#policy.mayDiscover(source, found)) return found;
      return this.#beyondSandbox(agentId, source) ?? found;
    } catch (error) {
      if (!(error instanceof EclipticError)) throw error;
      return (error.code === 'AGENT_NOT_FOUND' && this.#beyondSandbox(agentId, source)) || error;
    }
  }

  /** The refusal of a message to an agent outside the sender's sandbox that would have this name. */
  #beyondSandbox(agentId: string, source: RegistryEntry): EclipticError | undefined {
    const outside = { address: agentId, node: undefined, tier: source.tier, sandboxId: undefined } as const;
    const decision = this.#policy.ask(source, outside, 'notification');
    if (decision.allowed || decision.code !== 'SANDBOX_VIOLATION') return undefined;
    return new EclipticError(decision.code, decision.reason, { sender: source.address, recipient: agentId });
  }
}

/** Half of a character: a store cannot keep it as text. */
const LONE_SURROGATE = /\p{Surrogate}/u;

const FORGOTTEN: Failure = { code: 'EXPIRED', reason: 'the conversation that it answers is not known here any more' };
