import { ByteReader, ByteWriter } from '../../../src/runtime/bytes.js';
import { encode, indexKey, primaryKey, rowKey } from '../../../src/store/key.js';
import { readRow, StoredRow, writeRow } from '../../../src/store/row.js';
import { type AnyRow, defineTable, type Value } from '../../../src/store/table.js';
import { type FuzzTarget, must, mustEqual } from '../fuzz-target.js';
import { Decisions } from '../shaped-input.js';

const table = defineTable('fuzz', {
  columns: { id: 'text', at: 'integer', name: 'text?', size: 'real?' },
  key: ['id', 'at'],
  indexes: [['name', 'size']],
});

const NUMBERS = [
  0,
  1,
  -1,
  0.5,
  -0.5,
  2 ** 31,
  2 ** 32 - 1,
  2 ** 32,
  2 ** 53 - 1,
  -(2 ** 53) + 1,
  1e300,
  -1e300,
  5e-324,
];

function numberOf(decisions: Decisions): number {
  return decisions.below(2) === 0 ? decisions.pick(NUMBERS) : decisions.below(65_536) - 30_000;
}

function textOf(decisions: Decisions): string {
  // As the store takes it: well-formed.
  return decisions.text(80);
}

function rowOf(decisions: Decisions): AnyRow {
  return {
    id: textOf(decisions),
    at: Math.trunc(numberOf(decisions)),
    name: decisions.below(4) === 0 ? null : textOf(decisions),
    size: decisions.below(4) === 0 ? null : numberOf(decisions),
  };
}

function compare(a: Value, b: Value): number {
  if (typeof a === 'number') return Math.sign(a - (b as number));
  return Buffer.compare(Buffer.from(a as string), Buffer.from(b as string));
}

/** A row is read as it was written, and keys sort as the values do. */
export const target: FuzzTarget = {
  name: 'store-row',
  about: 'rows and keys of the store',
  seeds: ['\x05hello\0\x01\x05world\0\x02', 'A\0\0\0\0\0', Buffer.alloc(64, 0xff)],
  maxBytes: 1_024,
  run(input) {
    const decisions = new Decisions(input);
    const [one, two] = [rowOf(decisions), rowOf(decisions)];
    const writer = new ByteWriter(16);
    writeRow(writer, table, one);
    const end = writer.length;
    writeRow(writer, table, two);
    const reader = new ByteReader(writer.bytes);
    mustEqual(readRow(reader, table), one, 'a row written and read');
    must(reader.place === end, () => 'a reader stops elsewhere than the writer did');
    mustEqual(readRow(reader, table), two, 'the row behind it');
    mustEqual(new StoredRow(writer, 0, end).read(table, [0, 2]), { id: one.id, name: one.name }, 'some columns');
    for (const column of ['id', 'at'] as const) {
      const [a, b] = [encode(one[column]!), encode(two[column]!)];
      const sign = a < b ? -1 : a > b ? 1 : 0;
      must(
        sign === compare(one[column]!, two[column]!),
        () => `keys of ${one[column]} and ${two[column]} sort otherwise`,
      );
    }
    const key = rowKey(table, one);
    const index = indexKey(table.trees[1]!, one, key);
    if (index !== undefined) must(primaryKey(table.trees[1]!, index) === key, () => 'the key in an index differs');
  },
};
