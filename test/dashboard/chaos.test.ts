import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Locator } from 'playwright-core';
import { describe, expect, it, vi } from 'vitest';
import type { PeerRow } from '../../src/network/peers/network.js';
import type { ProviderRow } from '../../src/providers/registry/registered-provider.js';
import { type Cluster, inCluster, type ProcessNode, until, untilConnected } from '../nodes/cluster.js';
import { onlyThroughProxy } from '../nodes/faulty-way.js';
import { stablePort } from '../ports.js';
import { ROOT } from '../source-files.js';
import { browse } from './browser.js';
import { linkOf } from './desk.js';

vi.setConfig({ testTimeout: 120_000 });

/** The page is promised to be this late at most. */
const LATE_MS = 2_000;
const PROGRAM = join(ROOT, 'examples', 'programs', 'greeter.mjs');
const HANDLER = 'export const setup = (agent) => agent.onRequest(({ payload }) => payload).onNotification(() => {});';

/** Waits until the node says something, and then until the page says it, which may take no longer than promised. */
async function follows(seen: Locator, said: () => Promise<boolean>, what: string): Promise<void> {
  await until(said, what);
  await seen.first().waitFor({ timeout: LATE_MS });
}

function handler(cluster: Cluster): string {
  const module = join(cluster.folder, 'handler.mjs');
  writeFileSync(module, HANDLER);
  return module;
}

async function desk(cluster: Cluster, args: readonly string[]): Promise<ProcessNode> {
  return cluster.start('desk', {
    args: [...args, '--port', String(await stablePort())],
    config: {
      roster: false,
      agents: {
        sun: { tier: 0 },
        mercury: { tier: 1 },
        mars: { tier: 2, module: handler(cluster) },
        luna: { tier: 2, command: { command: process.execPath, args: [PROGRAM] } },
      },
    },
  });
}

describe('the page during chaos', () => {
  it(
    'shows a closed lane, a killed peer and a refusal within two seconds [FC.18]',
    inCluster(async (cluster) => {
      const args = await cluster.argsFor('websocket');
      const node = await desk(cluster, args);
      const laptop = await cluster.start('laptop', {
        args,
        config: { roster: false, agents: { phobos: { tier: 2, module: handler(cluster) } } },
      });
      await node.admit(laptop);
      await untilConnected([node, laptop]);
      const { page, faults } = await browse(cluster);
      await page.goto(await linkOf(node));
      const row = (name: string) => page.locator('main tr', { hasText: name });
      const go = (place: string) => page.evaluate(`location.hash = '#/${place}'`);

      await go('providers');
      await row('luna').getByText('healthy').first().waitFor();
      await node.run('lane', 'close', 'luna');
      const isGone = async () => (await node.call<ProviderRow[]>('providers')).every(({ id }) => id !== 'luna');
      await until(isGone, 'luna has no worker');
      await row('luna').getByText('healthy').first().waitFor({ state: 'detached', timeout: LATE_MS });

      await go('agents');
      await row('phobos').getByText('ready').first().waitFor();
      await laptop.crash();
      const isAway = async () => (await node.agents()).find(({ id }) => id === 'phobos')?.state === 'unreachable';
      await follows(row('phobos').getByText('unreachable'), isAway, 'phobos is unreachable');
      const [peer] = await node.call<PeerRow[]>('peers');
      await go('mesh');
      await row('laptop').getByText(peer!.state).first().waitFor({ timeout: LATE_MS });

      await node.call('send', { as: 'mercury', to: 'mars', payload: 'now!', type: 'request' }).catch(() => {});
      const refused = async () => (await node.call<{ code: string | null }[]>('messages', {})).some(({ code }) => code);
      await follows(page.locator('.message', { hasText: 'refused' }), refused, 'the refusal is in the journal');
      expect(faults).toEqual([]);
    }),
  );

  it(
    'shows a link that is cut and comes back [FC.18]',
    inCluster(async (cluster) => {
      const { proxy, called, caller } = await onlyThroughProxy(cluster);
      const node = await desk(cluster, called.args!);
      const laptop = await cluster.start('laptop', caller);
      await node.admit(laptop);
      await untilConnected([node, laptop]);
      const { page } = await browse(cluster);
      await page.goto(await linkOf(node));
      await page.evaluate("location.hash = '#/mesh'");
      const shown = page.locator('main tr', { hasText: 'laptop' });
      const state = async () => (await node.call<PeerRow[]>('peers'))[0]!.state;
      await shown.getByText('connected').first().waitFor();
      proxy.fault = 'cut';
      await until(async () => (await state()) !== 'connected', 'the link is gone');
      await shown
        .getByText(await state())
        .first()
        .waitFor({ timeout: LATE_MS });
      proxy.fault = undefined;
      await follows(shown.getByText('connected'), async () => (await state()) === 'connected', 'the link is back');
    }),
  );

  it(
    'goes on without a gap when the node is killed and started again under it [FC.18]',
    inCluster(async (cluster) => {
      const node = await desk(cluster, ['--no-dht']);
      const { page, faults } = await browse(cluster);
      await page.goto(await linkOf(node));
      await page.evaluate("location.hash = '#/messages'");
      const say = (text: string) => node.call('send', { as: 'sun', to: 'mars', payload: text, type: 'notification' });
      const line = (text: string) => page.locator('main .message', { hasText: text });
      await say('first');
      await line('first').waitFor();
      for (let round = 1; round <= 2; round++) {
        await node.crash();
        await node.start();
        // Sent before the page can be connected again.
        for (let count = 0; count < 20; count++) await say(`round ${round} number ${count}.`);
        for (let count = 0; count < 20; count++) {
          const found = line(`round ${round} number ${count}.`);
          await found.first().waitFor();
          expect(await found.count()).toBe(1);
        }
      }
      expect(await line('first').count()).toBe(1);
      expect(faults).toEqual([]);
    }),
  );
});
