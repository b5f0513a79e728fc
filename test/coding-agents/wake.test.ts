import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it, vi } from 'vitest';
import type { TestedRow } from '../../src/coding-agents/wake/wakes.js';
import { bodiesIn, idsIn } from '../coding-agents-fixture.js';
import { type Cluster, inCluster, type ProcessNode, until } from '../nodes/cluster.js';
import { BIN } from '../source-files.js';
import { CodingAgent } from './coding-agent.js';
import { FakeClaude, FakeCodex, FakeOpencode } from './fake-clients.js';

vi.setConfig({ testTimeout: 60_000 });

const CLAUDE = { name: 'claude-code', version: '2.1.270' };
const CODEX = { name: 'codex-mcp-client', version: '0.153.4' };
const OPENCODE = { name: 'opencode', version: '1.4.3' };
const GEMINI = { name: 'gemini-cli-mcp-client', version: '0.0.1' };
const CURSOR = { name: 'cursor-vscode', version: '1.0.0' };

/** A model in one line: given a turn, it reads its mail and closes it. */
function reader(agent: CodingAgent, heard: string[]): () => Promise<void> {
  return async () => {
    const text = await agent.call('mesh_inbox');
    heard.push(...bodiesIn(text));
    // The test may be over before this is answered.
    await agent.try('mesh_inbox', { done: idsIn(text) });
  };
}

async function scene(cluster: Cluster, config = {}) {
  const node = await cluster.start('desk', { config: { onramp: { wake: { testWithinS: 5, ...config } } } });
  const alice = await joined(cluster, node, 'alice');
  return { node, alice };
}

function joined(
  cluster: Cluster,
  node: ProcessNode,
  name: string,
  env = {},
  client?: typeof CLAUDE,
): Promise<CodingAgent> {
  return CodingAgent.start(cluster, ['--as', name, '--no-start', '--data', node.data], env, client);
}

/** Runs a hook as a client does. */
async function hook(cluster: Cluster, node: ProcessNode, client: string, event: string, payload: object, env = {}) {
  const { folder } = cluster;
  const child = spawn(process.execPath, [BIN, 'hook', '--client', client, '--event', event, '--data', node.data], {
    cwd: folder,
    env: { PATH: process.env.PATH!, HOME: folder, ...env },
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  let out = '';
  child.stdout.on('data', (text) => {
    out += text;
  });
  child.stdin.end(JSON.stringify(payload));
  const [code] = (await once(child, 'close')) as [number];
  return { code, answer: JSON.parse(out) as Record<string, unknown> };
}

/**
 * Runs the plugin that setup wrote as opencode does, when a session begins and when it opens one for a part of its work.
 * Returns how the plugin's own server answers a program that does not have its password.
 */
async function runPlugin(cluster: Cluster, { session, url }: FakeOpencode, password: string): Promise<string> {
  const { folder } = cluster;
  const written = join(folder, '.config', 'opencode', 'plugins', 'ecliptic.js');
  // Its own runtime takes any file for a module.
  const plugin = join(folder, 'plugin.mjs');
  copyFileSync(written, plugin);
  const script = `
    import http from 'node:http';
    import { syncBuiltinESMExports } from 'node:module';
    const { createServer } = http;
    let server;
    http.createServer = (on) => (server = createServer(on));
    syncBuiltinESMExports();
    const headers = { authorization: 'Basic ' + btoa('opencode:${password}') };
    const ask = (path, init) => fetch('${url}/session/' + path, { headers, ...init });
    const client = { session: {
      get: async ({ path: { id } }) => ((await ask(id)).ok ? { data: { id, version: '1.4.3' } } : { error: {} }),
      promptAsync: async ({ path: { id }, body }) =>
        (await ask(id + '/prompt_async', { method: 'POST', body: JSON.stringify(body) })).ok ? {} : { error: {} },
    } };
    const { Ecliptic } = await import(${JSON.stringify(pathToFileURL(plugin).href)});
    const { event } = await Ecliptic({ client, directory: '${folder}' });
    const say = (type, properties) => event({ event: { type, properties } });
    await say('session.created', { info: { id: 'ses_part', parentID: '${session}' } });
    await say('session.idle', { sessionID: 'ses_part' });
    await say('session.created', { info: { id: '${session}' } });
    const own = 'http://127.0.0.1:' + server.address().port + '/session/${session}/prompt_async';
    console.log((await fetch(own, { method: 'POST', body: '{}' })).status);
    process.stdin.resume();`;
  const env = { PATH: process.env.PATH!, HOME: folder };
  const args = ['--input-type=module', '-e', script];
  const child = spawn(process.execPath, args, { cwd: folder, env, stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(child, 'close');
  cluster.onEnd(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const [status] = (await Promise.race([once(child.stdout, 'data'), ended])) as [Buffer];
  return String(status).trim();
}

async function tested(cluster: Cluster, node: ProcessNode, name: string): Promise<TestedRow> {
  const { stdout, code } = await cluster.run(['doctor', '--wake', name, '--json', '--data', node.data]);
  expect(code).toBe(0);
  const [row] = JSON.parse(stdout) as TestedRow[];
  return row!;
}

describe.concurrent('an idle agent’s client', () => {
  it(
    'of Claude Code is woken through its session’s inbox, once its hook has reported the path [ON6]',
    inCluster(async (cluster) => {
      const { node, alice } = await scene(cluster);
      const claude = await FakeClaude.start(cluster.folder);
      cluster.onEnd(() => claude.stop());
      const session = { CLAUDE_CODE_SESSION_ID: 'session-1' };
      const bob = await joined(cluster, node, 'bob', session, CLAUDE);
      const heard: string[] = [];
      claude.onPrompt = reader(bob, heard);
      await bob.call('mesh_peers');
      expect(await tested(cluster, node, 'bob')).toMatchObject({
        way: null,
        seesMail: 'polls',
        test: { passed: false },
      });
      const start = { session_id: 'session-1', cwd: '/elsewhere', hook_event_name: 'SessionStart' };
      const told = await hook(cluster, node, 'claude-code', 'SessionStart', start, claude.env);
      expect(told).toEqual({ code: 0, answer: {} });
      expect(await tested(cluster, node, 'bob')).toMatchObject({ seesMail: 'wakes', test: { passed: true } });
      expect(await alice.call('mesh_peers', { match: 'bob' })).toContain('bob [wakes]');
      heard.length = 0;
      const started = performance.now();
      await alice.call('mesh_send', { to: 'bob', text: 'please review', needs: 'reply' });
      await until(() => heard.length > 0, 'it has read it');
      expect(performance.now() - started).toBeLessThan(2_000);
      expect(heard).toEqual(['please review']);
      expect(JSON.stringify(claude.lines)).not.toContain('please review');
      const { stdout } = await cluster.run(['doctor', '--wake', '--json', '--data', node.data]);
      expect(stdout).not.toContain(claude.token);
    }),
  );

  it(
    'of Claude Code is woken again after each turn in which the agent only looked at its mail [T-A10]',
    inCluster(async (cluster) => {
      const { node } = await scene(cluster, { readWithinS: 2 });
      const claude = await FakeClaude.start(cluster.folder);
      cluster.onEnd(() => claude.stop());
      const session = { CLAUDE_CODE_SESSION_ID: 'session-1', ...claude.env };
      const bob = await joined(cluster, node, 'bob', session, CLAUDE);
      const heard: string[] = [];
      const stop = { session_id: 'session-1', cwd: '/elsewhere', hook_event_name: 'Stop' };
      let turns = 0;
      claude.onPrompt = async () => {
        heard.push(...bodiesIn(await bob.call('mesh_inbox')));
        await hook(cluster, node, 'claude-code', 'Stop', stop);
        turns += 1;
      };
      await bob.call('mesh_peers');
      const ids: string[] = [];
      for (const text of ['one', 'two', 'three']) {
        ids.push((await node.call<{ id: string }>('tell', { to: 'bob', text })).id);
        await until(() => turns === ids.length, 'its turn has ended');
      }
      expect(heard).toEqual(['one', 'two', 'three']);
      for (const id of ids) expect(await node.call('receipt', { id })).toMatchObject({ state: 'done' });
    }),
  );

  it(
    'that accepts every wake and shows none loses the mark that it wakes, and no mail counts as read [ON5] [ON6]',
    inCluster(async (cluster) => {
      const { node, alice } = await scene(cluster, { readWithinS: 2 });
      const claude = await FakeClaude.start(cluster.folder);
      cluster.onEnd(() => claude.stop());
      claude.wants = () => undefined;
      const bob = await joined(cluster, node, 'bob', claude.env, CLAUDE);
      await bob.call('mesh_peers');
      const row = await tested(cluster, node, 'bob');
      expect(row).toMatchObject({ seesMail: 'polls', path: 'failed', test: { passed: false } });
      expect(row.test.reason).toContain('not read');
      const [id] = idsIn(await alice.call('mesh_send', { to: 'bob', text: 'hello?', needs: 'reply' }));
      expect(await alice.call('mesh_peers', { match: 'bob' })).toContain('bob [polls]');
      const { state } = await node.call<{ state: string }>('receipt', { id });
      expect(state).toBe('arrived');
    }),
  );

  it.skipIf(process.platform !== 'linux')(
    'of Codex is woken through the queue of the thread that its calls name, while a process runs it [ON6]',
    inCluster(async (cluster) => {
      const { node, alice } = await scene(cluster);
      const codex = new FakeCodex(cluster.folder);
      await codex.run();
      cluster.onEnd(() => codex.quit());
      const bob = await joined(cluster, node, 'bob', codex.env, CODEX);
      const heard: string[] = [];
      codex.onPrompt = reader(bob, heard);
      await bob.ask('tools/call', { name: 'mesh_peers', arguments: {}, _meta: { threadId: codex.thread } });
      expect(await tested(cluster, node, 'bob')).toMatchObject({ seesMail: 'wakes', test: { passed: true } });
      const started = performance.now();
      await alice.call('mesh_send', { to: 'bob', text: 'please review', needs: 'ack' });
      await until(() => heard.includes('please review'), 'it has read it');
      expect(performance.now() - started).toBeLessThan(2_000);
      await codex.quit();
      const before = codex.queued.length;
      await alice.call('mesh_send', { to: 'bob', text: 'are you there?', needs: 'ack' });
      await until(
        async () => (await alice.call('mesh_peers', { match: 'bob' })).includes('[polls]'),
        'it is not claimed',
      );
      expect(codex.queued.length).toBe(before);
    }),
  );

  it(
    'of opencode is woken through the server of its plugin, which takes prompts from the node only [ON6]',
    inCluster(async (cluster) => {
      const { node, alice } = await scene(cluster);
      const opencode = await FakeOpencode.start('pass');
      cluster.onEnd(() => opencode.stop());
      const bob = await joined(cluster, node, 'bob', {}, OPENCODE);
      const heard: string[] = [];
      opencode.onPrompt = reader(bob, heard);
      await bob.call('mesh_peers');
      await cluster.run(['setup', 'opencode', '--hooks', '--yes', '--data', node.data]);
      expect(await runPlugin(cluster, opencode, 'pass')).toBe('401');
      const started = performance.now();
      await alice.call('mesh_send', { to: 'bob', text: 'please review', needs: 'reply' });
      await until(() => heard.length > 0, 'it has read it');
      expect(performance.now() - started).toBeLessThan(2_000);
      expect(await tested(cluster, node, 'bob')).toMatchObject({ seesMail: 'wakes', test: { passed: true } });
      const { stdout } = await cluster.run(['doctor', '--wake', 'bob', '--data', node.data]);
      expect(stdout).toMatch(
        /bob +opencode 1\.4\.3 +prompt_async +passed in .*\nThe result holds for these sessions\./s,
      );
    }),
  );
});

describe.concurrent('the end-of-turn hook', () => {
  it(
    'of Gemini and of Cursor prolongs the turn for mail that needs the agent, in the client’s own JSON [ON6]',
    inCluster(async (cluster) => {
      const { node, alice } = await scene(cluster);
      const clients = [
        { client: 'gemini', event: 'AfterAgent', info: GEMINI, payload: { session_id: 's', stop_hook_active: false } },
        { client: 'cursor', event: 'stop', info: CURSOR, payload: { status: 'completed', loop_count: 0 } },
      ];
      for (const { client, event, info, payload } of clients) {
        const agent = await joined(cluster, node, client, {}, info);
        await agent.call('mesh_peers');
        expect(await hook(cluster, node, client, event, payload)).toEqual({ code: 0, answer: {} });
        expect(await alice.call('mesh_peers', { match: client })).toContain(`${client} [next_turn]`);
        const [id] = idsIn(await alice.call('mesh_send', { to: client, text: 'please review', needs: 'reply' }));
        const { code, answer } = await hook(cluster, node, client, event, payload);
        expect(code).toBe(0);
        const pointer = client === 'gemini' ? answer.reason : answer.followup_message;
        expect(pointer).toContain(id);
        expect(Object.keys(answer)).toEqual(client === 'gemini' ? ['decision', 'reason'] : ['followup_message']);
        expect(JSON.stringify(answer)).not.toContain('please review');
        const heard: string[] = [];
        await reader(agent, heard)();
        expect(heard).toEqual(['please review']);
        expect(await hook(cluster, node, client, event, payload)).toEqual({ code: 0, answer: {} });
      }
    }),
  );

  it(
    'lets the client continue without a node, and with a node that hangs [ON6]',
    inCluster(async (cluster) => {
      const node = cluster.node('nowhere');
      mkdirSync(node.data, { recursive: true });
      expect(await hook(cluster, node, 'gemini', 'AfterAgent', {})).toEqual({ code: 0, answer: {} });
      await node.start();
      process.kill(node.pid, 'SIGSTOP');
      const started = performance.now();
      expect(await hook(cluster, node, 'gemini', 'AfterAgent', {})).toEqual({ code: 0, answer: {} });
      expect(performance.now() - started).toBeLessThan(4_000);
      process.kill(node.pid, 'SIGCONT');
    }),
  );
});
