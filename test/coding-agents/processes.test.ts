import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { ALL_TOOLS } from '../../src/coding-agents/tools/tool-list.js';
import { bodiesIn, idsIn } from '../coding-agents-fixture.js';
import { type Cluster, inCluster, type ProcessNode, until } from '../nodes/cluster.js';
import { BIN } from '../source-files.js';
import { CodingAgent } from './coding-agent.js';

vi.setConfig({ testTimeout: 60_000 });

describe('a coding agent’s process', () => {
  it(
    'gets its list of tools, and the reason why they fail, when no node can run [ON7]',
    inCluster(async (cluster) => {
      const nowhere = join(process.execPath, 'nowhere');
      const agent = await CodingAgent.start(cluster, ['--as', 'alice', '--data', nowhere]);
      const list = await agent.ask('tools/list');
      expect((list!.result!.tools as unknown[]).length).toBe(8);
      const result = await agent.try('mesh_peers');
      expect(result).toMatchObject({ isError: true });
      expect(result!.content[0]!.text).toContain(nowhere);
      await agent.leave();
    }),
  );

  it(
    'starts one node for all at a free port when none runs, and the node stays when they leave [T-A8]',
    inCluster(async (cluster) => {
      const data = join(cluster.folder, 'home');
      const config = join(data, 'ecliptic.json');
      mkdirSync(data);
      writeFileSync(config, '{ "roster": false }');
      cluster.onEnd(async () => void (await cluster.run(['down', '--data', data])));
      const agents = await Promise.all(
        // The port of the program that the agent works on, which is not the node's to take.
        ['alice', 'bob', 'carol'].map((name) =>
          CodingAgent.start(cluster, ['--as', name, '--data', data], { PORT: '3000' }),
        ),
      );
      for (const agent of agents) await agent.call('mesh_peers');
      expect(await agents[0]!.call('mesh_peers', { match: 'carol' })).toContain('carol');
      await Promise.all(agents.map((agent) => agent.leave()));
      const { code } = await cluster.run(['agents', '--data', data]);
      expect(code).toBe(0);
      const [started, ...more] = startsLogged(data);
      expect(more).toEqual([]);
      expect(started).toMatchObject({ config, data });
      // Without a free port of the system's choice, the node would be at 3000 or one of the next hundred.
      const port = Number(new URL(started!.http).port);
      expect(port < 3_000 || port > 3_100, String(port)).toBe(true);
    }),
  );

  it(
    'starts one with the user’s own settings, which exits when it is not used and comes back at its port [BG.1 BG.2]',
    inCluster(async (cluster) => {
      const data = join(cluster.folder, 'state');
      const config = join(cluster.folder, '.config', 'ecliptic', 'ecliptic.json');
      mkdirSync(join(config, '..'), { recursive: true });
      writeFileSync(config, '{ "roster": false, "network": { "dht": false }, "background": { "idleMs": 1000 } }');
      cluster.onEnd(async () => void (await cluster.run(['down', '--data', data])));
      for (let round = 1; round <= 2; round++) {
        const agent = await CodingAgent.start(cluster, ['--as', 'alice', '--data', data]);
        await agent.call('mesh_peers');
        await agent.leave();
        await until(async () => stopsLogged(data) === round, 'the node stops');
      }
      const [first, second, ...more] = startsLogged(data);
      expect(more).toEqual([]);
      expect(first).toMatchObject({ config, data });
      expect(second!.http).toBe(first!.http);
      // Nobody told it to stop, so that the next client starts it again.
      expect(existsSync(join(data, 'stopped-at'))).toBe(false);
    }),
  );

  it(
    'starts one for an editor, which exits some time after the editor has gone [BG.1]',
    inCluster(async (cluster) => {
      const data = join(cluster.folder, 'state');
      const config = join(cluster.folder, '.config', 'ecliptic', 'ecliptic.json');
      mkdirSync(join(config, '..'), { recursive: true });
      writeFileSync(config, '{ "roster": false, "network": { "dht": false }, "background": { "idleMs": 1000 } }');
      cluster.onEnd(async () => void (await cluster.run(['down', '--data', data])));
      // Its input has ended before it begins.
      expect(await cluster.run(['acp', '--to', 'mars', '--data', data])).toMatchObject({ code: 0 });
      await until(async () => stopsLogged(data) === 1, 'the node stops');
      expect(startsLogged(data)).toHaveLength(1);
    }),
  );

  it(
    'does not start a node that its owner stopped, joins it when it is up, and starts one after a crash [T-A15]',
    inCluster(async (cluster) => {
      const node = await cluster.start('desk', { config: { roster: false } });
      cluster.onEnd(async () => void (await node.run('down')));
      const alice = await CodingAgent.start(cluster, ['--as', 'alice', '--data', node.data]);
      await alice.call('mesh_peers');
      expect(await node.run('down')).toMatchObject({ code: 0 });
      // Each call is answered when an attempt to connect has failed; an attempt would start a node.
      for (let attempts = 0; attempts < 2; attempts++) {
        const result = await alice.try('mesh_peers');
        expect(result).toMatchObject({ isError: true });
        expect(result!.content[0]!.text).toContain('NO_NODE: the owner stopped the node');
      }
      expect(await node.run('agents')).toMatchObject({ code: 1, stderr: expect.stringMatching(/^NO_NODE/) });
      expect(alice.stderr).not.toContain('starting a node');
      await node.start();
      await alice.call('mesh_peers');
      await node.crash();
      // Until the connection is seen to be lost, a call is answered by what is left of the crashed node.
      await until(() => alice.stderr.includes('starting a node in the background'), 'a node is started');
      await alice.call('mesh_peers');
    }),
  );

  it(
    'is shown as away once it, or its parent process, has exited [ON12]',
    inCluster(async (cluster) => {
      const node = await cluster.start('desk');
      const watcher = await CodingAgent.start(cluster, ['--as', 'watcher', '--data', node.data]);
      const killed = await CodingAgent.start(cluster, ['--as', 'killed', '--data', node.data]);
      await killed.call('mesh_peers');
      const orphan = await startOrphan(cluster, node);
      await until(
        async () => (await watcher.call('mesh_peers', { match: 'orphan' })).includes('orphan ['),
        'it is there',
      );
      await killed.crash();
      process.kill(orphan.parent, 'SIGKILL');
      await until(async () => {
        const text = await watcher.call('mesh_peers');
        return text.includes('killed [offline]') && text.includes('orphan [offline]');
      }, 'both are away');
    }),
  );

  it(
    'reconnects when its killed node is back, and shows no message twice',
    inCluster(async (cluster) => {
      const node = await cluster.start('desk');
      const alice = await CodingAgent.start(cluster, ['--as', 'alice', '--no-start', '--data', node.data]);
      const bob = await CodingAgent.start(cluster, ['--as', 'bob', '--no-start', '--data', node.data]);
      await bob.call('mesh_peers');
      const [id] = idsIn(await alice.call('mesh_send', { to: 'bob', text: 'before' }));
      expect(bodiesIn(await bob.call('mesh_inbox'))).toEqual(['before']);
      await node.crash();
      await node.start();
      expect(bodiesIn(await bob.call('mesh_inbox'))).toEqual([]);
      await until(async () => (await node.call<{ state: string }>('receipt', { id })).state === 'done', 'it was read');
      await alice.call('mesh_send', { to: 'bob', text: 'after' });
      expect(bodiesIn(await bob.call('mesh_inbox', { wait_s: 20 }))).toEqual(['after']);
    }),
  );
});

describe('a coding agent with the tools of all agents', () => {
  it(
    'gets the mesh’s own tools at once, and is notified when others appear, change and come back [ON7]',
    inCluster(async (cluster) => {
      const folder = join(cluster.folder, 'mars.mjs');
      writeFileSync(folder, MARS);
      const config = { roster: false, agents: { mars: { module: folder } } };
      const node = cluster.node('desk', { args: ['--no-dht'], config });
      const args = ['--as', 'alice', '--tools', 'all', '--no-start', '--data', node.data];
      const began = performance.now();
      const alice = await CodingAgent.start(cluster, args);
      expect(await toolNames(alice)).toEqual(ALL_TOOLS.map(({ name }) => name));
      expect(performance.now() - began).toBeLessThan(3_000);
      await node.start();
      await until(() => alice.told.includes(CHANGED), 'there is more');
      expect(await toolNames(alice)).toEqual(expect.arrayContaining(['mesh_peers', 'mars__grow']));
      alice.told.length = 0;
      expect(await alice.call('mars__grow')).toBe('grown for alice');
      await until(() => alice.told.includes(CHANGED), 'something is new');
      expect(await toolNames(alice)).toContain('mars__fruit');
      alice.told.length = 0;
      await node.crash();
      await node.start();
      await until(() => alice.told.includes(CHANGED), 'it is there again');
      expect(await toolNames(alice)).not.toContain('mars__fruit');
      expect(await alice.call('mars__grow')).toBe('grown for alice');
    }),
  );

  it(
    'counts shown mail as read when it then calls another agent’s tool [ON4]',
    inCluster(async (cluster) => {
      const folder = join(cluster.folder, 'mars.mjs');
      writeFileSync(folder, MARS);
      const node = await cluster.start('desk', { config: { roster: false, agents: { mars: { module: folder } } } });
      const [alice, bob] = await Promise.all(
        ['alice', 'bob'].map((name) =>
          CodingAgent.start(cluster, ['--as', name, '--tools', 'all', '--data', node.data]),
        ),
      );
      await bob!.call('mesh_peers');
      const [id] = idsIn(await alice!.call('mesh_send', { to: 'bob', text: 'hello' }));
      expect(bodiesIn(await bob!.call('mesh_inbox'))).toEqual(['hello']);
      expect((await node.call<{ state: string }>('receipt', { id })).state).toBe('surfaced');
      await bob!.call('mars__grow');
      await until(async () => (await node.call<{ state: string }>('receipt', { id })).state === 'done', 'it was read');
    }),
  );
});

const CHANGED = 'notifications/tools/list_changed';
const MARS = `
  export function setup(agent) {
    agent.tool('grow', {}, (_, { caller }) => {
      agent.tool('fruit', {}, () => 'apple');
      return 'grown for ' + caller;
    });
  }`;

async function toolNames(agent: CodingAgent): Promise<string[]> {
  const list = await agent.ask('tools/list');
  return (list!.result!.tools as { name: string }[]).map(({ name }) => name);
}

/** The log lines of nodes that were started in the background and are up. */
function startsLogged(data: string): { http: string; config: string | null; data: string }[] {
  const lines = readFileSync(join(data, 'node.log'), 'utf8').split('\n');
  return lines.filter((line) => line.includes('"msg":"node started"')).map((line) => JSON.parse(line));
}

function stopsLogged(data: string): number {
  return readFileSync(join(data, 'node.log'), 'utf8').split('"msg":"node stopped"').length - 1;
}

/** A server whose starter does not close its input when it dies. */
async function startOrphan(cluster: Cluster, node: ProcessNode): Promise<{ parent: number }> {
  const script = `
    const { spawn } = require('node:child_process');
    const server = spawn(process.execPath, ['${BIN}', 'mcp', '--as', 'orphan', '--data', '${node.data}'], { stdio: ['pipe', 'ignore', 'ignore'], detached: true });
    server.stdin.write(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', clientInfo: { name: 'x' } } }) + '\\n');
    console.log('started');
    setInterval(() => {}, 1000);
  `;
  const parent = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'ignore'] });
  cluster.onEnd(async () => void parent.kill('SIGKILL'));
  await once(parent.stdout, 'data');
  return { parent: parent.pid! };
}
