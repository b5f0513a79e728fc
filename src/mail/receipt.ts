import { cutText, wellFormed } from '../runtime/text.js';

/**
 * The states of a durable message: one machine, the same on both sides. A receipt is the set of states that were reached.
 * Updates may arrive late, twice or in another order, and two sides with the same updates show the same receipt.
 */
export const RECEIPT_STATES = [
  'stored',
  // A custodian keeps it for an absent node. Known to the sender's side only.
  'relayed',
  'arrived',
  'held',
  'surfaced',
  'read',
  // Final states. If two of them are reached, as when a message expires here while it is done there, the earlier one in
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

/** The states that were reached, in the order of the list above. */
export type Receipt = readonly ReceiptStep[];

const RANKS = new Map<unknown, number>(RECEIPT_STATES.map((state, index) => [state, index]));
const FIRST_END = RECEIPT_STATES.indexOf('replied');
const MAX_REASON_CHARS = 4_096;

export function isReceiptState(value: unknown): value is ReceiptState {
  return RANKS.has(value);
}

export function isFinal(state: ReceiptState): boolean {
  return rank(state) >= FIRST_END;
}

/**
 * Adds a state. Returns the same receipt if nothing changes. If both sides reached the same state, as when a message
 * expires here and there, the earlier time counts.
 */
export function stepReceipt(receipt: Receipt, step: ReceiptStep): Receipt {
  const known = receipt.find(({ state }) => state === step.state);
  if (known && !precedes(step, known)) return receipt;
  const others = known ? receipt.filter((other) => other !== known) : receipt;
  const last = others.at(-1);
  if (!last || rank(last.state) < rank(step.state)) return [...others, step];
  return [...others, step].sort((a, b) => rank(a.state) - rank(b.state));
}

/** Adds several states. */
export function addSteps(receipt: Receipt, steps: readonly ReceiptStep[]): Receipt {
  if (steps.length === 0) return receipt;
  // Almost always the states follow those that are known.
  let last = receipt.length === 0 ? -1 : rank(receipt[receipt.length - 1]!.state);
  for (const { state } of steps) {
    const next = rank(state);
    if (next <= last) return steps.reduce(stepReceipt, receipt);
    last = next;
  }
  return receipt.length === 0 ? steps : [...receipt, ...steps];
}

/** A step whose reason can be stored and sent: of bounded length, and never with half a character. */
export function stepOf(state: ReceiptState, at: number, reason: string | null = null): ReceiptStep {
  return { state, at, reason: reason && wellFormed(cutText(reason, MAX_REASON_CHARS)) };
}

export function writeSteps(receipt: Receipt): string {
  let text = '';
  for (const { state, at, reason } of receipt) {
    const before = text === '' ? '[' : `${text},`;
    text = `${before}["${state}",${at},${reason === null ? null : JSON.stringify(reason)}]`;
  }
  return text === '' ? '[]' : `${text}]`;
}

/** The inverse of `writeSteps`; undefined for any other value. */
export function readSteps(value: unknown): Receipt | undefined {
  if (!Array.isArray(value) || value.length > RECEIPT_STATES.length) return undefined;
  const steps: ReceiptStep[] = [];
  for (const step of value) {
    if (!Array.isArray(step) || step.length !== 3) return undefined;
    const [state, at, reason] = step as unknown[];
    if (!isReceiptState(state) || typeof at !== 'number') return undefined;
    if (reason !== null && !(typeof reason === 'string' && reason.length <= MAX_REASON_CHARS)) return undefined;
    steps.push(reason === null ? { state, at, reason } : stepOf(state, at, reason));
  }
  return addSteps([], steps);
}

/** The state that counts: the first final one that was reached, else the last of the others. */
export function presentState(receipt: Receipt): ReceiptState | undefined {
  const end = receipt.find(({ state }) => isFinal(state));
  return (end ?? receipt.at(-1))?.state;
}

/** The steps to show: those before the end, and the end that counts. */
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
