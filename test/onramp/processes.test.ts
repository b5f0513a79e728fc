import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { type Cluster, inCluster, type ProcessNode, until } from '../nodes/cluster.js';
import { bodiesIn, idsIn } from '../onramp-fixture.js';
import { BIN } from '../source-files.js';
import { CodingAgent } from './coding-agent.js';

vi.setConfig({ testTimeout: 60_000 });

describe('a coding agent’s process', () => {
  it(
    'is told what there is where no node can run at all, and why nothing works there [ON7]',
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
    'starts the user’s node where none runs, one for all, which stays when they leave',
    inCluster(async (cluster) => {
      const data = join(cluster.folder, 'home');
      cluster.onEnd(async () => void (await cluster.run(['down', '--data', data])));
      const agents = await Promise.all(
        ['alice', 'bob', 'carol'].map((name) => CodingAgent.start(cluster, ['--as', name, '--data', data])),
      );
      for (const agent of agents) await agent.call('mesh_peers');
      expect(await agents[0]!.call('mesh_peers', { match: 'carol' })).toContain('carol');
      await Promise.all(agents.map((agent) => agent.leave()));
      const { code } = await cluster.run(['agents', '--data', data]);
      expect(code).toBe(0);
    }),
  );

  it(
    'is away for the others once it, or whoever started it, is gone [ON12]',
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
    'goes on by itself when the node was killed and comes back, and shows nothing twice',
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
