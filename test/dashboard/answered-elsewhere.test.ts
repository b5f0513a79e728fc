import { describe, expect, it, vi } from 'vitest';
import type { Waiting } from '../../src/http/dashboard/facts.js';
import { CodingAgent } from '../coding-agents/coding-agent.js';
import { inCluster } from '../nodes/cluster.js';
import { browse } from './browser.js';

vi.setConfig({ testTimeout: 90_000 });

const MAILS = ['one', 'two', 'three', 'four', 'five'];

describe('an item that is answered elsewhere', () => {
  it(
    'stays selected as a closed line that no key answers; the owner’s own answer selects the neighbour [FC.19]',
    inCluster(async (cluster) => {
      const node = await cluster.start('desk', { args: ['--no-dht'] });
      const alice = await CodingAgent.start(cluster, ['--as', 'alice', '--data', node.data]);
      for (const text of MAILS) await alice.call('mesh_send', { to: 'operator', text, needs: 'reply' });
      const titles = async () => (await node.json<Waiting>('waiting')).items.map(({ title }) => title);
      const { items } = await node.json<Waiting>('waiting');
      const idOf = (title: string) => items.find((item) => item.title === title)!.id;
      const { page, faults } = await browse(cluster);
      await page.goto(node.ready.page);
      const selected = (title: string) => page.locator('.item.is-selected:not(.is-closed)', { hasText: title });
      const closed = page.locator('.item.is-closed');
      await selected('one').waitFor();
      await page.keyboard.press('j');
      await selected('two').waitFor();

      await node.json('waiting', 'answer', idOf('two'), 'done');
      await closed.getByText(/answered on desk, done, \d+ s ago/).waitFor();
      expect(await page.locator('.item .title').allTextContents()).toEqual(MAILS);
      expect(await closed.getAttribute('class')).toContain('is-selected');
      expect(await page.locator('.item .open').count()).toBe(0);
      for (const key of ['d', 'r', 'a', 'A']) await page.keyboard.press(key);
      await page.keyboard.press('j');
      await selected('three').waitFor();
      expect(await closed.count()).toBe(0);
      expect(await titles()).toEqual(['one', 'three', 'four', 'five']);

      await page.keyboard.press('d');
      await selected('four').waitFor();
      await page.getByText('Closed: three').waitFor();
      // Meant for the item before it.
      await page.keyboard.press('d');
      await page.keyboard.press('j');
      await selected('five').waitFor();
      await page.keyboard.press('d');
      await selected('four').waitFor();
      expect(await titles()).toEqual(['one', 'four']);

      await page.keyboard.press('k');
      await page.keyboard.press('r');
      await page.getByLabel('Your reply').fill('Use ');
      await node.json('waiting', 'answer', idOf('one'), 'reply', 'No.');
      await closed.getByText(/answered on desk, reply, \d+ s ago/).waitFor();
      await page.keyboard.type('jd');
      await page.keyboard.press('Control+Enter');
      expect(await page.getByLabel('Your reply').inputValue()).toBe('Use jd');
      await page.getByText('Your text was not sent.').waitFor();
      expect(await titles()).toEqual(['four']);
      await page.keyboard.press('Escape');
      await page.locator('h2').first().click();
      await page.keyboard.press('k');
      await selected('four').waitFor();

      await node.call('owner.done', { ids: [idOf('four').slice('mail:'.length)] });
      await closed.getByText('no longer waits: answered elsewhere, withdrawn or expired').waitFor();
      await page.getByText('Nothing waits for you.').waitFor();
      await closed.locator('.head').click();
      await closed.waitFor({ state: 'detached' });
      expect(faults).toEqual([]);
    }),
  );
});
