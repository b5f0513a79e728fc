import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import type { Answered, Waiting, WaitingItem } from '../../src/http/dashboard/facts.js';
import { type Cluster, inCluster, type ProcessNode, until, untilConnected } from '../nodes/cluster.js';
import { stablePort } from '../ports.js';
import { ScriptedModel } from '../scripted-model.js';
import { browse } from './browser.js';

vi.setConfig({ testTimeout: 120_000 });

const NETWORK = ['--no-dht', '--listen', '127.0.0.1:0'];
/** Where pictures go that a person wants to look at. */
const SHOTS = process.env.ECLIPTIC_SHOTS;
const CONTENT = 'export const login = 1;\n';

interface Devices {
  readonly desktop: ProcessNode;
  readonly laptop: ProcessNode;
  /** Has mars, on the desktop, want to write that file. */
  ask(file: string): Promise<unknown>;
  written(file: string): boolean;
}

/** A desktop whose agent mars asks before it writes a file, and a laptop that it invited. */
async function start(cluster: Cluster, invite: object = { owner: true }): Promise<Devices> {
  const model = await ScriptedModel.start(({ messages }) => {
    const last = messages.at(-1)!;
    if (last.role === 'tool') return `done: ${last.content}`;
    const path = /\w+\.js/.exec(JSON.stringify(last.content))![0];
    return { text: 'I write it.', calls: [['write_file', { path, content: CONTENT }]] };
  });
  cluster.onEnd(() => model.stop());
  const desktop = await cluster.start('desktop', {
    args: ['--no-dht', '--listen', `127.0.0.1:${await stablePort()}`],
    config: {
      agents: { mars: { model: model.config } },
      policy: [{ action: 'fs.write', decision: 'ask' }],
    },
  });
  const laptop = await cluster.start('laptop', { args: NETWORK });
  await desktop.admit(laptop, invite);
  await untilConnected([desktop, laptop]);
  return {
    desktop,
    laptop,
    ask: (file) => desktop.request('sun', 'mars', { text: `Write ${file}.` }).catch((error: Error) => error.message),
    written: (file) =>
      readdirSync(join(desktop.data, 'lanes'), { recursive: true }).some((path) => `${path}`.endsWith(file)),
  };
}

function approvalOn(node: ProcessNode): Promise<WaitingItem> {
  return until(async () => {
    const { items } = await node.json<Waiting>('waiting');
    return items.find(({ kind, answer }) => kind === 'approval' && answer === null);
  }, `an approval request is shown on ${node.name}`);
}

async function auditOf(node: ProcessNode): Promise<string> {
  const { stdout } = await node.run('store', 'export', 'audit');
  return stdout;
}

describe('the owner’s devices', () => {
  it(
    'show and answer what waits on each other, and the node that runs the agent decides [FC.30]',
    inCluster(async (cluster) => {
      const { desktop, laptop, ask, written } = await start(cluster);
      expect(await laptop.json('waiting')).toEqual({ items: [], missing: [] });
      expect((await laptop.run('peers')).stdout).toMatch(/OWNER\n.*yes$/m);
      const asked = ask('login.js');
      const item = await approvalOn(laptop);
      expect(item).toMatchObject({ from: 'mars', node: { node: desktop.key, name: 'desktop' } });
      expect((await approvalOn(desktop)).node).toBeNull();
      expect((await laptop.run('waiting')).stdout).toMatch(
        /^ID +AGE +NODE .*\napproval:\w+@\w{12} +\d+s +desktop +mars /,
      );
      // The id of the table is enough.
      const id = item.id.slice(0, -52);
      const answered = await laptop.json<Answered>('waiting', 'answer', id, 'allow-once');
      expect(answered).toMatchObject({ id: item.id, state: 'confirmed', node: { name: 'desktop' } });
      expect(JSON.stringify(await asked)).toContain('Wrote 24 characters to login.js.');
      expect(written('login.js')).toBe(true);
      expect(await laptop.json('waiting')).toEqual({ items: [], missing: [] });
      const [decided] = await desktop.call<{ decision: { by: string } }[]>('approvals', { all: true });
      expect(decided!.decision.by).toBe(`laptop (${laptop.key.slice(0, 12)})`);
      const audit = await auditOf(desktop);
      expect(audit).toContain('owner.answered');
      expect(audit).toContain(laptop.key);
    }),
  );

  it(
    'without the owner grant see nothing of each other, and their answers are refused [FC.31]',
    inCluster(async (cluster) => {
      const { desktop, laptop, ask, written } = await start(cluster, {});
      expect((await laptop.peers())[0]).toMatchObject({ owner: true });
      expect((await desktop.peers())[0]).toMatchObject({ owner: false });
      const asked = ask('login.js');
      const item = await approvalOn(desktop);
      expect(await laptop.json('waiting')).toEqual({ items: [], missing: [] });
      const refused = await laptop.run('waiting', 'answer', `${item.id}@${desktop.key}`, 'allow-once');
      expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('NOT_GRANTED')]);
      await desktop.json('waiting', 'answer', item.id, 'deny');
      await asked;
      expect(written('login.js')).toBe(false);
    }),
  );

  it(
    'name a device that is gone, and answers to it are sent until it confirms them [FC.32]',
    inCluster(async (cluster) => {
      const { desktop, laptop, ask } = await start(cluster);
      void ask('login.js');
      const item = await approvalOn(laptop);
      await desktop.crash();
      const before = Date.now();
      const { items, missing } = await until(async () => {
        const waiting = await laptop.json<Waiting>('waiting');
        return waiting.missing.length === 1 ? waiting : undefined;
      }, 'the desktop is missing');
      expect(items).toEqual([]);
      expect(missing[0]).toMatchObject({ node: desktop.key, name: 'desktop', reason: 'it is not connected' });
      expect(Math.abs(missing[0]!.since! - before)).toBeLessThan(30_000);
      expect((await laptop.run('waiting')).stdout).toMatch(
        /items of desktop are missing: it is not connected, last heard/,
      );
      const sent = await laptop.json<Answered>('waiting', 'answer', item.id, 'deny');
      expect(sent).toMatchObject({ state: 'sent', node: { name: 'desktop' } });
      const shown = await laptop.json<Waiting>('waiting');
      expect(shown.items).toMatchObject([{ id: item.id, answer: { state: 'sent', action: 'deny', by: 'laptop' } }]);
      expect((await laptop.run('waiting')).stdout).toMatch(/deny sent \d+s ago by laptop, not confirmed/);
      const twice = await laptop.run('waiting', 'answer', item.id, 'allow-once');
      expect([twice.code, twice.stderr]).toEqual([1, expect.stringContaining('ALREADY_ANSWERED: deny was sent')]);
      // The answer outlives the process that took it.
      await laptop.crash();
      await laptop.start();
      await desktop.start();
      await until(async () => {
        const waiting = await laptop.json<Waiting>('waiting');
        return waiting.items.length === 0 && waiting.missing.length === 0;
      }, 'the desktop has confirmed the answer');
      const [decided] = await desktop.call<{ decision?: object }[]>('approvals', { all: true });
      expect(decided!.decision).toMatchObject({ verdict: 'deny', by: `laptop (${laptop.key.slice(0, 12)})` });
    }),
  );

  it(
    'that answer the same request: one counts, and the other learns where it was answered [FC.33]',
    inCluster(async (cluster) => {
      const { desktop, laptop, ask, written } = await start(cluster);
      const asked = ask('login.js');
      const item = await approvalOn(laptop);
      const own = await approvalOn(desktop);
      await desktop.json('waiting', 'answer', own.id, 'deny');
      const late = await laptop.run('waiting', 'answer', item.id, 'allow-once');
      expect([late.code, late.stderr]).toEqual([
        1,
        expect.stringMatching(/ALREADY_ANSWERED: answered on desktop, deny, \d+ s ago/),
      ]);
      await asked;
      expect(written('login.js')).toBe(false);
      const [whole, key] = item.id.split('@') as [string, string];
      const shortened = await laptop.run('waiting', 'answer', `${whole}@${key.slice(0, 8)}`, 'allow-once');
      expect(shortened.stderr).toMatch(/ALREADY_ANSWERED: answered on desktop, deny, \d+ s ago/);
      expect((await laptop.run('waiting', 'answer', whole, 'allow-once')).stderr).toContain('APPROVAL_NOT_FOUND');
      expect((await laptop.run('waiting', 'answer', `approval:none@${key}`, 'deny')).stderr).toContain(
        'APPROVAL_NOT_FOUND',
      );
      const again = ask('again.js');
      const [here, there] = [await approvalOn(desktop), await approvalOn(laptop)];
      const both = await Promise.all([
        desktop.run('waiting', 'answer', here.id, 'allow-once'),
        laptop.run('waiting', 'answer', there.id, 'allow-once'),
      ]);
      expect(both.map(({ code }) => code).sort()).toEqual([0, 1]);
      const lost = both.find(({ code }) => code === 1)!.stderr;
      expect(lost).toMatch(/ALREADY_ANSWERED: answered on desktop(?: by laptop)?, allow-once, \d+ s ago/);
      await again;
      expect(written('again.js')).toBe(true);
    }),
  );

  it(
    'approve on the page of another node, which names the node of each item and the device that is missing [FC.34]',
    inCluster(async (cluster) => {
      const { desktop, laptop, ask, written } = await start(cluster);
      const { page, faults } = await browse(cluster);
      await page.goto(laptop.ready.page);
      await page.getByText('Nothing waits for you.').waitFor();
      const asked = ask('login.js');
      const item = page.locator('.item[data-kind=approval]');
      await item.waitFor();
      expect(await item.textContent()).toMatch(/mars on desktop.*login\.js/s);
      // Selects it, as a key is not taken for an item that has just come.
      await page.keyboard.press('j');
      await page.keyboard.press('a');
      expect(JSON.stringify(await asked)).toContain('Wrote 24 characters to login.js.');
      expect(written('login.js')).toBe(true);
      await page.getByText('Nothing waits for you.').waitFor();

      const again = ask('again.js');
      await item.waitFor();
      desktop.signal('SIGSTOP');
      await page.keyboard.press('j');
      await page.keyboard.press('a');
      await item.getByText(/Allow once: sent by laptop .* not confirmed yet/).waitFor();
      await page.getByText(/Items of desktop are missing/).waitFor();
      expect(await item.locator('.actions').count()).toBe(0);
      desktop.signal('SIGCONT');
      await again;
      expect(written('again.js')).toBe(true);
      await page.getByText('Nothing waits for you.').waitFor();

      void ask('more.js');
      await item.waitFor();
      if (SHOTS) await page.screenshot({ path: join(SHOTS, 'devices.png') });
      await desktop.crash();
      await page.getByText(/Items of desktop are missing: it is not connected/).waitFor();
      await item.getByText('not known while desktop is away').waitFor();
      await page.keyboard.press('j');
      await item.waitFor({ state: 'detached' });
      const none = 'othing that is known here waits for you; items of desktop are not known while it is away';
      await page.getByText(`N${none}.`).waitFor();
      expect(await page.getByText('Nothing waits for you.').count()).toBe(0);
      expect((await laptop.run('waiting')).stdout).toContain(`n${none}`);
      expect(faults).toEqual([]);
    }),
  );

  it(
    'say on their pages on which device an item was answered, and how [FC.19]',
    inCluster(async (cluster) => {
      const { desktop, laptop, ask } = await start(cluster);
      const { page, context, faults } = await browse(cluster);
      await page.goto(desktop.ready.page);
      const other = await context.newPage();
      await other.goto(laptop.ready.page);
      const [here, there] = [page, other].map((one) => one.locator('.item[data-kind=approval]'));
      const first = ask('login.js');
      await here!.waitFor();
      await there!.waitFor();
      await laptop.json('waiting', 'answer', (await approvalOn(laptop)).id, 'allow-once');
      await here!.getByText(/answered on laptop, allow-once, \d+ s ago/).waitFor();
      await there!.getByText(/answered on laptop, allow-once, \d+ s ago/).waitFor();
      await first;
      for (const one of [page, other]) await one.keyboard.press('j');
      await here!.waitFor({ state: 'detached' });
      await there!.waitFor({ state: 'detached' });
      const second = ask('again.js');
      await there!.waitFor();
      await desktop.run('approvals', 'deny', (await approvalOn(desktop)).id.slice('approval:'.length));
      await there!.getByText(/answered on desktop, deny, \d+ s ago/).waitFor();
      await second;
      expect(faults).toEqual([]);
    }),
  );
});
