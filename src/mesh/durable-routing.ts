import { EclipticError } from '../runtime/errors.js';
import { isWellFormed } from '../runtime/text.js';
import { splitAddress } from './address.js';
import { BROADCAST, type ValidEnvelope } from './envelope.js';
import { type Failure, failureOf, type MessageChecks } from './message-checks.js';
import type { Party, Policy } from './policy.js';
import type { Journal, Postbox } from './ports.js';
import type { AgentRegistry } from './registry.js';
import type { RegistryEntry } from './registry-index.js';
import type { RoutingReporter } from './routing-reporter.js';
import type { RoutingResult } from './schemas.js';
import { vacancyFor, workOf } from './staffing.js';
import { lookUpFailure, type Targets } from './targets.js';
import { REPLIES } from './thread.js';

export interface DurableRoutingComponents {
  registry: AgentRegistry;
  policy: Policy;
  checks: MessageChecks;
  targets: Targets;
  reporter: RoutingReporter;
  postbox?: Postbox | undefined;
  journal?: Journal | undefined;
}

/** A durable message that may be stored, with the addresses of its ends as this node writes them. */
export interface StoredAdmission {
  readonly envelope: ValidEnvelope;
  readonly source: Party;
  readonly target: Party;
  readonly started: number;
}

/** Routes durable messages into the postbox. Their recipients, and senders on other nodes, may be absent. */
export class DurableRouting {
  readonly #components: DurableRoutingComponents;

  constructor(components: DurableRoutingComponents) {
    this.#components = components;
  }

  send(given: ValidEnvelope, source: RegistryEntry, started: number): RoutingResult | Promise<RoutingResult> {
    const { reporter, checks, postbox } = this.#components;
    const { recipient } = given;
    const refused = (failure: Failure) => reporter.refused(given, recipient, failure, started);
    if (!postbox) return refused({ code: 'STORE_REQUIRED', reason: 'a durable message needs a node with a store' });
    if (recipient === BROADCAST) return refused({ code: 'INVALID_ENVELOPE', reason: 'a broadcast cannot be durable' });
    const target = this.#target(given, source, postbox);
    if (target instanceof EclipticError) return refused(lookUpFailure(target));
    const envelope = given.readdress(given.sender, target.address);
    const failure = this.#enter(envelope, source, target, 'sent');
    if (failure) return refused(failure);
    return postbox.keep(envelope, target).then(
      () => {
        reporter.routed(envelope, source, target, started);
        const path = target.node === undefined ? 'local' : 'remote';
        const about = { path, targetAgentId: target.address, latencyMs: 0, messageId: envelope.id } as const;
        return { delivered: false, stored: true, ...about };
      },
      (error: unknown) => {
        checks.retract(envelope, source);
        return refused(failureOf(error));
      },
    );
  }

  /** The target of a durable message of a local agent. Throws if it is refused. */
  admitSent(made: ValidEnvelope): StoredAdmission {
    const { registry, reporter, postbox } = this.#components;
    const started = reporter.startTimed();
    const source = registry.resolve(made.sender);
    const target = this.#target(made, source, postbox!);
    if (target instanceof EclipticError) throw target;
    const envelope = made.readdress(made.sender, target.address);
    const failure = this.#enter(envelope, source, target, 'sent');
    if (failure) throw new EclipticError(failure.code, failure.reason);
    return { envelope, source, target, started };
  }

  /** Admits a durable message from another node. Throws if it is refused. An absent sender is judged as last known. */
  admitReceived(wire: ValidEnvelope, node: string): StoredAdmission {
    const { registry, checks, reporter, postbox } = this.#components;
    const started = reporter.startTimed();
    const claimed = splitAddress(wire.sender);
    const sender = `${claimed.id}@${node}`;
    const { id } = splitAddress(wire.recipient);
    const envelope = wire.readdress(sender, id);
    const source = registry.entry(sender) ?? postbox?.find(sender);
    const target = registry.ownEntry(id) ?? postbox?.find(id);
    const forged = claimed.node !== undefined && claimed.node !== node;
    const failure: Failure | undefined =
      !source || forged
        ? { code: 'SENDER_REFUSED', reason: `node ${node} has no known agent "${wire.sender}"` }
        : !target
          ? { code: 'AGENT_NOT_FOUND', reason: `this node has never had an agent "${id}"` }
          : (checks.contradiction(wire, source) ?? this.#enter(envelope, source, target, 'received'));
    if (!failure) return { envelope, source: source!, target: target!, started };
    reporter.refused(envelope, id, failure, started);
    throw new EclipticError(failure.code, failure.reason);
  }

  /** Reports an admitted message, once it is stored. */
  stored({ envelope, source, target, started }: StoredAdmission): void {
    this.#components.reporter.routed(envelope, source, target, started);
  }

  #target(envelope: ValidEnvelope, source: RegistryEntry, postbox: Postbox): Party | EclipticError {
    const { registry, policy, targets } = this.#components;
    const { recipient } = envelope;
    if (envelope.metadata?.routingHint === 'capability') {
      const chosen = targets.choose(envelope, source, 'nothing');
      if (chosen) return chosen;
      const vacancy = targets.vacancy(envelope, source);
      if (vacancy) return new EclipticError(vacancy.code, vacancy.reason);
      return new EclipticError('CAPABILITY_NOT_FOUND', `no reachable agent offers "${recipient}"`);
    }
    const found = registry.entry(recipient) ?? postbox.find(recipient);
    if (found) return found;
    const present = targets.lookUp(recipient, source);
    if (!(present instanceof EclipticError) || present.code !== 'AGENT_NOT_FOUND') return present;
    const absent = postbox.named(recipient).filter((party) => policy.mayDiscover(source, party));
    if (absent.length <= 1) return absent[0] ?? present;
    const candidates = absent.map(({ address }) => address);
    const reason = `several nodes had an agent "${recipient}"; write its full address`;
    return new EclipticError('AMBIGUOUS_AGENT', reason, { agentId: recipient, candidates });
  }

  /** Checks a message and adds it to its thread. A stopping node still takes messages from other nodes. */
  #enter(envelope: ValidEnvelope, source: Party, target: Party, direction: 'sent' | 'received'): Failure | undefined {
    const { checks, postbox, journal } = this.#components;
    const { id, correlationId, type } = envelope;
    if (!isWellFormed(id) || (correlationId !== undefined && !isWellFormed(correlationId))) {
      const reason = 'the ids of a durable message and of its thread must be well-formed text';
      return { code: 'INVALID_ENVELOPE', reason };
    }
    const thread = checks.threadOf(envelope);
    const remembered = thread?.isReply(type, source.address, target.address) === true;
    const inReply =
      remembered ||
      (correlationId !== undefined &&
        REPLIES.has(type) &&
        postbox?.mayReply(correlationId, source.address, target.address) === true);
    const failure =
      checks.forbidden(envelope, source, target, inReply) ??
      (direction === 'sent' ? checks.unfit(envelope) : undefined) ??
      this.#vacancy(envelope, target) ??
      (remembered || !inReply ? checks.enter(envelope, source, target, thread, inReply) : undefined);
    journal?.note({ envelope, source, target, inReply, code: failure?.code ?? null });
    return failure;
  }

  /**
   * Durable work is refused if the owner of the target's node has to configure a worker first. Otherwise it waits on
   * disk, because the author of the agent may attach a handler at any time.
   */
  #vacancy({ type }: ValidEnvelope, { address }: Party): Failure | undefined {
    const kind = workOf(type);
    const card = kind && this.#components.registry.entry(address)?.card;
    return card?.status?.fix === undefined ? undefined : vacancyFor(card, kind);
  }
}
