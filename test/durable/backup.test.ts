import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import type { MailRow } from '../../src/node/control/rows.js';
import { inCluster, type ProcessNode, until } from '../nodes/cluster.js';
import { stablePorts } from '../ports.js';

vi.setConfig({ testTimeout: 120_000 });

const ALONE = { roster: false, agents: { sun: { tier: 0 as const }, mars: { tier: 2 as const } } };

describe('ecliptic backup', () => {
  it(
    'of a node under load has all that was stored before it; restored, nothing is lost or repeated [FM.backup]',
    inCluster(async (cluster) => {
      const [ports] = [await stablePorts(2)];
      const [a, b] = await Promise.all(
        ['a', 'b'].map((name, at) =>
          cluster.start(name, { args: ['--no-dht', '--listen', `127.0.0.1:${ports[at]}`], config: ALONE }),
        ),
      );
      await a!.admit(b!);
      await until(async () => (await a!.agents()).length === 4, 'the agents of both nodes are known');
      // The messages wait at the sender.
      await b!.crash();
      const send = (number: number) =>
        a!.call('send', { as: 'sun', to: `mars@${b!.key}`, payload: number, durable: true });
      for (let number = 0; number < 50; number++) await send(number);
      let more = 50;
      let over = false;
      const load = (async () => {
        while (!over) await send(more++);
      })();
      const folder = join(cluster.folder, 'backup');
      const made = await a!.run('backup', folder, '--json');
      expect(made, made.stderr).toMatchObject({ code: 0 });
      over = true;
      await load;
      expect(JSON.parse(made.stdout).folder).toBe(folder);
      expect(statSync(folder).mode & 0o777).toBe(0o700);
      expect(readdirSync(folder).filter((name) => /sock|lock|incomplete/.test(name))).toEqual([]);

      await a!.crash();
      const again = cluster.node('restored', {
        args: ['--no-dht', '--listen', `127.0.0.1:${ports[0]}`],
        config: ALONE,
      });
      const restored = await cluster.run(['restore', folder, '--data', again.data, '--json'], again.home);
      expect(restored, restored.stderr).toMatchObject({ code: 0 });
      expect(JSON.parse(restored.stdout)).toMatchObject({ intact: true, damages: [] });
      await Promise.all([again.start(), b!.start()]);
      expect(again.key).toBe(a!.key);
      await until(async () => (await mailOf(b!)).length >= 50, 'the messages of the backup arrive');
      await again.call('send', { as: 'sun', to: `mars@${b!.key}`, payload: 'last', durable: true });
      const arrived = await until(async () => {
        const mail = await mailOf(b!);
        return mail.at(-1) === 'last' ? mail : undefined;
      }, 'a message that is sent after the restore arrives');
      const numbers = arrived.slice(0, -1) as number[];
      expect(numbers).toEqual(numbers.map((_, index) => index));
      expect(numbers.length).toBeGreaterThanOrEqual(50);
      expect(JSON.stringify(await again.doctor())).toMatch(/epoch/);
    }),
  );

  it(
    'writes into a new folder only, and restores into an empty one only [FM.backup]',
    inCluster(async (cluster) => {
      const node = await cluster.start('a', { args: ['--no-dht'], config: ALONE });
      const taken = join(cluster.folder, 'taken');
      mkdirSync(taken);
      expect(await node.run('backup', taken)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('exists already'),
      });
      const inside = join(node.data, 'copy');
      expect(await node.run('backup', inside)).toMatchObject({ code: 2, stderr: expect.stringContaining('inside') });
      const unwritable = '/proc/ecliptic/backup';
      expect(await node.run('backup', unwritable)).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('DATA_FOLDER'),
      });
      expect(existsSync(inside)).toBe(false);
      // A stopped node is backed up as well.
      await node.stop();
      const good = join(cluster.folder, 'good');
      expect(await node.run('backup', good)).toMatchObject({ code: 0 });
      expect(await cluster.run(['restore', taken, '--data', join(cluster.folder, 'x')])).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('is no backup'),
      });
      writeFileSync(join(taken, 'note'), 'mine');
      expect(await cluster.run(['restore', good, '--data', taken])).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('not empty'),
      });
      expect(readdirSync(taken)).toEqual(['note']);
    }),
  );
});

/** The payloads that wait in the inbox of mars, which is listed in pages. */
async function mailOf(node: ProcessNode): Promise<unknown[]> {
  const rows: MailRow[] = [];
  for (;;) {
    const page = await node.call<MailRow[]>('inbox', { as: 'mars', after: rows.at(-1)?.number ?? 0 });
    if (page.length === 0) return rows.map(({ payload }) => payload);
    rows.push(...page);
  }
}
