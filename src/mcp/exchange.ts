import { z } from 'zod';
import { fromWireError, toWireError } from '../mesh/codec.js';
import type { Party } from '../mesh/policy.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { Network } from '../network/peers/network.js';
import type { PeerProtocol } from '../network/peers/protocol.js';
import { ITEM, type Item, malformed, parsed } from '../network/peers/wire.js';
import { EclipticError, type Outcome } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { type Ask, type CallTerms, LogEntrySchema, ProgressSchema } from './call.js';
import type { Entry, Offer } from './catalogue.js';
import { type Kind, KindSchema, keyOf } from './definitions.js';
import { MAX_PARTS, PartTransfers } from './part-transfers.js';
import { answers } from './results.js';
import { CALL_TIMEOUT_MS, type McpService } from './service.js';
import { CallSchema, type Offered, OffersSchema, OwnNameSchema, offerItems, PART_CHARS } from './tool-items.js';

export interface ExchangeComponents {
  runtime: Runtime;
  service: McpService;
  registry: AgentRegistry;
  network: Network;
}

/** Calls from one node in progress at once. */
const MAX_CALLS = 1_000;
/** Offers of one node. */
const MAX_OFFERS = 20_000;
const PATIENCE_MS = 5_000;

const id = z.int().nonnegative();

interface OutgoingCall {
  readonly terms: CallTerms;
  resolve(result: unknown): void;
  reject(error: EclipticError): void;
}

/** The open calls and transfers with one node, while the conversation lasts. */
class PeerState {
  /** Agents whose offers the node was told of. */
  readonly told = new Set<string>();
  /** Open calls to the node. */
  readonly outgoing = new Map<number, OutgoingCall>();
  /** Open calls from the node. */
  readonly incoming = new Map<number, AbortController>();
  /** Calls that arrived after their deadline: run if the node confirms that the caller still waits. */
  readonly late = new Map<number, () => void>();
  readonly parts = new PartTransfers();
  /** Transfers in parts go one after another, because a node accepts only a few at a time. */
  sending: Promise<void> = Promise.resolve();
  offers = 0;
}

/**
 * Tells other nodes what this node's agents offer, adds their offers to the catalogue, and carries calls both ways. A
 * call is sent once: an item that the link repeats after a reconnect is not taken twice, and when the conversation ends
 * before the answer, the call fails and is not repeated.
 */
export class McpExchange implements PeerProtocol {
  readonly kinds = [ITEM.tools];
  readonly #components: ExchangeComponents;
  readonly #peers = new Map<string, PeerState>();
  /** The offers of nodes that the directory lists, and that there is no conversation with. */
  readonly #learnt = new Map<string, PeerState>();
  readonly #stop: (() => void)[];
  #nextId = 0;

  constructor(components: ExchangeComponents) {
    this.#components = components;
    const { service, registry } = components;
    this.#stop = [
      service.catalogue.onChange((kind, entries, gone) => this.#spread(kind, entries, gone)),
      service.onResourceUpdate((owner, uri) => this.#spreadUpdate(owner, uri)),
      // The card goes out first: a node refuses offers of an agent that it does not know.
      registry.onLocalChange((agent) => queueMicrotask(() => this.#retell(agent))),
    ];
  }

  close(): void {
    for (const stop of this.#stop) stop();
  }

  announce(): readonly string[] {
    return this.#components.registry.getLocalCards().flatMap(({ id: agent }) => {
      const entries = this.#components.service.catalogue.of(agent);
      return offerItems(agent, entries).map((words) => JSON.stringify([ITEM.tools, ...words]));
    });
  }

  /** A conversation that begins brings the same offers again. */
  learn(node: string, items: readonly Item[]): void {
    const { catalogue } = this.#components.service;
    const gone = new Set(catalogue.ownersOf(node).flatMap((owner) => catalogue.of(owner)));
    const peer = this.#learnt.get(node) ?? new PeerState();
    this.#learnt.set(node, peer);
    for (const [, , agent, offered] of items) {
      try {
        this.#takeOffer(node, peer, parsed(OwnNameSchema, agent), parsed(OffersSchema, offered), gone);
      } catch (error) {
        const { code, message } = error as EclipticError;
        this.#components.network.peers.report(node, code, message);
      }
    }
    for (const { ownerId, definition, key } of gone) this.#drop(node, peer, ownerId, definition.kind, [key]);
    if (items.length === 0) this.#learnt.delete(node);
  }

  busy(node: string): boolean {
    const peer = this.#peers.get(node);
    return peer !== undefined && peer.outgoing.size + peer.incoming.size > 0;
  }

  began(node: string): void {
    const peer = new PeerState();
    peer.offers = this.#learnt.get(node)?.offers ?? 0;
    this.#learnt.delete(node);
    this.#peers.set(node, peer);
    for (const { id: agent } of this.#components.registry.getLocalCards()) this.#tellAll(node, agent);
  }

  ended(node: string): void {
    const peer = this.#peers.get(node);
    if (!peer) return;
    this.#peers.delete(node);
    for (const { reject } of peer.outgoing.values()) {
      reject(new EclipticError('DELIVERY_FAILED', `node ${node} was lost before it answered`, { outcome: 'unknown' }));
    }
    for (const controller of peer.incoming.values()) controller.abort();
    this.#components.service.catalogue.removeNode(node);
  }

  take(node: string, [, verb, first, second, third]: Item): void {
    const peer = this.#peers.get(node);
    if (!peer) return;
    switch (verb) {
      case 'offer':
        this.#takeOffer(node, peer, parsed(OwnNameSchema, first), parsed(OffersSchema, second));
        break;
      case 'gone':
        this.#drop(
          node,
          peer,
          parsed(OwnNameSchema, first),
          parsed(KindSchema, second),
          parsed(z.array(z.string()), third),
        );
        break;
      case 'updated':
        this.#components.service.resourceUpdated(`${parsed(OwnNameSchema, first)}@${node}`, parsed(z.string(), second));
        break;
      case 'call':
        this.#serve(node, peer, parsed(id, first), parsed(CallSchema, second));
        break;
      case 'progress':
        peer.outgoing.get(parsed(id, first))?.terms.onProgress(parsed(ProgressSchema, second));
        break;
      case 'log':
        peer.outgoing.get(parsed(id, first))?.terms.onLog(parsed(LogEntrySchema, second));
        break;
      case 'done':
        peer.outgoing.get(parsed(id, first))?.resolve(second);
        break;
      case 'failed':
        peer.outgoing.get(parsed(id, first))?.reject(fromWireError(second, node));
        break;
      case 'stop':
        peer.incoming.get(parsed(id, first))?.abort();
        break;
      case 'wanted':
        this.#say(node, [peer.outgoing.has(parsed(id, first)) ? 'go' : 'stop', first]);
        break;
      case 'go':
        peer.late.get(parsed(id, first))?.();
        break;
      case 'part':
        peer.parts.take(parsed(id, first), parsed(z.string().max(PART_CHARS), second));
        break;
      case 'whole':
        this.take(node, peer.parts.join(parsed(id, first)));
        break;
      default:
        throw malformed('it sends an unknown kind of tool item');
    }
  }

  // Offers of this node's agents

  #spread(kind: Kind, entries: readonly Entry[], gone: boolean): void {
    const { ownerId, node } = entries[0]!;
    if (node !== undefined) return;
    this.#components.network.directory.changed();
    for (const [peer, { told }] of this.#peers) {
      if (gone && told.has(ownerId)) this.#say(peer, ['gone', ownerId, kind, entries.map(({ key }) => key)]);
      // A node that does not know the agent's card yet is told all offers after it.
      else if (!gone && told.has(ownerId)) this.#offer(peer, ownerId, entries);
      else if (!gone) queueMicrotask(() => this.#tellAll(peer, ownerId));
    }
  }

  #spreadUpdate(owner: string, uri: string): void {
    for (const [peer, { told }] of this.#peers) if (told.has(owner)) this.#say(peer, ['updated', owner, uri]);
  }

  /** After a card changed, a node that may know the agent now is told its offers. */
  #retell(agent: string): void {
    for (const [node, { told }] of this.#peers) {
      if (this.#components.network.cards.isTold(node, agent)) this.#tellAll(node, agent);
      else if (told.delete(agent)) this.#takeBack(node, agent);
    }
  }

  #takeBack(node: string, agent: string): void {
    for (const kind of KindSchema.options) {
      const entries = this.#components.service.catalogue.of(agent).filter(({ definition }) => definition.kind === kind);
      if (entries.length > 0) this.#say(node, ['gone', agent, kind, entries.map(({ key }) => key)]);
    }
  }

  #tellAll(node: string, agent: string): void {
    const told = this.#peers.get(node)?.told;
    if (!told || told.has(agent) || !this.#components.network.cards.isTold(node, agent)) return;
    const entries = this.#components.service.catalogue.of(agent);
    if (entries.length === 0) return;
    told.add(agent);
    this.#offer(node, agent, entries);
  }

  #offer(node: string, agent: string, entries: readonly Entry[]): void {
    for (const words of offerItems(agent, entries)) this.#say(node, words);
  }

  // Offers of other nodes' agents

  /** Takes offers, and strikes those that are known already from the list of the `others`. */
  #takeOffer(node: string, peer: PeerState, agent: string, offered: readonly Offered[], others?: Set<Entry>): void {
    const { registry, service } = this.#components;
    if (!registry.entry(`${agent}@${node}`)) {
      throw new EclipticError('CARD_REFUSED', `there is no card of "${agent}" that could offer tools`);
    }
    const offers = offered.flatMap(({ definition, timeoutMs, secrets }): Offer[] => {
      const answer = (ask: Ask, terms: CallTerms) => this.#call(node, agent, ask, terms);
      // The owner's node keeps the deadline; this node waits a little longer for its answer.
      const offer = { definition, secrets, timeoutMs: (timeoutMs ?? CALL_TIMEOUT_MS) + PATIENCE_MS, answer };
      const known = service.catalogue.get(`${agent}@${node}`, definition.kind, keyOf(definition));
      // The same offer again: calls that wait for the conversation go on.
      if (!known || JSON.stringify(known.offer) !== JSON.stringify(offer)) return [offer];
      others?.delete(known);
      return [];
    });
    for (const { definition } of offers) this.#drop(node, peer, agent, definition.kind, [keyOf(definition)]);
    peer.offers += offers.length;
    if (peer.offers > MAX_OFFERS) throw malformed(`it offers more than ${MAX_OFFERS} things`);
    if (offers.length > 0) service.catalogue.add(agent, node, offers);
  }

  #drop(node: string, peer: PeerState, agent: string, kind: Kind, keys: readonly string[]): void {
    peer.offers -= this.#components.service.catalogue.remove(`${agent}@${node}`, kind, keys);
  }

  #call(node: string, agent: string, ask: Ask, terms: CallTerms): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const peer = this.#peers.get(node);
      if (!peer) {
        const begun = this.#components.network.peers.begun(node);
        begun.then(() => this.#call(node, agent, ask, terms)).then(resolve, reject);
        return;
      }
      terms.signal.throwIfAborted();
      const callId = this.#nextId++;
      const { signal } = terms;
      const settle = () => {
        peer.outgoing.delete(callId);
        signal.removeEventListener('abort', stop);
      };
      let withdraw: () => Outcome = () => 'unknown';
      let outcome: Outcome | undefined;
      const stop = () => {
        settle();
        // Send the stop after the call itself, which may still be on its way in parts.
        if (outcome !== 'not-delivered') void peer.sending.then(() => this.#say(node, ['stop', callId]));
        reject(new EclipticError('CANCELLED', 'the call was cancelled'));
      };
      terms.withdrawWith?.(() => {
        outcome = withdraw();
        return outcome;
      });
      const asked: OutgoingCall = {
        terms,
        resolve: (result) => {
          settle();
          if (answers(ask.kind, result)) resolve(result);
          else reject(new EclipticError('INVALID_RESULT', `node ${node} returned an invalid result`));
        },
        reject: (error) => {
          settle();
          reject(error);
        },
      };
      peer.outgoing.set(callId, asked);
      signal.addEventListener('abort', stop);
      const { caller, capabilities, meta, thread } = terms;
      const call = { agent, ask, caller: caller.address, sandbox: caller.sandboxId ?? null };
      const rest = { capabilities, answers: terms.answers, state: terms.state ?? null, thread, meta };
      const item = ['call', callId, { ...call, ...rest, deadlineAt: terms.deadlineAt }];
      this.#send(node, item, (replace) => {
        withdraw = () => replace(JSON.stringify([ITEM.tools, 'stop', callId]));
      }).catch((error) => asked.reject(error));
    });
  }

  // Calls from other nodes

  #serve(node: string, peer: PeerState, callId: number, call: z.infer<typeof CallSchema>): void {
    if (peer.incoming.has(callId)) throw malformed('it makes a call twice');
    const controller = new AbortController();
    const { signal } = controller;
    const forget = () => {
      peer.incoming.delete(callId);
      peer.late.delete(callId);
    };
    const answer = async () => {
      if (peer.incoming.size > MAX_CALLS) {
        throw new EclipticError('QUEUE_FULL', `${MAX_CALLS} calls of node ${node} are in progress already`);
      }
      const { agent, ask, capabilities, state, thread, meta } = call;
      const { service } = this.#components;
      const caller = this.#principal(node, call);
      const entry = service.own(agent, ask, caller);
      return service.call(entry, ask as Ask, {
        caller,
        signal,
        capabilities,
        answers: call.answers,
        state: state ?? undefined,
        thread,
        meta,
        onProgress: (progress) => this.#note(node, ['progress', callId, progress]),
        onLog: (entry) => this.#note(node, ['log', callId, entry]),
      });
    };
    peer.incoming.set(callId, controller);
    const finish = (verb: 'done' | 'failed', value: unknown) => {
      forget();
      if (signal.aborted || this.#peers.get(node) !== peer) return;
      this.#send(node, [verb, callId, value]).catch((error) => this.#say(node, ['failed', callId, toWireError(error)]));
    };
    const run = () => {
      answer().then(
        (result) => finish('done', result),
        (error) => finish('failed', toWireError(error)),
      );
    };
    const { deadlineAt = Number.POSITIVE_INFINITY } = call;
    if (deadlineAt > this.#components.runtime.now() || peer.incoming.size > MAX_CALLS) {
      run();
      return;
    }
    // Clocks differ between nodes: only the caller's node knows whether the caller still waits.
    signal.addEventListener('abort', forget);
    peer.late.set(callId, () => {
      signal.removeEventListener('abort', forget);
      peer.late.delete(callId);
      run();
    });
    this.#say(node, ['wanted', callId]);
  }

  /** Tier and sandbox are those of the caller's card; without a card, the sandbox that its node names and may name. */
  #principal(node: string, { caller, sandbox }: z.infer<typeof CallSchema>): Party {
    const { peers } = this.#components.network;
    const address = `${caller}@${node}`;
    const known = this.#components.registry.entry(address);
    if (known) return known;
    const allowed = peers.get(node)?.grant?.sandboxes;
    if (allowed && (sandbox === null || !allowed.includes(sandbox))) {
      const reason = `node ${node} may call from its own sandboxes only`;
      peers.report(node, 'NOT_GRANTED', reason);
      throw new EclipticError('NOT_GRANTED', reason);
    }
    return { address, node, tier: 3, sandboxId: sandbox ?? undefined };
  }

  /** Best effort: if this does not arrive, the conversation has ended. */
  #say(node: string, item: readonly unknown[]): void {
    this.#send(node, item).catch(() => {});
  }

  /** Progress is dropped when the link is full. */
  #note(node: string, item: readonly unknown[]): void {
    try {
      this.#components.network.peers.sendUnconfirmed(node, JSON.stringify([ITEM.tools, ...item]));
    } catch {
      // The answer still arrives.
    }
  }

  /** An item that fits into one part can be replaced while it waits: `posted` receives the function that does it. */
  async #send(
    node: string,
    item: readonly unknown[],
    posted?: (replace: (text: string) => Outcome) => void,
  ): Promise<void> {
    const { peers } = this.#components.network;
    const whole = JSON.stringify([ITEM.tools, ...item]);
    if (whole.length <= PART_CHARS) {
      if (!posted) return peers.sendConfirmed(node, whole);
      const { taken, replace } = peers.sendReplaceable(node, whole);
      posted(replace);
      return taken;
    }
    const count = Math.ceil(whole.length / PART_CHARS);
    if (count > MAX_PARTS) {
      const message = `it takes ${whole.length} characters, and ${MAX_PARTS * PART_CHARS} can travel between nodes`;
      throw new EclipticError('PAYLOAD_TOO_LARGE', message);
    }
    const peer = this.#peers.get(node);
    const sent = peer?.sending.then(() => this.#sendParts(node, peer, whole));
    if (peer && sent) peer.sending = sent.catch(() => {});
    return sent;
  }

  async #sendParts(node: string, peer: PeerState, whole: string): Promise<void> {
    const transfer = this.#nextId++;
    const tell = (...item: unknown[]) => {
      // A later conversation does not know this transfer.
      if (this.#peers.get(node) === peer)
        return this.#components.network.peers.sendConfirmed(node, JSON.stringify([ITEM.tools, ...item]));
      throw new EclipticError('DELIVERY_FAILED', `node ${node} was lost`, { outcome: 'not-delivered' });
    };
    for (let at = 0; at < whole.length; at += PART_CHARS) {
      await tell('part', transfer, whole.slice(at, at + PART_CHARS));
    }
    await tell('whole', transfer);
  }
}
