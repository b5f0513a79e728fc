import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';
import { describe, expect, it, vi } from 'vitest';
import { CodingAgent } from '../coding-agents/coding-agent.js';
import { inCluster } from '../nodes/cluster.js';
import { browse } from './browser.js';
import { linkOf, nodeWithModel } from './desk.js';

vi.setConfig({ testTimeout: 180_000 });

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Finding {
  readonly id: string;
  readonly impact: string | null;
  readonly nodes: readonly { readonly html: string }[];
}

/** Serious findings of axe, as short texts. The devtools protocol runs it, so the page's policy stays in force. */
async function serious(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const { violations, passes } =
    await page.evaluate<Record<'violations' | 'passes', readonly Finding[]>>('axe.run(document)');
  expect(passes.length).toBeGreaterThan(10);
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(' | ')}`);
}

describe('every view of the page', () => {
  it(
    'has no serious finding of axe, in both themes, on wide and narrow screens [FC.15]',
    inCluster(async (cluster) => {
      const node = await nodeWithModel(cluster);
      const alice = await CodingAgent.start(cluster, ['--as', 'alice', '--data', node.data]);
      await alice.call('mesh_send', { to: 'operator', text: 'Which branch?', needs: 'reply' });
      void node.request('sun', 'mars', { text: 'Write the login page.' }).catch(() => {});
      await node.call('send', { as: 'mercury', to: 'mars', payload: 'hi', type: 'request' }).catch(() => {});
      const sent = await node.call<{ envelopeId?: string }>('send', { as: 'sun', to: 'venus', payload: 'x' });
      expect(sent).toBeDefined();
      for (const scheme of ['dark', 'light'] as const) {
        for (const width of [1_280, 400]) {
          const { page, context, faults } = await browse(cluster, { width, scheme });
          await page.goto(await linkOf(node));
          await page.locator('.item[data-kind=approval]').waitFor();
          const links = page.getByRole('navigation').getByRole('link');
          for (const name of await links.allTextContents()) {
            await links.filter({ hasText: name }).click();
            await page.locator('main h2').waitFor();
            expect(await serious(page), `${name} at ${width}, ${scheme}`).toEqual([]);
            const wide = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
            expect(await page.evaluate(wide), `${name} at ${width}`).toBe(0);
          }
          const [refused] = await node.json<{ envelopeId: string }[]>('log', '--agent', 'mercury');
          await page.getByRole('searchbox').fill(refused!.envelopeId);
          await page.keyboard.press('Enter');
          await page.locator('ol .story-row').waitFor();
          expect(await serious(page), `a story at ${width}, ${scheme}`).toEqual([]);
          await page.locator('main').focus();
          await page.keyboard.press('?');
          await page.getByRole('dialog').waitFor();
          expect(await serious(page), `keys at ${width}, ${scheme}`).toEqual([]);
          expect(faults).toEqual([]);
          await context.close();
        }
      }
    }),
  );

  it(
    'is reached, read and answered without a mouse [FC.16]',
    inCluster(async (cluster) => {
      const node = await nodeWithModel(cluster);
      const { page, faults } = await browse(cluster);
      await page.goto(await linkOf(node));
      await page.getByText('Nothing waits for you.').waitFor();
      await page.keyboard.press('Tab');
      expect(await page.evaluate('document.activeElement.className')).toBe('skip');
      await page.keyboard.press('Enter');
      expect(await page.evaluate('document.activeElement.id')).toBe('view');
      await page.keyboard.type('ge');
      await page.getByRole('heading', { name: 'Messages', exact: true }).waitFor();
      await page.keyboard.type('ga');
      await page.getByRole('heading', { name: 'Agents', exact: true }).waitFor();
      const asked = node.request<unknown>('sun', 'mars', { text: 'Write the login page.' });
      await page.locator('.item[data-kind=approval]').waitFor();
      await page.keyboard.press('j');
      await page.keyboard.press('a');
      expect(JSON.stringify(await asked)).toContain('Wrote 24 characters to login.js.');
      await page.keyboard.press('/');
      await page.keyboard.type('login');
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'Messages', exact: true }).waitFor();
      await page.keyboard.press('?');
      await page.getByRole('dialog').waitFor();
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      expect(faults).toEqual([]);
    }),
  );
});
