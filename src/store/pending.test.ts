import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { toChange, toSelection } from './plan.js';
import { TABLE_NAMES } from './shapes.js';
import { SqliteEngine } from './sqlite-engine.js';
import type { Query, Write } from './store.js';
import type { LogName, TableName } from './tables.js';
import type { Call } from './wire.js';

const root = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'ecliptic-pending-'));

afterAll(() => rmSync(root, { recursive: true, force: true }));

describe('a pending change', () => {
  it('reads the same as a written one, before and after a kill', () => {
    for (let seed = 1; seed <= 12; seed++) {
      const random = new SimulatedRuntime({ seed });
      const below = (limit: number) => Math.floor(random.random() * limit);
      const [patient, eager] = [open(), open()];
      let waits = patient;
      for (let group = 0; group < 25; group++) {
        const calls = Array.from({ length: 1 + below(4) }, () => anyCall(below));
        const outcomes = [waits.engine, eager.engine].map((engine) => engine.run(calls).map(withoutCause));
        expect(outcomes[0]).toEqual(outcomes[1]);
        eager.engine.settle();
        if (below(8) === 0) waits.engine.settle();
        if (below(8) === 0) waits = killed(waits);
        expect(contentOf(waits.engine)).toEqual(contentOf(eager.engine));
      }
      expect(waits.engine.run([{ kind: 'integrity' }])).toEqual([{ value: [] }]);
      waits.engine.close();
      eager.engine.close();
    }
  });

  it('never reaches the table when its row is deleted before', () => {
    const { engine } = open();
    engine.run([write({ insert: 'audit', row: { seq: 0, at: 1, event: 'short-lived', digest: 'd' } })]);
    engine.run([write({ delete: 'audit', where: { seq: 1 } })]);
    engine.settle();
    expect(engine.run([{ kind: 'figures', log: 'audit' }])).toEqual([{ value: { rows: 0, bytes: 0 } }]);
    engine.run([write({ insert: 'audit', row: { seq: 0, at: 1, event: 'next', digest: 'd' } })]);
    expect(engine.run([read('audit')])).toEqual([{ value: [[2, 1, 'next', 'd']] }]);
    engine.close();
  });

  it('is refused when pending changes can no longer be written', () => {
    const { engine } = open({ maxPages: 60, pendingChanges: 4 });
    const text = 'x'.repeat(2_000);
    const failed = Array.from({ length: 200 }, (_, index) => {
      const [outcome] = engine.run([write({ put: 'meta', row: { name: `n${index}`, value: text } })]);
      engine.tidy();
      return 'error' in outcome!;
    });
    expect(failed[0]).toBe(false);
    expect(failed.at(-1)).toBe(true);
    const [kept] = engine.run([read('meta')]) as [{ value: unknown[] }];
    expect(kept.value).toHaveLength(failed.filter((hasFailed) => !hasFailed).length);
    engine.close();
  });
});

interface Opened {
  readonly folder: string;
  readonly engine: SqliteEngine;
}

function open(options = {}): Opened {
  const folder = mkdtempSync(join(root, 'store-'));
  return { folder, engine: SqliteEngine.open(folder, options) };
}

/** The store as it is found by the next process when this one dies right now. */
function killed({ folder }: Opened): Opened {
  const copy = mkdtempSync(join(root, 'copy-'));
  for (const name of ['store.db', 'store.db-wal', 'store.mark']) copyFileSync(join(folder, name), join(copy, name));
  return { folder: copy, engine: SqliteEngine.open(copy) };
}

function anyCall(below: (limit: number) => number): Call {
  return write(...Array.from({ length: 1 + below(3) }, () => anyWrite(below)));
}

/** Few keys, so that the same rows are changed again and again, and inserts collide. */
function anyWrite(below: (limit: number) => number): Write {
  const row = { seq: below(3) === 0 ? 1 + below(20) : 0, at: below(9), event: 'e'.repeat(below(20)), digest: '' };
  const permit = { thread: `t${below(4)}`, opener: `o${below(2)}`, responder: 'r', expiresAt: below(9) };
  const writes: Write[] = [
    { insert: 'audit', row },
    { put: 'audit', row },
    { update: 'audit', where: { seq: 1 + below(20) }, set: { event: 'changed' } },
    { update: 'audit', where: { at: below(9) }, set: { digest: 'looked for' } },
    { delete: 'audit', where: { seq: [1 + below(20), 1 + below(20)] } },
    { delete: 'audit', where: {}, below: { at: below(3) } },
    { put: 'permits', row: permit },
    { insert: 'permits', row: permit },
    {
      update: 'permits',
      where: { thread: permit.thread, opener: permit.opener, responder: 'r' },
      set: { expiresAt: 1 },
    },
    { delete: 'permits', where: { thread: permit.thread, opener: permit.opener, responder: 'r' } },
    { delete: 'permits', where: { thread: permit.thread } },
    { put: 'cursors', row: { name: `c${below(3)}`, value: below(99) } },
  ];
  return writes[below(writes.length)]!;
}

function write(...writes: Write[]): Call {
  return { kind: 'write', changes: writes.map(toChange) };
}

function read(from: TableName, more: object = {}): Call {
  return { kind: 'read', selection: toSelection({ from, ...more } as Query<TableName>) };
}

/** All rows, some in another order and not all of them, counts and figures. */
function contentOf(engine: SqliteEngine): unknown {
  const logs: LogName[] = ['audit', 'journal'];
  return engine.run([
    ...TABLE_NAMES.map((name) => read(name)),
    read('audit', { orderBy: 'at', descending: true, limit: 3 }),
    read('audit', { above: { at: 2 }, limit: 4 }),
    { kind: 'count', selection: toSelection({ from: 'audit', where: { digest: 'looked for' } }) },
    { kind: 'count', selection: toSelection({ from: 'permits' }) },
    ...logs.map((log): Call => ({ kind: 'figures', log })),
  ]);
}

function withoutCause(outcome: ReturnType<SqliteEngine['run']>[number]): unknown {
  return 'error' in outcome ? [outcome.error.code, outcome.error.message] : outcome;
}
