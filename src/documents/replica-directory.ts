import { z } from 'zod';
import { joinAddress } from '../mesh/address.js';
import { LIMITS } from '../mesh/limits.js';
import type { PeerProtocol } from '../network/peers/protocol.js';
import { ITEM, type Item, malformed, parsed } from '../network/peers/wire.js';
import { EclipticError } from '../runtime/errors.js';

/** An agent's replica of a document, as it is announced to other nodes. */
export interface Replicated {
  readonly thread: string;
  readonly agentId: string;
}

export interface ReplicaDirectoryComponents {
  say: (node: string, text: string) => void;
  /** May that node learn of this replica? It must know the agent, and have one that may take part. */
  mayAnnounce: (node: string, replica: Replicated) => boolean;
  /** An agent of another node has opened a document, or has closed it. */
  onRemote: (thread: string, address: string, event: 'opened' | 'closed') => void;
  onBegan: () => void;
  /** All replicas of this node. */
  local: () => Iterable<Replicated>;
}

const MAX_ANNOUNCED = 10_000;

const ThreadSchema = z.string().max(LIMITS.idChars).startsWith('state:');
const AgentSchema = z
  .string()
  .min(1)
  .max(LIMITS.agentIdChars)
  .regex(/^[^@\s]+$/);

interface PeerState {
  /** The replicas that the peer has announced, by `keyOf`. */
  readonly theirs: Map<string, Replicated>;
  /** The keys of this node's replicas that were announced to the peer. */
  readonly announced: Set<string>;
  /** Is there a conversation, or only an entry in the directory? */
  readonly conversing: boolean;
}

/** Announces to other nodes which agents of this node have which documents open, and collects their announcements. */
export class ReplicaDirectory implements PeerProtocol {
  readonly kinds = [ITEM.documents];
  readonly #components: ReplicaDirectoryComponents;
  readonly #peers = new Map<string, PeerState>();

  constructor(components: ReplicaDirectoryComponents) {
    this.#components = components;
  }

  /** Does that agent of another node have that document open? */
  has(thread: string, agentId: string, node: string): boolean {
    return this.#peers.get(node)?.theirs.has(keyOf(thread, agentId)) === true;
  }

  /** The addresses of the agents of other nodes that have the document open. */
  of(thread: string): string[] {
    const found: string[] = [];
    for (const [node, { theirs }] of this.#peers) {
      for (const other of theirs.values()) if (other.thread === thread) found.push(joinAddress(other.agentId, node));
    }
    return found;
  }

  /** Announces these replicas to every node that may learn of them, and withdraws them from every node that may not. */
  announceTo(replicas: Iterable<Replicated>): void {
    for (const replica of replicas) {
      const key = keyOf(replica.thread, replica.agentId);
      for (const [node, { announced, conversing }] of this.#peers) {
        if (!conversing) continue;
        const may = this.#components.mayAnnounce(node, replica);
        if (may !== announced.has(key)) this.#say(node, announced, replica, may ? 'in' : 'out');
      }
    }
  }

  withdraw(replica: Replicated): void {
    const key = keyOf(replica.thread, replica.agentId);
    for (const [node, { announced }] of this.#peers) {
      if (announced.has(key)) this.#say(node, announced, replica, 'out');
    }
  }

  announce(): readonly string[] {
    return [...this.#components.local()].map(({ thread, agentId }) =>
      JSON.stringify([ITEM.documents, 'in', thread, agentId]),
    );
  }

  learn(node: string, items: readonly Item[]): void {
    const before = this.#peers.get(node)?.theirs ?? new Map<string, Replicated>();
    const theirs = new Map<string, Replicated>();
    for (const [, , thread, agent] of items.slice(0, MAX_ANNOUNCED)) {
      const replica = { thread: parsed(ThreadSchema, thread), agentId: parsed(AgentSchema, agent) };
      theirs.set(keyOf(replica.thread, replica.agentId), replica);
    }
    if (theirs.size > 0) this.#peers.set(node, { theirs, announced: new Set(), conversing: false });
    else this.#peers.delete(node);
    const tell = ({ thread, agentId }: Replicated, event: 'opened' | 'closed') => {
      this.#components.onRemote(thread, joinAddress(agentId, node), event);
    };
    for (const [key, replica] of before) if (!theirs.has(key)) tell(replica, 'closed');
    for (const [key, replica] of theirs) if (!before.has(key)) tell(replica, 'opened');
  }

  /** A shared document is kept up to date at once. */
  busy(node: string): boolean {
    const peer = this.#peers.get(node);
    if (!peer || peer.announced.size === 0) return false;
    const open = new Set([...this.#components.local()].map(({ thread }) => thread));
    return [...peer.theirs.values()].some(({ thread }) => open.has(thread));
  }

  began(node: string): void {
    // What the directory says of it counts until the node says it itself.
    const theirs = this.#peers.get(node)?.theirs ?? new Map<string, Replicated>();
    this.#peers.set(node, { theirs, announced: new Set(), conversing: true });
    this.#components.onBegan();
  }

  ended(node: string): void {
    const peer = this.#peers.get(node);
    this.#peers.delete(node);
    for (const { thread, agentId } of peer?.theirs.values() ?? []) {
      this.#components.onRemote(thread, joinAddress(agentId, node), 'closed');
    }
  }

  take(node: string, [, verb, thread, agent]: Item): void {
    const { theirs, conversing = false } = this.#peers.get(node) ?? {};
    if (!theirs || !conversing) return;
    const replica = { thread: parsed(ThreadSchema, thread), agentId: parsed(AgentSchema, agent) };
    const key = keyOf(replica.thread, replica.agentId);
    const address = joinAddress(replica.agentId, node);
    if (verb === 'in') {
      if (theirs.size >= MAX_ANNOUNCED && !theirs.has(key)) {
        throw new EclipticError('QUEUE_FULL', `node ${node} has announced ${MAX_ANNOUNCED} replicas already`);
      }
      // The agent has opened the document again: messages in flight to its previous replica are lost.
      if (theirs.has(key)) this.#components.onRemote(replica.thread, address, 'closed');
      theirs.set(key, replica);
      this.#components.onRemote(replica.thread, address, 'opened');
    } else if (verb === 'out') {
      if (theirs.delete(key)) this.#components.onRemote(replica.thread, address, 'closed');
    } else throw malformed('unknown verb about a document');
  }

  #say(node: string, announced: Set<string>, { thread, agentId }: Replicated, verb: 'in' | 'out'): void {
    try {
      this.#components.say(node, JSON.stringify([ITEM.documents, verb, thread, agentId]));
      if (verb === 'in') announced.add(keyOf(thread, agentId));
      else announced.delete(keyOf(thread, agentId));
    } catch {
      // The node's queue is full, or the conversation has ended: the next change or conversation repeats it.
    }
  }
}

function keyOf(thread: string, agentId: string): string {
  return `${agentId} ${thread}`;
}
