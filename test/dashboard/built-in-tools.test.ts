import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { describe, expect, it, vi } from 'vitest';
import type { NodeStatus, Story, WaitingItem } from '../../src/http/dashboard/facts.js';
import type { JournalRow } from '../../src/mesh/audit/tables.js';
import { CodingAgent } from '../coding-agents/coding-agent.js';
import { type Cluster, inCluster, type ProcessNode } from '../nodes/cluster.js';

vi.setConfig({ testTimeout: 90_000 });

const NAMES = ['ecliptic__status', 'ecliptic__story', 'ecliptic__waiting'];

/** The official client, with a token of the node. */
async function clientOf(cluster: Cluster, node: ProcessNode, token: string): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' });
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(node.ready.mcp), { requestInit }));
  cluster.onEnd(() => client.close());
  return client;
}

async function call<T>(client: Client, name: string, args: Record<string, unknown> = {}): Promise<T> {
  const { structuredContent, isError, content } = await client.callTool({ name, arguments: args });
  if (isError) throw new Error(JSON.stringify(content));
  return structuredContent as T;
}

async function tokenOf(node: ProcessNode, name: string, sandbox?: string): Promise<string> {
  return (await node.call<{ token: string }>('token.create', { name, sandbox })).token;
}

describe('the tools ecliptic.status, ecliptic.story and ecliptic.waiting', () => {
  it(
    'give the owner over MCP what the commands show [FC.24]',
    inCluster(async (cluster) => {
      const node = await cluster.start('desk', { args: ['--no-dht'] });
      const owner = await clientOf(cluster, node, node.ready.token);
      const { tools } = await owner.listTools();
      const own = tools.filter(({ name }) => name.startsWith('ecliptic'));
      expect(own.map(({ name }) => name)).toEqual(NAMES);
      expect(own.every(({ annotations }) => annotations?.readOnlyHint === true)).toBe(true);
      const alice = await CodingAgent.start(cluster, ['--as', 'alice', '--data', node.data]);
      await alice.call('mesh_send', { to: 'operator', text: 'Which branch?', needs: 'reply' });

      const status = await call<NodeStatus>(owner, 'ecliptic.status');
      expect(status).toMatchObject({ node: node.key, name: 'desk', waiting: { mail: 1 }, degraded: [] });
      expect(status.ready).toEqual({ status: 'ready', reasons: [] });
      expect(status.agents.unstaffed).toBeGreaterThan(0);
      expect(status.store.bytes).toBeGreaterThan(0);
      expect(status.queues).toMatchObject({ inbox: 1, outbox: 0, mailboxes: 0 });

      const { items } = await call<{ items: WaitingItem[] }>(owner, 'ecliptic__waiting');
      expect(items).toMatchObject([{ kind: 'mail', from: 'alice', title: 'Which branch?' }]);
      const story = await call<Story>(owner, 'ecliptic__story', { id: items[0]!.id });
      expect(story).toMatchObject({ kind: 'message', over: false, parties: ['alice', 'operator'] });
      expect(story).toEqual(await node.json('story', items[0]!.id));
      await expect(call(owner, 'ecliptic__story', { id: 'nothing' })).rejects.toThrow('STORY_NOT_FOUND');
      await expect(call(owner, 'ecliptic__story')).rejects.toThrow('must be a non-empty string');
    }),
  );

  it(
    'give an agent and a sandboxed caller only what concerns them [FC.25]',
    inCluster(async (cluster) => {
      const agents = { sun: {}, mars: {}, rat: { sandbox: 'lab' }, mouse: { sandbox: 'lab' } };
      const node = await cluster.start('desk', { args: ['--no-dht'], config: { roster: false, agents } });
      const send = (as: string, to: string, text: string) =>
        node.call('send', { as, to, payload: { text }, type: 'notification', durable: true }).catch(() => {});
      await send('sun', 'mars', 'a secret plan');
      await send('rat', 'mouse', 'cheese');
      const bob = await CodingAgent.start(cluster, ['--as', 'bob', '--data', node.data]);
      await bob.call('mesh_send', { to: 'operator', text: 'Hello.', needs: 'reply' });
      const rows = await node.json<JournalRow[]>('log');
      const idOf = (sender: string) => rows.find((row) => row.sender === sender)!.envelopeId;
      const secret = idOf('sun');

      const lab = await clientOf(cluster, node, await tokenOf(node, 'visitor', 'lab'));
      expect((await lab.listTools()).tools.map(({ name }) => name)).toEqual(expect.arrayContaining(NAMES));
      const status = await call<NodeStatus>(lab, 'ecliptic__status');
      expect(Object.keys(status).sort()).toEqual(['agents', 'name', 'node', 'uptimeMs', 'version', 'waiting']);
      expect(Object.values(status.agents).reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(3);
      expect(await call(lab, 'ecliptic__waiting')).toEqual({ items: [], missing: [] });
      expect(await call<Story>(lab, 'ecliptic__story', { id: idOf('rat') })).toMatchObject({
        ...{ kind: 'message', parties: ['rat', 'mouse'] },
        payload: { text: expect.stringContaining('cheese') },
      });
      for (const id of [secret, `message:${secret}`, secret.slice(0, 12), 'nothing', idOf('bob')]) {
        const refusal = call(lab, 'ecliptic__story', { id });
        await expect(refusal).rejects.toThrow('STORY_NOT_FOUND');
        await expect(refusal).rejects.not.toThrow(/secret plan|sun|[0-9A-Z]{27}/);
      }
      // Ids of others, and beginnings of them, are answered like ids that do not exist.
      const answerTo = (id: string) =>
        call(lab, 'ecliptic__story', { id }).then(
          () => 'told',
          (error: Error) => error.message.replaceAll(id, 'ID'),
        );
      const unknown = await answerTo('01AAAAAAAAAAAAAAAAAAAAAAAA');
      for (const id of [secret, secret.slice(0, 25), secret.slice(0, 4), `message:${secret}`, 'approval:0']) {
        expect(await answerTo(id)).toBe(unknown);
      }
      const own = await call<Story>(lab, 'ecliptic__story', { id: idOf('rat') });
      expect(JSON.stringify(own)).not.toMatch(/of the journal|of the audit log/);

      const plain = await clientOf(cluster, node, await tokenOf(node, 'bob'));
      expect(await call(plain, 'ecliptic__waiting')).toMatchObject({ items: [{ from: 'bob', title: 'Hello.' }] });
      expect(await call<Story>(plain, 'ecliptic__story', { id: idOf('bob') })).toMatchObject({ kind: 'message' });
      await expect(call(plain, 'ecliptic__story', { id: secret })).rejects.toThrow('STORY_NOT_FOUND');
      await expect(call(plain, 'ecliptic__story', { id: idOf('rat') })).rejects.toThrow('STORY_NOT_FOUND');
    }),
  );
});
