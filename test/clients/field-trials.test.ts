import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { TaskDetail } from '../../src/node/control/rows.js';
import type { ProviderRow } from '../../src/providers/registry/registered-provider.js';
import { CodingAgent } from '../coding-agents/coding-agent.js';
import { bodiesIn, idsIn } from '../coding-agents-fixture.js';
import { type Cluster, inCluster, until } from '../nodes/cluster.js';
import { acpAgent, converse, modelIn } from './acp-world.js';
import { CLIENT_IDS, RealClient } from './coding-clients.js';
import { InteractiveClient } from './interactive-client.js';

describe.each(CLIENT_IDS)('a turn of %s with the mesh', (id) => {
  it(
    'finds real peers, is refused by roles without a worker, and shares tasks, state, leases and words with its person [T-A2 T-A3 T-A4 T-A5 T-A6 T-A14 T-A17]',
    inCluster(async (cluster) => {
      const node = await cluster.start('desk', { args: ['--no-dht'] });
      const bob = await CodingAgent.start(cluster, ['--as', 'bob', '--data', node.data]);
      await bob.call('mesh_peers');
      const model = await modelIn(cluster);
      let letter = '';
      let state = '';
      let task = '';
      let waitedMs = 0;
      const url = model.converse('alice', [
        { tool: 'mesh_peers', input: {} },
        { tool: 'mesh_task', input: { action: 'offer', to: 'mars', title: 'Write the parser', detail: 'all of it' } },
        async () => {
          // Offered while the model waits for mail.
          void delay(1_000).then(async () => {
            const said = await bob.call('mesh_task', {
              action: 'offer',
              to: 'alice',
              title: 'Fix it',
              detail: 'by noon',
            });
            task = /Task (\S+) offered/.exec(said)![1]!;
          });
          waitedMs = performance.now();
          return { tool: 'mesh_inbox', input: { wait_s: 20 } };
        },
        async () => {
          waitedMs = performance.now() - waitedMs;
          await until(() => task !== '', 'bob knows the id of the task');
          return { tool: 'mesh_lookup', input: { id: task } };
        },
        { tool: 'mesh_state', input: { action: 'set', key: 'plan.step', value: 'review' } },
        async () => {
          state = (await node.run('state', 'plan')).stdout;
          return { tool: 'mesh_lease', input: { action: 'take', paths: ['src/parse.ts'] } };
        },
        { tool: 'mesh_lease', input: { action: 'check', paths: ['src/parse.ts'] } },
        { tool: 'mesh_send', input: { to: 'operator', text: 'Which branch do you mean?', needs: 'reply' } },
        async () => {
          [letter] = idsIn(await bob.call('mesh_send', { to: 'alice', text: 'Are you there?', needs: 'reply' })) as [
            string,
          ];
          return { tool: 'mesh_inbox', input: { limit: 5 } };
        },
        () => ({ tool: 'mesh_send', input: { to: 'bob', reply_to: letter, text: 'Yes.' } }),
        { text: 'finished' },
      ]);
      const client = new RealClient(cluster, { id, as: 'alice', data: node.data, model: url });
      const { code, stderr } = await client.run();
      expect({ code, faults: model.faults }, stderr).toEqual({ code: 0, faults: [] });
      const texts = model.of('alice').results.map(({ text }) => text);
      if (process.env.ECLIPTIC_SHOW) console.log(texts);
      const [peers, refused, waited, looked, , taken, checked, asked, inbox, answered] = texts as string[];
      const lines = peers!.split('\n').filter((line) => /^(bob|Unstaffed)/.test(line));
      expect(lines).toEqual([expect.stringMatching(/^bob \[/), expect.stringMatching(/^Unstaffed .*mars/)]);
      expect(refused).toContain('Error NO_WORKER');
      expect(waited).toContain('offered by bob: Fix it');
      expect(waitedMs).toBeLessThan(10_000);
      expect(looked).toContain(`Task ${task} from bob`);
      expect(state).toContain('review');
      expect(taken).toContain('Taken: src/parse.ts');
      expect(checked).toMatch(/yours|you hold/i);
      expect(asked).toMatch(/to operator: /);
      const { stdout: forPerson } = await node.run('inbox', '--as', 'operator');
      expect(forPerson).toContain('Which branch do you mean?');
      expect((await node.run('watch', '--once')).stdout).toContain('Which branch do you mean?');
      expect(bodiesIn(inbox!)).toEqual(['Are you there?']);
      expect(answered).toMatch(/to bob: /);
      expect(bodiesIn(await bob.call('mesh_inbox'))).toEqual(['Yes.']);
      expect(node.log).not.toContain(node.ready.token);
    }),
  );
});

describe.each(['claude-code', 'opencode'])('%s without a node', (id) => {
  it(
    'starts one on a free port, leaves it down when it was stopped, and its own file is as before once setup is undone [T-A8 T-A9 T-A11 T-A15]',
    inCluster(async (cluster) => {
      const model = await modelIn(cluster);
      model.converse('alice', [{ tool: 'mesh_peers', input: {} }, { text: 'here' }]);
      const alice = await InteractiveClient.start(cluster, { id, as: 'alice', model });
      const run = (...args: string[]) => cluster.run(args, alice.home);
      cluster.onEnd(async () => void (await run('down')));
      await alice.turn('go');
      expect(model.of('alice').results[0]!.text).toContain('You are alice');
      const { stdout } = await run('doctor');
      expect(stdout).not.toMatch(/:3000\b/);
      await run('down');
      // A client that starts a node again does so within three seconds.
      await delay(5_000);
      expect((await run('agents')).stderr).toContain('NO_NODE');
      model.converse('alice', [{ tool: 'mesh_inbox', input: {} }, { text: 'no node' }]);
      await alice.turn('once more');
      expect(model.of('alice').results.at(-1)!.text).toMatch(/down|stopped/);
      await alice.terminal.end();
      expect((await run('setup', '--undo', '--yes')).code).toBe(0);
      const { mcpServers = {}, mcp = {} } = JSON.parse(readFileSync(alice.file, 'utf8'));
      expect({ ...mcpServers, ...mcp }).toEqual({});
      expect(existsSync(join(alice.home, '.config', 'opencode', 'plugins'))).toBe(false);
    }),
  );
});

async function worker(cluster: Cluster, steps: Parameters<typeof converse>[1]) {
  const { model, url } = await converse(cluster, steps);
  const agents = { worker: { acp: acpAgent(cluster, 'claude', url) } };
  const node = await cluster.start('desk', { args: ['--no-dht'], config: { roster: false, agents } });
  cluster.onEnd(async () => void (await node.stop()));
  const give = (text: string, more: object = {}) => node.call<TaskDetail>('task.send', { to: 'worker', text, ...more });
  return { model, node, give };
}

const answerOf = ({ task }: TaskDetail) => task.artifacts?.[0]?.parts[0]?.text;

describe('a real Claude as a worker', () => {
  it(
    'does a twelfth task that waited, sees the files and links of a task, and works again in a lane that was opened again [T-E8 T-E15 T-E17]',
    inCluster(async (cluster) => {
      const { model, node, give } = await worker(
        cluster,
        Array.from({ length: 14 }, (_, n) => ({ text: `answer ${n}` })),
      );
      const all = await Promise.all(Array.from({ length: 12 }, (_, n) => give(`task ${n}`)));
      expect(new Set(all.map(answerOf)).size).toBe(12);
      const note = join(cluster.folder, 'note.md');
      writeFileSync(note, 'The colour is ochre.');
      const link = 'https://example.com/spec.md';
      const { stdout } = await node.run('task', 'send', 'worker', 'Like this', '--attach', note, '--link', link);
      expect(stdout).toBe('answer 12\n');
      const seen = model.of('worker').latest.join('\n');
      expect(seen).toContain('The colour is ochre.');
      expect(seen).toContain(link);
      await node.run('lane', 'close', 'worker');
      expect(await node.call('lanes')).toMatchObject([{ lane: 'worker', closed: true }]);
      const { code, stderr } = await node.run('lane', 'open', 'worker');
      expect(code, stderr).toBe(0);
      expect(answerOf(await give('after'))).toBe('answer 13');
      expect(model.faults).toEqual([]);
    }),
  );

  it(
    'goes on with its work when a prompt that waits behind it is cancelled [T-E3]',
    inCluster(async (cluster) => {
      let release = () => {};
      const held = new Promise<void>((resolve) => {
        release = resolve;
      });
      const { node, give } = await worker(cluster, [
        { text: 'hello' },
        async () => {
          await held;
          return { text: 'the long work is done' };
        },
      ]);
      const first = await give('hello');
      const context = first.task.contextId!;
      const long = give('long work', { context });
      const tasks = () => node.call<{ id: string; state: string }[]>('tasks', { kind: 'a2a' });
      await until(async () => (await tasks()).length === 2, 'the long task is there');
      const known = new Set((await tasks()).map(({ id }) => id));
      const waiting = give('another', { context });
      const second = await until(async () => (await tasks()).find(({ id }) => !known.has(id)), 'the second waits');
      await node.run('task', 'cancel', second.id);
      expect((await waiting).task.status.state).toBe('TASK_STATE_CANCELED');
      release();
      expect(answerOf(await long)).toBe('the long work is done');
    }),
  );

  it(
    'is replaced by Gemini CLI while it has no login, by the order of the configuration [T-E9 T-E6]',
    inCluster(async (cluster) => {
      const { model, url } = await converse(cluster, [{ text: 'by gemini' }]);
      const claude = { acp: acpAgent(cluster, 'claude', url, {}) };
      const gemini = { acp: acpAgent(cluster, 'gemini', url) };
      const agents = { worker: { workers: [claude, gemini] } };
      const node = await cluster.start('desk', { args: ['--no-dht'], config: { roster: false, agents } });
      cluster.onEnd(async () => void (await node.stop()));
      const give = () => node.call<TaskDetail>('task.send', { to: 'worker', text: 'work' });
      // Claude shows only at its first prompt that it lacks a login.
      const done = await until(async () => {
        const task = await give();
        return answerOf(task) === 'by gemini' ? task : undefined;
      }, 'gemini answers');
      expect(done.state).toBe('TASK_STATE_COMPLETED');
      expect(model.faults).toEqual([]);
    }),
  );

  it(
    'that cannot start says its own error as the reason, and not the banner of its runtime [T-E12]',
    inCluster(async (cluster) => {
      const broken = join(cluster.folder, 'broken.mjs');
      writeFileSync(broken, "import './not-there.mjs';\n");
      const acp = { command: process.execPath, args: [broken] };
      const node = await cluster.start('desk', {
        args: ['--no-dht'],
        config: { roster: false, agents: { worker: { acp } } },
      });
      const row = async () => (await node.call<ProviderRow[]>('providers'))[0]!;
      const { message } = await until(async () => ((await row()).message ? row() : undefined), 'health has a reason');
      expect(message).toContain('not-there.mjs');
      expect(message).not.toMatch(/Node\.js v\d+/);
      expect(statSync(broken).isFile()).toBe(true);
    }),
  );
});
