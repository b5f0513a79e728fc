import { cpSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import type { MailRow } from '../../src/node/control/rows.js';
import { inCluster, type ProcessNode, until, untilConnected } from './cluster.js';

vi.setConfig({ testTimeout: 120_000 });

const ALONE = { roster: false, agents: { ann: { tier: 0 }, bob: { tier: 0 } } } as const;

async function send(from: ProcessNode, to: ProcessNode, text: string): Promise<void> {
  await from.call('send', { as: 'ann', to: `bob@${to.key}`, payload: text, durable: true });
}

describe.concurrent('data folders of real processes', () => {
  it(
    'can be restored from a copy without loss of mail, and a lost device can be removed after a restart [T-F5 T-F1]',
    inCluster(async (cluster) => {
      const args = await cluster.argsFor('websocket');
      const [a, b] = await Promise.all([
        cluster.start('a', { args, config: ALONE }),
        cluster.start('b', { args, config: ALONE }),
      ]);
      await a.admit(b);
      await untilConnected([a, b]);
      const receipts = () => a.call<MailRow[]>('outbox');
      await send(a, b, 'one');
      await until(async () => (await receipts()).length === 0, 'the outbox is empty');
      await a.stop();
      const copy = `${a.data}.copy`;
      cpSync(a.data, copy, { recursive: true });
      await a.start();
      await untilConnected([a, b]);
      await send(a, b, 'two');
      await until(async () => (await receipts()).length === 0, 'the outbox is empty');
      await a.stop();
      rmSync(a.data, { recursive: true });
      cpSync(copy, a.data, { recursive: true });
      await a.start();
      await untilConnected([a, b]);
      await send(a, b, 'three');
      // Nothing stays in the outbox: the receiver has taken it.
      await until(async () => (await receipts()).length === 0, 'the outbox is empty');
      for (const node of [a, b]) {
        await until(
          async () => JSON.stringify((await node.doctor()).findings).includes('put back from'),
          'doctor tells of the restored store',
        );
      }
      await b.stop();
      await a.stop();
      await a.start();
      expect(await a.peers()).toMatchObject([{ node: b.key, name: 'b', state: 'connecting' }]);
      await a.call('peers.remove', { node: b.key });
      expect(await a.peers()).toEqual([]);
    }),
  );

  it(
    'of a removed device say so in doctor, and one with a damaged mesh.json starts again without that file [T-B9]',
    inCluster(async (cluster) => {
      const args = await cluster.argsFor('websocket');
      const [a, b] = await Promise.all([
        cluster.start('a', { args, config: ALONE }),
        cluster.start('b', { args, config: ALONE }),
      ]);
      await a.admit(b);
      await untilConnected([a, b]);
      await a.call('peers.remove', { node: b.key });
      const own = async () => (await b.doctor()).findings.find(({ text }) => text.startsWith('member of mesh'));
      await until(async () => (await own())?.level === 'problem', 'doctor tells of the removal');
      expect((await own())!.text).toMatch(
        / says that this node was removed; to come back: ecliptic leave, and ecliptic join CODE$/,
      );
      await b.stop();
      await b.start();
      await until(async () => (await own())?.level === 'problem', 'doctor tells of the removal after a restart');
      await b.stop();
      const file = join(b.data, 'mesh.json');
      const whole = readFileSync(file, 'utf8');
      for (const damaged of [whole.slice(0, -5), whole.replace('"mesh":"', '"mesh":"x')]) {
        writeFileSync(file, damaged);
        const refused = await cluster.run(['up', '--data', b.data, ...args]);
        expect(refused.code).toBe(1);
        expect(refused.stderr).toMatch(/mesh\.json.*move it out of the data folder and join again with a new invite/);
      }
      renameSync(file, `${file}.damaged`);
      await b.start();
      expect((await b.doctor()).findings[0]!.text).toMatch(/^in no mesh/);
      await a.admit(b);
      await untilConnected([a, b]);
    }),
  );

  it(
    'that run twice at once are reported by the other node and by both processes, and no mail is lost [T-F5]',
    inCluster(async (cluster) => {
      const args = await cluster.argsFor('websocket');
      const [first, other] = await Promise.all([
        cluster.start('first', { args, config: ALONE }),
        cluster.start('other', { args, config: ALONE }),
      ]);
      await first.admit(other);
      await untilConnected([first, other]);
      await first.stop();
      const second = cluster.node('second', { args, config: ALONE });
      cpSync(first.data, second.data, { recursive: true });
      await Promise.all([first.start(), second.start()]);
      expect(second.key).toBe(first.key);
      const tells = async (node: ProcessNode, text: string) =>
        JSON.stringify((await node.doctor()).findings).includes(text);
      await until(() => tells(other, 'two processes run with its key'), 'the other node tells of both');
      for (const twin of [first, second]) {
        await until(() => tells(twin, 'another process runs with'), `${twin.name} tells of the other process`);
        await send(twin, other, `from ${twin.name}`);
      }
      const inbox = async () => JSON.stringify(await other.call('inbox', { as: 'bob' }));
      await until(
        async () => /from first/.test(await inbox()) && /from second/.test(await inbox()),
        'both mails are there',
      );
    }),
  );
});
