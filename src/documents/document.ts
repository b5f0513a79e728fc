import type { Party } from '../mesh/policy.js';
import type { CRDTSyncMessage, VectorClock } from './sync-message.js';

/** A value that a shared document holds: what JSON can say. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** Names with values. Of two that set one name at the same time, every replica keeps the same one. */
export interface SharedMap {
  get(key: string): Json | undefined;
  has(key: string): boolean;
  set(key: string, value: unknown): void;
  delete(key: string): void;
  keys(): string[];
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

/** Text that several write at the same time. */
export interface SharedText {
  readonly length: number;
  insert(index: number, text: string): void;
  delete(index: number, count: number): void;
  toString(): string;
  toJSON(): string;
}

/** Another live replica of a document, as it last spoke of itself. */
export interface Member {
  readonly vector: VectorClock;
  readonly presence: unknown;
  readonly seenAt: number;
}

export interface DocumentChange {
  /** The address of the agent that made the change. */
  readonly by: string;
  readonly local: boolean;
}

export interface DocumentOptions {
  /** Kept across restarts. Default: yes, where the node has a store. */
  durable?: boolean;
  /** Who may be in the document, narrower than policy; asked again at each message. */
  admits?: (member: Party) => boolean;
  /** The sandbox whose document it is, for an agent outside that the sandbox allows. Default: the agent's own. */
  sandbox?: string;
}

/** One agent's replica of a document that several share. It converges with theirs after the last partition heals. */
export interface SharedDocument {
  readonly name: string;
  /** Whose replica it is: `id@node`. */
  readonly address: string;
  /** The thread that its updates travel in. */
  readonly thread: string;
  /** Resolves when what was kept of it is read; until then it is empty, and what is written joins what was kept. */
  readonly ready: Promise<void>;
  map(name: string): SharedMap;
  list(name: string): SharedList;
  text(name: string): SharedText;
  toJSON(): Record<string, Json>;
  /** Makes several changes one: they arrive together, everywhere. */
  transact<T>(change: () => T): T;
  onChange(handler: (change: DocumentChange) => void): () => void;
  /** Calls back with every update, own and others', once it counts here. */
  onUpdate(handler: (message: CRDTSyncMessage) => void): () => void;
  readonly vector: VectorClock;
  /** The live others, by address. */
  readonly members: ReadonlyMap<string, Member>;
  onMember(handler: (address: string, member: Member | undefined) => void): () => void;
  /** Do these members have everything that this replica has, by the vectors they last told? */
  reached(addresses: readonly string[]): boolean;
  /** What this agent says of itself, such as its load. Told to the live others, kept nowhere. */
  presence(value: unknown): void;
  /** Resolves when this replica has what the live others say they have; or after that time, with false. */
  caughtUp(timeoutMs: number): Promise<boolean>;
  /** Resolves when what was written so far is on disk, if it is durable, and handed to every live member. */
  synced(): Promise<void>;
  close(): Promise<void>;
}
