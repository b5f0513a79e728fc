import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CodingAgent } from '../coding-agents/coding-agent.js';
import { type Cluster, type ProcessNode, until, untilConnected } from '../nodes/cluster.js';
import { nodeWithModel } from './desk.js';

/** Works on everything, offers a tool, and keeps a document with its progress. */
const WORKER = `
export const setup = (agent) => {
  agent.onTask(async (task) => {
    task.progress('reads the code');
    return { did: task.text, files: ['src/login.ts'] };
  });
  agent.onRequest(({ payload }) => ({ built: payload }));
  agent.onNotification(() => {});
  agent.tool(
    'outline',
    {
      description: 'Lists the functions of a file.',
      inputSchema: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
    },
    ({ path }) => 'login(name, password) in ' + path,
  );
};`;

const PLAN = `name: login-page
tasks:
  - id: tables
    description: Design the tables for accounts and sessions.
    agent: pluto
  - id: api
    description: Build the login endpoint.
    agent: jupiter
    dependsOn: [tables]
  - id: review
    description: Review the endpoint.
    agent: venus
    dependsOn: [api]
`;

export interface Demo {
  readonly desk: ProcessNode;
  readonly laptop: ProcessNode;
  /** The id of a message that was refused. */
  readonly refused: string;
}

/** Two nodes with work, messages, refusals, a document, a swarm, and items that wait for the owner. */
export async function seedDemo(cluster: Cluster): Promise<Demo> {
  const module = join(cluster.folder, 'worker.mjs');
  writeFileSync(module, WORKER);
  const worker = { module };
  const agents = { pluto: worker, jupiter: worker, venus: worker, saturn: { exec: 'echo 12 tests passed' } };
  const desk = await nodeWithModel(cluster, { agents, args: ['--listen', '127.0.0.1:0'] });
  const laptop = await cluster.start('laptop', {
    args: ['--no-dht', '--listen', '127.0.0.1:0'],
    config: { roster: false, agents: { phobos: { tier: 2, ...worker, capabilities: ['review'] } } },
  });
  await desk.admit(laptop);
  await untilConnected([desk, laptop]);
  await until(async () => (await desk.agents()).some(({ id }) => id === 'phobos'), 'phobos is known');

  writeFileSync(join(desk.home, 'plan.yaml'), PLAN);
  await desk.run('run', 'plan.yaml');
  await desk.call('stateSet', { name: 'release-notes', path: 'login', value: 'A login page, with sessions.' });
  await desk.call('call', { tool: 'jupiter.outline', arguments: { path: 'src/login.ts' } });
  await desk.run('swarm', 'Review the login page', '--capability', 'review');
  for (const [as, to] of [
    ['sun', 'jupiter'],
    ['venus', 'pluto'],
    ['sun', 'phobos'],
  ] as const) {
    await desk.call('send', { as, to, payload: { text: `what about the login page, ${to}?` }, type: 'notification' });
  }
  await desk.call('send', { as: 'mercury', to: 'mars', payload: { text: 'now!' } }).catch(() => {});
  const [line] = (await desk.call<{ id: string; code: string | null }[]>('messages', { limit: 20 })).filter(
    ({ code }) => code !== null,
  );
  if (line?.code !== 'TIER_VIOLATION') throw new Error('the message was not refused');

  const alice = await CodingAgent.start(cluster, ['--as', 'alice', '--data', desk.data]);
  await alice.call('mesh_send', { to: 'operator', text: 'Which branch do I start from?', needs: 'reply' });
  void desk.request('sun', 'mars', { text: 'Write the login page.' }).catch(() => {});
  await until(async () => (await desk.json<{ items: unknown[] }>('waiting')).items.length >= 2, 'two items wait');
  return { desk, laptop, refused: line.id };
}
