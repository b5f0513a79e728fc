import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { inCluster } from '../nodes/cluster.js';
import { browse } from './browser.js';
import { seedDemo } from './demo.js';
import { linkOf } from './desk.js';

vi.setConfig({ testTimeout: 180_000 });

/** `npm run docs:shots` takes the pictures of the documentation here. */
const SHOTS = process.env.ECLIPTIC_SHOTS;

/** Few, because every clone carries them. */
const PICTURES: ReadonlySet<string> = new Set(['overview', 'story']);

/** A text that each view shows in the demo. */
const VIEWS: readonly (readonly [place: string, text: string | RegExp])[] = [
  ['agents', 'phobos'],
  ['messages', 'refused TIER_VIOLATION'],
  ['mail', 'Which branch do I start from?'],
  ['tasks', 'login-page'],
  ['swarms', 'Review the login page'],
  ['documents', 'release-notes'],
  ['documents/release-notes', 'A login page, with sessions.'],
  ['memory', 'There are no entries yet.'],
  ['providers', 'saturn'],
  ['tools', 'jupiter.outline'],
  ['policy', 'TIER_VIOLATION'],
  ['mesh', 'laptop'],
  ['metrics', /messages/i],
  ['send', 'Send'],
];

describe('a tour of the page', () => {
  it(
    'shows in each view what the node has [FC.17]',
    inCluster(async (cluster) => {
      const { desk, refused } = await seedDemo(cluster);
      const { page, faults } = await browse(cluster, { width: 1_440 });
      if (SHOTS) mkdirSync(SHOTS, { recursive: true });
      await page.goto(await linkOf(desk));
      await page.locator('.item[data-kind=approval]').waitFor();
      await page.keyboard.press('j');
      const views = [['', /./], ...VIEWS, [`story/${refused}`, 'TIER_VIOLATION']] as typeof VIEWS;
      for (const [place, text] of views) {
        await page.evaluate(`location.hash = '#/${place}'`);
        await page.locator('main').getByText(text).first().waitFor();
        expect(await page.locator('main [role=alert]').allTextContents(), place).toEqual([]);
        if (SHOTS) {
          // The last read of the view has arrived and is drawn.
          await page.waitForLoadState('networkidle', { timeout: 1_500 }).catch(() => {});
          const name = place.split('/')[0] || 'overview';
          if (PICTURES.has(name)) await page.screenshot({ path: join(SHOTS, `${name}.png`) });
        }
      }
      expect(faults).toEqual([]);
    }),
  );
});
