import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Cluster, type ProcessNode, until, untilConnected } from '../nodes/cluster.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const ARGS = ['--no-dht', '--listen', '127.0.0.1:0', '--port', '0'];
const ROLES = ['enceladus', 'jupiter', 'uranus', 'mercury'];
const SHOP = {
  'prices.mjs': "import { rate } from './tax.mjs';\nexport const price = rate;\n",
  'tax.mjs': "import { price } from './prices.mjs';\nexport const rate = () => price;\n",
  'broken.json': '{ "a": 1 "b": 2 }\n',
};
const PLAN = `name: remote
tasks:
  - { id: secrets, description: Look for keys., capabilities: [security.review], input: { workspace: . } }
  - { id: imports, description: Follow the imports., agent: jupiter, input: { workspace: ., tool: imports } }
  - { id: both, description: Look at the rest., capabilities: [validation.data, research.search], input: { workspace: . } }
  - { id: report, description: Write the report., agent: uranus, dependsOn: [secrets, imports], input: { tool: summary } }
`;

describe.each([
  { title: 'the whole roster', agents: undefined, roster: true },
  { title: 'only the roles that it names', agents: Object.fromEntries(ROLES.map((id) => [id, {}])), roster: false },
])('a node with $title', ({ agents, roster }) => {
  let cluster: Cluster;
  /** Has no tools. */
  let laptop: ProcessNode;
  /** Has the repository and the tools. */
  let desktop: ProcessNode;

  beforeAll(async () => {
    cluster = new Cluster();
    const shop = join(cluster.folder, 'shop');
    mkdirSync(shop);
    for (const [name, text] of Object.entries(SHOP)) writeFileSync(join(shop, name), text);
    [laptop, desktop] = await Promise.all([
      cluster.start('laptop', { args: ARGS, config: { roster: false, agents: { sun: {} } } }),
      cluster.start('desktop', { args: ARGS, config: { roster, ...(agents && { agents }), workspaces: [shop] } }),
    ]);
    await laptop.admit(desktop, { owner: true });
    await untilConnected([laptop, desktop]);
    await until(async () => {
      const rows = await laptop.agents();
      return ROLES.every((id) => rows.some((row) => row.id === id && row.state === 'tools'));
    }, 'the laptop knows the roles of the desktop');
  });

  afterAll(() => cluster.end());

  it('does a plan of another node by its tools: by capability, by name, in a swarm and in a summary [RT.9]', async () => {
    writeFileSync(join(laptop.home, 'plan.yaml'), PLAN);
    const { code, stdout, stderr } = await laptop.run('plan', 'run', 'plan.yaml', '--json');
    expect(stderr).toBe('');
    const last = JSON.parse(stdout.trim().split('\n').at(-1)!);
    expect(last).toMatchObject({ status: 'done' });
    expect(code).toBe(0);
    expect(stdout).toContain('import cycle: prices.mjs → tax.mjs → prices.mjs');
    expect(stdout).toContain('data/syntax');
  });

  it('does a proposal and a task of another node by its tools [RT.9]', async () => {
    const input = JSON.stringify({ workspace: '.' });
    const proposal = ['proposal', 'send', '--as', 'sun', '--capability', 'validation.data', 'Check', '--input', input];
    const proposed = await laptop.run(...proposal, '--json');
    expect(proposed.stdout).toContain('data/syntax');
    const named = JSON.stringify({ workspace: '.', tool: 'validate' });
    const task = await laptop.run('task', 'send', `mercury@${desktop.key}`, 'Check', '--input', named, '--json');
    expect(task.stderr).toBe('');
    expect(task.stdout).toContain('data/syntax');
  });
});
