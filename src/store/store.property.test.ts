import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { tries } from '../../test/evidence.js';
import { SimulatedDisk } from '../../test/simulated-disk.js';
import { FileStore } from './file-store.js';
import { type MemorySnapshot, MemoryStore } from './memory-store.js';
import type { Query, Store } from './store.js';
import { defineTable, type Match, type Table, type Value, type Write } from './table.js';

/** A key of one text, of several, and one that the store numbers; with indexes that leave out nulls, and of several columns. */
const tables: Record<string, Table> = {
  addresses: defineTable('addresses', {
    columns: { address: 'text', node: 'text?', card: 'text', seenAt: 'real' },
    key: ['address'],
    indexes: [['node', 'seenAt'], ['seenAt']],
  }),
  permits: defineTable('permits', {
    columns: { thread: 'text', opener: 'text', responder: 'text', expiresAt: 'real' },
    key: ['thread', 'opener', 'responder'],
    indexes: [['expiresAt'], ['opener', 'expiresAt']],
  }),
  audit: defineTable('audit', {
    columns: { seq: 'integer', at: 'real', event: 'text', digest: 'text' },
    key: ['seq'],
    indexes: [['event'], ['at', 'event']],
  }),
};
const { addresses, permits, audit } = tables as Record<'addresses' | 'permits' | 'audit', Table>;

/** A store, and what makes another one of it as a process would that was killed. */
interface Opened {
  readonly store: Store;
  readonly reopen: () => Promise<Opened>;
}

async function inMemory(snapshot?: MemorySnapshot): Promise<Opened> {
  const store = new MemoryStore(snapshot);
  return { store, reopen: () => inMemory(store.snapshot()) };
}

/** With a tiny log, so that rows are flushed and runs merged all the time. */
async function inFiles(disk = new SimulatedDisk()): Promise<Opened> {
  const store = await FileStore.open('', { tables: Object.values(tables), disk, logBytes: 2_000 });
  return { store, reopen: () => inFiles(disk.copy()) };
}

const kinds: [name: string, open: () => Promise<Opened>][] = [
  ['in memory', () => inMemory()],
  ['in files', () => inFiles()],
];

describe.each(kinds)('a store %s', (_, open) => {
  it('behaves like a plain model for random calls, also many at once [ST7]', async () => {
    let { store, reopen } = await open();
    await store.write([audit.insert({ seq: 0, at: 1, event: '', digest: '' })]);
    const [numbered] = await store.read(audit);
    const model = new Model(numbered!.seq);
    await fc.assert(
      fc.asyncProperty(fc.array(call, { maxLength: 30 }), fc.nat(20), async (calls, chance) => {
        await store.write([addresses, permits, audit].map((table) => table.delete({})));
        model.clear();
        const outcomes = calls.map((asked) =>
          'writes' in asked ? store.write(asked.writes) : store.read(asked.query.from, asked.query),
        );
        const settled = await Promise.allSettled(outcomes);
        for (const [index, asked] of calls.entries()) {
          const expected = 'writes' in asked ? model.write(asked.writes) : model.read(asked.query);
          const outcome = settled[index]!;
          expect(outcome.status === 'fulfilled' ? outcome.value : 'refused').toEqual(expected);
        }
        if (chance === 0) ({ store, reopen } = await reopen());
        for (const table of [addresses, permits, audit]) {
          expect(await store.read(table)).toEqual(model.read({ from: table }));
          expect(await store.count(table)).toBe(model.read({ from: table }).length);
        }
        const bytes = model.read({ from: audit }).map(({ event, digest }) => Buffer.byteLength(`${event}${digest}`));
        expect(await store.figures(audit)).toEqual({ rows: bytes.length, bytes: bytes.reduce((a, b) => a + b, 0) });
      }),
      { numRuns: tries(process.env.ECLIPTIC_SOAK ? 3_000 : 300, 'random histories') },
    );
    if (store instanceof FileStore) expect(await store.check()).toEqual([]);
    await store.close();
  });
});

type ModelRow = Readonly<Record<string, Value>>;
type ModelMatch = Match<ModelRow>;
type ModelQuery = Query<ModelRow> & { readonly from: Table };

const text = fc.oneof(fc.constantFrom('a', 'b', 'c'), fc.string({ unit: 'binary', maxLength: 3 }));
const small = fc.integer({ min: -2, max: 4 });
const real = fc.oneof(
  small.map((value) => value + 0),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0),
);
const columns: Record<string, Record<string, fc.Arbitrary<Value>>> = {
  addresses: { address: text, node: fc.option(text), card: text, seenAt: real },
  permits: { thread: text, opener: fc.constantFrom('a', 'b'), responder: fc.constantFrom('a', 'b'), expiresAt: real },
  audit: { seq: fc.constantFrom(0, 0, 1, 2, 3), at: real, event: text, digest: text },
};

const anyTable = fc.constantFrom(addresses, permits, audit);

const write: fc.Arbitrary<Write> = anyTable.chain((table) => {
  const row = fc.record(columns[table.name]!);
  const keys = keyOf(table);
  const settable = Object.entries(columns[table.name]!).filter(([name]) => !keys.includes(name));
  const set = fc.record(Object.fromEntries(settable), { requiredKeys: [] });
  return fc.oneof(
    row.map((given) => table.put(given)),
    row.map((given) => table.insert(given)),
    fc.tuple(match(table), set).map(([where, given]) => table.update(where, given)),
    fc.tuple(match(table), bounds(table)).map(([where, below]) => table.delete(where, below)),
  );
});

const query: fc.Arbitrary<ModelQuery> = anyTable.chain((table) =>
  fc.record(
    {
      from: fc.constant(table),
      where: match(table),
      above: bounds(table),
      below: bounds(table),
      orderBy: fc.constantFrom(...table.columns),
      descending: fc.boolean(),
      limit: fc.nat(5),
    },
    { requiredKeys: ['from'] },
  ),
);

const call = fc.oneof(fc.record({ writes: fc.array(write, { maxLength: 4 }) }), fc.record({ query }));

function keyOf(table: Table): string[] {
  return table.key.map((column) => table.columns[column]!);
}

function match(table: Table): fc.Arbitrary<ModelMatch> {
  const tests = Object.entries(columns[table.name]!).map(([name, value]) => [
    name,
    fc.oneof(value, fc.array(fc.option(value), { maxLength: 4 })),
  ]);
  return fc.record(Object.fromEntries(tests), { requiredKeys: [] }) as fc.Arbitrary<ModelMatch>;
}

function bounds(table: Table): fc.Arbitrary<ModelRow> {
  return fc.record(columns[table.name]!, { requiredKeys: [] }) as fc.Arbitrary<ModelRow>;
}

/** What a store should do, in the plainest words; it shares no code with the stores. */
class Model {
  #tables = new Map<string, ModelRow[]>();
  #last: number;

  constructor(last: number) {
    this.#last = last;
  }

  clear(): void {
    this.#tables.clear();
  }

  write(writes: readonly Write[]): undefined | 'refused' {
    const before = { tables: structuredClone(this.#tables), last: this.#last };
    for (const change of writes) {
      if (this.#change(change)) continue;
      this.#tables = before.tables;
      this.#last = before.last;
      return 'refused';
    }
    return undefined;
  }

  read(query: ModelQuery): ModelRow[] {
    const { from, orderBy, descending, limit } = query;
    const order = orderBy ? [orderBy, ...keyOf(from)] : keyOf(from);
    const found = this.#rows(from).filter((row) => meets(row, query));
    found.sort((a, b) => order.map((name) => compare(a[name]!, b[name]!)).find((sign) => sign !== 0) ?? 0);
    if (descending) found.reverse();
    return found.slice(0, limit ?? found.length);
  }

  #rows(table: Table): ModelRow[] {
    return this.#tables.get(table.name) ?? [];
  }

  #change(change: Write): boolean {
    const { table } = change;
    const rows = this.#rows(table);
    if (change.kind === 'update') {
      const updated = rows.map((row) => (meets(row, change) ? ({ ...row, ...change.set } as ModelRow) : row));
      this.#tables.set(table.name, updated);
      return true;
    }
    if (change.kind === 'delete') {
      const left = rows.filter((row) => !meets(row, change));
      this.#tables.set(table.name, left);
      return true;
    }
    const row: Record<string, Value> = { ...change.row };
    if (table === audit) {
      if (row.seq === 0) row.seq = this.#last + 1;
      this.#last = Math.max(this.#last, row.seq as number);
    }
    const isSame = (other: ModelRow) => keyOf(table).every((name) => other[name] === row[name]);
    if (change.kind === 'insert' && rows.some(isSame)) return false;
    this.#tables.set(table.name, [...rows.filter((other) => !isSame(other)), row]);
    return true;
  }
}

interface ModelCondition {
  readonly where?: ModelMatch;
  readonly above?: Partial<ModelRow>;
  readonly below?: Partial<ModelRow>;
}

function meets(row: ModelRow, { where = {}, above = {}, below = {} }: ModelCondition): boolean {
  return (
    Object.entries(where).every(([name, wanted]) => [wanted].flat().includes(row[name])) &&
    Object.entries(above).every(([name, bound]) => isBeyond(row[name]!, bound!, 1)) &&
    Object.entries(below).every(([name, bound]) => isBeyond(row[name]!, bound!, -1))
  );
}

function isBeyond(value: Value, bound: Value, sign: number): boolean {
  return value !== null && bound !== null && Math.sign(compare(value, bound)) === sign;
}

function compare(a: Value, b: Value): number {
  if (a === null || b === null) return Number(a !== null) - Number(b !== null);
  if (typeof a === 'string') return Buffer.compare(Buffer.from(a), Buffer.from(b as string));
  return a - (b as number);
}
