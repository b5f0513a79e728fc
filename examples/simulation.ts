/** A test of an agent that waits for an hour takes a few milliseconds, and is the same each time for one seed. */
import assert from 'node:assert/strict';
import { createNode } from 'ecliptic';
import { SimulatedRuntime } from 'ecliptic/simulation';

const HOUR = 3_600_000;

async function play(seed: number) {
  const runtime = new SimulatedRuntime({ seed });
  const node = await createNode({ runtime });
  const ids: string[] = [];
  node.agent({ id: 'slow' }).onRequest(async (message) => {
    ids.push(message.envelope.id);
    await new Promise<void>((resolve) => runtime.setTimer(resolve, HOUR));
    return 'done';
  });
  const began = runtime.now();
  const answer = node.agent({ id: 'sun' }).request('slow', 'work', { timeoutMs: 2 * HOUR });
  await runtime.advance(HOUR);
  const result = { answer: await answer, tookMs: runtime.now() - began, ids };
  await node.stop();
  return result;
}

const first = await play(7);
assert.equal(first.answer, 'done');
assert.equal(first.tookMs, HOUR);
assert.deepEqual(await play(7), first);
console.log('an hour passed, twice in the same way');
