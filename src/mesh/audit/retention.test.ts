import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { meta } from '../../store/common-tables.js';
import { MemoryStore } from '../../store/memory-store.js';
import type { Store, Write } from '../../store/store.js';
import { auditStart, cutBehind, type RetentionLimits, retain, rowsToCut } from './retention.js';
import { type AuditRow, audit } from './tables.js';

describe('retention', () => {
  it('cuts by age, count and size, whichever limit is tightest', () => {
    const oldest = [1, 2, 3, 4].map((at) => ({ at, bytes: 10 }));
    const cut = (limits: RetentionLimits) => rowsToCut(limits, 10, { rows: 6, bytes: 60 }, oldest);
    expect(cut({})).toBe(0);
    expect(cut({ maxAgeMs: 7 })).toBe(2);
    expect(cut({ maxRows: 5 })).toBe(1);
    expect(cut({ maxBytes: 31 })).toBe(3);
    expect(cut({ maxAgeMs: 9, maxRows: 6, maxBytes: 60 })).toBe(0);
    expect(cut({ maxAgeMs: 8, maxRows: 4, maxBytes: 50 })).toBe(2);
  });

  it('stops at the first row within the limits, and keeps the newest', () => {
    const at = (...times: number[]) => times.map((time) => ({ at: time, bytes: 1 }));
    expect(rowsToCut({ maxAgeMs: 5 }, 10, { rows: 3, bytes: 3 }, at(1, 9, 1))).toBe(1);
    expect(rowsToCut({ maxAgeMs: 0 }, 10, { rows: 3, bytes: 3 }, at(1, 1, 1))).toBe(2);
    expect(rowsToCut({ maxRows: 0, maxBytes: 0 }, 10, { rows: 1, bytes: 9 }, at(1))).toBe(0);
  });

  it('stores the start of the audit chain in the same write', () => {
    const rows = [auditRow(4), auditRow(5)];
    expect(cutBehind(audit, rows)).toEqual([
      meta.put({ name: 'audit.start', value: '{"seq":5,"digest":"digest 5"}' }),
      audit.delete({ seq: [4, 5] }),
    ]);
    expect(cutBehind(audit, [])).toEqual([]);
  });

  it('leaves exactly the rows that fit, in small steps', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ age: fc.nat(100), size: fc.nat(20_000) }), { maxLength: 60 }),
        fc.record({ maxAgeMs: fc.nat(100), maxRows: fc.nat(60), maxBytes: fc.nat(300_000) }, { requiredKeys: [] }),
        async (given, limits) => {
          const store = new MemoryStore();
          const rows = given
            .map(({ age, size }, index) => ({ ...auditRow(index + 1), at: 100 - age, event: 'x'.repeat(size) }))
            .sort((a, b) => a.at - b.at)
            .map((row, index) => ({ ...row, seq: index + 1 }));
          await store.write(rows.map((row): Write => audit.insert(row)));
          const removed = await retain(store, audit, limits, 100);
          const left = await store.read(audit);
          expect(left).toEqual(rows.slice(removed));
          if (removed > 0) expect(await auditStart(store)).toEqual({ seq: removed, digest: rows[removed - 1]!.digest });
          else expect(await auditStart(store)).toBeUndefined();
          const fits = (from: number) =>
            rows.length - from <= (limits.maxRows ?? rows.length) &&
            rows.slice(from).reduce((sum, row) => sum + row.event.length + row.digest.length, 0) <=
              (limits.maxBytes ?? Number.POSITIVE_INFINITY) &&
            rows.slice(from).every((row) => row.at >= 100 - (limits.maxAgeMs ?? 100));
          const expected = rows.findIndex((_, index) => fits(index) || index === rows.length - 1);
          expect(removed).toBe(Math.max(0, expected));
        },
      ),
      { numRuns: 150 },
    );
  });

  it('removes at most 500 rows and about a mebibyte at a time', async () => {
    const inner = new MemoryStore();
    const steps: number[] = [];
    const store: Store = Object.create(inner, {
      write: {
        value: async (writes: readonly Write[]) => {
          const before = await inner.count(audit);
          await inner.write(writes);
          steps.push(before - (await inner.count(audit)));
        },
      },
      read: { value: inner.read.bind(inner) },
      figures: { value: inner.figures.bind(inner) },
    });
    await inner.write(Array.from({ length: 1_200 }, (_, index): Write => audit.insert(auditRow(index + 1))));
    expect(await retain(store, audit, { maxRows: 100 }, 0)).toBe(1_100);
    expect(steps).toEqual([500, 500, 100]);
    await inner.write([audit.delete({})]);
    const large = { event: 'x'.repeat(262_144) };
    await inner.write(
      Array.from({ length: 12 }, (_, index): Write => audit.insert({ ...auditRow(2_000 + index), ...large })),
    );
    steps.length = 0;
    await retain(store, audit, { maxRows: 2 }, 0);
    expect(Math.max(...steps)).toBeLessThanOrEqual(4);
  });

  it('refuses an unreadable start of the chain', async () => {
    const store = new MemoryStore();
    await store.write([meta.put({ name: 'audit.start', value: '{"seq":' })]);
    await expect(auditStart(store)).rejects.toMatchObject({ code: 'STORE_DAMAGED' });
  });
});

function auditRow(seq: number): AuditRow {
  return { seq, at: 0, event: '', digest: `digest ${seq}` };
}
