/** A message for an agent that is away waits on disk, survives a restart, and is counted exactly once. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createNode, openStore } from 'ecliptic';

const folder = mkdtempSync(join(tmpdir(), 'ecliptic-example-'));
const start = async () => createNode({ nodeKey: 'a'.repeat(64), store: await openStore(folder) });

const before = await start();
before.agent({ id: 'counter' }); // It takes no messages yet.
const { messageId } = await before.agent({ id: 'sun' }).send('counter', { build: 'login' }, { durable: true });
assert.equal((await before.mail!.receipt(messageId!)).state, 'arrived');
await before.stop();

const node = await start();
const counter = node.agent({ id: 'counter' });
const counted = new Promise<void>((resolve, reject) => {
  counter.onNotification(async (message) => {
    const count = ((await counter.kept<number>('count')) ?? 0) + 1;
    await message.commit({ keep: { count } });
    assert.deepEqual(message.payload, { build: 'login' });
    resolve();
  });
  setTimeout(reject, 30_000, new Error('the message did not arrive')).unref();
});
await counted;
assert.equal(await counter.kept('count'), 1);
await node.stop();

const after = await start();
assert.equal((await after.mail!.receipt(messageId!)).state, 'done');
await after.stop();
rmSync(folder, { recursive: true, force: true });
console.log('the message waited for its recipient and was counted once');
