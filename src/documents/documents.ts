import { createHash } from 'node:crypto';
import { fullAddress, joinAddress, splitAddress } from '../mesh/address.js';
import type { ValidEnvelope } from '../mesh/envelope.js';
import type { Sender } from '../mesh/message-sender.js';
import { type A2AObservability, callbackReport } from '../mesh/observability.js';
import type { Decision, Party, Policy } from '../mesh/policy.js';
import type { SharedThreads } from '../mesh/ports.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { RoutingResult } from '../mesh/schemas.js';
import type { Network } from '../network/peers/network.js';
import { type CallbackFailed, Callbacks } from '../runtime/callbacks.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Store } from '../store/store.js';
import type { DocumentOptions } from './document.js';
import { LiveDocument } from './live-document.js';
import { ReplicaDirectory, type Replicated } from './replica-directory.js';
import type { Signer } from './segment.js';
import { SegmentRecords } from './segment-records.js';
import type { SyncLink } from './sync.js';

export interface DocumentsComponents {
  runtime: Runtime;
  registry: AgentRegistry;
  policy: Policy;
  observability: A2AObservability;
  nodeKey: string;
  signer: Signer;
  network: Network | undefined;
  store: Store | undefined;
}

const MAX_NAME = 80;
const MAX_OPEN = 10_000;
const OPEN = 'state:open:';

interface Open extends Replicated {
  readonly document: LiveDocument;
  /** The document as policy sees it. */
  readonly place: Party;
  /** Restricts the members beyond policy. */
  readonly admits: ((member: Party) => boolean) | undefined;
}

/**
 * The shared documents of one node: opens replicas for its agents, and connects the replicas of one document, here and on
 * other nodes. Two members of a document may write to each other in its thread.
 */
export class Documents implements SharedThreads {
  readonly directory: ReplicaDirectory;
  readonly #components: DocumentsComponents;
  /** By thread, then by agent. */
  readonly #open = new Map<string, Map<string, Open>>();
  #count = 0;
  readonly #closing = new Set<Promise<void>>();
  readonly #stop: (() => void)[];
  readonly #records: SegmentRecords | undefined;
  #connectDue = false;
  readonly #callbackFailed: CallbackFailed;
  readonly #openedElsewhere: Callbacks<[thread: string]>;

  constructor(components: DocumentsComponents) {
    const { runtime, registry, network, observability, store } = components;
    this.#components = components;
    this.#records = store && new SegmentRecords(store);
    this.#callbackFailed = callbackReport(runtime, observability);
    this.#openedElsewhere = new Callbacks('documents.onOpenedElsewhere', this.#callbackFailed);
    this.directory = new ReplicaDirectory({
      say: (node, text) => network?.peers.sendUnconfirmed(node, text),
      mayAnnounce: (node, { thread, agentId }) => this.#mayAnnounce(node, this.#open.get(thread)!.get(agentId)!),
      onRemote: (thread, address, event) => {
        if (event === 'opened') {
          this.#openedElsewhere.call(thread);
          this.#connect(thread);
        } else for (const { document } of this.#in(thread)) document.part(address);
      },
      onBegan: () => this.#connectSoon(),
      local: () => this.list,
    });
    this.#stop = [registry.onLocalChange(() => this.#connectSoon()), registry.onCard(() => this.#connectSoon())];
  }

  /** Opens an agent's replica of a document. Returns the same one for as long as it is open. */
  open(sender: Sender, name: string, options: DocumentOptions = {}): LiveDocument {
    const { agentId } = sender;
    const { runtime, registry, policy } = this.#components;
    if (typeof name !== 'string' || name.length === 0 || name.length > MAX_NAME || /[\p{Cc}\p{Cs}]/u.test(name)) {
      throw new EclipticError('INVALID_ARGUMENTS', `a document's name has 1 to ${MAX_NAME} printable characters`);
    }
    const self = registry.ownEntry(agentId);
    if (!self) throw new EclipticError('AGENT_NOT_FOUND', `this node has no agent "${agentId}"`, { agentId });
    const place = this.#placeOf(self, name, options.sandbox);
    const thread = this.#threadOf(place);
    const known = this.#open.get(thread)?.get(agentId);
    if (known) return known.document;
    if (this.#count >= MAX_OPEN) throw new EclipticError('QUEUE_FULL', `${MAX_OPEN} documents are open already`);
    assertAllowed(policy.judgeState(self, 'state-read', place));
    const durable = options.durable ?? this.#records !== undefined;
    if (durable && !this.#records) {
      throw new EclipticError('STORE_REQUIRED', 'a durable document needs a node with a store');
    }
    const document = new LiveDocument(
      {
        runtime,
        agentId,
        records: durable ? this.#records : undefined,
        link: this.#linkOf(sender, thread, place),
        assertMayWrite: () => {
          const own = registry.ownEntry(agentId);
          if (own) assertAllowed(policy.judgeState(own, 'state-write', place));
        },
        onBad: (error, source, author) => this.#report(thread, agentId, error, source, author),
        onClose: () => this.#remove(thread, agentId),
        callbackFailed: this.#callbackFailed,
      },
      name,
      thread,
      runtime.id().toLowerCase(),
    );
    const here = this.#open.get(thread) ?? new Map<string, Open>();
    here.set(agentId, { document, thread, agentId, place, admits: options.admits });
    this.#open.set(thread, here);
    this.#count++;
    this.#components.network?.directory.changed();
    this.#connect(thread);
    return document;
  }

  /** The thread of the document that the agent opens by this name, outside of other sandboxes than its own. */
  threadFor(agentId: string, name: string): string | undefined {
    const self = this.#components.registry.ownEntry(agentId);
    return self && this.#threadOf(this.#placeOf(self, name, undefined));
  }

  /** @internal Calls back with the thread of a document that an agent of another node has opened. */
  onOpenedElsewhere(watcher: (thread: string) => void): () => void {
    return this.#openedElsewhere.add(watcher);
  }

  /** The thread of the document of this name outside of sandboxes. */
  openThread(name: string): string {
    return `${OPEN}${name}`;
  }

  /** Has an agent's replica of that document been stored? */
  async isStored(agentId: string, thread: string): Promise<boolean> {
    return (await this.#records?.has(thread, agentId)) === true;
  }

  get list(): (Replicated & { readonly document: LiveDocument })[] {
    return [...this.#open.values()].flatMap((here) => [...here.values()]);
  }

  /** Takes an envelope for an agent of this node; false if it is not about a document. */
  take(agentId: string, { correlationId, sender, payload }: ValidEnvelope): boolean {
    if (!correlationId?.startsWith('state:')) return false;
    const open = this.#open.get(correlationId)?.get(agentId);
    const party = this.#components.registry.entry(sender);
    // The sender may have lost its access since it sent this.
    if (open && party && this.#mayShare(open, party)) open.document.take(this.#inFull(sender), payload);
    return true;
  }

  leave(agentId: string): void {
    for (const { document } of this.list.filter((open) => open.agentId === agentId)) {
      const closed = document.close();
      this.#remove(document.thread, agentId);
      this.#closing.add(closed);
      const forget = () => this.#closing.delete(closed);
      closed.then(forget, forget);
    }
  }

  /** Resolves when all documents are closed and on disk. */
  async close(): Promise<void> {
    for (const stop of this.#stop) stop();
    for (const { agentId } of this.list) this.leave(agentId);
    await Promise.allSettled([...this.#closing]);
  }

  /** Do both have that document open, as far as this node knows? */
  admits(thread: string, source: Party, target: Party): boolean {
    const here = this.#open.get(thread);
    if (!here) return false;
    const [own, other] = source.node === undefined ? [source, target] : [target, source];
    const open = here.get(own.address);
    if (!open || !this.#mayShare(open, other)) return false;
    if (other.node === undefined) return this.#admitsToo(here.get(other.address), own);
    return this.directory.has(thread, splitAddress(other.address).id, other.node);
  }

  #in(thread: string): Iterable<Open> {
    return this.#open.get(thread)?.values() ?? [];
  }

  #remove(thread: string, agentId: string): void {
    const here = this.#open.get(thread);
    if (!here?.delete(agentId)) return;
    this.#count--;
    if (here.size === 0) this.#open.delete(thread);
    for (const { document } of here.values()) document.part(this.#inFull(agentId));
    this.directory.withdraw({ thread, agentId });
    this.#components.network?.directory.changed();
  }

  // Membership

  /** May these two share the document, each receiving the other's changes? */
  #mayShare({ agentId, place, admits }: Open, other: Party): boolean {
    const { policy, registry } = this.#components;
    const own = registry.ownEntry(agentId);
    if (!own) return false;
    return (
      policy.judgeState(own, 'state-read', place).allowed &&
      policy.judgeState(other, 'state-read', place).allowed &&
      policy.judgeAnswer(own, other).allowed &&
      policy.judgeAnswer(other, own).allowed &&
      admits?.(other) !== false
    );
  }

  /** Does the other replica of this node admit the member, too? */
  #admitsToo(other: Open | undefined, member: Party): boolean {
    return other !== undefined && other.admits?.(member) !== false;
  }

  #mayAnnounce(node: string, open: Open): boolean {
    const { network, registry } = this.#components;
    if (!network?.cards.isTold(node, open.agentId)) return false;
    for (const entry of registry.entries()) if (entry.node === node && this.#mayShare(open, entry)) return true;
    return false;
  }

  /** Connects all replicas of a document that may share it. */
  #connect(thread: string): void {
    const { registry } = this.#components;
    const here = [...this.#in(thread)];
    // A node must know a replica before it gets a message from it.
    this.directory.announceTo(here);
    const theirs = this.directory.of(thread);
    for (const open of here) {
      const others = here.filter((other) => other !== open).map(({ agentId }) => agentId);
      for (const address of [...others, ...theirs]) {
        const party = registry.entry(address);
        const full = this.#inFull(address);
        const local = party?.node === undefined;
        const own = registry.ownEntry(open.agentId);
        const both = own && (!local || this.#admitsToo(this.#open.get(thread)?.get(address), own));
        if (party && both && this.#mayShare(open, party)) open.document.join(full);
        else open.document.part(full);
      }
    }
  }

  /** Cards have changed: checks the members of all documents again, once for all changes of this turn. */
  #connectSoon(): void {
    if (this.#connectDue || this.#count === 0) return;
    this.#connectDue = true;
    queueMicrotask(() => {
      this.#connectDue = false;
      for (const thread of [...this.#open.keys()]) this.#connect(thread);
    });
  }

  #linkOf(sender: Sender, thread: string, place: Party): SyncLink {
    const { registry, policy, nodeKey, signer } = this.#components;
    const partyOf = (address: string) => registry.entry(this.#localName(address));
    const isLocal = (address: string) => splitAddress(address).node === nodeKey;
    const writes = (address: string) => {
      const party = partyOf(address);
      return party !== undefined && policy.judgeState(party, 'state-write', place).allowed;
    };
    return {
      self: sender.address,
      isLocal,
      post: (to, message) => {
        // The agent has just left.
        if (!registry.ownEntry(sender.agentId)) return GONE;
        return sender.route(this.#localName(to), 'stream-data', message, { thread });
      },
      mayRead: (address) => {
        const party = partyOf(address);
        return party !== undefined && policy.judgeState(party, 'state-read', place).allowed;
      },
      // A member that may write could have written the same; a segment of another author is signed by that author's node.
      mayWrite: (author, via) => writes(via) || writes(author),
      sign: (segment) => {
        if (isLocal(segment.author)) segment.sign(thread, signer);
      },
    };
  }

  // Names

  #placeOf({ sandboxId, node }: Party, name: string, sandbox: string | undefined): Party {
    const asked = sandbox === undefined ? { id: sandboxId, node } : splitAddress(sandbox);
    const home = asked.node === this.#components.nodeKey ? undefined : asked.node;
    return { address: name, node: home, tier: 3, sandboxId: asked.id };
  }

  /** The same on every node. */
  #threadOf({ address: name, sandboxId, node }: Party): string {
    const { policy, nodeKey } = this.#components;
    if (sandboxId === undefined) return this.openThread(name);
    const full = policy.isShared(sandboxId) ? sandboxId : joinAddress(sandboxId, node ?? nodeKey);
    return `state:${createHash('sha256').update(full).digest('hex').slice(0, 24)}:${name}`;
  }

  #inFull(address: string): string {
    return fullAddress(address, this.#components.nodeKey);
  }

  #localName(address: string): string {
    const { id, node } = splitAddress(address);
    return node === this.#components.nodeKey ? id : address;
  }

  #report(thread: string, agentId: string, error: EclipticError, source: string, author: string | undefined): void {
    const { runtime, observability } = this.#components;
    const { code, message: reason } = error;
    const from = author === undefined || author === source ? source : `${author}, relayed by ${source}`;
    runtime.logger.warn({ thread, agent: agentId, source, author, code, reason }, 'document: invalid part skipped');
    const about = { sender: source, recipient: agentId, correlationId: thread, timestamp: runtime.now() };
    const violation = code === 'TIER_VIOLATION' || code === 'SANDBOX_VIOLATION' || error.details.equivocation === true;
    const type = violation ? 'security' : 'error';
    observability.emit({ type, code, reason: `${reason} (from ${from})`, ...about });
  }
}

const GONE: RoutingResult = { delivered: false, path: 'local', targetAgentId: '', latencyMs: 0 };

function assertAllowed(decision: Decision): void {
  if (!decision.allowed) throw new EclipticError(decision.code, decision.reason);
}
