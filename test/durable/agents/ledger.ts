import type { Agent, Message } from '../../../src/index.js';

/** Its messages: increasing numbers. With `echo`, it sends the number back. */
export interface Entry {
  readonly n: number;
  readonly echo?: boolean;
}

/** The stored messages from one agent. */
export interface Ledger {
  readonly count: number;
  readonly last: number;
  /** Numbers that were left out, as [first, last]. */
  readonly gaps: readonly (readonly [number, number])[];
  /** Numbers that came again, or after a higher one. */
  readonly wrong: readonly number[];
  /** The number of repeated messages that were marked as redelivered. */
  readonly redelivered: number;
}

const EMPTY: Ledger = { count: 0, last: 0, gaps: [], wrong: [], redelivered: 0 };

/** Enters each number into the ledger of its sender, exactly once. */
export function setup(agent: Agent): void {
  agent.onNotification(async (message) => {
    const { n, echo } = message.payload as Entry;
    const ledger = enter((await agent.kept<Ledger>(message.from)) ?? EMPTY, message, n);
    const send = echo ? [{ to: message.from, payload: { n } satisfies Entry }] : [];
    await message.commit({ keep: { [message.from]: ledger }, send });
  });
  // The answers it got to its own questions.
  agent.onMessage(async (message) => {
    const answers = (await agent.kept<unknown[]>('answers')) ?? [];
    await message.commit({ keep: { answers: [...answers, [message.type, message.payload]] } });
  });
  agent.onRequest(async ({ payload }) => (await agent.kept(payload as string)) ?? null);
}

function enter(before: Ledger, message: Message, n: number): Ledger {
  const { count, last, gaps, wrong } = before;
  const redelivered = before.redelivered + (message.redelivered ? 1 : 0);
  if (n <= last) return { ...before, redelivered, wrong: [...wrong, n] };
  const more = n > last + 1 ? [...gaps, [last + 1, n - 1] as const] : gaps;
  return { count: count + 1, last: n, gaps: more, wrong, redelivered };
}
