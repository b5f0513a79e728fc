import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import axe from 'axe-core';
import { describe, expect, it, vi } from 'vitest';
import type { SwarmRow, TaskRow } from '../../src/node/control/rows.js';
import { ClientProcess } from '../coding-agents/client-process.js';
import { CodingAgent } from '../coding-agents/coding-agent.js';
import { type Cluster, inCluster, type ProcessNode } from '../nodes/cluster.js';
import { Repository } from '../workspaces/repository.js';
import { MARKUP } from './agents/desk.js';
import { browse } from './browser.js';

vi.setConfig({ testTimeout: 300_000 });

const agent = (path: string) => fileURLToPath(new URL(path, import.meta.url));
/** Where pictures go that a person wants to look at. */
const SHOTS = process.env.ECLIPTIC_SHOTS;
const LONG = `Compare the three queues that we could use, and say which one loses no message. ${'Every word counts. '.repeat(8)}`;
const PLAN = `name: release
tasks:
  - { id: build, description: Build it., agent: worker }
  - { id: check, description: Check it., agent: worker, dependsOn: [build], retries: 0, input: { failures: 9 } }
  - { id: ship, description: Ship it., agent: worker, dependsOn: [check] }
`;

/** A node with something in every view, and the addresses of the views. */
async function busyNode(cluster: Cluster): Promise<{ node: ProcessNode; addresses: Record<string, string> }> {
  const node = await cluster.start('desk', {
    args: ['--no-dht'],
    config: {
      agents: {
        sun: {},
        desk: { module: agent('./agents/desk.ts'), capabilities: ['talk'] },
        worker: { module: agent('../coordination/agents/plan-worker.ts') },
        painter: { module: agent('../swarm/agents/worker.ts'), capabilities: ['paint'] },
        saturn: { exec: 'cat' },
        venus: { exec: { command: '/nonexistent/program' } },
      },
    },
    env: { ECLIPTIC_LOG: 'warn' },
  });
  writeFileSync(join(node.home, 'plan.yaml'), PLAN);
  await node.run('run', 'plan.yaml');
  void node.call('propose', { to: 'desk', description: `wait ${LONG}`, durable: true }).catch(() => {});
  void node.call('propose', { to: 'desk', description: 'Write the report', durable: true }).catch(() => {});
  const subTasks = [
    { id: 'sketch', description: LONG, requiredCapabilities: ['paint'] },
    { id: 'talk', description: 'wait', requiredCapabilities: ['talk'] },
    { id: 'page', description: 'the page', requiredCapabilities: ['paint'], dependsOn: ['talk'] },
  ];
  const plan = JSON.stringify({ subTasks });
  const swarm = await node.call<SwarmRow>('swarm.start', { task: LONG, plan, as: 'sun' });
  await node.json('doc', 'set', 'plan', 'tasks.login', JSON.stringify({ title: LONG, by: 'mars' }));
  await node.json('doc', 'set', 'plan', 'tasks.logout', '"later"', '--as', 'desk');
  await node.json('memory', 'add', LONG, '--tag', 'queues', '--tag', 'a-rather-long-word-to-find-it-by');
  await node.json('memory', 'add', MARKUP, '--as', 'desk');
  const args = { what: 'desk', times: 2, unit: 'mm' };
  await node.call('call', { tool: 'desk.measure', arguments: args });
  await node.call('call', { tool: 'desk.measure', arguments: { what: 'desk' } }).catch(() => {});
  const alice = await CodingAgent.start(cluster, ['--as', 'alice', '--data', node.data]);
  await alice.call('mesh_send', { to: 'operator', text: `Which branch?\n${LONG}`, needs: 'reply' });
  await node.call('send', { as: 'mercury', to: 'mars', payload: LONG, type: 'request' }).catch(() => {});
  await node.call('tell', { to: 'alice', text: LONG });
  await overlap(cluster, node);
  const [mail] = await node.call<{ thread: string }[]>('inbox', { as: 'operator' });
  const [run] = await node.call<{ id: string }[]>('runs');
  const [task] = await node.call<TaskRow[]>('tasks', { kind: 'proposal', state: 'working' });
  const draft = { what: 'message', as: 'mercury', to: 'mars', text: LONG };
  return {
    node,
    addresses: {
      mail: 'mail',
      thread: `mail/${mail!.thread}`,
      tasks: 'tasks',
      task: `tasks/${task!.id}`,
      run: `runs/${run!.id}`,
      swarms: 'swarms',
      swarm: `swarms/${swarm.id}`,
      documents: 'documents',
      memory: 'memory',
      radar: 'radar',
      document: 'documents/plan',
      providers: 'providers',
      provider: 'providers/saturn',
      tools: 'tools',
      tool: 'tools/desk.measure',
      send: `send/${encodeURIComponent(JSON.stringify(draft))}`,
      search: `messages/${encodeURIComponent('queues')}`,
    },
  };
}

/** Two agents that have changed the same file of a repository. */
async function overlap(cluster: Cluster, node: ProcessNode): Promise<void> {
  const repository = Repository.create();
  cluster.onEnd(async () => repository.remove());
  for (const name of ['bob', 'carol']) {
    const checkout = join(repository.home, name);
    repository.git('clone', '--quiet', repository.folder, checkout);
    repository.write({ 'a.txt': name, [`${'long-folder/'.repeat(12)}${MARKUP.replaceAll('/', '')}`]: name }, checkout);
    await new ClientProcess(cluster, node, name, 'scripted', checkout).call('mesh_peers');
  }
}

describe('the views of work and conversations', () => {
  it(
    'fit on narrow and wide screens, have no serious fault of accessibility, and show markup as text [FC.9 FC.69 RD.10]',
    inCluster(async (cluster) => {
      const { node, addresses } = await busyNode(cluster);
      for (const scheme of ['dark', 'light'] as const) {
        for (const width of [400, 1_280]) {
          const { page, context, faults } = await browse(cluster, { width, scheme });
          await page.goto((await node.json<{ url: string }>('open')).url);
          await page.locator('.connection', { hasText: 'live' }).waitFor();
          for (const [name, address] of Object.entries(addresses)) {
            await page.goto(`${node.ready.http}/#/${address}`);
            // Every view has a table, a form or messages once its data is there.
            await page.locator('main :is(table, form, .card, .talk > li, .message)').first().waitFor();
            await page.locator('main', { hasText: 'Reading it from the node.' }).waitFor({ state: 'detached' });
            if (name === 'radar') await page.getByText('2 files').nth(1).waitFor();
            const wide = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
            expect.soft(await page.evaluate(wide), `${name} at ${width}`).toBe(0);
            const hidden = 'document.querySelector("main").scrollWidth - document.querySelector("main").clientWidth';
            expect.soft(await page.evaluate(hidden), `${name} at ${width}, the view`).toBe(0);
            if (SHOTS) await page.screenshot({ path: join(SHOTS, `${name}-${width}-${scheme}.png`) });
            if (width === 400) continue;
            await page.evaluate(axe.source);
            const found = (await page.evaluate('axe.run()')) as {
              violations: { id: string; impact: string; nodes: { html: string }[] }[];
            };
            const serious = found.violations
              .filter(({ impact }) => impact === 'serious' || impact === 'critical')
              .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join('\n')}`);
            expect.soft(serious, `${name} at ${width}, ${scheme}`).toEqual([]);
          }
          expect(await page.evaluate('window.hacked')).toBeUndefined();
          expect(faults).toEqual([]);
          await context.close();
        }
      }
    }),
  );
});
