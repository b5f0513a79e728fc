import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type AddressRow, addresses, permits } from '../mail/tables.js';
import { audit, type JournalRow, journal } from '../mesh/audit/tables.js';
import { openStore, TABLES } from '../node/tables.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { cursors, meta } from './common-tables.js';
import { MemoryStore } from './memory-store.js';
import type { Query, Store } from './store.js';
import type { Write } from './table.js';

const folders: string[] = [];

const kinds: [name: string, open: () => Promise<Store>][] = [
  ['in memory', async () => new MemoryStore()],
  [
    'in files',
    () => {
      const folder = mkdtempSync(join(tmpdir(), 'ecliptic-store-'));
      folders.push(folder);
      return openStore(folder);
    },
  ],
];

afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

describe.each(kinds)('a store %s', (_, open) => {
  let store: Store;

  beforeAll(async () => {
    store = await open();
  });

  afterEach(() => store.write(TABLES.map((table) => table.delete({}))));

  afterAll(() => store.close());

  it('returns every value as it was written', async () => {
    const text = 'ü€😀\u{10ffff} \u0000 \n "quoted" \\ \u0001 \uffff';
    const row = journalRow({ seq: 7, at: 1_700_000_000_000.125, envelope: text, code: null, thread: '' });
    await store.write([journal.put(row)]);
    expect(await store.read(journal)).toEqual([row]);
    for (const value of [0, -1, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER]) {
      await store.write([cursors.put({ name: 'c', value })]);
      expect(await store.read(cursors)).toEqual([{ name: 'c', value }]);
    }
    for (const expiresAt of [0.1, -0, 1e300, -1e-300, Number.EPSILON]) {
      await store.write([permits.put({ thread: 't', opener: 'o', responder: 'r', expiresAt })]);
      expect((await store.read(permits))[0]!.expiresAt).toBe(expiresAt + 0);
    }
  });

  it('keeps texts of a mebibyte', async () => {
    const envelope = JSON.stringify({ text: '€x'.repeat(262_144) });
    await store.write([addresses.insert(addressRow('big', { card: envelope }))]);
    expect((await store.read(addresses))[0]!.card).toBe(envelope);
  });

  it('replaces a row with the same key on put, and refuses it on insert', async () => {
    await store.write([cursors.insert({ name: 'a', value: 1 })]);
    await store.write([cursors.put({ name: 'a', value: 2 })]);
    await expect(store.write([cursors.insert({ name: 'a', value: 3 })])).rejects.toMatchObject({
      code: 'STORE_FAILED',
      details: { conflict: 'cursors', key: ['a'] },
    });
    expect(await store.read(cursors)).toEqual([{ name: 'a', value: 2 }]);
  });

  it('makes all changes of a call or none', async () => {
    await store.write([cursors.insert({ name: 'a', value: 1 })]);
    const failing = store.write([
      cursors.put({ name: 'b', value: 2 }),
      cursors.update({ name: 'a' }, { value: 5 }),
      cursors.delete({ name: 'a' }),
      journal.insert(journalRow()),
      cursors.insert({ name: 'b', value: 1 }),
    ]);
    await expect(failing).rejects.toMatchObject({ code: 'STORE_FAILED' });
    expect(await store.read(cursors)).toEqual([{ name: 'a', value: 1 }]);
    expect(await store.count(journal)).toBe(0);
    expect(await store.figures(journal)).toEqual({ rows: 0, bytes: 0 });
  });

  it('isolates a failing call, and answers in order', async () => {
    const settled: string[] = [];
    const insert = (name: string) =>
      store.write([cursors.insert({ name, value: 1 })]).then(
        () => settled.push(`${name} kept`),
        () => settled.push(`${name} refused`),
      );
    await Promise.all([insert('a'), insert('b'), insert('a'), insert('c'), insert('b')]);
    expect(settled).toEqual(['a kept', 'b kept', 'a refused', 'c kept', 'b refused']);
    expect((await store.read(cursors)).map((row) => row.name)).toEqual(['a', 'b', 'c']);
  });

  it('lets a read see every earlier write, and no later one', async () => {
    const reads: Promise<number>[] = [];
    for (let value = 1; value <= 50; value++) {
      void store.write([cursors.put({ name: 'x', value })]);
      reads.push(store.read(cursors).then((rows) => rows[0]!.value));
    }
    expect(await Promise.all(reads)).toEqual(Array.from({ length: 50 }, (_, index) => index + 1));
  });

  it('takes 10,000 writes at once', async () => {
    const writes = Array.from({ length: 10_000 }, (_, index) =>
      store.write([journal.insert(journalRow({ envelopeId: `e${index}` }))]),
    );
    await Promise.all(writes);
    const rows = await store.read(journal, { orderBy: 'seq' });
    expect(rows.map((row) => row.envelopeId)).toEqual(Array.from({ length: 10_000 }, (_, index) => `e${index}`));
    expect(rows.every((row, index) => index === 0 || row.seq === rows[index - 1]!.seq + 1)).toBe(true);
  });

  it('numbers the rows of a log, and never reuses a number', async () => {
    const seqs = async () => (await store.read(audit)).map((row) => row.seq);
    const add = (seq: number) => store.write([audit.insert({ seq, at: 1, event: 'e', digest: 'd' })]);
    await add(0);
    const [first] = await seqs();
    await add(0);
    await expect(store.write([audit.insert({ seq: first!, at: 1, event: '', digest: '' })])).rejects.toThrow();
    expect(await seqs()).toEqual([first!, first! + 1]);
    await add(first! + 100);
    await store.write([audit.delete({})]);
    await add(0);
    expect(await seqs()).toEqual([first! + 101]);
  });

  it('knows the rows and bytes of a log', async () => {
    await store.write([audit.insert({ seq: 0, at: 1, event: 'ü', digest: 'abc' })]);
    await store.write([audit.insert({ seq: 0, at: 1, event: '', digest: 'abc' })]);
    const [row] = await store.read(audit);
    expect(await store.figures(audit)).toEqual({ rows: 2, bytes: 8 });
    await store.write([audit.put({ ...row!, event: 'longer' })]);
    await store.write([audit.update({ event: '' }, { digest: '' })]);
    expect(await store.figures(audit)).toEqual({ rows: 2, bytes: 9 });
    await store.write([audit.delete({}, { seq: row!.seq + 1 })]);
    expect(await store.figures(audit)).toEqual({ rows: 1, bytes: 0 });
  });

  it('finds rows by value, list, null and bounds', async () => {
    const rows = [
      addressRow('a', { node: null, seenAt: 1 }),
      addressRow('b', { node: 'n1', seenAt: 2 }),
      addressRow('c', { node: 'n2', seenAt: 3 }),
      addressRow('d', { node: null, seenAt: 4 }),
    ];
    await store.write(rows.map((row) => addresses.insert(row)));
    const found = async (query: Query<AddressRow>) =>
      (await store.read(addresses, { ...query })).map((row) => row.address).join('');
    expect(await found({ where: { node: null } })).toBe('ad');
    expect(await found({ where: { node: 'n1' } })).toBe('b');
    expect(await found({ where: { node: ['n1', null] } })).toBe('abd');
    expect(await found({ where: { address: ['d', 'a', 'd', 'x'] } })).toBe('ad');
    expect(await found({ where: { address: [] } })).toBe('');
    const many = Array.from({ length: 5_000 }, (_, index) => `x${index}`);
    expect(await found({ where: { address: [...many, 'c'] } })).toBe('c');
    expect(await found({ above: { seenAt: 1 }, below: { seenAt: 4 } })).toBe('bc');
    expect(await found({ where: { node: null }, above: { address: 'a' } })).toBe('d');
    expect(await found({ above: { node: '' } })).toBe('bc');
    expect(await found({ above: { node: null } })).toBe('');
    expect(await store.count(addresses, { where: { node: [null, 'n2'] }, above: { seenAt: 1 } })).toBe(2);
  });

  it('finds rows by the words in their texts, newest first [ST8]', async () => {
    const texts = ['The login page', 'a page for LOGIN', 'the Straße', 'logins only'];
    await store.write(
      texts.map((text, at) => journal.insert(journalRow({ at, envelope: text, envelopeId: `e${at}` }))),
    );
    const found = async (text: string, limit = 10) => {
      const containing = { text, in: ['envelope', 'envelopeId'] } as const;
      return (await store.read(journal, { containing, orderBy: 'seq', descending: true, limit })).map(({ at }) => at);
    };
    expect(await found('login PAGE')).toEqual([1, 0]);
    expect(await found('login', 2)).toEqual([3, 1]);
    expect(await found('straße e2')).toEqual([2]);
    expect(await found('missing')).toEqual([]);
    expect(await store.count(journal, { containing: { text: 'page', in: ['envelope'] } })).toBe(2);
    const wrong = { text: 'x', in: ['nothing' as 'envelope'] };
    await expect(store.read(journal, { containing: wrong })).rejects.toMatchObject({ code: 'STORE_FAILED' });
  });

  it('pages through many rows with a cursor, in both directions, while rows are added', async () => {
    const all = Array.from({ length: 1_200 }, (_, index) => journalRow({ at: index % 7, envelopeId: `e${index}` }));
    await store.write(all.map((row) => journal.insert(row)));
    const seen: string[] = [];
    for (let seq = 0; ; ) {
      const page = await store.read(journal, { above: { seq }, orderBy: 'seq', limit: 100 });
      if (seen.length === 600) await store.write([journal.insert(journalRow({ envelopeId: 'late' }))]);
      seen.push(...page.map(({ envelopeId }) => envelopeId));
      if (page.length < 100) break;
      seq = page.at(-1)!.seq;
    }
    expect(seen).toEqual([...all.map(({ envelopeId }) => envelopeId), 'late']);
    const [last] = await store.read(journal, { orderBy: 'seq', descending: true, limit: 1 });
    const back = await store.read(journal, { below: { seq: last!.seq }, orderBy: 'seq', descending: true, limit: 2 });
    expect(back.map(({ envelopeId }) => envelopeId)).toEqual(['e1199', 'e1198']);
    expect(await store.count(journal, { where: { at: 3 } })).toBe(171);
  });

  it('orders by a column and then by key, in both directions, up to the limit', async () => {
    const values: [string, number][] = [
      ['\uffff', 2],
      ['😀', 1],
      ['b', 2],
      ['a', 1],
      ['', 1],
    ];
    await store.write(values.map(([name, value]) => cursors.put({ name, value })));
    const names = async (query: Query<{ name: string; value: number }>) =>
      (await store.read(cursors, { ...query })).map((row) => row.name);
    expect(await names({})).toEqual(['', 'a', 'b', '\uffff', '😀']);
    expect(await names({ descending: true, limit: 2 })).toEqual(['😀', '\uffff']);
    expect(await names({ orderBy: 'value' })).toEqual(['', 'a', '😀', 'b', '\uffff']);
    expect(await names({ orderBy: 'value', descending: true })).toEqual(['\uffff', 'b', '😀', 'a', '']);
    expect(await names({ orderBy: 'name', limit: 0 })).toEqual([]);
  });

  it('updates and deletes matching rows only', async () => {
    await store.write(['a', 'b', 'c'].map((name) => addresses.insert(addressRow(name))));
    await store.write([addresses.update({ address: ['a', 'c'] }, { seenAt: 3, node: 'n' })]);
    await store.write([addresses.update({ address: 'x' }, { seenAt: 9 })]);
    await store.write([addresses.delete({ seenAt: 3 }, { address: 'b' })]);
    expect(await store.read(addresses)).toEqual([addressRow('b'), addressRow('c', { seenAt: 3, node: 'n' })]);
  });

  it('refuses values that it could not return unchanged, before anything is written', async () => {
    const good = { name: 'a', value: 1 };
    const put = (row: unknown) => cursors.put(row as { name: string; value: number });
    const wrong: Write[] = [
      put({ name: 'a' }),
      put({ ...good, more: 1 }),
      put({ name: null, value: 1 }),
      put({ name: 'a', value: true }),
      put({ name: 'a', value: 1.5 }),
      put({ name: 'a', value: 2 ** 53 }),
      put({ name: 'half a pair: \ud800', value: 1 }),
      permits.put({ thread: 't', opener: 'o', responder: 'r', expiresAt: Number.NaN }),
      cursors.update({ name: 'a' }, { name: 'b' }),
      cursors.update({ name: undefined as unknown as string }, { value: 1 }),
      cursors.delete({ name: undefined as unknown as string }),
      cursors.delete({ name: Array.from({ length: 16_385 }, () => 'a') }),
    ];
    for (const write of wrong) {
      await expect(store.write([cursors.put(good), write])).rejects.toMatchObject({
        code: 'STORE_FAILED',
      });
    }
    for (const query of [{ where: { x: 1 } }, { orderBy: 'x' }, { limit: -1 }, { above: { value: '1' } }]) {
      await expect(store.read(cursors, query as Query<{ name: string; value: number }>)).rejects.toMatchObject({
        code: 'STORE_FAILED',
      });
    }
    expect(await store.count(cursors)).toBe(0);
  });

  it('finishes earlier calls before it closes, and refuses later ones', async () => {
    const other = await open();
    const before = Array.from({ length: 100 }, (_, value) =>
      other.write([cursors.insert({ name: String(value), value })]),
    );
    const rows = other.read(cursors);
    const closed = other.close();
    const late = [
      other.write([cursors.put({ name: 'late', value: 1 })]),
      other.read(cursors),
      other.count(cursors),
      other.figures(journal),
    ];
    const refusals = late.map((call) => expect(call).rejects.toMatchObject({ code: 'STORE_FAILED' }));
    await Promise.all(before);
    expect(await rows).toHaveLength(100);
    await Promise.all([closed, other.close(), ...refusals]);
    await expect(other.count(cursors)).rejects.toMatchObject({ details: { reason: 'closed' } });
  });
});

describe('a store in memory', () => {
  it('needs no clock, and restarts from the writes acknowledged before a crash', async () => {
    const runtime = new SimulatedRuntime();
    const store = new MemoryStore();
    let acknowledged = 0;
    for (let value = 1; value <= 10; value++) {
      void store.write([cursors.put({ name: 'n', value })]).then(() => {
        acknowledged = value;
      });
    }
    for (let step = 0; step < 6; step++) await Promise.resolve();
    const kept = acknowledged;
    const after = new MemoryStore(store.snapshot());
    expect(kept).toBeGreaterThan(0);
    expect(kept).toBeLessThan(10);
    expect((await after.read(cursors))[0]!.value).toBeGreaterThanOrEqual(kept);
    expect(runtime.now()).toBe(new SimulatedRuntime().now());
  });

  it('keeps numbers and rows in its snapshot, independent of the store', async () => {
    const store = new MemoryStore();
    await store.write([audit.insert({ seq: 0, at: 1, event: 'e', digest: 'd' })]);
    await store.write([audit.delete({})]);
    const snapshot = store.snapshot();
    await store.write([meta.put({ name: 'later', value: '' })]);
    const after = new MemoryStore(snapshot);
    await after.write([audit.insert({ seq: 0, at: 1, event: 'e', digest: 'd' })]);
    expect(await after.read(audit)).toMatchObject([{ seq: 2 }]);
    expect(await after.count(meta)).toBe(0);
  });

  it('fails on request', async () => {
    const store = new MemoryStore();
    store.failWith('the disk is full');
    await expect(store.write([])).rejects.toMatchObject({ code: 'STORE_FAILED', message: 'the disk is full' });
    store.failWith(undefined);
    await store.write([]);
  });
});

function journalRow(fields: Partial<JournalRow> = {}): JournalRow {
  const who = { sender: 'sun', recipient: 'mars', thread: null, type: 'request', code: null };
  return { seq: 0, at: 1, envelopeId: 'e', ...who, envelope: '{}', decision: '{}', ...fields };
}

function addressRow(address: string, fields: Partial<AddressRow> = {}): AddressRow {
  return { address, node: null, card: '{}', seenAt: 1, ...fields };
}
