import { describe, expect, it } from 'vitest';
import { createNode } from '../node/compose.js';
import type { EclipticError } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import type { Message } from './message.js';

const HOUR = 3_600_000;

/** Alice asks bob, who answers when the test says so; `settled` is what alice knows so far. */
async function asked(timeoutMs: number) {
  const runtime = new SimulatedRuntime();
  const node = await createNode({ runtime });
  const [alice, bob] = [node.agent({ id: 'alice' }), node.agent({ id: 'bob' })];
  let message: Message | undefined;
  let answer = (_text: string) => {};
  bob.onRequest((given) => {
    message = given;
    return new Promise((resolve) => (answer = resolve));
  });
  let settled: unknown;
  alice.request('bob', 'go', { timeoutMs }).then(
    (value) => (settled = value),
    (error: EclipticError) => (settled = error.code),
  );
  await runtime.advance(0);
  const { envelope } = message!;
  return {
    ...{ node, runtime, envelope, answer: (text: string) => answer(text), settled: () => settled },
    waits: async (decisions: number) => {
      bob.reportWaiting(envelope, decisions);
      await runtime.advance(0);
    },
  };
}

describe('a request', () => {
  it('has as much time after a decision of the owner as it had before [AP.6]', async () => {
    const { runtime, waits, settled, answer } = await asked(1_000);
    await runtime.advance(600);
    await waits(1);
    await runtime.advance(3 * HOUR);
    await waits(2);
    await waits(1);
    await runtime.advance(HOUR);
    await waits(0);
    await runtime.advance(300);
    expect(settled()).toBeUndefined();
    await waits(1);
    await runtime.advance(HOUR);
    await waits(0);
    answer('done');
    await runtime.advance(0);
    expect(settled()).toBe('done');
  });

  it('ends when its own time is over, and when its agent has waited for a day [AP.6]', async () => {
    const late = await asked(1_000);
    await late.waits(1);
    await late.runtime.advance(HOUR);
    await late.waits(0);
    await late.runtime.advance(1_100);
    expect(late.settled()).toBe('REQUEST_TIMEOUT');
    const long = await asked(1_000);
    await long.waits(1);
    await long.runtime.advance(23 * HOUR);
    expect(long.settled()).toBeUndefined();
    await long.runtime.advance(2 * HOUR);
    expect(long.settled()).toBe('REQUEST_TIMEOUT');
  });

  it('is not held by an agent that it was not sent to, nor by other reports [AP.6]', async () => {
    const { node, runtime, envelope, settled } = await asked(1_000);
    const carol = node.agent({ id: 'carol' });
    carol.reportWaiting(envelope, 1);
    await runtime.advance(1_100);
    expect(settled()).toBe('REQUEST_TIMEOUT');
  });
});
