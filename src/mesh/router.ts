import { describeError, EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import type { Tracer } from '../runtime/tracing.js';
import { splitAddress } from './address.js';
import { Broadcaster } from './broadcaster.js';
import { DirectPath } from './direct-path.js';
import { DurableRouting } from './durable-routing.js';
import { BROADCAST, checkEnvelope, type ValidEnvelope } from './envelope.js';
import { Dispatcher, type EnvelopeHandler, Mailbox, type Receiver } from './mailbox.js';
import { type Expects, type Failure, MessageChecks } from './message-checks.js';
import { tracedHandler } from './message-tracing.js';
import { A2AObservability } from './observability.js';
import type { Decision, Party, Policy } from './policy.js';
import type { Carrier, Journal, Postbox, SharedThreads } from './ports.js';
import type { AgentRegistry } from './registry.js';
import type { RegistryEntry } from './registry-index.js';
import { type OnRefusal, RemoteDelivery, TOLD_LATER } from './remote-delivery.js';
import { RoutingReporter } from './routing-reporter.js';
import type { A2AEnvelope, A2AMessageType, RoutingResult, SandboxRoutingConfig, TierRoutingConfig } from './schemas.js';
import { lookUpFailure, Targets } from './targets.js';
import { REPLIES } from './thread.js';
import { ThreadTable } from './thread-table.js';

export interface RouterComponents {
  registry: AgentRegistry;
  runtime?: Runtime;
  /** Default: the registry's. */
  policy?: Policy;
  observability?: A2AObservability;
  threads?: ThreadTable;
  /** Carries envelopes to other nodes; without one, remote agents are known but not reachable. */
  carrier?: Carrier;
  /** Keeps durable messages; without one they are refused. */
  postbox?: Postbox;
  /** Records every decision about a message to one recipient. */
  journal?: Journal;
  /** Threads of documents and swarms that sender and recipient share. */
  sharedThreads?: SharedThreads;
}

export interface A2ARouterInit {
  /** Envelopes that may wait for one agent. Default 10,000. */
  mailboxCapacity?: number;
  /** Handlers of one agent that may run at once. Default 1,000. */
  concurrency?: number;
}

const FORGOTTEN: Failure = { code: 'EXPIRED', reason: 'the conversation that it answers is not known here any more' };

/**
 * Routes an envelope from its sender to its recipient: checks it, asks policy, finds the target, delivers it, and reports
 * the outcome on the event stream. Malformed input is a thrown error; a refusal is a result.
 */
export class A2ARouter {
  /** @internal */
  readonly durable: DurableRouting;
  /** @internal */
  readonly direct: DirectPath;
  readonly #registry: AgentRegistry;
  readonly #tracer: Tracer | undefined;
  readonly #policy: Policy;
  readonly #carrier: Carrier | undefined;
  readonly #journal: Journal | undefined;
  readonly #sharedThreads: SharedThreads | undefined;
  readonly #checks: MessageChecks;
  readonly #reporter: RoutingReporter;
  readonly #dispatcher: Dispatcher;
  readonly #targets: Targets;
  readonly #broadcaster: Broadcaster;

  constructor(components: RouterComponents, init: A2ARouterInit = {}) {
    const { registry, runtime = systemRuntime(), policy = registry.policy, carrier, journal, postbox } = components;
    const { observability = new A2AObservability(), threads = new ThreadTable(runtime) } = components;
    const mailboxCapacity = init.mailboxCapacity ?? 10_000;
    this.#registry = registry;
    this.#tracer = runtime.tracer;
    this.#policy = policy;
    this.#carrier = carrier;
    this.#journal = journal;
    this.#sharedThreads = components.sharedThreads;
    const checks = new MessageChecks({ runtime, policy, threads, carrier, mailboxCapacity });
    const reporter = new RoutingReporter(runtime, observability);
    const targets = new Targets({ registry, policy, checks });
    this.#checks = checks;
    this.#reporter = reporter;
    this.#targets = targets;
    this.#dispatcher = new Dispatcher(runtime, {
      capacity: mailboxCapacity,
      concurrency: init.concurrency ?? 1_000,
      onHandlerError: (address, envelope, error) => {
        runtime.logger.error({ agent: address, envelope: envelope.id, err: error }, 'agent: handler failed');
        const code = error instanceof EclipticError ? error.code : 'HANDLER_FAILED';
        reporter.about('error', envelope, address, { code, reason: describeError(error) });
      },
      onHandled: (ms) => observability.handled(ms),
      onExpired: (address, envelope) => {
        const failure: Failure = { code: 'EXPIRED', reason: 'its time to live ran out while it waited' };
        reporter.about('delivery-failure', envelope, address, failure);
      },
    });
    this.durable = new DurableRouting({ registry, policy, checks, targets, reporter, postbox, journal });
    const dispatcher = this.#dispatcher;
    this.#broadcaster = new Broadcaster({ registry, policy, checks, carrier, reporter, dispatcher });
    const enabled = journal === undefined && runtime.tracer === undefined;
    const parts = { runtime, registry, policy, checks, threads, reporter, observability, dispatcher };
    this.direct = new DirectPath({ ...parts, enabled });
  }

  send(envelope: A2AEnvelope): Promise<RoutingResult> {
    try {
      const result = this.route(checkEnvelope(envelope));
      return result instanceof Promise ? result : Promise.resolve(result);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** @internal As `send`, but synchronous for local targets. A caller that knows the entries of both ends passes them. */
  route(
    envelope: ValidEnvelope,
    expects: Expects = 'nothing',
    source = this.#registry.ownEntry(envelope.sender),
    known = this.#registry.entry(envelope.recipient),
    onRefusal: OnRefusal = 'resolve',
  ): RoutingResult | Promise<RoutingResult> {
    const { recipient, metadata } = envelope;
    const started = this.#reporter.start(source, known);
    if (!source) {
      const reason = `"${envelope.sender}" is not an agent of this node`;
      return this.#reporter.refused(envelope, recipient, { code: 'SENDER_REFUSED', reason }, started);
    }
    if (metadata !== undefined) {
      const contradiction = this.#checks.contradiction(envelope, source);
      if (contradiction) return this.#reporter.refused(envelope, recipient, contradiction, started);
      if (metadata.durable) return this.durable.send(envelope, source, started);
      if (metadata.routingHint === 'capability') {
        return this.#toCapability(envelope, source, started, expects, onRefusal);
      }
    }
    if (recipient === BROADCAST) return this.#broadcaster.send(envelope, source);
    const target = known ?? this.#targets.lookUp(recipient, source);
    if (target instanceof EclipticError) {
      return this.#reporter.refused(envelope, recipient, lookUpFailure(target), started);
    }
    return this.#toOne(envelope, source, target, started, expects, onRefusal);
  }

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
    // Whatever address it claims, the sender is an agent of that node.
    const source = this.#registry.entryOf(claimed.id, node);
    const target = this.#registry.ownEntry(wire.recipient);
    const started = this.#reporter.start(source, target);
    const sender = source?.address ?? `${claimed.id}@${node}`;
    const inbound = wire.readdress(sender, target?.address ?? wire.recipient);
    const refused = (failure: Failure) => this.#reporter.refused(inbound, wire.recipient, failure, started);
    if (!source || (claimed.node !== undefined && claimed.node !== node)) {
      return refused({ code: 'SENDER_REFUSED', reason: `node ${node} has no announced agent "${wire.sender}"` });
    }
    if (wire.metadata !== undefined) {
      const contradiction = this.#checks.contradiction(wire, source);
      if (contradiction) return refused(contradiction);
    }
    if (!target) return refused({ code: 'AGENT_NOT_FOUND', reason: `this node has no agent "${wire.recipient}"` });
    if (this.#isOrphan(inbound, source, target)) return refused(FORGOTTEN);
    return this.#toLocal(inbound, source, target, started, 'nothing');
  }

  /**
   * Admits an envelope that a channel delivers, with the same checks and reports. Throws the refusal; returns the function
   * to call once the envelope is delivered.
   */
  admit(envelope: ValidEnvelope): () => void {
    const started = this.#reporter.startTimed();
    const source = this.#registry.resolve(envelope.sender);
    const target = this.#targets.lookUp(envelope.recipient, source);
    if (target instanceof EclipticError) {
      this.#reporter.refused(envelope, envelope.recipient, lookUpFailure(target), started);
      throw target;
    }
    const thread = this.#checks.threadOf(envelope);
    const inReply = thread?.isReply(envelope.type, source.address, target.address) === true;
    const failure =
      this.#checks.contradiction(envelope, source) ??
      this.#checks.refusal(envelope, source, target, inReply) ??
      this.#checks.enter(envelope, source, target, thread, inReply);
    this.#journal?.note({ envelope, source, target, inReply, code: failure?.code ?? null });
    if (!failure) return () => void this.#reporter.routed(envelope, source, target, started);
    this.#reporter.refused(envelope, target.address, failure, started);
    throw new EclipticError(failure.code, failure.reason, { sender: source.address, recipient: target.address });
  }

  /** Calls `handler` with every envelope for a registered local agent. Returns the function that stops this. */
  onReceive(agentId: string, handler: EnvelopeHandler): () => void {
    return this.attach(agentId, { receive: handler, responder: undefined });
  }

  /** @internal As `onReceive`, for a receiver that may answer requests on the direct path. */
  attach(agentId: string, receiver: Receiver): () => void {
    const entry = this.#registry.ownEntry(agentId);
    if (!entry) throw new EclipticError('AGENT_NOT_FOUND', `register "${agentId}" before listening`, { agentId });
    entry.mailbox ??= new Mailbox(this.#dispatcher, entry);
    return entry.mailbox.attach(this.#tracer === undefined ? receiver : traced(this.#tracer, entry.address, receiver));
  }

  /** Takes a local agent off the mesh. Envelopes that still wait for it are reported as not delivered. */
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

  /** Opens no more conversations; resolves when no envelope waits and no handler runs. */
  drain(): Promise<void> {
    this.#checks.close();
    return this.#dispatcher.whenIdle();
  }

  /** The decision of policy about a message that opens a conversation. Leaves no trace. */
  explain(sender: string, recipient: string, type: A2AMessageType, justification?: string): Decision {
    return this.#policy.ask(this.#registry.resolve(sender), this.#registry.resolve(recipient), type, justification);
  }

  /** @internal See `Targets.capable`. */
  capable(
    sender: string,
    capabilities: readonly string[],
    type: A2AMessageType,
    justification?: string,
  ): { found: readonly RegistryEntry[]; refusal: Failure | undefined } {
    return this.#targets.capable(this.#registry.resolve(sender), capabilities, type, justification);
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
    expects: Expects,
    onRefusal: OnRefusal,
  ): RoutingResult | Promise<RoutingResult> {
    if (target.node === undefined) return this.#toLocal(envelope, source, target, started, expects);
    const failure = this.#enter(envelope, source, target, expects);
    if (failure) return this.#reporter.refused(envelope, target.address, failure, started);
    return this.#toRemote(envelope, source, target, onRefusal);
  }

  /**
   * Is this an answer from another node in an unknown thread, whose question an earlier process may have asked? Where the
   * tiers forbid it to open a conversation it is refused, but not reported as a violation.
   */
  #isOrphan(envelope: ValidEnvelope, source: RegistryEntry, target: RegistryEntry): boolean {
    const { correlationId, type } = envelope;
    if (correlationId === undefined || !REPLIES.has(type) || this.#checks.threadOf(envelope)) return false;
    if (this.#isShared(envelope, source, target)) return false;
    const decision = this.#policy.judge(envelope, source, target, false);
    return !decision.allowed && decision.code === 'TIER_VIOLATION';
  }

  #toLocal(
    envelope: ValidEnvelope,
    source: RegistryEntry,
    target: RegistryEntry,
    started: number,
    expects: Expects,
  ): RoutingResult {
    const failure = this.#enter(envelope, source, target, expects);
    if (failure) return this.#reporter.refused(envelope, target.address, failure, started);
    const result = this.#reporter.routed(envelope, source, target, started);
    target.mailbox!.deliver(envelope, started);
    return result;
  }

  /** Makes all checks, and adds the message to its thread; returns why it is refused. */
  #enter(envelope: ValidEnvelope, source: RegistryEntry, target: RegistryEntry, expects: Expects): Failure | undefined {
    if (this.#isShared(envelope, source, target)) return this.#enterShared(envelope, source, target);
    const thread = this.#checks.threadOf(envelope);
    const inReply = thread?.isReply(envelope.type, source.address, target.address) === true;
    const failure =
      this.#checks.refusal(envelope, source, target, inReply) ??
      (expects === 'answer' ? this.#checks.unanswerable(source, target) : undefined) ??
      this.#checks.unavailable(target, inReply) ??
      this.#checks.enter(envelope, source, target, thread, inReply);
    const needsAnswer = expects === 'answer';
    this.#journal?.note({ envelope, source, target, inReply, needsAnswer, code: failure?.code ?? null });
    return failure;
  }

  /** Is this part of a thread that both share, such as a document's? It is open to them in both directions. */
  #isShared({ type, correlationId }: ValidEnvelope, source: Party, target: Party): boolean {
    if (type !== 'stream-data' || correlationId === undefined) return false;
    return this.#sharedThreads?.admits(correlationId, source, target) === true;
  }

  /** A shared thread continues while the node stops, and is not remembered as a conversation. */
  #enterShared(envelope: ValidEnvelope, source: RegistryEntry, target: RegistryEntry): Failure | undefined {
    const inReply = true;
    const failure = this.#checks.forbidden(envelope, source, target, inReply) ?? this.#checks.unavailable(target);
    const code = failure?.code ?? null;
    this.#journal?.note({ envelope: envelope.withoutPayload(), source, target, inReply, code });
    return failure;
  }

  #toRemote(
    envelope: ValidEnvelope,
    source: RegistryEntry,
    target: RegistryEntry,
    onRefusal: OnRefusal,
  ): Promise<RoutingResult> {
    const started = this.#reporter.startTimed();
    const listener = typeof onRefusal === 'string' ? undefined : onRefusal;
    const checks = this.#checks;
    const reporter = this.#reporter;
    const delivery = new RemoteDelivery(checks, reporter, envelope, source, target, started, listener);
    const outcome = listener ? TOLD_LATER : delivery.promise(onRefusal === 'reject');
    this.#carrier!.carry(target.node!, envelope, source.card.id, target.card.id, delivery);
    return outcome;
  }

  #toCapability(
    envelope: ValidEnvelope,
    source: RegistryEntry,
    started: number,
    expects: Expects,
    onRefusal: OnRefusal,
  ) {
    const unfit = this.#checks.unfit(envelope);
    if (unfit) return this.#reporter.refused(envelope, envelope.recipient, unfit, started);
    const target = this.#targets.choose(envelope, source, expects);
    if (target) return this.#toOne(envelope, source, target, started, expects, onRefusal);
    const barred = this.#targets.barred(envelope, source);
    if (barred) this.#reporter.about('security', envelope, barred.entry.address, barred.failure);
    const reason = `no reachable agent that ${source.address} may address offers "${envelope.recipient}"`;
    const failure = this.#targets.vacancy(envelope, source) ?? ({ code: 'CAPABILITY_NOT_FOUND', reason } as const);
    return this.#reporter.refused(envelope, envelope.recipient, failure, started);
  }
}

function traced(tracer: Tracer, address: string, receiver: Receiver): Receiver {
  return { receive: tracedHandler(tracer, address, (envelope) => receiver.receive(envelope)), responder: undefined };
}
