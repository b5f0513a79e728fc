import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect, it, vi } from 'vitest';
import { type Cluster, inCluster, type ProcessNode, until } from '../nodes/cluster.js';
import { ScriptedModel } from '../scripted-model.js';
import { ROOT } from '../source-files.js';
import { browse } from './browser.js';

vi.setConfig({ testTimeout: 90_000 });

async function open(cluster: Cluster, node: ProcessNode, width = 1_280) {
  const { page, faults } = await browse(cluster, { width });
  await page.goto((await node.json<{ url: string }>('open')).url);
  return { page, faults };
}

/** The facts that the canvas tells about its picture. */
async function facts(page: Page): Promise<Record<string, string>> {
  return JSON.parse(await page.evaluate("JSON.stringify({ ...document.querySelector('.orrery canvas').dataset })"));
}

function shows(page: Page, wanted: Record<string, string>): Promise<void> {
  const selector = Object.entries(wanted).map(([name, value]) => `[data-${name}="${value}"]`);
  return page.locator(`.orrery canvas${selector.join('')}`).waitFor();
}

/** Each agent is a body; the owner becomes one with the first page. */
async function showsAll(page: Page, node: ProcessNode): Promise<void> {
  await page.locator('.orrery canvas[data-bodies]').waitFor();
  const isSo = async () => (await facts(page)).bodies === String((await node.agents()).length);
  await until(isSo, 'all agents are bodies');
}

describe('the overview', () => {
  it(
    'draws messages, refusals and broadcasts, and rests when nothing happens [FC.51 FC.52]',
    inCluster(async (cluster) => {
      const node = await cluster.start('desk', { args: ['--no-dht'] });
      const { page, faults } = await open(cluster, node);
      await showsAll(page, node);
      const { bodies, labels, motion } = await facts(page);
      expect([labels, motion]).toEqual([bodies, 'moving']);
      await node.call('send', { as: 'sun', to: 'mars', payload: 'hello', type: 'notification' });
      await shows(page, { arcs: '1', refusals: '0' });
      await node.call('send', { as: 'mercury', to: 'mars', payload: 'hello', type: 'request' }).catch(() => {});
      await shows(page, { arcs: '1', refusals: '1' });
      await node.call('broadcast', { as: 'sun', payload: 'hello' });
      await shows(page, { waves: '1' });
      // Longer than the longest arc; that nothing is drawn can only be seen by looking twice.
      await page.waitForTimeout(1_500);
      const { frames } = await facts(page);
      await page.waitForTimeout(1_500);
      expect((await facts(page)).frames).toBe(frames);

      await page.emulateMedia({ reducedMotion: 'reduce' });
      await shows(page, { motion: 'still', flows: '0' });
      await node.call('send', { as: 'sun', to: 'mars', payload: 'hello', type: 'notification' });
      await shows(page, { arcs: '2', flows: '1' });
      await shows(page, { flows: '0' });
      expect(faults).toEqual([]);
    }),
  );

  it(
    'shows many messages as flows, with the true rate of a sample [FC.51]',
    inCluster(async (cluster) => {
      const node = await cluster.start('desk', { args: ['--no-dht'] });
      const { page, faults } = await open(cluster, node);
      await page.locator('.orrery canvas[data-bodies]').waitFor();
      let isOver = false;
      const sending = (async () => {
        while (!isOver) {
          const send = () => node.call('send', { as: 'sun', to: 'mars', payload: 'x', type: 'notification' });
          await Promise.all(Array.from({ length: 20 }, send));
        }
      })();
      await page.getByText(/drawn from a sample of \d+/).waitFor();
      const rate = await page.locator('.rate').textContent();
      expect(Number.parseInt(rate!, 10)).toBeGreaterThan(50);
      await shows(page, { flows: '1' });
      isOver = true;
      await sending;
      await page.getByText('no messages now').waitFor();
      await shows(page, { flows: '0' });
      expect(faults).toEqual([]);
    }),
  );

  it(
    'has the same facts in a table, and opens an agent by keyboard [FC.53 FC.54]',
    inCluster(async (cluster) => {
      const model = await ScriptedModel.start(() => 'done');
      cluster.onEnd(() => model.stop());
      const node = await cluster.start('desk', {
        args: ['--no-dht'],
        config: {
          agents: {
            mars: { model: model.config },
            saturn: { acp: { command: join(ROOT, 'no-such-program') } },
            io: { sandbox: 'lab' },
          },
        },
      });
      await until(
        async () =>
          (await node.agents()).some(({ id, workers }) => id === 'saturn' && workers[0]?.state === 'unavailable'),
        'the worker of saturn is unavailable',
      );
      await node.request('sun', 'mars', { text: 'Say something.' });
      const { page, faults } = await open(cluster, node);
      await showsAll(page, node);
      const agents = await node.agents();
      await page.keyboard.press('t');
      const table = page.getByRole('table', { name: 'All agents' });
      await table.waitFor();
      for (const { id, state, tier } of agents) {
        const row = table.getByRole('row').filter({ has: page.getByRole('link', { name: id, exact: true }) });
        expect(await row.textContent(), id).toMatch(new RegExp(`L${tier}.*${state}`));
      }
      expect(await table.getByRole('row').filter({ hasText: 'io' }).first().textContent()).toContain('lab');
      await page.keyboard.press('t');
      const canvas = page.getByRole('img', { name: /The agents as an orrery: \d+ agents/ });
      await canvas.focus();
      await page.keyboard.press('ArrowRight');
      const tip = page.locator('.tip');
      await tip.waitFor();
      const before = await tip.locator('strong').textContent();
      await page.keyboard.press('ArrowUp');
      const chosen = await until(async () => {
        const name = await tip.locator('strong').textContent();
        return name === before ? undefined : name;
      }, 'another agent is selected');
      await page.keyboard.press('Enter');
      await page.locator('.agent h3', { hasText: chosen }).waitFor();
      expect(page.url()).toContain(`#/agents/${chosen}`);

      const view = page.locator('.agent');
      await page.evaluate("location.hash = '#/agents/mars'");
      await view.locator('.message', { hasText: 'sun → mars' }).first().waitFor();
      expect(await view.textContent()).toMatch(/ready.*backend\.api.*mars\.describe/s);
      await page.evaluate("location.hash = '#/agents/saturn'");
      const worker = view.getByRole('table', { name: 'Workers of this agent' }).getByRole('row', { name: /saturn/ });
      await worker.getByText('unavailable').waitFor();
      await page.evaluate("location.hash = '#/agents/venus'");
      await view.getByText('ecliptic staff --roles venus', { exact: true }).waitFor();
      await page.evaluate("location.hash = '#/agents/no-such-agent'");
      await page.getByText('There is no agent “no-such-agent” here').waitFor();
      expect(faults).toEqual([]);
    }),
  );

  it(
    'makes a node with many agents one body, which opens [FC.50]',
    inCluster(async (cluster) => {
      const names = Array.from({ length: 80 }, (_, at) => `worker-${at}`);
      const config = { roster: false, agents: Object.fromEntries(names.map((name) => [name, {}])) };
      const node = await cluster.start('desk', { args: ['--no-dht'], config });
      const { page, faults } = await open(cluster, node, 400);
      await page.getByRole('navigation').getByRole('link', { name: 'Overview' }).click();
      await shows(page, { bodies: '1' });
      await page.locator('.orrery canvas').focus();
      await page.keyboard.press('ArrowDown');
      await page.getByText('80 unstaffed').first().waitFor();
      await page.keyboard.press('Enter');
      await showsAll(page, node);
      await page.getByRole('button', { name: 'Collapse' }).click();
      await shows(page, { bodies: '1' });
      const wide = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
      expect(await page.evaluate(wide)).toBe(0);
      expect(faults).toEqual([]);
    }),
  );
});
