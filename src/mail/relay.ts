import { EclipticError } from '../runtime/errors.js';

/**
 * Keeps mail for absent nodes outside of both nodes, for example in a stream of a broker. It passes batches on, sealed to
 * their recipient and signed by their sender, and is trusted with nothing else: it may lose, delay or repeat them.
 */
export interface MailRelay {
  /** The largest body of a batch, in bytes. */
  readonly maxBytes: number;
  /** The most messages from one node to another. A batch is one, or several if it is large. */
  readonly maxBatches: number;
  /** How the custodian's store differs from one that this version would create. */
  readonly differences?: readonly string[];
  start(listener: RelayListener): void;
  /** Reads the batches for this node after that position; each is taken before the next is read. */
  read(after: number): void;
  /** A batch that can be published again unchanged. */
  seal(node: string, body: string): SealedBatch;
  /**
   * Resolves once the custodian has stored the batch, or had stored the same one shortly before. With `replace`, it
   * deletes all earlier batches from this node to that one.
   */
  publish(batch: SealedBatch, options: { readonly replace: boolean }): Promise<Custody>;
  stop(): Promise<void>;
}

export interface SealedBatch {
  readonly node: string;
  /** The same for the same bytes, and known to no other node before they are published. */
  readonly id: string;
  readonly bytes: Uint8Array;
}

/** Where a batch is. */
export interface Custody {
  /** Who keeps it, for people. */
  readonly custodian: string;
  readonly position: number;
  /** How many messages of the custodian it is, if it is more than one. */
  readonly messages?: number;
}

/** A batch from another node, which signed it for this one. */
export interface RelayedBatch {
  readonly node: string;
  readonly position: number;
  readonly body: string;
}

export interface RelayListener {
  /** The highest position that this node knows of in the store of that identity; 0 if none. */
  reached(id: number): number;
  /** The custodian's store can be used: its identity, and the position of its last batch. Resolves with the position to read on after. */
  opened(store: { readonly id: number; readonly last: number }): Promise<number>;
  /** The first part of a batch came; the whole batch follows. */
  begun(batch: Omit<RelayedBatch, 'body'>): void;
  take(batch: RelayedBatch): Promise<void>;
  /** A batch under the name of a node is not its own, not for this node, or damaged. */
  refuse(batch: Omit<RelayedBatch, 'body'>, reason: string): void;
}

/**
 * The body of a batch. `items` are those of `mail-wire.ts`, except that `["u", before, last]` acknowledges the receipt updates
 * between two numbers, and `["again", store, upTo]` asks for the mail after that number: some of it never arrived.
 */
export interface BatchBody {
  /** Milliseconds since the epoch; higher for each further batch of a node. */
  readonly at: number;
  /** The sender's certificates, for a node that does not know it. */
  readonly chain: unknown;
  /** Signed cards of agents that wrote the mail, for a node that does not know them. */
  readonly cards: readonly unknown[];
  readonly items: readonly (readonly [kind: string, ...rest: unknown[]])[];
}

/** The item that asks a node to publish its mail again. */
export const AGAIN = 'again';
const MAX_ITEMS = 1_000;

/** All but `at` as JSON texts. */
export function writeBody(at: number, chain: string, cards: readonly string[], items: readonly string[]): string {
  return `{"at":${at},"chain":${chain},"cards":[${cards.join()}],"items":[${items.join()}]}`;
}

/** Throws `INVALID_FRAME`. */
export function readBody(text: string): BatchBody {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw malformed();
  }
  const { at, chain, cards, items } = (value ?? {}) as Record<string, unknown>;
  if (!Number.isSafeInteger(at) || !isList(cards) || !isList(items)) throw malformed();
  for (const item of items) if (!Array.isArray(item) || typeof item[0] !== 'string') throw malformed();
  return { at: at as number, chain, cards, items: items as BatchBody['items'] };
}

function isList(value: unknown): value is unknown[] {
  return Array.isArray(value) && value.length <= MAX_ITEMS;
}

function malformed(): EclipticError {
  return new EclipticError('INVALID_FRAME', 'a batch of relayed mail is malformed');
}
