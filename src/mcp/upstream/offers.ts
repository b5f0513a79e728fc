import type { Runtime } from '../../runtime/runtime.js';
import type { Ask, CallTerms } from '../call.js';
import type { Offer } from '../catalogue.js';
import { type Kind, keyOf, type ToolDefinition } from '../definitions.js';
import type { McpService } from '../service.js';
import type { Listed } from './lists.js';
import { type CallWay, type RelayInit, relayFor } from './relay.js';

export interface ServerOffersComponents {
  runtime: Runtime;
  service: McpService;
}

export interface ServerOffersInit extends Pick<RelayInit, 'server' | 'connection'> {
  /** The agent of this node that owns what the server offers. */
  readonly agent: string;
  readonly timeoutMs?: number | undefined;
  /** The way that calls go. Default: straight to the server. */
  readonly through?: CallWay;
}

/** What one server has in the catalogue. */
export class ServerOffers {
  readonly #components: ServerOffersComponents;
  readonly #init: ServerOffersInit;
  /** By its slot: the definition's fingerprint, and the way straight to the server. */
  readonly #offered = new Map<string, { readonly hash: string; readonly relay: Offer['answer'] }>();
  #conflicts: readonly string[] = [];

  constructor(components: ServerOffersComponents, init: ServerOffersInit) {
    this.#components = components;
    this.#init = init;
  }

  get counts(): Readonly<Record<Kind, number>> {
    const counts = { tool: 0, resource: 0, template: 0, prompt: 0 };
    for (const slot of this.#offered.keys()) counts[slot.slice(0, slot.indexOf(' ')) as Kind]++;
    return counts;
  }

  /** What is left out, and why. */
  get conflicts(): readonly string[] {
    return this.#conflicts;
  }

  /** The tools that may be used, each with the way straight to the server. */
  get tools(): Offer<ToolDefinition>[] {
    const { catalogue } = this.#components.service;
    return [...this.#offered].flatMap(([slot, { relay: answer }]) => {
      if (!slot.startsWith('tool ')) return [];
      const entry = catalogue.get(this.#init.agent, 'tool', slot.slice('tool '.length));
      return entry ? [{ ...entry.offer, answer }] : [];
    });
  }

  /** Makes the catalogue hold these definitions of the server's, and touches none that is there as it should be. */
  set(trusted: readonly Listed[]): void {
    const { catalogue } = this.#components.service;
    const { agent } = this.#init;
    const hashes = new Map(trusted.map(({ slot, hash }) => [slot, hash]));
    const stale = [...this.#offered].filter(([slot, { hash }]) => hashes.get(slot) !== hash).map(([slot]) => slot);
    for (const slot of stale) this.#offered.delete(slot);
    for (const kind of ['tool', 'resource', 'template', 'prompt'] as const) {
      const keys = stale.filter((slot) => slot.startsWith(`${kind} `)).map((slot) => slot.slice(kind.length + 1));
      if (keys.length > 0) catalogue.remove(agent, kind, keys);
    }
    const conflicts: string[] = [];
    const offers = new Map<string, Offer>();
    for (const one of trusted) {
      if (this.#offered.has(one.slot)) continue;
      const offer = this.#offerOf(one);
      if (typeof offer === 'string') conflicts.push(offer);
      else offers.set(one.slot, offer);
    }
    this.#conflicts = conflicts;
    const routed = [...offers.values()].map((offer) => this.#routed(offer));
    if (routed.length > 0) catalogue.add(agent, undefined, routed);
    for (const [slot, { answer: relay }] of offers) this.#offered.set(slot, { hash: hashes.get(slot)!, relay });
  }

  /** The offer, or why there can be none. */
  #offerOf({ neutral }: Listed): Offer | string {
    const { runtime, service } = this.#components;
    const { agent, timeoutMs, server, connection } = this.#init;
    const { value, spoiled } = neutral;
    const key = keyOf(value);
    const leftOut = (reason: string) => `${value.kind} "${value.name}" is left out: ${reason}`;
    if (spoiled !== undefined) return leftOut(`hidden characters in ${spoiled}`);
    const taken =
      service.catalogue.get(agent, value.kind, key) ??
      (value.kind === 'resource'
        ? service.catalogue.resourcesAt(key).find(({ node }) => node === undefined)
        : undefined);
    if (taken) return leftOut(`${taken.owner} offers one already`);
    const init = { server, runtime, seal: service.requestState, connection };
    return { definition: value, timeoutMs, answer: relayFor(init, value) };
  }

  /** The offer as the catalogue has it. */
  #routed(offer: Offer): Offer {
    const { through } = this.#init;
    if (!through) return offer;
    const key = keyOf(offer.definition);
    const answer = (ask: Ask, terms: CallTerms) => through({ ask, terms, key, relay: () => offer.answer(ask, terms) });
    return { ...offer, answer };
  }
}
