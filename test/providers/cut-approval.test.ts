import { fileURLToPath } from 'node:url';
import { describe, expect, it, vi } from 'vitest';
import type { Answered, Waiting, WaitingItem } from '../../src/http/dashboard/facts.js';
import { ServerNetwork } from '../nats/server-network.js';
import { finish, inCluster, type ProcessNode, until, untilConnected } from '../nodes/cluster.js';

vi.setConfig({ testTimeout: 180_000 });

const AGENT = fileURLToPath(new URL('acp-agent.mjs', import.meta.url));
const PORT = 7_201;

describe('an approval between two devices whose link is cut', () => {
  it(
    'is answered once, where the task was asked for, and the task loses nothing [AP.5]',
    inCluster(async (cluster) => {
      const network = await ServerNetwork.open(2);
      cluster.onEnd(() => network.close());
      const [there, here] = network.places;
      const desktop = await cluster.start('desktop', {
        args: ['--no-dht', '--listen', `${there!.host}:${PORT}`],
        config: { roster: false, agents: { mars: { acp: { command: process.execPath, args: [AGENT] } } } },
        within: there!.within,
      });
      const laptop = await cluster.start('laptop', {
        args: ['--no-dht', '--listen', `${here!.host}:${PORT}`],
        config: { roster: false },
        within: here!.within,
      });
      await desktop.admit(laptop, { owner: true });
      await untilConnected([desktop, laptop]);
      const cut = async () => {
        network.cut(0, ['clients']);
        await until(async () => (await laptop.stateOf(desktop)) !== 'connected', 'the laptop misses the desktop');
      };
      const heal = () => network.heal(0, ['clients']);
      const task = (text: string) =>
        finish(cluster.launch(['task', 'send', 'mars@desktop', text, '--data', laptop.data], laptop.home));
      const shown = (node: ProcessNode) =>
        until(
          async () => (await node.call<Waiting>('waiting')).items[0],
          `${node.name} shows it`,
        ) as Promise<WaitingItem>;
      const answer = (node: ProcessNode, id: string, action: string) =>
        node.call<Answered>('waiting.answer', { id, action });
      const decided = async () =>
        await desktop.json<{ decision: { verdict: string; by: string } }[]>('approval', 'list', '--all');

      // The answer is given while the devices are apart; it arrives once, and the task goes on.
      const first = task('do:say before. \ndo:ask Edit a.txt\ndo:say . after');
      const { id } = await shown(laptop);
      await cut();
      expect(await answer(laptop, id, 'allow-once')).toMatchObject({ state: 'sent' });
      await expect(answer(laptop, id, 'deny')).rejects.toMatchObject({ code: 'ALREADY_ANSWERED' });
      expect((await desktop.call<Waiting>('waiting', { local: true })).items).toHaveLength(1);
      heal();
      const { code, stdout, stderr } = await first;
      expect({ code, stdout }, stderr).toEqual({ code: 0, stdout: 'before.  once. after \n' });
      await until(async () => (await laptop.call<Waiting>('waiting')).items.length === 0, 'the laptop learns of it');

      // Both devices answer while they are apart: the one at which the agent runs has the word, and the other is told.
      const second = task('do:ask Edit b.txt\ndo:say . after');
      const other = await shown(laptop);
      await cut();
      expect(await answer(laptop, other.id, 'allow-once')).toMatchObject({ state: 'sent' });
      const [own] = (await desktop.call<Waiting>('waiting', { local: true })).items;
      await answer(desktop, own!.id, 'deny');
      heal();
      expect(await second).toMatchObject({ code: 0, stdout: 'no. after \n' });
      const refused = await until(async () => {
        const [item] = (await laptop.call<Waiting>('waiting')).items;
        return item?.answer?.state === 'refused' ? item.answer : undefined;
      }, 'the late answer is refused');
      expect(refused).toMatchObject({ action: 'allow-once', reason: expect.stringContaining('deny') });
      expect((await decided()).map(({ decision: { verdict } }) => verdict)).toEqual(['allow-once', 'deny']);
    }),
  );
});
