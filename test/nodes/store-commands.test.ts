import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { pushConfigs, taskEvents } from '../../src/a2a/server/tables.js';
import type { Compacted, ExportedRow, StoreCheck } from '../../src/node/control/store-operations.js';
import { openStore, TABLES } from '../../src/node/tables.js';
import { Cluster, type ProcessNode } from './cluster.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const INTACT = new RegExp(`^store intact: (\\d+) rows in ${TABLES.length} tables, (\\d+) bytes\n$`);
const TASKS = ['t1', 't2', 't3'];
const EVENTS = 250;

let cluster: Cluster;
let node: ProcessNode;

beforeAll(async () => {
  cluster = new Cluster();
  const config = { roster: false, agents: { ann: { tier: 0 as const }, idle: { tier: 0 as const } } };
  node = cluster.node('a', { args: ['--no-dht'], config });
  const store = await openStore(node.data);
  const config1 = { config: { id: 'p', url: 'https://example.com/', token: 'secret-token' } };
  await store.write([pushConfigs.put({ task: 't1', id: 'p', config: JSON.stringify(config1) })]);
  // Several pages of the same task, and tasks on the same page.
  const events = TASKS.flatMap((task) =>
    Array.from({ length: EVENTS }, (_, sequence) => ({ task, sequence, events: '' })),
  );
  await store.write([...events, { task: 't4', sequence: 1, events: '' }].map((row) => taskEvents.put(row)));
  await store.close();
});

afterAll(() => cluster.end());

describe.each(['running', 'stopped'])('the store of a %s node', (state) => {
  beforeAll(async () => {
    if (!node.running) await node.start();
    const sent = await node.run('send', '--durable', '--as', 'ann', '--to', 'idle', `{"state":"${state}"}`);
    expect(sent.code).toBe(0);
    if (state === 'stopped') await node.stop();
  });

  it('is checked [ST9]', async () => {
    const { code, stdout, stderr } = await node.run('store', 'check');
    expect({ code, stderr, stdout }).toEqual({ code: 0, stderr: '', stdout: expect.stringMatching(INTACT) });
    // A running node may still be writing what it knows of the message.
    const found = await vi.waitFor(async () => {
      const checked = await node.json<StoreCheck>('store', 'check');
      expect(checked.rows).toBe((await exported()).length);
      return checked;
    }, 20_000);
    expect(found).toMatchObject({ intact: true, tables: TABLES.length, damages: [] });
    expect(found.bytes).toBeGreaterThan(10_000);
  });

  it('is compacted, and has the same rows [ST9]', async () => {
    const before = await exported('taskEvents');
    const { code, stdout, stderr } = await node.run('store', 'compact');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^store compacted: from \d+ to \d+ bytes\n$/);
    const sizes = await node.json<Compacted>('store', 'compact');
    expect(sizes).toEqual({ before: expect.any(Number), after: expect.any(Number) });
    expect(readdirSync(join(node.data, 'store')).filter((name) => name.startsWith('run-'))).toHaveLength(1);
    expect(await exported('taskEvents')).toEqual(before);
  });

  it('is exported by table, page by page, in the order of the keys [ST9]', async () => {
    const rows = await exported('taskEvents');
    const keys = rows.map(({ row }) => `${row.task} ${row.sequence}`);
    const expected = TASKS.flatMap((task) => Array.from({ length: EVENTS }, (_, sequence) => `${task} ${sequence}`));
    expect(keys).toEqual([...expected, 't4 1']);
    expect(new Set(rows.map(({ table }) => table))).toEqual(new Set(['taskEvents']));
    const mail = await exported('inbox');
    expect(mail.at(-1)).toMatchObject({ table: 'inbox', row: { recipient: 'idle' } });
    expect(mail.at(-1)!.row.envelope).toContain(state);
  });

  it('is exported without credentials, and as a whole [ST9]', async () => {
    expect(await exported('pushConfigs')).toEqual([
      { table: 'pushConfigs', row: { task: 't1', id: 'p', config: '(hidden)' } },
    ]);
    const rows = await exported();
    expect(JSON.stringify(rows)).not.toContain('secret-token');
    const names = [...new Set(rows.map(({ table }) => table))];
    expect(names).toEqual(expect.arrayContaining(['journal', 'inbox', 'addresses', 'taskEvents', 'pushConfigs']));
    expect(names).toEqual(TABLES.map(({ name }) => name).filter((name) => names.includes(name)));
  });

  it('has no other tables [ST9]', async () => {
    const { code, stdout, stderr } = await node.run('store', 'export', 'inbx');
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toBe(`USAGE: there is no table "inbx"; there are ${TABLES.map(({ name }) => name).join(', ')}\n`);
  });
});

describe('a damaged store', () => {
  it('is reported by a running and by a stopped node [ST9 ST2]', async () => {
    const run = () => readdirSync(join(node.data, 'store')).find((name) => name.startsWith('run-'))!;
    await node.run('store', 'compact');
    const file = join(node.data, 'store', run());
    const intact = readFileSync(file);
    await node.start();
    const damaged = Buffer.from(intact);
    damaged[Math.floor(statSync(file).size / 3)]! ^= 1;
    writeFileSync(file, damaged);
    const whileRunning = await node.run('store', 'check');
    expect(whileRunning).toMatchObject({ code: 1, stderr: '' });
    expect(whileRunning.stdout).toMatch(/^(damaged: .*run-\d+: .+\n)+(damaged: .+\n)*$/);
    writeFileSync(file, intact);
    await node.stop();

    const kept = join(node.data, 'store', 'manifest');
    const manifest = readFileSync(kept);
    const other = Buffer.from(manifest);
    other[other.length >> 1]! ^= 1;
    writeFileSync(kept, other);
    const { code, stdout } = await node.run('store', 'check');
    expect({ code, stdout }).toEqual({ code: 1, stdout: expect.stringMatching(/^damaged: .*manifest: .+\n$/) });
    const found = JSON.parse((await node.run('store', 'check', '--json')).stdout) as StoreCheck;
    expect(found).toMatchObject({ intact: false, rows: null, damages: [{ file: kept, what: expect.any(String) }] });
    expect((await node.run('store', 'export')).stderr).toMatch(/^STORE_DAMAGED: /);
    writeFileSync(kept, manifest);
    expect((await node.run('store', 'check')).stdout).toMatch(INTACT);
  });
});

it('a folder without a store is refused, and gets none [ST9]', async () => {
  const empty = join(cluster.folder, 'empty');
  for (const verb of ['check', 'compact', 'export']) {
    const { code, stdout, stderr } = await cluster.run(['store', verb, '--data', empty]);
    expect({ code, stdout, stderr }).toEqual({
      code: 1,
      stdout: '',
      stderr: `DATA_FOLDER: there is no store in ${empty}\nWhat to do: ecliptic help DATA_FOLDER\n`,
    });
  }
  expect(existsSync(empty)).toBe(false);
});

async function exported(...table: string[]): Promise<ExportedRow[]> {
  const { code, stdout, stderr } = await node.run('store', 'export', ...table);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}
