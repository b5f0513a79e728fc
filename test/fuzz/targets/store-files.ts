import { EclipticError } from '../../../src/runtime/errors.js';
import { FileStore } from '../../../src/store/file-store.js';
import { defineTable } from '../../../src/store/table.js';
import { SimulatedDisk } from '../../simulated-disk.js';
import { type FuzzTarget, must } from '../fuzz-target.js';
import { Decisions } from '../shaped-input.js';

const table = defineTable('things', {
  columns: { id: 'integer', text: 'text' },
  key: ['id'],
  indexes: [['text']],
});
const ROWS = 40;
let files: ReadonlyMap<string, Buffer>;

function textOf(id: number): string {
  return `row ${id} ${'x'.repeat((id * 37) % 300)}`;
}

function open(disk: SimulatedDisk): Promise<FileStore> {
  return FileStore.open('', { tables: [table], disk, logBytes: 4_096 });
}

async function written(): Promise<ReadonlyMap<string, Buffer>> {
  const disk = new SimulatedDisk();
  const store = await open(disk);
  for (let id = 1; id <= ROWS; id++) await store.write([table.insert({ id, text: textOf(id) })]);
  await store.close();
  return new Map(disk.list().map((name) => [name, disk.read(name)]));
}

/** Files of a store in which bytes were changed: what is read is what was written, or the damage is reported. */
export const target: FuzzTarget = {
  name: 'store-files',
  about: 'files of the store, damaged anywhere',
  seeds: ['\0', '\x01\0\x10\x01', '\x02\x03\x20\x80\x01\0\x08\xff', Buffer.alloc(40, 7)],
  maxBytes: 64,
  maxMs: 400,
  async prepare() {
    files = await written();
    return [];
  },
  async run(input) {
    const decisions = new Decisions(input);
    const disk = new SimulatedDisk();
    const names = [...files.keys()];
    const changed = new Map([...files].map(([name, bytes]) => [name, Buffer.from(bytes)]));
    for (let count = decisions.below(4); count > 0; count--) {
      const name = decisions.pick(names);
      const bytes = changed.get(name)!;
      if (bytes.length === 0) continue;
      const at = decisions.below(Math.min(bytes.length, 65_536));
      if (decisions.below(8) === 0) changed.set(name, bytes.subarray(0, at));
      else bytes[at]! ^= decisions.byte() || 1;
    }
    for (const [name, bytes] of changed) await disk.replace(name, bytes);
    const store = await open(disk);
    try {
      const rows = await store.read(table);
      for (const { id, text } of rows) must(text === textOf(id), () => `row ${id} has another text`);
      must(new Set(rows.map(({ id }) => id)).size === rows.length, () => 'a row is there twice');
    } finally {
      await store.close().catch((error: unknown) => {
        if (!(error instanceof EclipticError)) throw error;
      });
    }
  },
};
