import { joinAddress } from '../mesh/address.js';
import { type CallbackFailed, Callbacks, warnOfCallback } from '../runtime/callbacks.js';
import { EclipticError } from '../runtime/errors.js';
import type { Ask, CallTerms } from './call.js';
import { type Definition, type Kind, keyOf, type TemplateDefinition } from './definitions.js';
import { UriPattern } from './uri-pattern.js';

/** A definition, and the function that answers for it. */
export interface Offer<D extends Definition = Definition> {
  readonly definition: D;
  readonly timeoutMs?: number | undefined;
  /** Arguments whose values are kept out of records. */
  readonly secrets?: readonly string[] | undefined;
  answer(ask: Ask, terms: CallTerms): Promise<unknown>;
}

export class Entry<D extends Definition = Definition> {
  /** `id` for an agent of this node, `id@node` for another node's. */
  readonly owner: string;
  readonly ownerId: string;
  readonly node: string | undefined;
  readonly offer: Offer<D>;
  readonly key: string;
  readonly #pattern: UriPattern | undefined;

  constructor(ownerId: string, node: string | undefined, offer: Offer<D>) {
    this.ownerId = ownerId;
    this.node = node;
    this.offer = offer;
    this.owner = joinAddress(ownerId, node);
    this.key = keyOf(offer.definition);
    this.#pattern = isTemplate(offer.definition) ? new UriPattern(offer.definition.uriTemplate) : undefined;
  }

  get definition(): D {
    return this.offer.definition;
  }

  /** `agent.tool`, with the node for another node's agent. */
  get fullName(): string {
    return `${this.owner}.${this.key}`;
  }

  matches(uri: string): boolean {
    return this.#pattern?.match(uri) !== undefined;
  }
}

export type CatalogueWatcher = (kind: Kind, entries: readonly Entry[], gone: boolean) => void;

const DUPLICATE = {
  tool: 'DUPLICATE_TOOL',
  prompt: 'DUPLICATE_PROMPT',
  resource: 'DUPLICATE_RESOURCE',
  template: 'DUPLICATE_RESOURCE',
} as const;

/** The offers of all agents, on this node and others. Lookup by name or URI takes constant time. */
export class Catalogue {
  readonly #byOwner = new Map<string, Map<string, Entry>>();
  /** Addresses of owners, by the plain id. */
  readonly #owners = new Map<string, Set<string>>();
  readonly #byUri = new Map<string, Entry[]>();
  readonly #watchers: Callbacks<Parameters<CatalogueWatcher>>;
  #version = 0;

  constructor(onCallbackFailed: CallbackFailed = warnOfCallback) {
    this.#watchers = new Callbacks('mcp.catalogue.onChange', onCallbackFailed);
  }

  /** Grows with every change. */
  get version(): number {
    return this.#version;
  }

  /** Calls back after entries of one kind and owner were added or removed. */
  onChange(watcher: CatalogueWatcher): () => void {
    return this.#watchers.add(watcher);
  }

  /** Adds all offers of one agent or, if one is refused, none. */
  add(ownerId: string, node: string | undefined, offers: readonly Offer[]): void {
    const entries = offers.map((offer) => new Entry(ownerId, node, offer));
    const fresh = new Set<string>();
    for (const entry of entries) {
      const slot = slotOf(entry);
      const known = this.#byOwner.get(entry.owner)?.has(slot) || fresh.has(slot) || this.#hasLocalUri(entry);
      if (known) throw duplicate(entry);
      fresh.add(slot);
    }
    for (const entry of entries) this.#store(entry);
    this.#announce(entries, false);
  }

  /** Removes offers, ignoring unknown ones. Returns how many were removed. */
  remove(owner: string, kind: Kind, keys: readonly string[]): number {
    const own = this.#byOwner.get(owner);
    const gone = [...new Set(keys)].map((key) => own?.get(`${kind} ${key}`)).filter((entry) => entry !== undefined);
    this.#drop(gone);
    return gone.length;
  }

  removeOwner(owner: string): void {
    this.#drop([...(this.#byOwner.get(owner)?.values() ?? [])]);
  }

  removeNode(node: string): void {
    for (const owner of this.ownersOf(node)) this.removeOwner(owner);
  }

  /** Addresses of the node's agents that offer something. */
  ownersOf(node: string): string[] {
    return [...this.#byOwner.keys()].filter((owner) => owner.endsWith(`@${node}`));
  }

  of(owner: string): Entry[] {
    return [...(this.#byOwner.get(owner)?.values() ?? [])];
  }

  get<K extends Kind>(owner: string, kind: K, key: string): Entry<DefinitionOf<K>> | undefined {
    return this.#byOwner.get(owner)?.get(`${kind} ${key}`) as Entry<DefinitionOf<K>> | undefined;
  }

  /** Every entry of a kind, in the order of owner and name. */
  all<K extends Kind>(kind: K): Entry<DefinitionOf<K>>[] {
    const found: Entry[] = [];
    for (const own of this.#byOwner.values()) {
      for (const entry of own.values()) if (entry.definition.kind === kind) found.push(entry);
    }
    return found.sort(byName) as unknown as Entry<DefinitionOf<K>>[];
  }

  /** Addresses of agents with this plain id that offer something. */
  ownersNamed(id: string): ReadonlySet<string> {
    return this.#owners.get(id) ?? NOBODY;
  }

  /** Resources with exactly this URI, this node's first. */
  resourcesAt(uri: string): readonly Entry[] {
    return this.#byUri.get(uri) ?? [];
  }

  #hasLocalUri({ node, definition, key }: Entry): boolean {
    if (node !== undefined || definition.kind !== 'resource') return false;
    return this.resourcesAt(key).some((other) => other.node === undefined);
  }

  #store(entry: Entry): void {
    let own = this.#byOwner.get(entry.owner);
    if (!own) {
      own = new Map();
      this.#byOwner.set(entry.owner, own);
      const addresses = this.#owners.get(entry.ownerId);
      if (addresses) addresses.add(entry.owner);
      else this.#owners.set(entry.ownerId, new Set([entry.owner]));
    }
    own.set(slotOf(entry), entry);
    if (entry.definition.kind !== 'resource') return;
    const same = this.#byUri.get(entry.key) ?? [];
    if (entry.node === undefined) same.unshift(entry);
    else same.push(entry);
    this.#byUri.set(entry.key, same);
  }

  #drop(entries: readonly Entry[]): void {
    for (const entry of entries) {
      const own = this.#byOwner.get(entry.owner)!;
      own.delete(slotOf(entry));
      if (own.size === 0) this.#dropOwner(entry);
      const same = this.#byUri.get(entry.key)?.filter((other) => other !== entry);
      if (entry.definition.kind !== 'resource' || !same) continue;
      if (same.length > 0) this.#byUri.set(entry.key, same);
      else this.#byUri.delete(entry.key);
    }
    this.#announce(entries, true);
  }

  #dropOwner({ owner, ownerId }: Entry): void {
    this.#byOwner.delete(owner);
    const addresses = this.#owners.get(ownerId)!;
    addresses.delete(owner);
    if (addresses.size === 0) this.#owners.delete(ownerId);
  }

  #announce(entries: readonly Entry[], gone: boolean): void {
    if (entries.length === 0) return;
    this.#version++;
    for (const kind of new Set(entries.map(({ definition }) => definition.kind))) {
      const some = entries.filter(({ definition }) => definition.kind === kind);
      this.#watchers.call(kind, some, gone);
    }
  }
}

export type DefinitionOf<K extends Kind> = Extract<Definition, { kind: K }>;

const NOBODY: ReadonlySet<string> = new Set();

function slotOf({ definition, key }: Entry): string {
  return `${definition.kind} ${key}`;
}

function byName(a: Entry, b: Entry): number {
  return compare(a.owner, b.owner) || compare(a.key, b.key);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function isTemplate(definition: Definition): definition is TemplateDefinition {
  return definition.kind === 'template';
}

function duplicate({ definition, owner, key, fullName }: Entry): EclipticError {
  const what = definition.kind === 'tool' || definition.kind === 'prompt' ? fullName : key;
  const message = `there is a ${definition.kind} "${what}" already; take another name, or remove that one first`;
  return new EclipticError(DUPLICATE[definition.kind], message, { agent: owner, kind: definition.kind, name: what });
}
