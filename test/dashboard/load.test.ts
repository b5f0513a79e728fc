import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { inCluster, type ProcessNode, SOAK } from '../nodes/cluster.js';
import { browse } from './browser.js';

vi.setConfig({ testTimeout: 240_000 });

const PER_SECOND = 5_000;
const SECONDS = SOAK ? 60 : 6;
const MIB = 1_048_576;

/** Sends messages at a steady rate until its time is over, and returns their number. */
const AGENTS = `
export const setup = (agent) => {
  if (agent.id === 'sink') return agent.onNotification(() => {});
  agent.onRequest(async ({ payload: { perSecond, forMs } }) => {
    const started = performance.now();
    let count = 0;
    while (performance.now() - started < forMs) {
      const due = ((performance.now() - started) * perSecond) / 1_000;
      while (count < due) {
        void agent.send('sink', { step: count++, text: 'build the login page' });
        if (count % 100 === 0) await new Promise(setImmediate);
      }
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    return { count };
  });
};`;

function residentBytes({ ready: { pid } }: ProcessNode): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) * 1_024;
}

describe('the page at a high rate of messages', () => {
  it(
    `stays usable at ${PER_SECOND} messages a second for ${SECONDS} s, says that it samples, and takes no more memory [FC.13]`,
    inCluster(async (cluster) => {
      const module = join(cluster.folder, 'agents.mjs');
      writeFileSync(module, AGENTS);
      const node = await cluster.start('desk', {
        args: ['--no-dht'],
        config: { roster: false, agents: { source: { tier: 0, module }, sink: { tier: 1, module } } },
      });
      const { page, context, faults } = await browse(cluster);
      await page.goto((await node.json<{ url: string }>('open')).url);
      await page.getByText('Nothing waits for you.').waitFor();
      const devtools = await context.newCDPSession(page);
      const heap = async () => {
        await devtools.send('HeapProfiler.collectGarbage');
        const { usedSize } = (await devtools.send('Runtime.getHeapUsage')) as { usedSize: number };
        return usedSize;
      };
      const payload = { perSecond: PER_SECOND, forMs: SECONDS * 1_000 };
      const flood = node.call<{ count: number }>('request', { as: 'sink', to: 'source', payload, timeoutMs: 120_000 });
      await page.getByText(/^sampled: \d+ of [\d,]+ messages/).waitFor();
      await delay((SECONDS * 1_000) / 3);
      const [pageBefore, nodeBefore] = [await heap(), residentBytes(node)];
      for (const name of ['Messages', 'Agents']) {
        await page.getByRole('navigation').getByRole('link', { name }).click({ timeout: 2_000 });
        await page.getByRole('heading', { name, exact: true }).waitFor({ timeout: 2_000 });
      }
      await page.locator('.message').first().waitFor();
      await delay((SECONDS * 1_000) / 3);
      const said = await page
        .getByText(/^sampled: /)
        .first()
        .textContent();
      const [, shown, total] = /^sampled: (\d+) of ([\d,]+)/.exec(said!)!;
      expect(Number(shown)).toBeLessThanOrEqual(50);
      expect(Number(total!.replaceAll(',', ''))).toBeGreaterThan(PER_SECOND / 2);
      expect((await heap()) - pageBefore).toBeLessThan(4 * MIB);
      if (SOAK) expect(residentBytes(node) - nodeBefore).toBeLessThan(100 * MIB);
      const { count } = await flood;
      expect(count).toBeGreaterThan(PER_SECOND * SECONDS * 0.9);
      // The page's last lines are those of the journal.
      await page
        .getByText(/^sampled: /)
        .first()
        .waitFor({ state: 'detached' });
      await node.call('send', { as: 'source', to: 'sink', payload: 'the last one', type: 'notification' });
      await page.locator('.message', { hasText: 'the last one' }).waitFor();
      expect(faults).toEqual([]);
    }),
  );
});
