import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, vi } from 'vitest';
import type { SwarmRow, TaskDetail, TaskRow } from '../../src/node/control/rows.js';
import type { ProviderRow } from '../../src/providers/registry/registered-provider.js';
import { type Cluster, inCluster, type ProcessNode, until } from '../nodes/cluster.js';
import { MARKUP } from './agents/desk.js';
import { browse } from './browser.js';

vi.setConfig({ testTimeout: 120_000 });

const DESK = fileURLToPath(new URL('./agents/desk.ts', import.meta.url));
const PLAN_WORKER = fileURLToPath(new URL('../coordination/agents/plan-worker.ts', import.meta.url));
const SWARM_WORKER = fileURLToPath(new URL('../swarm/agents/worker.ts', import.meta.url));
const PLAN = `name: two ${JSON.stringify(MARKUP).slice(1, -1).replaceAll('\\"', "'")}
tasks:
  - id: first
    description: Begin.
    agent: worker
    input: { takesMs: 400 }
  - id: second
    description: Go on.
    agent: worker
    dependsOn: [first]
    input: { failures: 2 }
    retries: 1
`;

function start(cluster: Cluster): Promise<ProcessNode> {
  return cluster.start('desk', {
    args: ['--no-dht'],
    config: {
      agents: {
        sun: {},
        desk: { module: DESK, capabilities: ['talk'] },
        worker: { module: PLAN_WORKER },
        painter: { module: SWARM_WORKER, capabilities: ['paint'] },
        saturn: { exec: 'cat' },
      },
      hierarchy: { retryDelayMs: 20 },
    },
    env: { ECLIPTIC_LOG: 'warn' },
  });
}

/** Gives an A2A client's task to an agent, and does not wait for its end. */
async function giveTask(node: ProcessNode, agent: string, text: string, token = node.ready.token): Promise<string> {
  const message = { messageId: `m-${text}`, role: 'ROLE_USER', parts: [{ text }] };
  const params = { message, tenant: agent, configuration: { returnImmediately: true } };
  const answer = await fetch(`${node.ready.http}/a2a/rpc`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'A2A-Version': '1.0', Authorization: `Bearer ${token}` },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params }),
  });
  const { result } = (await answer.json()) as { result: { task: { id: string } } };
  return result.task.id;
}

describe('the views of work', () => {
  it(
    'follow a plan that a command started, and try its failed task again [FC.60]',
    inCluster(async (cluster) => {
      const node = await start(cluster);
      const { page, faults } = await browse(cluster);
      await page.goto(node.ready.page);
      await page.keyboard.press('g');
      await page.keyboard.press('t');
      await page.getByText('No plan was run yet').waitFor();
      expect(await page.getByText('ecliptic run plan.yaml').count()).toBe(1);
      await page.getByText('There are no tasks.').waitFor();
      writeFileSync(join(node.home, 'plan.yaml'), PLAN);
      const run = node.run('run', 'plan.yaml');
      const plan = page.getByRole('table', { name: 'Runs of plans' }).getByRole('link', { name: 'two' });
      await plan.waitFor();
      await plan.click();
      const second = page.locator('tr', { hasText: 'second' });
      expect((await run).code).toBe(1);
      await second.getByText('escalated').waitFor();
      await second.getByText('second is hard').waitFor();
      await page.getByText('1 of 2 tasks done').waitFor();
      await page.locator('tr', { hasText: 'first' }).getByText('done').waitFor();
      const main = page.getByRole('main');
      await main.getByRole('button', { name: 'Try again' }).click();
      await page.getByText('2 of 2 tasks done').waitFor();
      await second.getByText('Result').click();
      expect(await second.textContent()).toContain('"of": "second"');
      const [row] = await node.json<{ status: string }[]>('runs');
      expect(row!.status).toBe('done');
      await main.getByRole('link', { name: 'Read the conversation' }).click();
      await page.locator('.talk li', { hasText: 'Go on.' }).first().waitFor();
      expect(await page.evaluate('window.hacked')).toBeUndefined();
      expect(faults).toEqual([]);
    }),
  );

  it(
    'cancel a task and a proposal, and answer the question of a task [FC.61 FC.69]',
    inCluster(async (cluster) => {
      const node = await start(cluster);
      const { page, faults } = await browse(cluster);
      await page.goto(node.ready.page);
      await page.getByRole('link', { name: 'Tasks' }).click();
      const waiting = await giveTask(node, 'desk', `wait ${MARKUP}`);
      const asking = await giveTask(node, 'desk', 'ask me');
      const rows = page.getByRole('table', { name: 'Tasks' });
      await rows.locator('tr', { hasText: 'ask me' }).getByText('input required').waitFor();
      await rows.getByRole('link', { name: 'ask me' }).click();
      await page.locator('main .said', { hasText: 'which branch?' }).first().waitFor();
      await page.getByLabel('Your answer').fill('main');
      await page.getByRole('button', { name: 'Answer' }).click();
      await page.locator('figure', { hasText: 'took main' }).waitFor();
      await until(
        async () => (await node.json<TaskDetail>('task', asking)).state === 'TASK_STATE_COMPLETED',
        'the task is completed',
      );

      // The question of another caller's task is that caller's to answer.
      const { token } = await node.json<{ token: string }>('token', 'create', 'bob');
      const others = await giveTask(node, 'desk', 'ask bob', token);
      await page.goto(`${node.ready.http}/#/tasks/${others}`);
      await page.getByText('The task is of bob, who answers its question.').waitFor();
      expect(await page.getByLabel('Your answer').count()).toBe(0);

      await page.goto(`${node.ready.http}/#/tasks/${waiting}`);
      await page
        .getByRole('main')
        .locator('.said', { hasText: `waiting ${MARKUP}` })
        .waitFor();
      await page.getByRole('button', { name: 'Cancel', exact: true }).click();
      await page.getByText('Cancel this task?').waitFor();
      await page.keyboard.press('Escape');
      expect((await node.json<TaskDetail>('task', waiting)).state).toBe('TASK_STATE_WORKING');
      await page.getByRole('button', { name: 'Cancel', exact: true }).click();
      await page.getByRole('button', { name: 'Yes, cancel' }).click();
      await page.getByText('The task is canceled.').waitFor();
      expect((await node.json<TaskDetail>('task', waiting)).state).toBe('TASK_STATE_CANCELED');

      void node.call('propose', { to: 'desk', description: 'wait for me', durable: true }).catch(() => {});
      await page.getByRole('navigation').getByRole('link', { name: 'Tasks' }).click();
      await rows.getByRole('link', { name: 'wait for me' }).click();
      await page.getByText('Survives a restart').waitFor();
      await page.getByRole('button', { name: 'Cancel', exact: true }).click();
      await page.getByRole('button', { name: 'Yes, cancel' }).click();
      await page.getByText('The task is canceled.').waitFor();
      await until(async () => {
        const tasks = await node.json<TaskRow[]>('tasks', '--kind', 'proposal');
        return tasks.every(({ state }) => state !== 'TASK_STATE_WORKING');
      }, 'the proposal is withdrawn');
      expect(await page.evaluate('window.hacked')).toBeUndefined();
      expect(await page.locator('main :is(b, img, script)').count()).toBe(0);
      expect(faults).toEqual([]);
    }),
  );

  it(
    'restart and drain a provider, and show its health over time [FC.64]',
    inCluster(async (cluster) => {
      const node = await start(cluster);
      const { page, faults } = await browse(cluster);
      await page.goto(node.ready.page);
      await page.getByRole('link', { name: 'Providers' }).click();
      const all = page.getByRole('table', { name: 'Providers' });
      const row = all.locator('tbody tr', { hasText: 'saturn' });
      await row.getByText('healthy').waitFor();
      const changes = page.getByRole('table', { name: 'Changes since the node started' });
      await changes.locator('tr', { hasText: 'registered' }).first().waitFor();
      await row.getByRole('button', { name: 'Drain' }).click();
      await row.getByRole('button', { name: 'Yes, drain' }).click();
      await row.getByText('drained').waitFor();
      const [{ id }] = (await node.json<ProviderRow[]>('providers')) as [ProviderRow];
      expect((await node.json<ProviderRow>('provider', 'show', id)).phase).toBe('drained');
      await row.getByRole('button', { name: 'Restart' }).click();
      await row.getByRole('button', { name: 'Yes, restart' }).click();
      await row.getByText('healthy').waitFor();
      expect((await node.json<ProviderRow>('provider', 'show', id)).phase).toBe('ready');
      await changes.locator('tr', { hasText: 'restarted' }).waitFor();
      const history = await node.json<{ what: string }[]>('provider', 'history', id);
      expect(history.map(({ what }) => what)).toEqual(expect.arrayContaining(['registered', 'drained', 'restarted']));
      const lanes = page.getByRole('table', { name: 'Lanes' });
      const lane = lanes.locator('tbody tr', { hasText: 'saturn' });
      await lane.getByRole('button', { name: 'Close lane' }).click();
      await lane.getByRole('button', { name: 'Yes, close lane' }).click();
      await lane.getByText('closed').waitFor();
      await row.waitFor({ state: 'detached' });
      expect(await node.json('providers')).toEqual([]);
      await lane.getByRole('button', { name: 'Open lane' }).click();
      await row.getByText('healthy').waitFor();
      await row.getByRole('link', { name: id }).click();
      await page.getByRole('img', { name: /Health in the last hour: .*healthy/ }).waitFor();
      expect(faults).toEqual([]);
    }),
  );

  it(
    'start a swarm, show its board, and cancel another [FC.66]',
    inCluster(async (cluster) => {
      const node = await start(cluster);
      const { page, faults } = await browse(cluster);
      await page.goto(node.ready.page);
      await page.getByRole('link', { name: 'Swarms' }).click();
      await page.getByText('No agent of this node takes part in a swarm.').waitFor();
      await page.getByLabel('Task', { exact: true }).fill(`a book ${MARKUP}`);
      await page.getByLabel('Capabilities').fill('paint');
      await page.getByRole('button', { name: 'Start a swarm' }).click();
      const board = page.locator('.board');
      await board.locator('section', { hasText: 'completed' }).locator('.card').waitFor();
      await page.getByText(/term \d+/).waitFor();
      const [swarm] = await node.json<SwarmRow[]>('swarms');
      expect(swarm).toMatchObject({ task: `a book ${MARKUP}`, status: 'completed' });
      expect(await board.locator('.card').textContent()).toContain('painter');

      const plan = { subTasks: [{ id: 'talk', description: 'wait', requiredCapabilities: ['talk'] }] };
      const second = await node.call<SwarmRow>('swarm.start', {
        task: 'endless',
        plan: JSON.stringify(plan),
        as: 'sun',
      });
      await page.goto(`${node.ready.http}/#/swarms/${second.id}`);
      await board.locator('section', { hasText: 'running' }).locator('.card').waitFor();
      await page.getByRole('button', { name: 'Cancel', exact: true }).click();
      await page.getByRole('button', { name: 'Yes, cancel' }).click();
      await page.getByText('its owner cancelled it').waitFor();
      expect((await node.json<SwarmRow[]>('swarms'))[0]).toMatchObject({ id: second.id, status: 'failed' });
      expect(await page.evaluate('window.hacked')).toBeUndefined();
      expect(faults).toEqual([]);
    }),
  );

  it(
    'begin a document, change it, and show what an agent writes into it [FC.67]',
    inCluster(async (cluster) => {
      const node = await start(cluster);
      const { page, faults } = await browse(cluster);
      await page.goto(node.ready.page);
      await page.getByRole('link', { name: 'Documents' }).click();
      await page.getByText('No agent of this node has a shared document open.').waitFor();
      await page.getByLabel('Document', { exact: true }).fill('plan');
      await page.getByLabel('Path').fill('tasks.login');
      await page.getByLabel('Value', { exact: true }).fill(`{"title": ${JSON.stringify(MARKUP)}}`);
      await page.getByRole('button', { name: 'Set', exact: true }).click();
      const content = page.locator('.json').first();
      await content.getByText('login').waitFor();
      expect(await node.json('doc', 'get', 'plan', 'tasks.login')).toEqual({ title: MARKUP });
      await node.json('doc', 'set', 'plan', 'tasks.logout', '"later"', '--as', 'desk');
      await content.getByText('later').waitFor();
      const history = page.getByRole('table', { name: 'History' });
      await history.locator('tr', { hasText: 'operator' }).waitFor();
      await history.locator('tr', { hasText: 'desk' }).getByText('tasks.logout').waitFor();
      expect(await page.evaluate('window.hacked')).toBeUndefined();
      expect(faults).toEqual([]);
    }),
  );
});
