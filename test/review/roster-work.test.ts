import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Agent } from '../../src/agent/agent.js';
import { ControlClient } from '../../src/node/control/client.js';
import { Host } from '../../src/node/host.js';
import type { ToolReport } from '../../src/roster/tools/tool-report.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { BIN } from '../source-files.js';
import { SECRETS, TestRepository } from './repository.js';

const KEY = `export const token = '${SECRETS.github}';\n`;
/** The folder of the node's configuration, the checkout of a coding agent, and a folder that everyone may name. */
const project = new TestRepository({
  'key.js': KEY,
  'package.json': JSON.stringify({ name: 'project', version: '1.0.0', scripts: { test: 'node run.js' } }),
  'run.js': "require('fs').writeFileSync('ran', '');\nconsole.log('TAP version 13\\nok 1 - a');\n",
});
const checkout = new TestRepository({ 'src/mine.js': KEY });
const shared = new TestRepository({ 'ours.js': KEY });
const data = mkdtempSync(join(tmpdir(), 'ecliptic-roster-'));
let host: Host;
let control: ControlClient;
let sun: Agent;

beforeAll(async () => {
  project.write({ 'worker.mjs': 'export const setup = (agent) => { agent.onTask(() => ({ by: agent.id })); };\n' });
  const config = {
    network: { dht: false },
    agents: { neptune: { module: './worker.mjs' }, boss: { tier: 0 as const } },
    workspaces: [shared.folder],
  };
  const loaded = { config, file: undefined, folder: project.folder };
  const init = { runtime: systemRuntime(), loaded, dataFolder: data, env: {}, http: { port: 0, open: true } };
  host = await Host.start(init);
  control = await ControlClient.connect(host.control);
  sun = host.node.agentById('sun');
});

afterAll(async () => {
  control?.close();
  await host?.stop();
  for (const one of [project, checkout, shared]) one.remove();
  rmSync(data, { recursive: true, force: true });
});

const propose = (init: { to?: string; capability?: string; input?: unknown }): Promise<unknown> =>
  sun.propose({
    taskDescription: 'Look at it',
    ...(init.to !== undefined && { to: init.to }),
    ...(init.capability !== undefined && { requiredCapabilities: [init.capability] }),
    ...(init.input !== undefined && { input: init.input }),
  }).result;

let calls = 0;
async function a2a(skill: string, input: object): Promise<string> {
  const message = { messageId: `m${++calls}`, role: 'ROLE_USER', parts: [{ text: 'Look' }, { data: input }] };
  const answer = await fetch(`${host.gateway.url}/a2a/rpc`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'A2A-Version': '1.0' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message, metadata: { skill } } }),
  });
  return answer.text();
}

describe('a role with tools', () => {
  it('does a task that asks for what its tools implement on a workspace [RT.4]', async () => {
    const found = { findings: [expect.objectContaining({ rule: 'secret/github-token', file: 'key.js', line: 1 })] };
    expect(await propose({ capability: 'security.review', input: { workspace: '.' } })).toMatchObject(found);
    expect(await propose({ to: 'enceladus', input: { workspace: '.', tool: 'secrets' } })).toMatchObject(found);
    const report = (await propose({ capability: 'testing.unit', input: { workspace: '.' } })) as ToolReport;
    expect(report).toMatchObject({ agent: 'saturn', tool: 'saturn.report', findings: [] });
    expect(report.summary).toContain('no test was run');
    expect(existsSync(join(project.folder, 'ran'))).toBe(false);
    const swarm = sun.swarm('Review', {
      capabilities: ['security.review', 'validation.data'],
      plan: [
        { id: 'a', requiredCapabilities: ['security.review'], input: { workspace: '.' } },
        { id: 'b', requiredCapabilities: ['validation.data'], input: { workspace: '.' } },
      ],
    });
    const { results } = await swarm.result;
    expect(results).toMatchObject({ a: found, b: { tool: 'mercury.validate' } });
  });

  it.each<[string, () => Promise<unknown>]>([
    ['another capability of its card', () => propose({ capability: 'security.auth', input: { workspace: '.' } })],
    [
      'it by name for another capability',
      () => propose({ to: 'saturn', capability: 'testing.e2e', input: { workspace: '.' } }),
    ],
    ['nothing in particular', () => propose({ to: 'enceladus' })],
    ['words alone on a workspace', () => propose({ to: 'enceladus', input: { workspace: '.' } })],
    ['its capability without a workspace', () => propose({ capability: 'security.review' })],
    ['a tool of another role', () => propose({ to: 'enceladus', input: { workspace: '.', tool: 'imports' } })],
    ['an answer', () => sun.request('enceladus', 'Is it safe?')],
    ['a swarm for another capability', () => sun.swarm('Log in', { capabilities: ['security.auth'] }).result],
  ])('refuses work that asks for %s with NO_WORKER and the command that staffs it [RT.4]', async (_, ask) => {
    const refused = await ask().then(
      (value) => `it was done: ${JSON.stringify(value)}`,
      ({ code, message }: { code: string; message: string }) => `${code}: ${message}`,
    );
    expect(refused).toMatch(/NO_WORKER.*ecliptic staff --roles (enceladus|saturn)/s);
  });

  it('leaves its tasks to a worker that the configuration gives it, and still offers its tools [RT.4]', async () => {
    expect(await propose({ capability: 'analytics.metrics', input: { workspace: '.' } })).toEqual({ by: 'neptune' });
    const { content } = await sun.mcp.call('neptune.history', {});
    expect(content).toMatchObject([{ text: expect.stringMatching(/^NEPTUNE found no history/) }]);
  });

  it('reads for each caller only folders of its own and those of "workspaces" [RT.7]', async () => {
    const alice = await host.codingAgents.attach({ as: 'alice', client: 'scripted', checkout: checkout.folder });
    const secrets = async (caller: Agent, workspace?: string) => {
      const args = workspace === undefined ? {} : { workspace };
      const { content } = await caller.mcp.call('enceladus.secrets', args);
      return (content as { text: string }[])[0]!.text;
    };
    expect(await secrets(alice.agent)).toContain('src/mine.js:1: critical: a token of GitHub');
    expect(await secrets(alice.agent, 'src')).toContain('mine.js:1');
    expect(await secrets(alice.agent, shared.folder)).toContain('ours.js:1');
    expect(await secrets(sun)).toContain('key.js:1');
    for (const place of [project.folder, '..', '/', `${checkout.folder}/../..`, 'no-such-folder']) {
      await expect(secrets(alice.agent, place), place).rejects.toMatchObject({ code: 'WORKSPACE_REFUSED' });
    }
    // Guests of an open node.
    expect(await a2a('security.review', { workspace: '.' })).toContain('ours.js');
    expect(await a2a('security.review', { workspace: project.folder })).toContain('no folder in a workspace of guest');
    expect(await a2a('security.auth', { workspace: '.' })).toContain('NO_WORKER');
    await alice.leave();
  });

  it('runs tests only once the owner has allowed it [RT.7]', async () => {
    const run = sun.mcp.call('saturn.run_tests', { format: 'json' });
    const waiting = () => control.call('approvals');
    await expect.poll(async () => (await waiting()).length).toBe(1);
    const [asked] = await waiting();
    expect(asked!.summary).toContain('may saturn run "npm test --silent"');
    expect(existsSync(join(project.folder, 'ran'))).toBe(false);
    await control.call('approvals.decide', { ids: [asked!.id], verdict: 'allow-once' });
    const { structuredContent } = await run;
    expect(structuredContent).toMatchObject({ tool: 'saturn.output', findings: [], facts: { code: 0, passed: 1 } });
    expect(existsSync(join(project.folder, 'ran'))).toBe(true);
  });
});

describe('a coding agent over MCP', () => {
  it('finds the tools of the roster through mesh_call and among all tools, and gets findings as text [RT.8]', async () => {
    const args = [BIN, 'mcp', '--as', 'bob', '--tools', 'all', '--no-start', '--data', data];
    const client = new Client({ name: 'test', version: '1' });
    const env = { PATH: process.env.PATH!, HOME: data };
    const transport = new StdioClientTransport({
      command: process.execPath,
      args,
      cwd: checkout.folder,
      env,
      stderr: 'ignore',
    });
    await client.connect(transport);
    try {
      // Until its process has reached the node, a client is shown the tools of the mesh alone.
      const secrets = async () => (await client.listTools()).tools.find(({ name }) => name === 'enceladus__secrets');
      await expect.poll(secrets, { timeout: 20_000 }).toMatchObject({
        annotations: { readOnlyHint: true },
        description: expect.stringContaining('tokens'),
      });
      const text = async (name: string, given: Record<string, unknown>) =>
        ((await client.callTool({ name, arguments: given })).content as { text: string }[])
          .map((one) => one.text)
          .join('\n');
      const finding =
        /^ENCELADUS .* 1 finding\.\nsrc\/mine\.js:1: critical: a token of GitHub .*\[secret\/github-token\]$/m;
      expect(await text('enceladus__secrets', {})).toMatch(finding);
      expect(await text('mesh_call', { peer: 'enceladus' })).toMatch(/^secrets: Finds keys/m);
      expect(await text('mesh_call', { peer: 'enceladus', tool: 'secrets' })).toMatch(finding);
      expect(await text('mesh_call', { peer: 'uranus', tool: 'search', args: { pattern: 'const token' } })).toContain(
        'src/mine.js:1',
      );
      expect(await text('mesh_call', { peer: 'enceladus', tool: 'secrets', args: { workspace: '/' } })).toContain(
        'WORKSPACE_REFUSED',
      );
    } finally {
      await client.close();
    }
  });
});
