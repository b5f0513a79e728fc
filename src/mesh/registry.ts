import { type CallbackFailed, Callbacks, warnOfCallback } from '../runtime/callbacks.js';
import { EclipticError } from '../runtime/errors.js';
import { joinAddress, splitAddress } from './address.js';
import { Policy } from './policy.js';
import type { CardDiscovery } from './ports.js';
import { EntryIndex, type EntryList, RegistryEntry } from './registry-index.js';
import { type AgentCard, type AgentStatus, type AgentTier, checkCard, SCHEMA_VERSION } from './schemas.js';

export interface AgentRegistryComponents {
  /** Decides which agents a viewer may discover. Default: the standard rules. */
  policy?: Policy;
  /** This node's key, by which full addresses of its own agents are recognised. */
  nodeKey?: string;
  /** Called when a watcher fails. Default: a process warning. */
  onCallbackFailed?: CallbackFailed;
}

/** Called with a new or changed local card, and without a card when the agent is gone. */
export type LocalCardWatcher = (id: string, card: AgentCard | undefined) => void;

/** Entries with one id that are compared one by one before the index by address is used. */
const MAX_COMPARED = 8;

/**
 * The directory of agent cards. A local card is stored under its id, another node's under `id@node`, so that no remote
 * card can replace a local one. Queries may name a viewer, and then return only cards that this agent may discover.
 */
export class AgentRegistry {
  readonly nodeKey: string | undefined;
  /** @internal */
  readonly policy: Policy;
  readonly #byAddress = new Map<string, RegistryEntry>();
  readonly #remoteById = new EntryIndex<string>();
  readonly #byCapability = new EntryIndex<string>();
  readonly #byTier = new EntryIndex<AgentTier>();
  readonly #bySandbox = new EntryIndex<string>();
  readonly #watchers: Callbacks<Parameters<LocalCardWatcher>>;
  readonly #cardWatchers: Callbacks<[card: AgentCard]>;
  #discovery: CardDiscovery | undefined;
  #nextOrder = 0;
  #version = 0;

  constructor(components: AgentRegistryComponents = {}) {
    this.policy = components.policy ?? new Policy();
    this.nodeKey = components.nodeKey;
    const failed = components.onCallbackFailed ?? warnOfCallback;
    this.#watchers = new Callbacks('registry.onLocalChange', failed);
    this.#cardWatchers = new Callbacks('registry.onCard', failed);
  }

  get version(): number {
    return this.#version;
  }

  get size(): number {
    return this.#byAddress.size;
  }

  /** Stores a local agent's card. A second card for the same id replaces the first, at the next revision. */
  register(card: AgentCard): AgentCard {
    const checked = checkCard(card);
    if (checked.origin !== 'local' || checked.node !== undefined) {
      throw new EclipticError('INVALID_CARD', 'only local cards are registered; another node’s are merged', {
        faults: ['origin: must be "local", without a node'],
      });
    }
    const existing = this.#byAddress.get(checked.id);
    const next = existing ? Object.freeze({ ...checked, revision: nextRevision(existing.card) }) : checked;
    this.#store(next);
    this.#watchers.call(next.id, next);
    return next;
  }

  /** Sets the status on a local agent's card. Keeps its revision, which counts the changes of its author. */
  setStatus(agentId: string, status: AgentStatus | undefined): void {
    const entry = this.ownEntry(agentId);
    if (!entry) return;
    const { status: _, ...card } = entry.card;
    const next = Object.freeze(status === undefined ? card : { ...card, status: Object.freeze(status) });
    this.#store(next);
    this.#watchers.call(next.id, next);
  }

  /**
   * Stores a card from another node, marked remote and under that node's key, whatever it says. A card that is older than
   * the known one changes nothing, unless that node has restarted since.
   */
  mergeRemote(card: AgentCard, node: string, restarted = false): AgentCard {
    const marked = isObject(card) ? { ...card, origin: 'remote', node } : card;
    return this.#merge(this.#checkOwner(checkCard(marked)), node, restarted);
  }

  /** @internal As `mergeRemote`, for a card that `checkCard` returned: it is not checked and copied again. */
  mergeChecked(card: AgentCard, node: string, restarted: boolean): AgentCard {
    return this.#merge(this.#checkOwner(Object.freeze({ ...card, origin: 'remote', node })), node, restarted);
  }

  /** @internal May an agent of that node, in one of these sandboxes, discover this local agent? */
  mayAnnounce(card: AgentCard, node: string, sandboxes: readonly string[] | undefined): boolean {
    if (this.policy.isConfined(card.id)) return false;
    if (sandboxes === undefined) return true;
    const { id: address, tier, sandboxId: own } = card;
    return sandboxes.some((sandboxId) => {
      const viewer = { address: `*@${node}`, node, tier: 3, sandboxId } as const;
      return this.policy.mayDiscover(viewer, { address, node: undefined, tier, sandboxId: own });
    });
  }

  unregister(agentId: string): boolean {
    const entry = this.#byAddress.get(this.#localName(agentId));
    if (!entry) return false;
    this.#byAddress.delete(entry.address);
    entry.registered = false;
    this.#version++;
    this.#unindex(entry);
    if (entry.node !== undefined) this.#remoteById.remove(entry.card.id, entry);
    else this.#watchers.call(entry.card.id, undefined);
    return true;
  }

  onLocalChange(watcher: LocalCardWatcher): () => void {
    return this.#watchers.add(watcher);
  }

  /** Calls `watcher` with every stored card, local or remote. */
  onCard(watcher: (card: AgentCard) => void): () => void {
    return this.#cardWatchers.add(watcher);
  }

  countOf(node: string): number {
    let count = 0;
    for (const entry of this.#byAddress.values()) if (entry.node === node) count++;
    return count;
  }

  forgetNode(node: string, keep: ReadonlySet<string> = new Set()): void {
    for (const entry of [...this.#byAddress.values()]) {
      if (entry.node === node && !keep.has(entry.card.id)) this.unregister(entry.address);
    }
  }

  /** Announces this node's cards to other nodes, and stores theirs, marked remote, until disabled. */
  async enableHyperswarmDiscovery(discovery: CardDiscovery): Promise<void> {
    await this.disableHyperswarmDiscovery();
    this.#discovery = discovery;
    await discovery.start();
  }

  async disableHyperswarmDiscovery(): Promise<void> {
    const discovery = this.#discovery;
    this.#discovery = undefined;
    await discovery?.stop();
  }

  /** The card with that id or address; undefined if there is none, several, or none that the viewer may discover. */
  getById(agentId: string, viewer?: string): AgentCard | undefined {
    const entry = this.#byAddress.get(agentId) ?? this.#elsewhere(agentId);
    if (!entry || viewer === undefined) return entry && this.#present(entry);
    const eye = this.resolve(viewer);
    return this.policy.mayDiscover(eye, entry) ? this.#present(entry) : undefined;
  }

  /** As `getById`, but throws `AGENT_NOT_FOUND`, or `AMBIGUOUS_AGENT` with the candidates. */
  requireById(agentId: string, viewer?: string): AgentCard {
    return this.#present(this.resolve(agentId, viewer === undefined ? undefined : this.resolve(viewer)));
  }

  findByCapability(capabilityId: string, viewer?: string): AgentCard[] {
    return this.#cards(this.#byCapability.get(capabilityId), viewer);
  }

  /** The first match in order of preference: local before remote, then earliest registered. */
  findFirstByCapability(capabilityId: string, viewer?: string): AgentCard | undefined {
    if (viewer === undefined) return this.#byCapability.first(capabilityId)?.card;
    const eye = this.resolve(viewer);
    return this.#byCapability.get(capabilityId).find((entry) => this.policy.mayDiscover(eye, entry))?.card;
  }

  findByTier(tier: AgentTier, viewer?: string): AgentCard[] {
    return this.#cards(this.#byTier.get(tier), viewer);
  }

  findBySandbox(sandboxId: string, viewer?: string): AgentCard[] {
    return this.#cards(this.#bySandbox.get(sandboxId), viewer);
  }

  listAll(viewer?: string): AgentCard[] {
    return this.#cards([...this.#byAddress.values()], viewer);
  }

  getLocalCards(viewer?: string): AgentCard[] {
    const local = [...this.#byAddress.values()].filter(({ card }) => card.origin === 'local');
    return this.#cards(local, viewer);
  }

  getRemoteCards(viewer?: string): AgentCard[] {
    return this.listAll(viewer).filter((card) => card.origin === 'remote');
  }

  /** Every card as JSON, in order of registration. */
  serialize(): string {
    return JSON.stringify({ schemaVersion: SCHEMA_VERSION, cards: this.listAll() });
  }

  static deserialize(json: string, components: AgentRegistryComponents = {}): AgentRegistry {
    const registry = new AgentRegistry(components);
    for (const card of parseCards(json)) registry.#store(registry.#checkOwner(checkCard(card)));
    return registry;
  }

  /**
   * @internal The entry for a full address or a plain id, local first, then the only remote one. Throws
   * `AGENT_NOT_FOUND` for an agent that the viewer may not discover.
   */
  resolve(agentId: string, viewer?: RegistryEntry): RegistryEntry {
    const entry = this.candidate(agentId, viewer);
    if (viewer !== undefined && !this.policy.mayDiscover(viewer, entry)) throw notFound(agentId);
    return entry;
  }

  /** @internal As `resolve`, but returns a single candidate even if the viewer may not discover it. */
  candidate(agentId: string, viewer?: RegistryEntry): RegistryEntry {
    const entry = this.#byAddress.get(agentId) ?? this.#byAddress.get(this.#localName(agentId));
    if (entry) return entry;
    const candidates = this.#remoteById.get(agentId);
    if (candidates.length === 1) return candidates[0]!;
    const visible = candidates.filter((other) => viewer === undefined || this.policy.mayDiscover(viewer, other));
    if (visible.length === 0) throw notFound(agentId);
    if (visible.length === 1) return visible[0]!;
    throw new EclipticError('AMBIGUOUS_AGENT', `several nodes have an agent "${agentId}"; write its full address`, {
      agentId,
      candidates: visible.map((candidate) => candidate.address),
    });
  }

  entry(address: string): RegistryEntry | undefined {
    return this.#byAddress.get(address);
  }

  /**
   * @internal The entry of another node's agent. Few nodes have an agent with the same id, and comparing their keys is
   * cheaper than making and hashing an address of 65 characters and more, which was a tenth of a recipient's CPU time.
   */
  entryOf(id: string, node: string): RegistryEntry | undefined {
    const others = this.#remoteById.get(id);
    if (others.length > MAX_COMPARED) return this.#byAddress.get(joinAddress(id, node));
    for (const entry of others) if (entry.node === node) return entry;
    return undefined;
  }

  /** @internal The entry of an agent of this node, by id or by full address. */
  ownEntry(agentId: string): RegistryEntry | undefined {
    const entry = this.#byAddress.get(agentId) ?? this.#byAddress.get(this.#localName(agentId));
    return entry?.node === undefined ? entry : undefined;
  }

  /** @internal */
  entriesWithCapability(capabilityId: string): EntryList {
    return this.#byCapability.get(capabilityId);
  }

  /** @internal */
  entries(): IterableIterator<RegistryEntry> {
    return this.#byAddress.values();
  }

  /** The slow part of a look-up: the full address of a local agent, or the only remote agent with that id. */
  #elsewhere(agentId: string): RegistryEntry | undefined {
    const local = this.#localName(agentId);
    if (local !== agentId) return this.#byAddress.get(local);
    const remote = this.#remoteById.get(agentId);
    return remote.length === 1 ? remote[0] : undefined;
  }

  #localName(agentId: string): string {
    if (this.nodeKey === undefined) return agentId;
    const { id, node } = splitAddress(agentId);
    return node === this.nodeKey ? id : agentId;
  }

  #merge(merged: AgentCard, node: string, restarted: boolean): AgentCard {
    const existing = this.#byAddress.get(`${merged.id}@${node}`);
    if (existing && existing.card.revision > merged.revision && !restarted) return existing.card;
    return this.#store(merged);
  }

  #store(card: AgentCard): AgentCard {
    const address = joinAddress(card.id, card.node);
    let entry = this.#byAddress.get(address);
    if (entry) {
      this.#unindex(entry);
      entry.replaceCard(card);
    } else {
      entry = new RegistryEntry(card, this.#nextOrder++);
      this.#byAddress.set(address, entry);
      if (entry.node !== undefined) this.#remoteById.add(card.id, entry);
    }
    this.#index(entry);
    this.#version++;
    this.#cardWatchers.call(card);
    return card;
  }

  /** A remote agent's card with the present endpoints of its node, and the time of its last message. */
  #present(entry: RegistryEntry): AgentCard {
    const { card, node } = entry;
    const { presence } = this.#discovery ?? {};
    if (node === undefined || !presence) return card;
    // `local` endpoints hold for the agent's own node only.
    const others = card.endpoints.filter(({ transport }) => transport !== 'local');
    const endpoints = others.length < card.endpoints.length ? [...presence.endpointsOf(node), ...others] : others;
    const lastSeenAt = Math.max(presence.seenAt(node) ?? 0, card.lastSeenAt);
    return Object.freeze({ ...card, endpoints, lastSeenAt });
  }

  #index(entry: RegistryEntry): void {
    for (const id of capabilityIds(entry.card)) this.#byCapability.add(id, entry);
    this.#byTier.add(entry.tier, entry);
    if (entry.sandboxId !== undefined) this.#bySandbox.add(entry.sandboxId, entry);
  }

  #unindex(entry: RegistryEntry): void {
    for (const id of capabilityIds(entry.card)) this.#byCapability.remove(id, entry);
    this.#byTier.remove(entry.tier, entry);
    if (entry.sandboxId !== undefined) this.#bySandbox.remove(entry.sandboxId, entry);
  }

  #cards(entries: EntryList, viewer: string | undefined): AgentCard[] {
    const eye = viewer === undefined ? undefined : this.resolve(viewer);
    const visible = eye ? entries.filter((entry) => this.policy.mayDiscover(eye, entry)) : entries;
    return visible.map((entry) => this.#present(entry));
  }

  /** A remote card with this node's own key would shadow a local one. */
  #checkOwner(card: AgentCard): AgentCard {
    if (card.node === undefined || card.node !== this.nodeKey) return card;
    throw new EclipticError('INVALID_CARD', 'a remote card cannot come from this node', { faults: ['node'] });
  }
}

function capabilityIds(card: AgentCard): ReadonlySet<string> {
  return new Set(card.capabilities.map((capability) => capability.id));
}

/** The revision stops at the largest integer that JSON keeps exact. */
function nextRevision(card: AgentCard): number {
  return Math.min(card.revision + 1, Number.MAX_SAFE_INTEGER);
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** @internal */
export function notFound(agentId: string): EclipticError {
  return new EclipticError('AGENT_NOT_FOUND', `there is no agent "${agentId}"`, { agentId });
}

function parseCards(json: string): unknown[] {
  let parsed: { schemaVersion?: unknown; cards?: unknown } | null;
  try {
    parsed = JSON.parse(json);
  } catch (cause) {
    throw new EclipticError('INVALID_CARD', 'the registry text is not JSON', { faults: ['not JSON'] }, cause);
  }
  const found = parsed?.schemaVersion;
  if (found !== SCHEMA_VERSION) {
    throw new EclipticError(
      'SCHEMA_VERSION_MISMATCH',
      `this release reads registries of schema version ${SCHEMA_VERSION}, and this one has ${JSON.stringify(found)}`,
      { expected: SCHEMA_VERSION, found },
    );
  }
  if (!Array.isArray(parsed?.cards)) {
    throw new EclipticError('INVALID_CARD', 'the registry text holds no list of cards', { faults: ['cards'] });
  }
  return parsed.cards;
}
