import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pino } from 'pino';
import type { ControlClient } from '../node/control/client.js';
import type { StoreOperations } from '../node/control/store-operations.js';
import { EclipticError } from '../runtime/errors.js';
import { type Invocation, verb } from './command.js';
import { oneLine } from './output.js';

const check = verb({
  summary: 'read and check all stored data; exits with 1 when it is damaged. A running node waits meanwhile',
  examples: ['', '--json', '--data ./state   # the node may be stopped'],
  async run(invocation) {
    const { output } = invocation;
    const found = await reach(
      invocation,
      (client) => client.call('store.check'),
      (store) => store.check(),
    ).catch(async (error) => {
      // Not even opened: that is an answer too.
      if (!(error instanceof EclipticError) || error.code !== 'STORE_DAMAGED') throw error;
      const { damagedStore } = await import('../node/control/store-operations.js');
      return damagedStore(error, await invocation.dataFolder());
    });
    const { intact, rows, tables, bytes, damages } = found;
    output.value(found, () =>
      intact
        ? `store intact: ${rows} rows in ${tables} tables, ${bytes} bytes`
        : damages.map(({ file, what }) => oneLine(`damaged: ${file}: ${what}`)).join('\n'),
    );
    if (!intact) output.exitCode = 1;
  },
});

const compact = verb({
  summary: 'write all stored data to one file, without what was deleted. A running node waits meanwhile',
  examples: ['', '--json'],
  async run(invocation) {
    const sizes = await reach(
      invocation,
      (client) => client.call('store.compact'),
      (store) => store.compact(),
    );
    invocation.output.value(sizes, () => `store compacted: from ${sizes.before} to ${sizes.after} bytes`);
  },
});

const exportAll = verb({
  summary: 'write the stored rows, one JSON object a line; the credentials in pushConfigs are left out',
  args: ['TABLE?'],
  argHelp: [['TABLE', 'only this one, such as journal, inbox, outbox, receipts or tasks (default: all)']],
  examples: ['> store.jsonl', 'inbox', 'journal --data ./state'],
  async run(invocation) {
    const { output } = invocation;
    const [table] = invocation.words;
    await reach(
      invocation,
      (client) => client.call('store.export', { table }, (row) => output.line(JSON.stringify(row))),
      async (store) => {
        for await (const row of store.export(table)) {
          output.line(JSON.stringify(row));
          if (process.stdout.writableNeedDrain) await once(process.stdout, 'drain');
        }
      },
    );
  },
});

const backup = verb({
  summary: 'copy the data folder into a new folder, also while the node runs',
  args: ['DIR'],
  argHelp: [['DIR', 'a folder that does not exist yet. It will hold the node’s keys: keep it as private as the node']],
  examples: ['/mnt/backup/node-monday', '/mnt/backup/node-monday --json'],
  async run(invocation) {
    const { output, words } = invocation;
    const to = resolve(words[0]);
    const made = await reach(
      invocation,
      (client) => client.call('store.backup', { to }),
      (store) => store.backUp(to),
    );
    output.value(made, () =>
      [
        `${made.files} files, ${made.bytes} bytes: ${made.folder}`,
        'It holds the keys of this node in plain text. Put it back with:',
        `  ecliptic store restore ${made.folder} --data FOLDER`,
      ].join('\n'),
    );
  },
});

const restore = verb({
  summary: 'put a backup into a new or empty data folder, and check it',
  args: ['DIR'],
  argHelp: [['DIR', 'a folder that `ecliptic store backup` wrote']],
  examples: ['/mnt/backup/node-monday --data ./state'],
  async run({ words, dataFolder, output }) {
    const [{ restore: put }, { openStore, TABLES }, { StoreOperations }, { systemRuntime }] = await Promise.all([
      import('../node/control/backup.js'),
      import('../node/tables.js'),
      import('../node/control/store-operations.js'),
      import('../runtime/system-runtime.js'),
    ]);
    const folder = await dataFolder();
    const { files } = await put(resolve(words[0]), folder);
    const store = await openStore(folder, { runtime: systemRuntime() });
    const { intact, rows, damages } = await new StoreOperations(store, TABLES, folder)
      .check()
      .finally(() => store.close());
    output.value({ folder, files, intact, rows, damages }, () =>
      intact
        ? [
            `${files} files are restored to ${folder}, and all ${rows} stored rows are intact.`,
            'Start it with: ecliptic up. Never run it and the node that it is a copy of at once.',
            'Its mail begins a new epoch: messages since the backup are gone from this node, and none is handled twice.',
          ].join('\n')
        : damages.map(({ file, what }) => oneLine(`damaged: ${file}: ${what}`)).join('\n'),
    );
    if (!intact) output.exitCode = 1;
  },
});

/** Asks the running node, or opens the store of its folder where none runs. */
async function reach<T>(
  { connect, dataFolder }: Pick<Invocation, 'connect' | 'dataFolder'>,
  ask: (client: ControlClient) => Promise<T>,
  use: (store: StoreOperations) => Promise<T>,
): Promise<T> {
  const client = await connect().catch((error) => {
    if (error instanceof EclipticError && error.code === 'NO_NODE') return undefined;
    throw error;
  });
  if (client) return ask(client);
  const folder = await dataFolder();
  const [{ openStore, TABLES }, operations, { hasSqliteStore }, { systemRuntime }] = await Promise.all([
    import('../node/tables.js'),
    import('../node/control/store-operations.js'),
    import('../node/migrate-sqlite.js'),
    import('../runtime/system-runtime.js'),
  ]);
  // A store is not created just to be looked at.
  if (!existsSync(join(folder, 'store')) && !hasSqliteStore(folder)) {
    throw new EclipticError('DATA_FOLDER', `there is no store in ${folder}`, { folder });
  }
  const logger = pino({ level: 'warn' }, pino.destination({ dest: 2, sync: true }));
  const store = await openStore(folder, { runtime: systemRuntime({ logger }) });
  return use(new operations.StoreOperations(store, TABLES, folder)).finally(() => store.close());
}

export const verbs = { check, compact, export: exportAll, backup, restore };
