import { once } from 'node:events';
import { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import * as acp from '@agentclientprotocol/sdk';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Cluster, type ProcessNode, untilConnected } from '../nodes/cluster.js';
import { stablePort } from '../ports.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 120_000 });

const WORKER = fileURLToPath(new URL('editor-worker.mjs', import.meta.url));
const CODING_AGENT = fileURLToPath(new URL('../providers/acp-agent.mjs', import.meta.url));

/** An editor: the official SDK's client, with a folder of unsaved files and a user who answers questions. */
class Editor {
  readonly files = new Map([['/work/open.txt', 'unsaved words']]);
  readonly updates: acp.SessionUpdate[] = [];
  readonly asked: acp.RequestPermissionRequest[] = [];
  verdict = 'allow-once';
  readonly connection: acp.ClientConnection;
  readonly #end: () => Promise<unknown>;

  constructor(node: ProcessNode, to: string) {
    const words = ['acp', '--to', to, '--no-start', '--data', node.data];
    const child = cluster.launch(words, node.home, {}, undefined, { input: true });
    const over = once(child, 'exit');
    this.#end = () => {
      child.stdin!.end();
      return over;
    };
    this.connection = acp
      .client({ name: 'an editor' })
      .onNotification(acp.methods.client.session.update, ({ params }) => {
        this.updates.push(params.update);
      })
      .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
        this.asked.push(params);
        return { outcome: { outcome: 'selected', optionId: this.verdict } };
      })
      .onRequest(acp.methods.client.fs.readTextFile, ({ params }) => {
        const content = this.files.get(params.path);
        if (content === undefined) throw acp.RequestError.resourceNotFound(params.path);
        return { content };
      })
      .onRequest(acp.methods.client.fs.writeTextFile, ({ params }) => {
        this.files.set(params.path, params.content);
        return {};
      })
      .connect(acp.ndJsonStream(Writable.toWeb(child.stdin!), Readable.toWeb(child.stdout!) as never));
  }

  async open(): Promise<acp.InitializeResponse> {
    return this.connection.agent.request(acp.methods.agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: { fs: { readTextFile: true, writeTextFile: true } },
    });
  }

  async session(): Promise<string> {
    const made = await this.connection.agent.request(acp.methods.agent.session.new, { cwd: '/work', mcpServers: [] });
    return made.sessionId;
  }

  async prompt(sessionId: string, ...prompt: (string | acp.ContentBlock)[]): Promise<[string, string]> {
    this.updates.length = 0;
    const blocks = prompt.map((one) => (typeof one === 'string' ? { type: 'text' as const, text: one } : one));
    const { stopReason } = await this.connection.agent.request(acp.methods.agent.session.prompt, {
      sessionId,
      prompt: blocks,
    });
    return [stopReason, this.said('agent_message_chunk')];
  }

  said(kind: 'agent_message_chunk' | 'agent_thought_chunk' | 'user_message_chunk'): string {
    return this.updates
      .flatMap((update) =>
        update.sessionUpdate === kind && update.content.type === 'text' ? [update.content.text] : [],
      )
      .join('');
  }

  kinds(): string[] {
    return this.updates.map(({ sessionUpdate }) => sessionUpdate);
  }

  close(): Promise<unknown> {
    return this.#end();
  }
}

let cluster: Cluster;
let desktop: ProcessNode;
let laptop: ProcessNode;
let local: Editor;
let remote: Editor;

beforeAll(async () => {
  cluster = new Cluster();
  desktop = await cluster.start('desktop', {
    args: ['--no-dht', '--listen', `127.0.0.1:${await stablePort()}`],
    config: {
      agents: {
        worker: { module: WORKER },
        mars: { acp: { command: process.execPath, args: [CODING_AGENT, 'load'] } },
      },
    },
  });
  laptop = await cluster.start('laptop', { args: ['--no-dht', '--listen', '127.0.0.1:0'] });
  await desktop.admit(laptop, { owner: true });
  await untilConnected([desktop, laptop]);
  local = new Editor(desktop, 'worker');
  remote = new Editor(laptop, 'mars@desktop');
  await Promise.all([local.open(), remote.open()]);
});

afterAll(async () => {
  await Promise.all([local?.close(), remote?.close()]);
  await cluster.end();
});

describe('an editor that speaks ACP', () => {
  it('talks to an agent that is a program: answers, questions, refusals and failures are turns [ED.1]', async () => {
    const session = await local.session();
    expect(await local.prompt(session, 'hello')).toEqual(['end_turn', 'you said hello']);
    expect(await local.prompt(session, 'question')).toEqual(['end_turn', 'which file?']);
    expect(await local.prompt(session, 'the first')).toEqual(['end_turn', 'so the first']);
    expect(await local.prompt(session, 'refuse')).toEqual(['refusal', 'not for me']);
    await expect(local.prompt(session, 'fail')).rejects.toThrow('no disk');
    await expect(local.prompt('unknown', 'hello')).rejects.toMatchObject({ code: -32002 });
  });

  it('cancels a turn, and may go on in the session [ED.1]', async () => {
    const session = await local.session();
    const turn = local.prompt(session, 'hold');
    await vi.waitFor(() => expect(local.said('agent_thought_chunk')).toContain('holding'), 30_000);
    await expect(
      local.connection.agent.request(acp.methods.agent.session.prompt, { sessionId: session, prompt: [] }),
    ).rejects.toMatchObject({ code: -32600 });
    await local.connection.agent.notify(acp.methods.agent.session.cancel, { sessionId: session });
    expect(await turn).toEqual(['cancelled', expect.any(String)]);
    expect(await local.prompt(session, 'hello')).toEqual(['end_turn', 'you said hello']);
  });

  it('gives the agent its files: in the prompt, as tools, and writes only what its user allows [ED.2]', async () => {
    const session = await local.session();
    const link = { type: 'resource_link' as const, name: 'open.txt', uri: 'file:///work/open.txt' };
    const embedded = { type: 'resource' as const, resource: { uri: 'file:///work/b.md', text: 'inside' } };
    expect(await local.prompt(session, 'files', link, embedded)).toEqual([
      'end_turn',
      'open.txt: unsaved words, b.md: inside',
    ]);
    expect(await local.prompt(session, 'read /work/open.txt')).toEqual(['end_turn', 'unsaved words']);
    expect(await local.prompt(session, 'write /work/open.txt new words')).toEqual(['end_turn', 'written']);
    expect(local.files.get('/work/open.txt')).toBe('new words');
    expect(local.asked.at(-1)?.toolCall).toMatchObject({
      kind: 'edit',
      content: [{ type: 'diff', path: '/work/open.txt', oldText: 'unsaved words', newText: 'new words' }],
    });
    local.verdict = 'deny';
    expect((await local.prompt(session, 'write /work/open.txt bad words'))[1]).toContain('did not let');
    expect(local.files.get('/work/open.txt')).toBe('new words');
    const foreign = await desktop.run('tool', 'call', 'editor.read_file', '{"path":"/work/open.txt"}');
    expect([foreign.code, foreign.stderr + foreign.stdout]).toEqual([1, expect.stringContaining('worker only')]);
  });

  it('shows plan, tool calls and stream of a coding agent on another device, and asks its user for permission [ED.3]', async () => {
    const session = await remote.session();
    const work = 'do:remember one\ndo:plan look,write\ndo:tool open a.txt\ndo:ask Edit a.txt\ndo:say . done';
    expect(await remote.prompt(session, work)).toEqual(['end_turn', 'once. done ']);
    expect(remote.updates).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          sessionUpdate: 'plan',
          entries: ['look', 'write'].map((content) => ({ content, priority: 'medium', status: 'pending' })),
        }),
        expect.objectContaining({ sessionUpdate: 'tool_call', title: 'open a.txt', kind: 'read', status: 'pending' }),
        expect.objectContaining({ sessionUpdate: 'tool_call_update', toolCallId: 't1', status: 'completed' }),
      ]),
    );
    expect(remote.asked).toHaveLength(1);
    const [{ toolCall, options }] = remote.asked as [acp.RequestPermissionRequest];
    expect(toolCall.title).toContain('Edit a.txt');
    expect(JSON.stringify(toolCall.content)).toContain('-one\\n+two');
    expect(options.map(({ kind }) => kind)).toEqual(['allow_once', 'allow_always', 'reject_once']);
    remote.verdict = 'deny';
    expect(await remote.prompt(session, 'do:ask Edit b.txt')).toEqual(['end_turn', 'no']);
    // Another editor, in the same conversation.
    const other = new Editor(laptop, 'mars@desktop');
    await other.open();
    await other.connection.agent.request(acp.methods.agent.session.load, {
      sessionId: session,
      cwd: '/work',
      mcpServers: [],
    });
    expect(other.said('user_message_chunk')).toContain('do:remember one');
    expect(other.said('agent_message_chunk')).toContain('. done');
    expect(await other.prompt(session, 'do:recall')).toEqual(['end_turn', 'one']);
    await other.close();
  });
});
