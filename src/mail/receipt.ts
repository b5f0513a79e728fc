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

const FIRST_END = RECEIPT_STATES.indexOf('replied');

export function isReceiptState(value: unknown): value is ReceiptState {
  return RECEIPT_STATES.some((state) => state === value);
}

/** Is the story over? */
export function isFinal(state: ReceiptState): boolean {
  return rank(state) >= FIRST_END;
}

/** Takes one piece of news. The same receipt comes back when it is none. */
export function stepReceipt(receipt: Receipt, step: ReceiptStep): Receipt {
  if (receipt.some(({ state }) => state === step.state)) return receipt;
  return [...receipt, step].sort((a, b) => rank(a.state) - rank(b.state));
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
  return RECEIPT_STATES.indexOf(state);
}
