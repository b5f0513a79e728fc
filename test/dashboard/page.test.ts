import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { describe, expect, it, vi } from 'vitest';
import type { Waiting } from '../../src/http/dashboard/facts.js';
import { CodingAgent } from '../coding-agents/coding-agent.js';
import { idsIn } from '../coding-agents-fixture.js';
import { inCluster, until } from '../nodes/cluster.js';
import { BIN, ROOT } from '../source-files.js';
import { browse } from './browser.js';
import { linkOf, nodeWithModel } from './desk.js';

vi.setConfig({ testTimeout: 90_000 });

const MARKUP = '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 1"><b>bold</b>';
/** Where pictures go that a person wants to look at. */
const SHOTS = process.env.ECLIPTIC_SHOTS;

describe('the page in a browser', () => {
  it(
    'shows an approval request with its details, and the work goes on when a key allows it [FC.6]',
    inCluster(async (cluster) => {
      const node = await nodeWithModel(cluster);
      const { page, faults } = await browse(cluster);
      await page.goto(node.ready.page);
      expect(page.url()).not.toContain('token');
      await page.getByText('Nothing waits for you.').waitFor();
      await page.getByRole('link', { name: 'Agents', exact: true }).click();
      const unstaffed = page.locator('tr.is-hollow', { hasText: 'venus' });
      expect(await unstaffed.textContent()).toContain('ecliptic staff --roles venus');
      expect(await page.locator('tr', { hasText: 'mars' }).first().textContent()).toContain('ready');

      const asked = node.request<string>('sun', 'mars', { text: 'Write the login page.' });
      const item = page.locator('.item[data-kind=approval]');
      await item.waitFor();
      expect(await item.textContent()).toMatch(/mars.*fs\.write.*login\.js/s);
      expect(await item.locator('.diff').textContent()).toBe('+export const login = 1;\n');
      const { items } = await node.json<Waiting>('waiting');
      expect(items[0]).toMatchObject({
        id: expect.stringMatching(/^approval:/),
        actions: ['allow-once', 'allow-always', 'deny'],
      });
      await page.keyboard.press('j');
      await page.keyboard.press('a');
      expect(JSON.stringify(await asked)).toContain('Wrote 24 characters to login.js.');
      await page.getByText('Nothing waits for you.').waitFor();
      expect(await node.json('waiting')).toEqual({ items: [], missing: [] });
      await page.getByRole('link', { name: 'Messages' }).click();
      await page.locator('.message', { hasText: 'sun → mars' }).first().waitFor();

      const again = node.request('sun', 'mars', { text: 'Write it again.' }).catch((error: Error) => error.message);
      await item.waitFor();
      // Selects it, as a key is not taken for an item that has just come.
      await page.keyboard.press('j');
      await page.keyboard.press('d');
      await again;
      await item.waitFor({ state: 'detached' });
      expect(faults).toEqual([]);
    }),
  );

  it(
    'shows markup of agents as text, and sends a reply to mail [FC.7]',
    inCluster(async (cluster) => {
      const node = await nodeWithModel(cluster);
      const alice = await CodingAgent.start(cluster, ['--as', 'alice', '--data', node.data]);
      const told = idsIn(await alice.call('mesh_send', { to: 'operator', text: MARKUP, needs: 'reply' }));
      await node.call('send', { as: 'sun', to: 'mars', payload: MARKUP, type: 'notification' });
      await node.call('send', { as: 'mercury', to: 'mars', payload: MARKUP, type: 'request' }).catch(() => {});
      const { page, faults } = await browse(cluster);
      await page.goto(await linkOf(node));
      const mail = page.locator('.item[data-kind=mail]');
      await mail.waitFor();
      expect(await mail.textContent()).toContain(MARKUP);
      await page.getByRole('link', { name: 'Messages' }).click();
      await page.locator('.message', { hasText: MARKUP }).first().waitFor();
      await page.locator('.message', { hasText: 'refused TIER_VIOLATION' }).first().waitFor();
      await page.keyboard.press('j');
      await page.keyboard.press('r');
      await page.getByLabel('Your reply').fill('Use 1.2 & <b>no markup</b>.');
      await page.keyboard.press('Control+Enter');
      await mail.waitFor({ state: 'detached' });
      expect(await alice.call('mesh_inbox')).toContain('Use 1.2 & <b>no markup</b>.');
      expect(await node.json<{ state: string }>('receipt', told[0]!)).toMatchObject({ state: 'replied' });
      expect(await page.evaluate('window.hacked')).toBeUndefined();
      expect(await page.locator('b, img, iframe').count()).toBe(0);
      expect(faults).toEqual([]);
    }),
  );

  it(
    'opens once by each link, and says how to get another one [FC.1]',
    inCluster(async (cluster) => {
      const node = await nodeWithModel(cluster);
      const link = await linkOf(node);
      const { page, context } = await browse(cluster);
      await page.goto(link);
      await page.getByText('Nothing waits for you.').waitFor();
      await page.reload();
      await page.getByText('Nothing waits for you.').waitFor();
      await context.clearCookies();
      const second = await context.newPage();
      await second.goto(link);
      await second.getByText('The link was used before').waitFor();
      expect(await second.locator('pre').textContent()).toBe('ecliptic open');
      const third = await context.newPage();
      await third.goto(node.ready.http);
      await third.getByText('You have no session here').waitFor();
      await third.goto('about:blank');
      await third.goto(await linkOf(node));
      await third.getByText('Nothing waits for you.').waitFor();
      expect(await node.json('open', '--revoke')).toEqual({ ended: 2 });
      await third.getByText('You have no session here').waitFor();
    }),
  );

  it(
    'is opened in the browser of a desktop, by a link that other users of the machine cannot see [FC.12]',
    inCluster(async (cluster) => {
      const node = await nodeWithModel(cluster);
      const programs = join(cluster.folder, 'programs');
      const opened = join(cluster.folder, 'opened');
      mkdirSync(programs);
      writeFileSync(
        join(programs, 'xdg-open'),
        `#!/bin/sh\necho "$1" > '${opened}.part' && mv '${opened}.part' '${opened}'\n`,
        {
          mode: 0o755,
        },
      );
      const { SSH_CONNECTION: _, CI: __, BROWSER: ___, ...env } = process.env;
      const desktop = { ...env, PATH: `${programs}:${env.PATH}`, DISPLAY: ':1' };
      const [printed] = execFileSync(BIN, ['open', '--data', node.data], { env: desktop, encoding: 'utf8' }).split(
        '\n',
      );
      await until(async () => existsSync(opened), 'the browser is started');
      const address = readFileSync(opened, 'utf8').trim();
      expect(address).not.toContain('token');
      expect(statSync(fileURLToPath(address)).mode & 0o077).toBe(0);
      const { page } = await browse(cluster);
      await page.goto(address);
      await page.getByText('Nothing waits for you.').waitFor();
      expect(printed).toMatch(/^http:.*#token=/);
    }),
  );

  it(
    'marks its data stale while the node is away, and goes on when it is back [FC.8]',
    inCluster(async (cluster) => {
      const node = await nodeWithModel(cluster);
      const { page, faults } = await browse(cluster);
      await page.goto(await linkOf(node));
      await page.getByRole('link', { name: 'Messages' }).click();
      await node.call('send', { as: 'sun', to: 'mars', payload: 'before', type: 'notification' });
      await page.locator('.message', { hasText: 'before' }).waitFor();
      await node.crash();
      await page.locator('.connection', { hasText: 'stale' }).waitFor();
      expect(await page.locator('.message', { hasText: 'before' }).count()).toBe(1);
      if (SHOTS) await page.screenshot({ path: join(SHOTS, 'stale.png') });
      for (const name of ['Providers', 'Metrics', 'Documents']) {
        await page.getByRole('link', { name, exact: true }).click();
        const unread = 'stale: Not read yet: the node does not answer.';
        await page.locator(`main.view-${name.toLowerCase()}`, { hasText: unread }).first().waitFor();
        // Nor headings above nothing.
        if (name === 'Providers') expect(await page.locator('main h3').count()).toBe(0);
      }
      await page.getByRole('link', { name: 'Messages' }).click();
      await node.start();
      await node.call('send', { as: 'sun', to: 'mars', payload: 'after', type: 'notification' });
      await page.locator('.connection', { hasText: 'live' }).waitFor();
      await page.locator('.message', { hasText: 'after' }).waitFor();
      expect(await page.locator('.message', { hasText: 'before' }).count()).toBe(1);
      void node.request('sun', 'mars', { text: 'Write the login page.' }).catch(() => {});
      await page.locator('.item[data-kind=approval]').waitFor();
      await node.crash();
      await page.locator('.connection', { hasText: 'stale' }).waitFor();
      // Selects it, as a key is not taken for an item that has just come.
      await page.keyboard.press('j');
      await page.keyboard.press('d');
      await page.locator('.notice', { hasText: /^The node does not answer; nothing was sent\.$/ }).waitFor();
      await node.start();
      await page.locator('.connection', { hasText: 'live' }).waitFor();
      await page.keyboard.press('j');
      await page.keyboard.press('d');
      await page.getByText('Nothing waits for you.').waitFor();
      expect(faults).toEqual([]);
    }),
  );

  it(
    'fits on a screen of 400 pixels, in the dark and in the light [FC.9]',
    inCluster(async (cluster) => {
      const node = await nodeWithModel(cluster);
      const alice = await CodingAgent.start(cluster, ['--as', 'alice', '--data', node.data]);
      await alice.call('mesh_send', { to: 'operator', text: `Which branch?\n${'long '.repeat(60)}`, needs: 'reply' });
      void node.request('sun', 'mars', { text: 'Write the login page.' }).catch(() => {});
      await node.call('send', { as: 'mercury', to: 'mars', payload: 'x'.repeat(400), type: 'request' }).catch(() => {});
      for (const scheme of ['dark', 'light'] as const) {
        for (const width of [400, 1_280]) {
          const { page, context } = await browse(cluster, { width, scheme });
          await page.goto(await linkOf(node));
          await page.locator('.item[data-kind=approval]').waitFor();
          const own = ['Overview', 'Agents', 'Messages', 'Policy', 'Mesh', 'Metrics'];
          const names = width === 400 ? ['Needs you', ...own] : own;
          for (const name of names) {
            await page.getByRole('navigation').getByRole('link', { name }).click();
            const wide = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
            expect(await page.evaluate(wide), `${name} at ${width}`).toBe(0);
            if (SHOTS) await page.screenshot({ path: join(SHOTS, `${name}-${width}-${scheme}.png`.replace(' ', '-')) });
          }
          const ground = await page.evaluate('getComputedStyle(document.body).backgroundColor');
          expect(ground).toBe(scheme === 'dark' ? 'rgb(15, 18, 23)' : 'rgb(251, 250, 247)');
          await page.emulateMedia({ contrast: 'more' });
          if (SHOTS) await page.screenshot({ path: join(SHOTS, `contrast-${width}-${scheme}.png`) });
          const text = await page.evaluate('getComputedStyle(document.body).color');
          expect(text).toBe(scheme === 'dark' ? 'rgb(255, 255, 255)' : 'rgb(0, 0, 0)');
          await context.close();
        }
      }
    }),
  );

  it('needs no file from elsewhere, and few bytes [FC.9]', () => {
    const file = (name: string) => join(ROOT, 'dist', 'web', name);
    const names = ['index.html', 'page.js', 'charts.js', 'page.css', 'docs.css'];
    expect(readdirSync(join(ROOT, 'dist', 'web')).sort()).toEqual([...names].sort());
    expect(readFileSync(file('page.css'), 'utf8')).not.toMatch(/url\(|@import/);
    const sizes = names.map((name) => gzipSync(readFileSync(file(name))).length);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(200_000);
  });
});
