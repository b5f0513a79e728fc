import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { EntryRow } from '../../src/node/control/rows.js';
import { ScriptedModel } from '../scripted-model.js';
import { BIN } from '../source-files.js';
import { Cluster, type ProcessNode, until, untilConnected } from './cluster.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const ARGS = ['--no-dht', '--listen', '127.0.0.1:0', '--port', '0'];
const RULE = 'Every change has a test.';
const NOTE = 'The orders service is deployed with make ship.';

describe('memory and house rules of two programs', () => {
  let cluster: Cluster;
  /** Founded the mesh. */
  let a: ProcessNode;
  /** Another device of the same owner. */
  let b: ProcessNode;
  let model: ScriptedModel;

  beforeAll(async () => {
    cluster = new Cluster();
    model = await ScriptedModel.start(() => 'done');
    cluster.onEnd(() => model.stop());
    const echo = {
      command: process.execPath,
      args: ['-e', 'process.stdin.pipe(process.stdout)'],
      stdin: 'json' as const,
    };
    const agents = { mars: { model: model.config }, io: { exec: echo }, rat: { sandbox: 'lab' } };
    [a, b] = await Promise.all([
      cluster.start('a', { args: ARGS }),
      cluster.start('b', { args: ARGS, config: { agents } }),
    ]);
    await a.admit(b, { owner: true });
    await untilConnected([a, b]);
  });

  afterAll(() => cluster.end());

  it('reach a subscribed MCP client of the other, its model and its program, and survive a kill [CO.6] [CO.7]', async () => {
    const updates: unknown[] = [];
    const client = await httpClient(b, (uri) => updates.push(uri));
    const subscription = await client.listen({ resourceSubscriptions: ['memory://entries'] });
    const { resources } = await client.listResources();
    expect(resources.map(({ uri }) => uri)).toEqual(['memory://entries', 'rules://entries', 'taste://entries']);

    const note = await a.json<EntryRow>('call', 'atlas.remember', JSON.stringify({ text: NOTE }), '--as', 'venus');
    const { id } = JSON.parse((note as unknown as { content: [{ text: string }] }).content[0].text) as { id: string };
    await until(async () => updates.length > 0, 'the client heard of the change');
    expect(updates[0]).toBe('memory://entries');
    const text = await read(client, `memory://entries/${id}`);
    expect(text).toContain(`by venus@${a.key.slice(0, 12)}`);
    expect(text).toMatch(new RegExp(`<<(\\w{12})\\n${NOTE}\\n\\1>>`));
    expect(await read(client, 'memory://search/ship%20orders')).toContain(NOTE);
    expect(await read(client, 'memory://search/nothing%20such')).toBe('No entries.');
    await subscription.close();
    await client.close();

    expect((await a.run('rules', 'add', RULE)).stdout).toMatch(/^added rules:\/\/entries\/\w{26}\n$/);
    await until(async () => (await b.json<EntryRow[]>('rules')).length === 1, 'the rule is on the other device');
    const [rule] = await b.json<EntryRow[]>('rules', 'search', 'test');
    expect(rule).toMatchObject({ text: RULE, author: `operator@${a.key}`, origin: `operator@${a.key}`, owner: true });

    await b.json('request', '--as', 'operator', '--to', 'mars', '"deploy the orders service"');
    const asked = model.completions.at(-1)!.messages.at(-1)!.content!;
    expect(asked).toContain(`follow them:\n- ${RULE}`);
    expect(asked).toMatch(new RegExp(`<<(\\w{12})\\n${NOTE}\\n\\1>>`));
    const question = ['request', '--as', 'operator', '--to', 'io', '"deploy the orders service"'];
    const { knowledge } = await b.json<{ knowledge: EntryRow[] }>(...question);
    expect(knowledge.map(({ text, owner }) => [text, owner])).toEqual([
      [RULE, true],
      [NOTE, false],
    ]);

    await b.crash();
    await a.stop();
    await b.start();
    expect((await b.json<EntryRow[]>('memory', 'search', 'orders')).map((row) => row.text)).toEqual([NOTE]);
    expect((await b.json<EntryRow[]>('rules'))[0]).toMatchObject({ text: RULE, owner: true });
    expect((await b.run('memory', 'forget', id.slice(0, 20), '--as', 'mars')).stderr).toContain('ENTRY_REFUSED');
    expect((await b.run('memory', 'forget', id)).stdout).toContain(`removed memory://entries/${id}`);
    expect((await b.run('memory')).stdout).toContain('no entries yet');
  });

  it('are at hand for a coding agent over stdio: as resources, and by mesh_call [CO.7]', async () => {
    const words = ['mcp', '--as', 'claude', '--tools', 'all', '--data', b.data];
    const heard: string[] = [];
    const client = new Client({ name: 'test', version: '1' });
    client.setNotificationHandler('notifications/resources/updated', ({ params }) => void heard.push(params.uri));
    await client.connect(
      new StdioClientTransport({ command: process.execPath, args: [BIN, ...words], stderr: 'ignore' }),
    );
    await until(async () => (await client.listResources()).resources.length === 3, 'the resources are relayed');
    await client.subscribeResource({ uri: 'taste://entries' });
    const call = async (tool: string, args: object) => {
      const result = await client.callTool({ name: 'mesh_call', arguments: { peer: 'atlas', tool, args } });
      return (result.content as { text: string }[])[0]!.text;
    };
    await call('remember', { text: 'Plain words, short sentences.', collection: 'taste', tags: ['wording'] });
    expect(await call('recall', { query: 'how do they like sentences' })).toMatch(
      /by claude, .*, tags wording\n<<(\w{12})\nPlain words, short sentences\.\n\1>>/,
    );
    await until(async () => heard.includes('taste://entries'), 'the subscriber heard of it');
    // A sandboxed agent may not see ATLAS, and what it notes stays inside.
    expect((await b.run('taste', 'add', 'only in the lab', '--as', 'rat')).code).toBe(0);
    expect((await b.json<EntryRow[]>('taste')).map(({ text }) => text)).toEqual(['Plain words, short sentences.']);
    expect((await b.json<EntryRow[]>('taste', 'list', '--as', 'rat')).map(({ sandbox }) => sandbox)).toEqual([
      'lab',
      null,
    ]);
    expect(await call('remember', { text: '' })).toContain('INVALID_ARGUMENTS');
    await client.close();
  });
});

async function httpClient({ ready }: ProcessNode, updated: (uri: string) => void): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } });
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => updated(params.uri));
  const headers = { authorization: `Bearer ${ready.token}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(ready.mcp), { requestInit: { headers } }));
  return client;
}

async function read(client: Client, uri: string): Promise<string> {
  const { contents } = await client.readResource({ uri });
  return (contents[0] as { text: string }).text;
}
