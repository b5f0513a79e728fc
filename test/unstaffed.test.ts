import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Agent } from '../src/agent/agent.js';
import type { Member } from '../src/coding-agents/mailbox/member.js';
import { runTool } from '../src/coding-agents/tools/tools.js';
import type { Config } from '../src/node/config/schema.js';
import { ControlClient } from '../src/node/control/client.js';
import { Host } from '../src/node/host.js';
import { systemRuntime } from '../src/runtime/system-runtime.js';

/** `painter` has the capability of venus, and a worker. `sketch` is offered by venus and an agent like it alone. */
const CONFIG: Config = {
  network: { dht: false },
  agents: {
    sun: { module: './worker.mjs' },
    painter: { tier: 2, capabilities: ['frontend.ui'], module: './worker.mjs' },
    sketcher: { tier: 2, capabilities: ['sketch'] },
  },
};
const STAFF = /NO_WORKER.*To staff it: ecliptic staff --roles (venus|sketcher), or in ecliptic\.json "agents"/s;

let folder: string;
let host: Host;
let control: ControlClient;
let sun: Agent;
let alice: Member;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-unstaffed-'));
  const does = `({ text, payload }) => ({ by: agent.id, did: text ?? payload })`;
  writeFileSync(
    join(folder, 'worker.mjs'),
    `export const setup = (agent) => { agent.onRequest(${does}); agent.onTask(${does}); };`,
  );
  const loaded = { config: CONFIG, file: undefined, folder };
  const dataFolder = join(folder, 'data');
  host = await Host.start({ runtime: systemRuntime(), loaded, dataFolder, env: {}, http: { port: 0, open: true } });
  control = await ControlClient.connect(host.control);
  sun = host.node.agentById('sun');
  alice = await host.codingAgents.attach({ as: 'alice', client: 'scripted', checkout: folder });
});

afterAll(async () => {
  control?.close();
  await host?.stop();
  rmSync(folder, { recursive: true, force: true });
});

let calls = 0;

async function mesh(tool: string, args: Record<string, unknown> = {}): Promise<string> {
  const { signal } = new AbortController();
  return (await runTool(alice, tool, args, { number: ++calls, seen: [], signal })).text;
}

async function rpc(params: object): Promise<string> {
  const answer = await fetch(`${host.gateway.url}/a2a/rpc`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'A2A-Version': '1.0' },
    body: JSON.stringify({
      ...{ jsonrpc: '2.0', id: 1, method: 'SendMessage' },
      params: { message: { messageId: `m${++calls}`, role: 'ROLE_USER', parts: [{ text: 'Draw it' }] }, ...params },
    }),
  });
  return answer.text();
}

async function json(path: string): Promise<Record<string, unknown>> {
  const answer = await fetch(`${host.gateway.url}${path}`, { headers: { 'A2A-Version': '1.0' } });
  return (await answer.json()) as Record<string, unknown>;
}

const plan = (task: object) => ({
  text: JSON.stringify({ name: `walk-${++calls}`, tasks: [{ id: 'draw', description: 'Draw it.', ...task }] }),
  file: join(folder, 'plan.json'),
});

async function collected(stream: AsyncIterable<unknown>): Promise<unknown[]> {
  const chunks: unknown[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

describe('an agent without a worker', () => {
  it.each<[string, () => Promise<unknown> | unknown, unknown]>([
    [
      'the list of agents',
      async () => (await control.call('agents')).find(({ id }) => id === 'venus')?.state,
      'unstaffed',
    ],
    [
      'the list by capability',
      async () => (await control.call('agents', { capability: 'sketch' })).map(({ state }) => state),
      ['unstaffed'],
    ],
    ['its card', async () => (await control.call('card', { id: 'venus' })).status?.state, 'unstaffed'],
    ['its card of the library', () => host.node.agentById('venus').card.status?.state, 'unstaffed'],
    ['the card that other nodes get', () => host.node.registry.requireById('venus').status?.takes, []],
    [
      'its self-description',
      async () => JSON.stringify(await sun.mcp.call('venus.describe')),
      expect.stringContaining('unstaffed'),
    ],
    [
      'its A2A card',
      () => json('/api/agents/venus/agent-card'),
      expect.objectContaining({ skills: [], description: expect.stringMatching(/Unstaffed: .*NO_WORKER/) }),
    ],
    [
      'the doctor',
      async () => JSON.stringify((await control.call('doctor')).findings),
      expect.stringMatching(/14 agents are unstaffed: .*ecliptic staff/),
    ],
    [
      'mesh_peers',
      () => mesh('mesh_peers'),
      expect.stringMatching(/\nUnstaffed \(no worker, refuse requests and tasks\): [^\n]*venus/),
    ],
    [
      'mesh_peers with its capability',
      () => mesh('mesh_peers', { match: 'sketch' }),
      expect.stringMatching(/\nUnstaffed [^\n]*: sketcher\.$/),
    ],
  ])('is shown as unstaffed by %s [WK.S5]', async (_, show, expected) => {
    expect(await show()).toEqual(expected);
  });

  it('is not among the agents that wake for mail, nor a skill on the node’s card [WK.S5]', async () => {
    expect(await mesh('mesh_peers', { match: 'wakes' })).not.toMatch(/venus|sketcher/);
    expect(await mesh('mesh_peers')).not.toMatch(/^(venus|sketcher) \[/m);
    expect(JSON.stringify((await json('/.well-known/agent-card.json')).skills)).not.toMatch(/venus|sketch/);
  });

  it.each<[string, () => Promise<unknown>]>([
    ['request', () => sun.request('venus', 'Draw it')],
    ['request by capability', () => sun.request({ capability: 'sketch' }, 'Draw it')],
    ['durable request', () => sun.send('venus', 'Draw it', { type: 'request', durable: true })],
    ['durable request by capability', () => sun.send({ capability: 'sketch' }, 1, { type: 'request', durable: true })],
    ['streamed request', () => collected(sun.stream('venus', 'Draw it'))],
    ['proposal', async () => sun.propose({ to: 'venus', taskDescription: 'Draw it' }).result],
    [
      'proposal by capability',
      async () => sun.propose({ requiredCapabilities: ['sketch'], taskDescription: 'Draw it' }).result,
    ],
    ['durable proposal', async () => sun.propose({ to: 'venus', taskDescription: 'Draw it', durable: true }).result],
    [
      'call for bids',
      async () => sun.proposeToAll({ requiredCapabilities: ['sketch'], taskDescription: 'Draw it' }).result,
    ],
    ['proposal of the operator', () => control.call('propose', { as: 'sun', to: 'venus', description: 'Draw it' })],
    ['request of the operator', () => control.call('request', { as: 'sun', to: 'venus', payload: 'Draw it' })],
    ['swarm', async () => sun.swarm('Draw it', { capabilities: ['sketch'] }).result],
    [
      'swarm of the operator',
      () => control.call('swarm.start', { as: 'sun', task: 'Draw it', capabilities: ['sketch'] }),
    ],
    [
      'swarm with it as aggregator',
      async () => sun.swarm('Draw it', { capabilities: ['frontend.ui'], aggregator: 'venus' }).result,
    ],
    ['swarm with it as planner', async () => sun.swarm('Draw it', { capabilities: ['x'], planner: 'venus' }).result],
    ['plan that names it', () => control.call('run.start', plan({ agent: 'venus' }))],
    ['plan by capability', () => control.call('run.start', plan({ capabilities: ['sketch'] }))],
    ['plan with a swarm', () => control.call('run.start', plan({ swarm: { capabilities: ['sketch'] } }))],
    [
      'plan with it as validator',
      () => control.call('run.start', plan({ agent: 'painter', validate: { agent: 'venus' } })),
    ],
    ['mesh_task', () => mesh('mesh_task', { action: 'offer', to: 'venus', title: 'Draw it' })],
    ['mesh_task by capability', () => mesh('mesh_task', { action: 'offer', to: 'sketch', title: 'Draw it' })],
    ['mesh_send that needs a reply', () => mesh('mesh_send', { to: 'venus', text: 'Draw it', needs: 'reply' })],
  ])('refuses a %s with NO_WORKER and the command that staffs it [WK.S5]', async (_, ask) => {
    const outcome = await ask().then(
      (value) => `it was done: ${JSON.stringify(value)}`,
      ({ code, message }: { code: string; message: string }) => `${code}: ${message}`,
    );
    expect(outcome).toMatch(STAFF);
  });

  it.each<[string, () => Promise<string>]>([
    ['A2A task', () => rpc({ tenant: 'venus' })],
    ['A2A task by skill', () => rpc({ metadata: { skill: 'sketch' } })],
    [
      'simple A2A task',
      async () => {
        const body = JSON.stringify({ message: 'Draw it', skill: 'sketch' });
        return (await fetch(`${host.gateway.url}/a2a/tasks/send`, { method: 'POST', body })).text();
      },
    ],
  ])('refuses the %s with NO_WORKER and the command that staffs it [WK.S5]', async (_, ask) => {
    expect((await ask()).replaceAll('\\"', '"')).toMatch(/ecliptic staff --roles (venus|sketcher)/);
    expect(await ask()).toContain('NO_WORKER');
  });

  it('is never chosen while another agent has a worker for the same [WK.S5]', async () => {
    const by = { by: 'painter' };
    for (let time = 0; time < 5; time++) {
      expect(await sun.request({ capability: 'frontend.ui' }, 'Draw it')).toMatchObject(by);
      expect(
        await sun.propose({ requiredCapabilities: ['frontend.ui'], taskDescription: 'Draw' }).result,
      ).toMatchObject(by);
      expect(await rpc({ metadata: { skill: 'frontend.ui' } })).toContain('painter');
    }
    expect(
      await sun.proposeToAll({ requiredCapabilities: ['frontend.ui'], taskDescription: 'Draw' }).result,
    ).toMatchObject(by);
    const swarm = sun.swarm('Draw it', { capabilities: ['frontend.ui'] });
    const { results } = await swarm.result;
    expect(Object.values(results)).toEqual([expect.objectContaining(by)]);
    const { id } = await control.call('run.start', plan({ capabilities: ['frontend.ui'] }));
    await control.call('run.follow', { id });
    expect(JSON.stringify(await control.call('run', { id }))).toMatch(/painter/);
    expect(JSON.stringify(await control.call('run', { id }))).not.toMatch(/venus/);
    expect(JSON.stringify(await control.call('proposals', {}))).not.toMatch(/venus|sketcher/);
  });

  it('keeps mail unread, and no receipt says more than that [WK.S5]', async () => {
    const said = await mesh('mesh_send', { to: 'venus', text: 'fyi' });
    expect(said).toMatch(/(stored|arrived); they have no worker: it waits on disk until they have one\.$/);
    const { messageId } = await sun.send('venus', 'fyi', { durable: true });
    for (const id of [messageId!, /^\S+/.exec(said)![0]]) {
      const { state } = await control.call('receipt', { id });
      expect(['stored', 'arrived']).toContain(state);
    }
    const unread = await control.call('inbox', { as: 'venus' });
    expect(JSON.stringify(unread)).toContain(messageId);
  });
});
