import type { Page } from 'playwright-core';
import { describe, expect, it, vi } from 'vitest';
import type { PolicyMatrix } from '../../src/node/control/policy-rows.js';
import { type Cluster, inCluster, type ProcessNode, until, untilConnected } from '../nodes/cluster.js';
import { browse } from './browser.js';

vi.setConfig({ testTimeout: 90_000 });

async function open(cluster: Cluster, node: ProcessNode, place: string) {
  const { page, faults } = await browse(cluster);
  await page.goto((await node.json<{ url: string }>('open')).url);
  await page.getByRole('navigation').getByRole('link', { name: place }).click();
  return { page, faults };
}

async function ask(page: Page, from: string, to: string, type: string, justification = ''): Promise<void> {
  const form = page.getByRole('form', { name: 'May one agent reach another?' });
  await form.getByLabel('From').fill(from);
  await form.getByLabel('To', { exact: true }).fill(to);
  await form.getByLabel('Message type').selectOption(type);
  await form.getByLabel('Escalation justification').fill(justification);
  await form.getByRole('button', { name: 'Ask' }).click();
}

describe('the view of the mesh', () => {
  it(
    'invites a device that really joins, shows it, and removes it [FC.55 FC.56]',
    inCluster(async (cluster) => {
      const args = ['--no-dht', '--listen', '127.0.0.1:0'];
      const [desk, laptop] = await Promise.all([cluster.start('desk', { args }), cluster.start('laptop', { args })]);
      const { page, faults } = await open(cluster, desk, 'Mesh');
      await page.getByText('No other device is in this mesh.').waitFor();
      const form = page.getByRole('form', { name: 'Invite a device' });
      await form.getByLabel('L0').uncheck();
      await form.getByLabel('Valid for').selectOption('1 hour');
      await form.getByRole('button', { name: 'Make an invitation' }).click();
      await page.getByRole('img', { name: 'The invitation code as a QR code' }).waitFor();
      const command = await page.locator('.invite pre').textContent();
      const [, code] = /^ecliptic join (\S+)$/.exec(command!)!;
      await laptop.call('join', { code });
      await untilConnected([desk, laptop]);
      const row = page.getByRole('table', { name: 'Other nodes of this mesh' }).getByRole('row', { name: /laptop/ });
      await row.getByText('connected').waitFor();
      expect(await row.textContent()).toMatch(/websocket.*L1, L2, L3/s);
      expect((await desk.peers())[0]).toMatchObject({ name: 'laptop', tiers: [1, 2, 3] });

      await page.getByRole('button', { name: 'Run the diagnosis' }).click();
      await page.locator('.findings li').first().waitFor();
      const { findings } = await desk.doctor();
      expect(await page.locator('.findings li').count()).toBe(findings.length);

      await page.getByRole('button', { name: 'Remove laptop' }).click();
      await page.getByText('Remove laptop?').waitFor();
      await page.getByRole('button', { name: 'Keep it' }).click();
      expect(await desk.connected()).toBe(1);
      await page.getByRole('button', { name: 'Remove laptop' }).click();
      await page.getByRole('button', { name: 'Remove it' }).click();
      await page.getByText('No other device is in this mesh.').waitFor();
      expect(await desk.connected()).toBe(0);
      expect(faults).toEqual([]);
    }),
  );
});

describe('the view of policy', () => {
  it(
    'answers as the command does, shows the matrix of the rules, and verifies the audit log [FC.58 FC.59]',
    inCluster(async (cluster) => {
      const node = await cluster.start('desk', {
        args: ['--no-dht'],
        config: { agents: { io: { sandbox: 'lab' }, europa: { sandbox: 'lab' } } },
      });
      const { page, faults } = await open(cluster, node, 'Policy');
      for (const [from, to, type] of [
        ['mercury', 'mars', 'request'],
        ['sun', 'mars', 'request'],
        ['mars', 'sun', 'task-proposal'],
        ['io', 'mars', 'notification'],
        ['io', 'europa', 'request'],
      ] as const) {
        await ask(page, from, to, type);
        const told = await node.run('policy', '--from', from, '--to', to, '--type', type);
        await page.getByText(`${from} ${told.code === 0 ? 'may' : 'may not'} send ${to} a ${type}.`).waitFor();
        if (told.code === 0) continue;
        const { code, reason } = await node.call<{ code: string; reason: string }>('policy', { from, to, type });
        expect(told.stderr).toContain(code);
        await page.locator('.section [role=status]', { hasText: `${code}: ${reason}` }).waitFor();
      }
      await page.getByText('sandbox rule').first().waitFor({ state: 'detached' });
      await ask(page, 'mars', 'sun', 'task-proposal', 'The build is broken.');
      await page.getByText('mars may send sun a task-proposal.').waitFor();
      await ask(page, 'nobody', 'sun', 'request');
      await page.getByText('The rules cannot be asked').waitFor();

      const { tiers, sandboxes } = await node.call<PolicyMatrix>('policy.matrix');
      const cells = page.getByRole('table', { name: 'Which tier may open a conversation with which' }).locator('td');
      const words = tiers.map(({ request, proposal }) =>
        request.allowed ? (proposal.allowed ? 'may' : 'may, if justified') : 'may not',
      );
      expect((await cells.allTextContents()).map((text) => text.slice(2))).toEqual(words);
      expect(new Set(words).size).toBe(3);
      // The roster: an agent of the sandbox reaches the sandbox and nothing else.
      const fromLab = sandboxes.filter(({ from }) => from === 'lab').map(({ to, reached }) => [to, reached]);
      expect(new Map(fromLab as [string, number][])).toEqual(
        new Map([
          [null, 0],
          ['lab', 2],
        ] as never),
      );

      await page.getByText('No message was refused yet.').waitFor();
      await node.call('send', { as: 'mercury', to: 'mars', payload: 'hello', type: 'request' }).catch(() => {});
      const refused = page.getByRole('table', { name: 'Messages that were refused, newest first' });
      const row = refused.getByRole('row', { name: /mercury → mars/ });
      expect(await row.textContent()).toMatch(/tier rule.*TIER_VIOLATION/s);
      await row.getByRole('button', { name: 'Ask today’s rules' }).click();
      await page.getByText('mercury may not send mars a request.').waitFor();

      await page.getByRole('button', { name: 'Verify it' }).click();
      const { rows } = await node.json<{ rows: number }>('audit', 'verify');
      await page.getByText(`Audit log intact: ${rows} rows verified.`).waitFor();
      expect(faults).toEqual([]);
    }),
  );

  it(
    'lists security events of the audit log [FC.59]',
    inCluster(async (cluster) => {
      const args = ['--no-dht', '--listen', '127.0.0.1:0'];
      const [desk, laptop] = await Promise.all([cluster.start('desk', { args }), cluster.start('laptop', { args })]);
      const { page, faults } = await open(cluster, desk, 'Policy');
      await page.getByText('No security event is among the latest rows').waitFor();
      await desk.admit(laptop);
      const events = page.getByRole('table', { name: 'Security events, newest first' });
      await events
        .getByRole('row', { name: /connected/ })
        .first()
        .waitFor();
      expect(await events.textContent()).toContain(laptop.key.slice(0, 8));
      expect(faults).toEqual([]);
    }),
  );
});

describe('the view of metrics', () => {
  it(
    'draws a history as charts, with the latest and the greatest values as text [FC.57]',
    inCluster(async (cluster) => {
      const node = await cluster.start('desk', { args: ['--no-dht'] });
      const { page, faults } = await browse(cluster);
      const at = [0, 5_000, 10_000].map((ms) => 1_700_000_000_000 + ms);
      const times = { routingP50Ms: [null, 4, null], routingP99Ms: [null, null, null] };
      const rates = { routedPerSecond: [10, 250, 20] };
      const series = { ...rates, ...times, rssBytes: [2e8, 3e8, 1e8], ofLaterReleases: [1, 2, 3] };
      const history = { everyMs: 5_000, at, series };
      await page.route('**/api/metrics.history*', (route) => route.fulfill({ json: history }));
      await page.goto((await node.json<{ url: string }>('open')).url);
      await page.getByRole('navigation').getByRole('link', { name: 'Metrics' }).click();
      await page.locator('.chart canvas').nth(3).waitFor();
      const captions = await page.locator('.chart figcaption').allTextContents();
      expect(captions).toEqual([
        expect.stringContaining('routed 20/s (max 250/s)'),
        // No message is no time of 0 ms.
        expect.stringMatching(/p50 no data \(max 4 ms\).*p99 no data$/),
        expect.stringContaining('process 100 MB (max 300 MB)'),
        expect.stringContaining('ofLaterReleases 3 (max 3)'),
      ]);
      expect(faults).toEqual([]);
    }),
  );

  it(
    'shows the samples and the counters of the node, and the counters alone while there is no history [FC.57]',
    inCluster(async (cluster) => {
      const node = await cluster.start('desk', { args: ['--no-dht'] });
      const { page, faults } = await open(cluster, node, 'Metrics');
      const chart = page.locator('.chart', { hasText: 'Memory' });
      await chart.locator('canvas').waitFor();
      expect(await chart.textContent()).toMatch(/process \d+(\.\d+)? MB \(max/);
      const { series } = await node.call<{ series: object }>('metrics.history');
      // Each series that a node samples has its place: none is shown by its own name.
      for (const name of Object.keys(series)) expect(await page.getByText(name, { exact: true }).count(), name).toBe(0);
      await node.call('send', { as: 'sun', to: 'mars', payload: 'hello', type: 'notification' });
      await page.getByText('notification 1').waitFor();
      const { totalMessagesSent } = await node.call<{ totalMessagesSent: number }>('metrics');
      await until(async () => {
        const text = await page.locator('.facts').textContent();
        return text?.includes(`Messages sent${totalMessagesSent}`);
      }, 'the number of messages is shown');
      await page.route('**/api/metrics.history*', (route) => route.abort());
      await page.reload();
      await page.getByText('No history of metrics').waitFor();
      await page.getByText('notification 1').waitFor();
      expect(faults).toEqual([]);
    }),
  );
});
