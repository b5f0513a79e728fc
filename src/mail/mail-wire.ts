import { unpackEnvelope } from '../mesh/codec.js';
import type { ValidEnvelope } from '../mesh/envelope.js';
import { EclipticError } from '../runtime/errors.js';
import { isWellFormed } from '../runtime/text.js';
import { type Receipt, readSteps } from './receipt.js';

/**
 * The items about durable messages in the conversation of two nodes. Checked by hand: every durable message passes here.
 *
 * - `["s", store, before, [[number, storedAt, expiresAt, envelope], …]]`: messages to store, in the order of their
 *   numbers in the sender's store. `before` is the number of the message sent before them, 0 if they are the first.
 * - `["t", before, last, [[id, steps], …]]`: receipt updates, numbered likewise.
 * - `["u", last]`: receipt updates up to this number are on disk.
 * - `["v", store, upTo, reused]`: the messages of that store of the other node are on disk here up to this number;
 *   `reused` if some of its numbers arrived a second time, with other messages.
 */

export interface SentMessage {
  readonly number: number;
  readonly storedAt: number;
  readonly expiresAt: number | null;
  readonly envelope: ValidEnvelope;
}

export interface MailItem {
  readonly store: string;
  readonly before: number;
  readonly messages: readonly SentMessage[];
}

export interface ReceiptUpdates {
  readonly before: number;
  readonly last: number;
  readonly updates: readonly (readonly [id: string, receipt: Receipt])[];
}

/** How much of a store's mail another node has. */
export interface Progress {
  readonly store: string;
  readonly upTo: number;
  readonly reused: boolean;
}

/** An item is filled up to this many characters, unless a single message or update is longer. */
const ITEM_CHARS = 65_536;
const MAX_ENTRIES = 1_000;
const MAX_ID_CHARS = 128;

export function readMail(item: readonly unknown[]): MailItem {
  const [store, before, messages] = item;
  if (item.length !== 3 || !isId(store) || !isCount(before) || !isList(messages)) throw malformed();
  return { store, before, messages: messages.map(readMessage) };
}

export function readReceiptUpdates(item: readonly unknown[]): ReceiptUpdates {
  const [before, last, updates] = item;
  if (item.length !== 3 || !isCount(before) || !isCount(last) || !isList(updates)) throw malformed();
  return { before, last, updates: updates.map(readUpdate) };
}

export function readAcknowledgement(item: readonly unknown[]): number {
  const [last] = item;
  if (item.length !== 1 || !isCount(last)) throw malformed();
  return last;
}

export function readProgress(item: readonly unknown[]): Progress {
  const [store, upTo, reused] = item;
  if (item.length !== 3 || !isId(store) || !isCount(upTo) || typeof reused !== 'boolean') throw malformed();
  return { store, upTo, reused };
}

/** Packs texts into as few items as possible; `from` and `to` delimit the texts of each. */
export function* packed(texts: readonly string[]): Generator<{ list: string; from: number; to: number }> {
  for (let from = 0; from < texts.length; ) {
    let to = from + 1;
    let chars = texts[from]!.length;
    while (to < texts.length && to - from < MAX_ENTRIES / 2 && chars + texts[to]!.length <= ITEM_CHARS) {
      chars += texts[to++]!.length;
    }
    yield { list: `[${texts.slice(from, to).join(',')}]`, from, to };
    from = to;
  }
}

function readMessage(value: unknown): SentMessage {
  if (!Array.isArray(value) || value.length !== 4) throw malformed();
  const [number, storedAt, expiresAt, envelope] = value as unknown[];
  if (!isCount(number) || number === 0 || typeof storedAt !== 'number') throw malformed();
  if ((expiresAt !== null && typeof expiresAt !== 'number') || !Array.isArray(envelope)) throw malformed();
  const unpacked = unpackEnvelope(envelope);
  if (!isId(unpacked.id)) throw malformed();
  return { number, storedAt, expiresAt, envelope: unpacked };
}

function readUpdate(value: unknown): readonly [string, Receipt] {
  if (!Array.isArray(value) || value.length !== 2) throw malformed();
  const [id, steps] = value as unknown[];
  const receipt = readSteps(steps);
  if (!isId(id) || !receipt) throw malformed();
  return [id, receipt];
}

function isId(value: unknown): value is string {
  // Only well-formed text can be stored.
  return typeof value === 'string' && value !== '' && value.length <= MAX_ID_CHARS && isWellFormed(value);
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isList(value: unknown): value is unknown[] {
  return Array.isArray(value) && value.length <= MAX_ENTRIES;
}

function malformed(): EclipticError {
  return new EclipticError('INVALID_FRAME', 'an item about durable mail is malformed');
}
