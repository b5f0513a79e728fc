import { describe, expect, it, vi } from 'vitest';
import type { EntryRow } from '../../src/node/control/rows.js';
import { inCluster } from '../nodes/cluster.js';
import { browse } from './browser.js';

vi.setConfig({ testTimeout: 90_000 });

const DEPLOY = 'orders is deployed with make ship';
const TEA = 'tea is in the third drawer';
const MARKUP = '<img src=x onerror="window.hacked = 1"> every change has a test';

describe('the view of the collections', () => {
  it(
    'lists, searches, adds and removes entries, and shows those of others at once [CO.8]',
    inCluster(async (cluster) => {
      const node = await cluster.start('a', { args: ['--no-dht'] });
      await node.json('memory', 'add', DEPLOY, '--tag', 'deploy', '--as', 'mars');
      const { page, faults } = await browse(cluster);
      await page.goto(node.ready.page);
      await page.locator('.connection', { hasText: 'live' }).waitFor();
      await page.keyboard.press('g');
      await page.keyboard.press('k');
      const row = (text: string) => page.locator('main tbody tr', { hasText: text });
      await row(DEPLOY).waitFor();
      expect(await row(DEPLOY).textContent()).toMatch(/deploy.*mars/);

      // What another writes appears without a reload.
      await node.json('memory', 'add', TEA);
      await row(TEA).waitFor();
      expect(await row(TEA).textContent()).toContain('you');
      const search = page.getByRole('searchbox', { name: 'Search', exact: true }).last();
      await search.fill('how do I deploy');
      await row(TEA).waitFor({ state: 'detached' });
      await row(DEPLOY).waitFor();
      await search.fill('nothing like it');
      await page.getByText('No entry fits.').waitFor();
      await search.fill('');
      await row(TEA).waitFor();
      await row(DEPLOY).getByRole('button', { name: 'deploy', exact: true }).click();
      await row(TEA).waitFor({ state: 'detached' });
      await page.getByRole('button', { name: 'Show entries with other tags' }).click();
      await row(TEA).waitFor();

      await page.getByRole('tab', { name: 'House rules' }).click();
      await page.getByText('There are no entries yet.').waitFor();
      const form = page.getByRole('form', { name: 'Add a rule' });
      await form.getByLabel('Text').fill(MARKUP);
      await form.getByLabel('Tags').fill('tests, review');
      await page.keyboard.press('Control+Enter');
      await row('every change has a test').waitFor();
      expect(await node.json<EntryRow[]>('rules', 'list')).toMatchObject([
        { text: MARKUP, tags: ['tests', 'review'], owner: true },
      ]);
      expect(await page.evaluate('window.hacked')).toBeUndefined();

      await row('every change has a test').getByRole('button', { name: 'Forget' }).press('Enter');
      expect(await node.json<EntryRow[]>('rules', 'list')).toHaveLength(1);
      await page.keyboard.press('Enter');
      await row('every change has a test').waitFor({ state: 'detached' });
      expect(await node.json('rules', 'list')).toEqual([]);
      expect(faults).toEqual([]);
    }),
  );
});
