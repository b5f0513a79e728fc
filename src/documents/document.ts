import type { Party } from '../mesh/policy.js';
import type { CRDTSyncMessage, VectorClock } from './sync-message.js';

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

export interface Written {
  /** The address of the agent. */
  readonly by: string;
  readonly version: string;
}

/** Values by key. Of two concurrent writes to one key, every replica keeps the same one. */
export interface SharedMap {
  get(key: string): Json | undefined;
  has(key: string): boolean;
  set(key: string, value: unknown): void;
  delete(key: string): void;
  keys(): string[];
  /** Who wrote the present value of a key, as its node has signed it, and a text that no other writing of the key has. */
  written(key: string): Written | undefined;
  readonly size: number;
  toJSON(): Record<string, Json>;
}

/** Values in an order that every replica agrees on. */
export interface SharedList {
  readonly length: number;
  get(index: number): Json | undefined;
  insert(index: number, ...values: unknown[]): void;
  push(...values: unknown[]): void;
  delete(index: number, count?: number): void;
  toJSON(): Json[];
}

/** Text that several members can edit concurrently. */
export interface SharedText {
  readonly length: number;
  insert(index: number, text: string): void;
  delete(index: number, count: number): void;
  toString(): string;
  toJSON(): string;
}

/** The latest report of another live replica. */
export interface Member {
  readonly vector: VectorClock;
  readonly presence: unknown;
  readonly seenAt: number;
}

export interface DocumentChange {
  readonly by: string;
  readonly local: boolean;
}

export interface DocumentOptions {
  /** Stored across restarts. Default: true if the node has a store. */
  durable?: boolean;
  /** Restricts the members beyond policy. Called for each message. */
  admits?: (member: Party) => boolean;
  /** The sandbox of the document, for an outside agent that the sandbox allows. Default: the agent's own. */
  sandbox?: string;
}

/** An agent's replica of a shared document. All replicas converge once partitions have healed. */
export interface SharedDocument {
  readonly name: string;
  /** The address of the replica's agent, `id@node`. */
  readonly address: string;
  readonly thread: string;
  /** Resolves when stored content is loaded; until then the document is empty, and changes are merged with it later. */
  readonly ready: Promise<void>;
  map(name: string): SharedMap;
  list(name: string): SharedList;
  text(name: string): SharedText;
  toJSON(): Record<string, Json>;
  /** Combines several changes into one: they take effect together on every replica. */
  transact<T>(change: () => T): T;
  onChange(handler: (change: DocumentChange) => void): () => void;
  /** Calls `handler` with every applied update, own and others'. */
  onUpdate(handler: (message: CRDTSyncMessage) => void): () => void;
  readonly vector: VectorClock;
  readonly members: ReadonlyMap<string, Member>;
  onMember(handler: (address: string, member: Member | undefined) => void): () => void;
  /** Do these members have all segments of this replica, by the vectors that they last reported? */
  reached(addresses: readonly string[]): boolean;
  /** Reports a value about this agent, such as its load, to the live members. It is not stored. */
  presence(value: unknown): void;
  /** Resolves with true when this replica has all reported segments of the live members, or with false after the time. */
  caughtUp(timeoutMs: number): Promise<boolean>;
  /** Resolves when all changes so far are stored, if the document is durable. */
  stored(): Promise<void>;
  /** Resolves when all changes so far are stored, if the document is durable, and sent to every live member. */
  synced(): Promise<void>;
  close(): Promise<void>;
}
