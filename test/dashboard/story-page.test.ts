import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import type { Story, Waiting } from '../../src/http/dashboard/facts.js';
import type { JournalRow } from '../../src/mesh/audit/tables.js';
import type { TaskRow } from '../../src/node/control/rows.js';
import { type Cluster, inCluster, type ProcessNode, until } from '../nodes/cluster.js';
import { ScriptedModel } from '../scripted-model.js';
import { browse } from './browser.js';

vi.setConfig({ testTimeout: 90_000 });

const MARKUP = '<img src=x onerror="window.hacked = 1"><b>bold</b>';
/** Where pictures go that a person wants to look at. */
const SHOTS = process.env.ECLIPTIC_SHOTS;

/** A node whose agent mars asks before it writes a file, and a task for it that waits for the owner. */
async function askingNode(cluster: Cluster): Promise<{ node: ProcessNode; task: string }> {
  const model = await ScriptedModel.start(({ messages }) => {
    const last = messages.at(-1)!;
    if (last.role === 'tool') return `done: ${last.content}`;
    return { text: 'I write it.', calls: [['write_file', { path: 'login.js', content: 'export const login = 1;\n' }]] };
  });
  cluster.onEnd(() => model.stop());
  const node = await cluster.start('desk', {
    args: ['--no-dht'],
    config: { agents: { mars: { model: model.config } }, policy: [{ action: 'fs.write', decision: 'ask' }] },
  });
  const skill = (await node.agents()).find(({ id }) => id === 'mars')!.capabilities[0]!;
  const { http, token } = node.ready;
  cluster.launch(['invoke', http, 'Write the login page.', '--token', token, '--skill', skill]);
  const task = await until(async () => {
    const [row] = await node.json<TaskRow[]>('tasks', '--kind', 'a2a');
    return row && (await node.json<Story>('story', row.id)).waits?.for === 'operator' ? row.id : undefined;
  }, 'the task asks');
  return { node, task };
}

describe('the story of an id in a browser', () => {
  it(
    'shows a column for each agent, the wait with its deadline, and goes on when the owner answers [FC.26]',
    inCluster(async (cluster) => {
      const { node, task } = await askingNode(cluster);
      const { page, faults } = await browse(cluster, { width: 1_440 });
      await page.goto(node.ready.page);
      await page.getByRole('searchbox').fill(task);
      await page.keyboard.press('Enter');
      await page.locator('.story-wait').waitFor();
      expect(await page.locator('.story-heads .mono').allTextContents()).toEqual(['operator', 'mars']);
      expect(await page.locator('.story-wait').textContent()).toMatch(
        /waits for operator: the owner’s approval .*left/,
      );
      expect(await page.locator('.hatched').count()).toBe(1);
      const asked = page.locator('.story-row', { hasText: 'asked' });
      expect(await asked.locator('.arrow.to-left').count()).toBe(1);
      if (SHOTS) await page.screenshot({ path: join(SHOTS, 'story-wait.png') });

      await node.json('waiting', 'answer', (await node.json<Waiting>('waiting')).items[0]!.id, 'allow-once');
      await page.locator('.story-head', { hasText: 'completed' }).waitFor();
      expect(await page.locator('.story-wait').count()).toBe(0);
      const allowed = page.locator('.story-row', { hasText: 'operator decided: allow once' });
      expect(await allowed.textContent()).toMatch(/\+\d.*proof: approval request/s);
      await page.locator('.story-beside a', { hasText: 'approval' }).click();
      await page.locator('.story-head', { hasText: 'allowed' }).waitFor();
      expect(await page.locator('.story-lanes').textContent()).toMatch(/row \d+ of the audit log/);
      if (SHOTS) await page.screenshot({ path: join(SHOTS, 'story-approval.png') });
      expect(faults).toEqual([]);
    }),
  );

  it(
    'shows the rule of a refusal, asks today’s rules, sends again, and is a list on a narrow screen [FC.27]',
    inCluster(async (cluster) => {
      const node = await cluster.start('desk', { args: ['--no-dht'] });
      await node
        .call('send', { as: 'mercury', to: 'mars', payload: { text: MARKUP }, type: 'request' })
        .catch(() => {});
      await node.call('send', { as: 'sun', to: 'mars', payload: { text: MARKUP }, type: 'notification' });
      const rows = await node.json<JournalRow[]>('log');
      const idOf = (sender: string) => rows.find((row) => row.sender === sender)!.envelopeId;
      const { page, faults } = await browse(cluster, { width: 1_440, scheme: 'light' });
      await page.goto(node.ready.page);
      await page.goto(`${new URL(node.ready.page).origin}/#/story`);
      await page.getByText('Paste any id').waitFor();
      await page.getByLabel('An id: of a message').fill(idOf('mercury'));
      await page.getByRole('button', { name: 'Show' }).click();
      const refusal = page.locator('ol .story-row', { hasText: 'refused' });
      await refusal.waitFor();
      expect(await refusal.textContent()).toMatch(/TIER_VIOLATION.*rule: L\d.*may not open a conversation/s);
      await page.getByRole('button', { name: 'Ask today’s rules' }).click();
      await page.getByText('Today’s rules decide the same (1 decision asked).').waitFor();
      await page.getByText('Payload', { exact: true }).click();
      expect(await page.locator('.story-beside pre').first().textContent()).toContain('<b>bold</b>');
      if (SHOTS) await page.screenshot({ path: join(SHOTS, 'story-refusal.png') });

      await page.getByLabel('An id: of a message').fill(idOf('sun').slice(0, 22));
      await page.keyboard.press('Enter');
      await page.locator('.story-head', { hasText: 'from sun to mars' }).waitFor();
      await page.getByRole('button', { name: 'Send again' }).click();
      await page.getByRole('button', { name: 'Send', exact: true }).click();
      await page.getByText('Sent again.').waitFor();
      const sent = await node.json<JournalRow[]>('log', '--agent', 'sun');
      expect(sent.map(({ sender, recipient, type }) => [sender, recipient, type])).toEqual([
        ['sun', 'mars', 'notification'],
        ['sun', 'mars', 'notification'],
      ]);
      expect(JSON.parse(sent[1]!.envelope)).toContainEqual({ text: MARKUP });

      await page.getByLabel('An id: of a message').fill('nothing-1');
      await page.keyboard.press('Enter');
      await page.getByText('nothing with the id "nothing-1" is known').waitFor();

      await page.setViewportSize({ width: 400, height: 800 });
      await page.goto(`${new URL(node.ready.page).origin}/#/story/${idOf('mercury')}`);
      await refusal.waitFor();
      expect(await page.locator('.story-cells').first().isVisible()).toBe(false);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(400);
      expect(await refusal.textContent()).toContain('mercury → mars');
      if (SHOTS) await page.screenshot({ path: join(SHOTS, 'story-narrow.png') });
      expect(await page.evaluate('window.hacked')).toBeUndefined();
      expect(await page.locator('b, img').count()).toBe(0);
      expect(faults).toEqual([]);
    }),
  );
});
