import { createHash, randomFillSync } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import type { Config } from '../../src/node/config/schema.js';
import type { ObjectRow, SavedObject } from '../../src/node/control/rows.js';
import { inCluster, SOAK, type Transport, until } from '../nodes/cluster.js';

vi.setConfig({ testTimeout: 120_000 });

const MIB = 1_048_576;
/** In MiB. */
const SIZES: Partial<Record<Transport, number>> = SOAK
  ? { websocket: 256, nats: 256, hyperswarm: 64 }
  : { websocket: 3 };
/** A node's memory may grow by this much, whatever the size of the file. */
const GROWTH = 100 * MIB;

for (const [transport, mib] of Object.entries(SIZES)) {
  const size = mib * MIB;
  it(
    `a file goes with a message between two nodes over ${transport}, in bounded memory, and is checked [NO.1]`,
    inCluster(async (cluster) => {
      const comet = join(cluster.folder, 'comet.mjs');
      writeFileSync(comet, 'export const setup = (agent) => agent.onNotification(() => {});');
      const config: Config = { roster: false, agents: { sun: {}, moon: {}, comet: { module: comet } } };
      const args = await cluster.argsFor(transport as Transport);
      const [a, b] = await Promise.all(['a', 'b'].map((name) => cluster.start(name, { args, config })));
      await a!.admit(b!);
      await until(async () => (await a!.agents()).length === 6, 'a knows the agents of b');
      const file = join(cluster.folder, 'film.bin');
      const digest = await writeRandom(file, size);
      const before = [a!, b!].map(({ pid }) => memory(pid));

      const { messageId } = await a!.json<{ messageId: string }>(
        ...['send', '--as', 'sun', '--to', `moon@${b!.key}`, '--durable', '--attach', file, '"see this"'],
      );
      await until(async () => (await b!.call<ObjectRow[]>('objects')).length === 1, 'it is there');
      const [row] = await b!.json<ObjectRow[]>('object', 'list');
      const wanted = { name: 'film.bin', size, sha256: digest, from: `sun@${a!.key}`, to: [`moon@${b!.key}`] };
      expect(row).toMatchObject(wanted);
      const got = join(cluster.folder, 'got.bin');
      const saved = await b!.json<SavedObject>('object', 'get', row!.id, '--out', got);
      expect(saved).toMatchObject({ ...wanted, file: got });
      expect(createHash('sha256').update(readFileSync(got)).digest('hex')).toBe(digest);
      expect(messageId).toBeDefined();
      const growth = [a!, b!].map(({ pid }, at) => memory(pid).peak - before[at]!.now);
      for (const bytes of growth) expect(bytes).toBeLessThan(GROWTH);

      // One that a handler has dealt with is found by its id too.
      const note = join(cluster.folder, 'note.txt');
      writeFileSync(note, 'read me');
      const { messageId: id } = await a!.json<{ messageId: string }>(
        ...['send', '--as', 'sun', '--to', `comet@${b!.key}`, '--durable', '--attach', note, '"and this"'],
      );
      const story = async () => (await a!.call<{ story: { state: string }[] }>('receipt', { id })).story;
      await until(async () => (await story()).some(({ state }) => state === 'done'), 'the handler has dealt with it');
      const handled = (await b!.call<ObjectRow[]>('objects')).find(({ name }) => name === 'note.txt');
      expect(handled).toMatchObject({ to: [`comet@${b!.key}`], size: 7 });
      await b!.json('object', 'get', handled!.id, '--out', note);
      expect(readFileSync(note, 'utf8')).toBe('read me');

      // No other agent gets it, and after its removal none does.
      const wish = { object: row!.id, file: join(cluster.folder, 'other.bin') };
      await expect(b!.call('object.get', { ...wish, as: 'sun' })).rejects.toMatchObject({ code: 'OBJECT_REFUSED' });
      await a!.call('object.remove', { id: row!.id.slice(0, 20) });
      const gone = await b!.run('object', 'get', row!.id, '--out', wish.file);
      expect(gone).toMatchObject({ code: 1, stderr: expect.stringContaining('OBJECT_NOT_FOUND') });
    }),
  );
}

async function writeRandom(path: string, size: number): Promise<string> {
  const hash = createHash('sha256');
  const file = await open(path, 'w');
  for (let at = 0; at < size; at += MIB) {
    const chunk = randomFillSync(Buffer.alloc(MIB));
    hash.update(chunk);
    await file.write(chunk);
  }
  await file.close();
  return hash.digest('hex');
}

/** The memory of a process now, and the most since this was asked before. */
function memory(pid: number): { now: number; peak: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const kib = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]) * 1_024;
  const found = { now: kib('VmRSS'), peak: kib('VmHWM') };
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
  return found;
}
