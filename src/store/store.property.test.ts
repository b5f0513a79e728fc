import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { MemoryStore } from './memory-store.js';
import { SqliteStore } from './sqlite-store.js';
import type { Query, Store, Write } from './store.js';
import type { TableName, Value } from './tables.js';

const folder = mkdtempSync(join(tmpdir(), 'ecliptic-store-'));

const kinds: [name: string, open: () => Promise<Store>][] = [
  ['in memory', async () => new MemoryStore()],
  ['in SQLite', () => SqliteStore.open(folder)],
];

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.each(kinds)('a store %s', (_, open) => {
  it('behaves like a plain model for random calls, also many at once [ST7]', async () => {
    const store = await open();
    await store.write([{ insert: 'audit', row: { seq: 0, at: 1, event: '', digest: '' } }]);
    const [numbered] = await store.read({ from: 'audit' });
    const model = new Model(numbered!.seq);
    await fc.assert(
      fc.asyncProperty(fc.array(call, { maxLength: 30 }), async (calls) => {
        await store.write(modelTables.map((name) => ({ delete: name, where: {} }) as Write));
        model.clear();
        const outcomes = calls.map((asked) =>
          'writes' in asked ? store.write(asked.writes) : store.read(asked.query),
        );
        const settled = await Promise.allSettled(outcomes);
        for (const [index, asked] of calls.entries()) {
          const expected = 'writes' in asked ? model.write(asked.writes) : model.read(asked.query);
          const outcome = settled[index]!;
          expect(outcome.status === 'fulfilled' ? outcome.value : 'refused').toEqual(expected);
        }
        for (const name of modelTables) {
          expect(await store.read({ from: name })).toEqual(model.read({ from: name }));
        }
        const bytes = model.read({ from: 'audit' }).map(({ event, digest }) => Buffer.byteLength(`${event}${digest}`));
        expect(await store.figures('audit')).toEqual({ rows: bytes.length, bytes: bytes.reduce((a, b) => a + b, 0) });
      }),
      { numRuns: 150 },
    );
    await store.close();
  });
});

/** The tables that the model knows: a key of one text, of several, and one that the store numbers. */
const modelTables = ['addresses', 'permits', 'audit'] as const;
const modelKeys = { addresses: ['address'], permits: ['thread', 'opener', 'responder'], audit: ['seq'] } as const;
type ModelTable = (typeof modelTables)[number];
type ModelRow = Readonly<Record<string, Value>>;
type ModelMatch = Readonly<Record<string, Value | readonly Value[]>>;

const text = fc.oneof(fc.constantFrom('a', 'b', 'c'), fc.string({ unit: 'binary', maxLength: 3 }));
const small = fc.integer({ min: -2, max: 4 });
const real = fc.oneof(
  small.map((value) => value + 0),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0),
);
const columns: Record<ModelTable, Record<string, fc.Arbitrary<Value>>> = {
  addresses: { address: text, node: fc.option(text), card: text, seenAt: real },
  permits: { thread: text, opener: fc.constantFrom('a', 'b'), responder: fc.constantFrom('a', 'b'), expiresAt: real },
  audit: { seq: fc.constantFrom(0, 0, 1, 2, 3), at: real, event: text, digest: text },
};

const write: fc.Arbitrary<Write> = fc.constantFrom(...modelTables).chain((table) => {
  const where = match(table);
  const settable = Object.entries(columns[table]).filter(
    ([name]) => !(modelKeys[table] as readonly string[]).includes(name),
  );
  return fc.oneof(
    fc.record({ put: fc.constant(table), row: fc.record(columns[table]) }),
    fc.record({ insert: fc.constant(table), row: fc.record(columns[table]) }),
    fc.record({
      update: fc.constant(table),
      where,
      set: fc.record(Object.fromEntries(settable), { requiredKeys: [] }),
    }),
    fc.record({ delete: fc.constant(table), where, below: bounds(table) }),
  ) as fc.Arbitrary<Write>;
});

const query: fc.Arbitrary<Query<ModelTable>> = fc.constantFrom(...modelTables).chain(
  (table) =>
    fc.record(
      {
        from: fc.constant(table),
        where: match(table),
        above: bounds(table),
        below: bounds(table),
        orderBy: fc.constantFrom(...Object.keys(columns[table])),
        descending: fc.boolean(),
        limit: fc.nat(5),
      },
      { requiredKeys: ['from'] },
    ) as fc.Arbitrary<Query<ModelTable>>,
);

const call = fc.oneof(fc.record({ writes: fc.array(write, { maxLength: 4 }) }), fc.record({ query }));

function match(table: ModelTable): fc.Arbitrary<ModelMatch> {
  const tests = Object.entries(columns[table]).map(([name, value]) => [
    name,
    fc.oneof(value, fc.array(fc.option(value), { maxLength: 4 })),
  ]);
  return fc.record(Object.fromEntries(tests), { requiredKeys: [] }) as fc.Arbitrary<ModelMatch>;
}

function bounds(table: ModelTable): fc.Arbitrary<ModelRow> {
  return fc.record(columns[table], { requiredKeys: [] }) as fc.Arbitrary<ModelRow>;
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
    for (const change of writes as readonly Record<string, unknown>[]) {
      if (this.#change(change)) continue;
      this.#tables = before.tables;
      this.#last = before.last;
      return 'refused';
    }
    return undefined;
  }

  read(query: Query<ModelTable>): ModelRow[] {
    const { from, orderBy, descending, limit } = query;
    const order: readonly string[] = orderBy ? [orderBy, ...modelKeys[from]] : modelKeys[from];
    const found = this.#rows(from).filter((row) => meets(row, query as ModelQuery));
    found.sort((a, b) => order.map((name) => compare(a[name]!, b[name]!)).find((sign) => sign !== 0) ?? 0);
    if (descending) found.reverse();
    return found.slice(0, limit ?? found.length);
  }

  #rows(table: TableName): ModelRow[] {
    return this.#tables.get(table) ?? [];
  }

  #change(change: Record<string, unknown>): boolean {
    const table = (change.put ?? change.insert ?? change.update ?? change.delete) as ModelTable;
    const rows = this.#rows(table);
    if (change.update) {
      const set = change.set as ModelRow;
      this.#tables.set(
        table,
        rows.map((row) => (meets(row, change as ModelQuery) ? { ...row, ...set } : row)),
      );
      return true;
    }
    if (change.delete) {
      this.#tables.set(
        table,
        rows.filter((row) => !meets(row, change as ModelQuery)),
      );
      return true;
    }
    const row = { ...(change.row as ModelRow) };
    if (table === 'audit') {
      if (row.seq === 0) row.seq = this.#last + 1;
      this.#last = Math.max(this.#last, row.seq as number);
    }
    const isSame = (other: ModelRow) => modelKeys[table].every((name) => other[name] === row[name]);
    if (change.insert && rows.some(isSame)) return false;
    this.#tables.set(table, [...rows.filter((other) => !isSame(other)), row]);
    return true;
  }
}

interface ModelQuery {
  readonly where?: ModelMatch;
  readonly above?: ModelRow;
  readonly below?: ModelRow;
}

function meets(row: ModelRow, { where = {}, above = {}, below = {} }: ModelQuery): boolean {
  return (
    Object.entries(where).every(([name, wanted]) => [wanted].flat().includes(row[name]!)) &&
    Object.entries(above).every(([name, bound]) => isBeyond(row[name]!, bound, 1)) &&
    Object.entries(below).every(([name, bound]) => isBeyond(row[name]!, bound, -1))
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
