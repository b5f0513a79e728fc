import { cutText } from '../runtime/text.js';

/**
 * What became of a durable message: one machine, the same on both sides. A receipt is the set of states that were
 * reached; news may come late, twice or in another order, and two sides that have heard the same show the same.
 */
export const RECEIPT_STATES = [
  'stored',
  'arrived',
  'held',
  'surfaced',
  'read',
  // The ends. Should two of them be reached, as when a message expires here while it is done there, the earlier of
  // this list counts, on both sides.
  'replied',
  'done',
  'declined',
  'refused',
  'undeliverable',
  'expired',
] as const;

export type ReceiptState = (typeof RECEIPT_STATES)[number];

export interface ReceiptStep {
  readonly state: ReceiptState;
  readonly at: number;
  readonly reason: string | null;
}

/** Every state that was reached, in the order of the story. */
export type Receipt = readonly ReceiptStep[];

const RANKS = new Map<unknown, number>(RECEIPT_STATES.map((state, index) => [state, index]));
const FIRST_END = RECEIPT_STATES.indexOf('replied');
const MAX_REASON_CHARS = 4_096;

export function isReceiptState(value: unknown): value is ReceiptState {
  return RANKS.has(value);
}

/** Is the story over? */
export function isFinal(state: ReceiptState): boolean {
  return rank(state) >= FIRST_END;
}

/**
 * Takes one piece of news. The same receipt comes back when it is none. Where both sides reached the same state, as
 * when a message expires here and there, the earlier of the two counts.
 */
export function stepReceipt(receipt: Receipt, step: ReceiptStep): Receipt {
  const known = receipt.find(({ state }) => state === step.state);
  if (known && !precedes(step, known)) return receipt;
  const others = known ? receipt.filter((other) => other !== known) : receipt;
  const last = others.at(-1);
  if (!last || rank(last.state) < rank(step.state)) return [...others, step];
  return [...others, step].sort((a, b) => rank(a.state) - rank(b.state));
}

/** A step with a reason that can be stored and told: of bounded length, and never with half a character. */
export function stepOf(state: ReceiptState, at: number, reason: string | null = null): ReceiptStep {
  return { state, at, reason: reason && wellFormed(cutText(reason, MAX_REASON_CHARS)) };
}

/** A receipt as text, for the store and for the other node. */
export function writeSteps(receipt: Receipt): string {
  const parts = receipt.map(({ state, at, reason }) => {
    return reason === null ? `["${state}",${at},null]` : `["${state}",${at},${JSON.stringify(reason)}]`;
  });
  return `[${parts.join(',')}]`;
}

/** Reads what `writeSteps` wrote; undefined when it is nothing of the kind. */
export function readSteps(value: unknown): Receipt | undefined {
  if (!Array.isArray(value) || value.length > RECEIPT_STATES.length) return undefined;
  let receipt: Receipt = [];
  for (const step of value) {
    if (!Array.isArray(step) || step.length !== 3) return undefined;
    const [state, at, reason] = step as unknown[];
    if (!isReceiptState(state) || typeof at !== 'number') return undefined;
    if (reason !== null && !(typeof reason === 'string' && reason.length <= MAX_REASON_CHARS)) return undefined;
    receipt = stepReceipt(receipt, reason === null ? { state, at, reason } : stepOf(state, at, reason));
  }
  return receipt;
}

/** The state that counts: the first end that was reached, else the furthest of the others. */
export function presentState(receipt: Receipt): ReceiptState | undefined {
  const end = receipt.find(({ state }) => isFinal(state));
  return (end ?? receipt.at(-1))?.state;
}

/** What to show: the way, and the end that counts. */
export function story(receipt: Receipt): Receipt {
  const end = receipt.find(({ state }) => isFinal(state));
  return receipt.filter((step) => !isFinal(step.state) || step === end);
}

function rank(state: ReceiptState): number {
  return RANKS.get(state)!;
}

function precedes(a: ReceiptStep, b: ReceiptStep): boolean {
  return a.at < b.at || (a.at === b.at && (a.reason ?? '') < (b.reason ?? ''));
}

/** The method is in Node 20, but not yet in the language level. */
function wellFormed(text: string): string {
  return (text as string & { toWellFormed(): string }).toWellFormed();
}
