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
counter.onNotification(async (message) => {
  const count = ((await counter.kept<number>('count')) ?? 0) + 1;
  await message.commit({ keep: { count } });
});
// Its end is an event too.
await new Promise<void>((resolve) => {
  node.observability.subscribe(({ receiptState }) => receiptState === 'done' && resolve());
});
assert.equal(await counter.kept('count'), 1);
await node.stop();

const after = await start();
assert.equal((await after.mail!.receipt(messageId!)).state, 'done');
await after.stop();
rmSync(folder, { recursive: true, force: true });
console.log('the message waited for its recipient and was counted once');
