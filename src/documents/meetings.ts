import { z } from 'zod';
import { joinAddress } from '../mesh/address.js';
import { LIMITS } from '../mesh/limits.js';
import type { PeerDocuments } from '../network/peers/inbound.js';
import { malformed, parsed } from '../network/peers/wire.js';
import { EclipticError } from '../runtime/errors.js';

/** A replica of this node, as others are told of it. */
export interface Replicated {
  readonly thread: string;
  readonly agentId: string;
}

export interface MeetingsComponents {
  /** The nodes that there is a conversation with. */
  say: (node: string, text: string) => void;
  /** May that node hear of this replica: does it know the agent, and has it one that may take part? */
  mayTell: (node: string, replica: Replicated) => boolean;
  /** An agent of another node has begun to share a document, or, `gone`, does so no more. */
  onTheirs: (thread: string, address: string, gone: boolean) => void;
  onBegan: () => void;
}

/** Replicas that another node may tell of. */
const MAX_TOLD = 10_000;

const ThreadSchema = z.string().max(LIMITS.idChars).startsWith('state:');
const AgentSchema = z
  .string()
  .min(1)
  .max(LIMITS.agentIdChars)
  .regex(/^[^@\s]+$/);

/** What is known of one other node. */
interface Dealings {
  /** Replicas there, and replicas here that it was told of, by thread and agent. */
  readonly theirs: Map<string, Replicated>;
  readonly told: Set<string>;
}

/** Tells other nodes which agents of this one share which documents, and hears the same from them. */
export class Meetings implements PeerDocuments {
  readonly #components: MeetingsComponents;
  readonly #dealings = new Map<string, Dealings>();

  constructor(components: MeetingsComponents) {
    this.#components = components;
  }

  /** Does that agent of another node share that document? */
  has(thread: string, agentId: string, node: string): boolean {
    return this.#dealings.get(node)?.theirs.has(keyOf(thread, agentId)) === true;
  }

  /** The agents of other nodes that share it. */
  of(thread: string): string[] {
    const found: string[] = [];
    for (const [node, { theirs }] of this.#dealings) {
      for (const other of theirs.values()) if (other.thread === thread) found.push(joinAddress(other.agentId, node));
    }
    return found;
  }

  /** Tells every node of those that it may know and does not, and takes back what it may not know any more. */
  tell(replicas: Iterable<Replicated>): void {
    for (const replica of replicas) {
      const key = keyOf(replica.thread, replica.agentId);
      for (const [node, { told }] of this.#dealings) {
        const may = this.#components.mayTell(node, replica);
        if (may === told.has(key)) continue;
        this.#say(node, told, key, replica, may);
      }
    }
  }

  /** A replica of this node is gone. */
  forget(replica: Replicated): void {
    const key = keyOf(replica.thread, replica.agentId);
    for (const [node, { told }] of this.#dealings) if (told.has(key)) this.#say(node, told, key, replica, false);
  }

  began(node: string): void {
    this.#dealings.set(node, { theirs: new Map(), told: new Set() });
    this.#components.onBegan();
  }

  ended(node: string): void {
    const dealings = this.#dealings.get(node);
    this.#dealings.delete(node);
    for (const { thread, agentId } of dealings?.theirs.values() ?? []) {
      this.#components.onTheirs(thread, joinAddress(agentId, node), true);
    }
  }

  take(node: string, _kind: 'w', [verb, thread, agent]: readonly unknown[]): void {
    const theirs = this.#dealings.get(node)?.theirs;
    if (!theirs) return;
    const replica = { thread: parsed(ThreadSchema, thread), agentId: parsed(AgentSchema, agent) };
    const key = keyOf(replica.thread, replica.agentId);
    const address = joinAddress(replica.agentId, node);
    if (verb === 'in') {
      if (theirs.size >= MAX_TOLD && !theirs.has(key)) {
        throw new EclipticError('QUEUE_FULL', `node ${node} told of ${MAX_TOLD} replicas already`);
      }
      // It may have begun anew: what was on its way to the one before is lost.
      if (theirs.has(key)) this.#components.onTheirs(replica.thread, address, true);
      theirs.set(key, replica);
      this.#components.onTheirs(replica.thread, address, false);
    } else if (verb === 'out') {
      if (theirs.delete(key)) this.#components.onTheirs(replica.thread, address, true);
    } else throw malformed('nobody says that of documents');
  }

  #say(node: string, told: Set<string>, key: string, { thread, agentId }: Replicated, comes: boolean): void {
    try {
      this.#components.say(node, JSON.stringify(['w', comes ? 'in' : 'out', thread, agentId]));
      if (comes) told.add(key);
      else told.delete(key);
    } catch {
      // Too much waits for it, or the conversation has ended: the next change, or the next conversation, tells it.
    }
  }
}

function keyOf(thread: string, agentId: string): string {
  return `${agentId} ${thread}`;
}
