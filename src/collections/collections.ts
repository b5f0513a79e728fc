import type { Agent } from '../agent/agent.js';
import type { Documents } from '../documents/documents.js';
import { fenceMark } from '../mcp/fence.js';
import type { McpService } from '../mcp/service.js';
import { fullAddress, splitAddress } from '../mesh/address.js';
import { type A2AObservability, callbackReport } from '../mesh/observability.js';
import type { Party, Policy, StateAction } from '../mesh/policy.js';
import type { AgentRegistry } from '../mesh/registry.js';
import { Callbacks } from '../runtime/callbacks.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import {
  COLLECTIONS,
  type CollectionName,
  type CollectionShares,
  ENTRY_LIMITS,
  type Entry,
  readGiven,
  SHARES,
} from './entry.js';
import { knowledgeSections, selectKnowledge } from './knowledge.js';
import { OpenCollection, Shares, sizeOf } from './open-collection.js';

export interface CollectionsComponents {
  readonly runtime: Runtime;
  readonly registry: AgentRegistry;
  readonly policy: Policy;
  readonly observability: A2AObservability;
  readonly documents: Documents;
  readonly mcp: McpService;
  readonly nodeKey: string;
  /** Has the replicas that this node reads and writes for callers in no sandbox. Made when it is needed. */
  readonly keeper: { readonly id: string; agent(): Agent };
  readonly agentById: (id: string) => Agent | undefined;
  /** The agent in whose name the owner writes. */
  readonly owner: () => Agent;
  /** Is that node a device of this node's owner? */
  readonly isOwnersNode: (node: string) => boolean;
}

/** What a worker is told beside its task. */
export interface Knowledge {
  /** Sections of a prompt. Texts of others than the owner are in fences. */
  readonly sections: readonly string[];
  readonly entries: readonly Pick<Entry, 'id' | 'collection' | 'text' | 'tags' | 'author' | 'origin' | 'owner'>[];
}

export interface SearchTerms {
  readonly collections?: readonly CollectionName[] | undefined;
  readonly limit?: number | undefined;
  readonly tag?: string | undefined;
}

interface ForgetTerms {
  readonly asOwner?: boolean;
  readonly collections?: readonly CollectionName[];
}

export interface Found extends Entry {
  /** How well it fits the query; null in a list without one. */
  readonly score: number | null;
}

/** Changed entries of collections outside of sandboxes. */
export interface CollectionChange {
  readonly collection: CollectionName;
  readonly ids: readonly string[];
}

const OWNER = 'operator';
/** How long a reader waits for changes of other members. */
const CATCH_UP_MS = 2_000;
const DEFAULT_FOUND = 10;

/**
 * Shared context: memory, house rules and taste. Each collection is a shared document with a map of entries, one document
 * outside of sandboxes and one in each sandbox. Policy decides about each read and write by the party that asks.
 */
export class Collections {
  readonly #components: CollectionsComponents;
  readonly #shares: CollectionShares;
  /** By agent and collection. */
  readonly #open = new Map<string, OpenCollection>();
  readonly #watchers: Callbacks<[change: CollectionChange]>;
  readonly #stop: (() => void)[] = [];

  constructor(components: CollectionsComponents, shares: Partial<CollectionShares> = {}) {
    this.#components = components;
    const { runtime, observability } = components;
    this.#watchers = new Callbacks('collections.onChange', callbackReport(runtime, observability));
    this.#shares = { ...SHARES, ...shares };
  }

  /** Opens the collections that this node has stored; others open when they are used, here or on another node. */
  async start(): Promise<void> {
    const { documents, keeper, registry, agentById } = this.#components;
    const threads = new Map(COLLECTIONS.map((name) => [documents.openThread(name), name]));
    const keep = (thread: string) => {
      const name = threads.get(thread);
      if (name !== undefined) this.#kept(name);
    };
    this.#stop.push(documents.onOpenedElsewhere(keep));
    for (const thread of threads.keys()) if (await documents.isStored(keeper.id, thread)) keep(thread);
    for (const { address, node, sandboxId } of [...registry.entries()]) {
      if (node !== undefined || sandboxId === undefined) continue;
      for (const name of COLLECTIONS) {
        const thread = documents.threadFor(address, name);
        const member = agentById(address);
        if (member && thread && (await documents.isStored(address, thread))) this.#replica(member, name);
      }
    }
  }

  close(): void {
    for (const stop of this.#stop) stop();
    this.#watchers.clear();
  }

  /** Calls back when entries outside of sandboxes came or went. */
  onChange(watcher: (change: CollectionChange) => void): () => void {
    return this.#watchers.add(watcher);
  }

  /** Adds an entry in the name of a party. With `asOwner` the owner signs it, so that the owner's nodes know it as such. */
  async add(
    collection: CollectionName,
    given: { text: unknown; tags?: unknown },
    author: Party,
    { asOwner = false }: { asOwner?: boolean } = {},
  ): Promise<Entry> {
    const { text, tags } = readGiven(given);
    const { runtime, nodeKey, owner } = this.#components;
    const replica = asOwner ? this.#replica(owner(), collection) : this.#forWriting(collection, author);
    if (asOwner) this.#kept(collection);
    await this.#current(replica);
    const full = fullAddress(asOwner ? OWNER : author.address, nodeKey);
    this.#assertShare(replica, { text, tags }, full);
    const id = runtime.id();
    await replica.set(id, { text, tags, author: full, at: runtime.now() });
    return this.#entry(replica, id);
  }

  /** The entries that fit the query best or, without one, the newest. */
  async search(query: string | undefined, reader: Party, terms: SearchTerms = {}): Promise<Found[]> {
    const { limit = DEFAULT_FOUND, tag } = terms;
    if ((query?.length ?? 0) > ENTRY_LIMITS.queryChars) {
      throw new EclipticError('INVALID_ARGUMENTS', `a query has at most ${ENTRY_LIMITS.queryChars} characters`);
    }
    const replicas = (terms.collections ?? COLLECTIONS).flatMap((name) => this.#forReading(name, reader));
    await Promise.all(replicas.map((replica) => this.#current(replica)));
    const isWanted = ({ tags }: Entry) => tag === undefined || tags.includes(tag);
    const found: Found[] = query?.trim()
      ? replicas.flatMap((one) => one.search(query).map(({ item, score }) => ({ ...item, score })))
      : replicas.flatMap((one) => one.entries.map((entry) => ({ ...entry, score: null })));
    const newer = (a: Entry, b: Entry) => (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
    return found
      .filter(isWanted)
      .sort((a, b) => (b.score ?? 0) - (a.score ?? 0) || newer(a, b))
      .slice(0, Math.min(limit, ENTRY_LIMITS.found));
  }

  async get(id: string, reader: Party, collections: readonly CollectionName[] = COLLECTIONS): Promise<Entry> {
    return (await this.#find(id, reader, collections)).entry;
  }

  /** Completes a shortened id among the entries that the reader sees. */
  async ids(reader: Party, collections: readonly CollectionName[] = COLLECTIONS): Promise<string[]> {
    const replicas = collections.flatMap((name) => this.#forReading(name, reader));
    await Promise.all(replicas.map((replica) => this.#current(replica)));
    return replicas.flatMap(({ entries }) => entries.map(({ id }) => id));
  }

  /** Removes an entry: its author may, and with `asOwner` the owner of this node. */
  async forget(
    id: string,
    caller: Party,
    { asOwner = false, collections = COLLECTIONS }: ForgetTerms = {},
  ): Promise<Entry> {
    const { entry } = await this.#find(id, caller, collections);
    const { nodeKey, owner } = this.#components;
    if (!asOwner && entry.author !== fullAddress(caller.address, nodeKey)) {
      throw new EclipticError('ENTRY_REFUSED', `only its author, ${entry.author}, or the owner may remove ${id}`, {
        id,
      });
    }
    // Where only the owner's tier may write, the keeper cannot do it.
    if (asOwner) owner();
    const replica = this.#forWriting(entry.collection, caller);
    await this.#current(replica);
    await replica.delete(id);
    return entry;
  }

  /** What may help an agent with a task: the owner's rules, and entries that fit. Only of collections that are in use. */
  knowledgeFor(agentId: string, text: string, maxChars: number): Knowledge | undefined {
    const { runtime, registry, nodeKey } = this.#components;
    const reader = registry.ownEntry(agentId);
    const inUse =
      reader && this.#open.size > 0
        ? COLLECTIONS.flatMap((name) => this.#forReading(name, reader, { open: false }))
        : [];
    const selected = maxChars > 0 ? selectKnowledge(inUse, text, maxChars) : undefined;
    if (!selected) return undefined;
    const entries = [...selected.rules, ...selected.notes].map(
      ({ id, collection, text, tags, author, origin, owner }) => {
        return { id, collection, text, tags, author, origin, owner };
      },
    );
    return { sections: knowledgeSections(selected, nodeKey, () => fenceMark(runtime)), entries };
  }

  // Replicas

  #place(name: CollectionName, sandboxId: string | undefined): Party {
    return { address: name, node: undefined, tier: 3, sandboxId };
  }

  /** The keeper's replica, if it may have one. */
  #kept(name: CollectionName): OpenCollection | undefined {
    const { registry, policy, keeper } = this.#components;
    const agent = keeper.agent();
    const self = registry.ownEntry(agent.id);
    const may = self && policy.judgeState(self, 'state-read', this.#place(name, undefined)).allowed;
    return may ? this.#replica(agent, name) : undefined;
  }

  /** What the party may read: the collection outside of sandboxes, and that of its own sandbox. */
  #forReading(name: CollectionName, reader: Party, { open = true } = {}): OpenCollection[] {
    const found: OpenCollection[] = [];
    const { sandboxId } = reader;
    for (const agent of [this.#agentFor(name, reader, 'state-read'), sandboxId && this.#memberIn(name, reader)]) {
      const replica = agent && (open ? this.#replica(agent, name) : this.#open.get(`${agent.id} ${name}`));
      if (replica) found.push(replica);
    }
    if (found.length === 0 && open) this.#refuse(name, reader, 'state-read', undefined);
    return found;
  }

  /** Nothing that a sandboxed party writes leaves its sandbox. */
  #forWriting(name: CollectionName, author: Party): OpenCollection {
    const isInside = author.sandboxId !== undefined;
    const agent = isInside ? this.#memberIn(name, author) : this.#agentFor(name, author, 'state-write');
    if (agent) return this.#replica(agent, name);
    return this.#refuse(name, author, 'state-write', author.sandboxId);
  }

  /** Whose replica outside of sandboxes serves the party: the keeper's, or its own where the keeper may not do that. */
  #agentFor(name: CollectionName, party: Party, action: StateAction): Agent | undefined {
    const { registry, policy, keeper, agentById } = this.#components;
    const place = this.#place(name, undefined);
    const may = (one: Party | undefined) => one !== undefined && policy.judgeState(one, action, place).allowed;
    if (!may(party)) return undefined;
    const isOutside = (id: string) => registry.ownEntry(id)?.sandboxId === undefined && may(registry.ownEntry(id));
    const kept = keeper.agent();
    if (isOutside(kept.id)) return kept;
    return party.node === undefined && isOutside(party.address) ? agentById(party.address) : undefined;
  }

  /** An agent of this node in the sandbox of the party: itself, if it is one. */
  #memberIn(name: CollectionName, { address, node, sandboxId }: Party): Agent | undefined {
    const { registry, policy, agentById } = this.#components;
    if (sandboxId === undefined || node !== undefined) return undefined;
    const member = registry.ownEntry(address) ?? this.#memberOf(sandboxId);
    if (member?.sandboxId !== sandboxId) return undefined;
    const place = this.#place(name, sandboxId);
    return policy.judgeState(member, 'state-read', place).allowed ? agentById(member.address) : undefined;
  }

  #memberOf(sandboxId: string): Party | undefined {
    for (const entry of this.#components.registry.entries()) {
      if (entry.node === undefined && entry.sandboxId === sandboxId) return entry;
    }
    return undefined;
  }

  #refuse(name: CollectionName, party: Party, action: StateAction, sandboxId: string | undefined): never {
    const decision = this.#components.policy.judgeState(party, action, this.#place(name, sandboxId));
    if (!decision.allowed) throw new EclipticError(decision.code, decision.reason);
    const where = sandboxId === undefined ? `"${name}"` : `"${name}" of sandbox "${sandboxId}"`;
    throw new EclipticError(
      'SANDBOX_VIOLATION',
      `no agent of this node that may use ${where} can do so for this caller`,
    );
  }

  #replica(agent: Agent, name: CollectionName): OpenCollection {
    const key = `${agent.id} ${name}`;
    // Nodes of other owners refuse the owner's agent, so its changes go by the keeper.
    const isLocal = ({ node }: Party) => node === undefined;
    const isOwner = agent.id === OWNER && this.#components.keeper.id !== OWNER;
    const document = agent.state(name, isOwner ? { admits: isLocal } : {});
    const known = this.#open.get(key);
    // An agent that has left and come back has another document.
    if (known?.document === document) return known;
    const { keeper, registry, nodeKey, isOwnersNode } = this.#components;
    const isOwners = (author: string, origin: string) => {
      const { id, node = nodeKey } = splitAddress(origin);
      return id === OWNER && author === origin && (node === nodeKey || isOwnersNode(node));
    };
    const sandbox = registry.ownEntry(agent.id)?.sandboxId ?? null;
    const replica = new OpenCollection({ document, collection: name, sandbox, isOwners, share: this.#shares.node });
    this.#open.set(key, replica);
    if (agent.id === keeper.id) this.#watch(replica);
    return replica;
  }

  async #current({ document }: OpenCollection): Promise<void> {
    await document.ready;
    await document.caughtUp(CATCH_UP_MS);
  }

  #watch(replica: OpenCollection): void {
    let before = new Set<string>();
    let isDue = false;
    replica.document.onChange(() => {
      if (isDue) return;
      isDue = true;
      this.#components.runtime.defer(() => {
        isDue = false;
        const now = new Set(replica.entries.map(({ id }) => id));
        const ids = [...now].filter((id) => !before.has(id)).concat([...before].filter((id) => !now.has(id)));
        before = now;
        if (ids.length === 0) return;
        this.#watchers.call({ collection: replica.collection, ids });
      });
    });
  }

  async #find(id: string, reader: Party, collections: readonly CollectionName[]) {
    const replicas = collections.flatMap((name) => this.#forReading(name, reader));
    await Promise.all(replicas.map((replica) => this.#current(replica)));
    for (const replica of replicas) {
      const entry = replica.get(id);
      if (entry) return { entry, replica };
    }
    throw new EclipticError('ENTRY_NOT_FOUND', `there is no entry ${id} that the caller may read`, { id });
  }

  #entry(replica: OpenCollection, id: string): Entry {
    const entry = replica.get(id);
    if (entry) return entry;
    throw new EclipticError('ENTRY_NOT_FOUND', `entry ${id} is no longer there`, { id });
  }

  #assertShare(replica: OpenCollection, given: { text: string; tags: string[] }, author: string): void {
    const { author: ofAuthor, node: ofNode } = this.#shares;
    const { node: home } = splitAddress(author);
    const { nodeKey } = this.#components;
    const own = new Shares(ofAuthor);
    const all = new Shares(ofNode);
    for (const entry of replica.entries) {
      if (entry.author === author) own.take('', sizeOf(entry));
      if (splitAddress(entry.origin).node === nodeKey) all.take('', sizeOf(entry));
    }
    const full = !own.take('', sizeOf(given)) ? ofAuthor : !all.take('', sizeOf(given)) ? ofNode : undefined;
    if (!full) return;
    const whose = full === ofAuthor ? `${splitAddress(author).id} has` : `this node has`;
    const message = `${whose} ${full.entries} entries or ${full.bytes} bytes in ${replica.collection} already; forget some first`;
    throw new EclipticError('COLLECTION_FULL', message, { collection: replica.collection, author, node: home });
  }
}
