import type { AgentRow } from '../node/control/rows.js';
import { vacancyOf } from '../roster/self-description.js';
import type { Command } from './command.js';
import { usage } from './output.js';
import { numeric } from './payload.js';

export const command: Command = {
  summary: 'list the agents',
  usage: 'agents [--capability C] [--tier N] [--sandbox S]',
  options: { capability: { type: 'string' }, tier: { type: 'string' }, sandbox: { type: 'string' } },
  optionHelp: [
    ['--capability C', 'only those that offer it'],
    ['--tier N', 'only those of tier 0, 1, 2 or 3'],
    ['--sandbox S', 'only those in that sandbox'],
  ],
  examples: ['ecliptic agents', 'ecliptic agents --tier 2', 'ecliptic agents --capability backend.api --json'],
  async run({ connect, values, output }) {
    const { capability, sandbox } = values;
    const tier = numeric(values, 'tier');
    if (tier !== undefined && ![0, 1, 2, 3].includes(tier)) throw usage(`--tier is 0, 1, 2 or 3, not "${values.tier}"`);
    const client = await connect();
    const rows = await client.call<AgentRow[]>('agents', { capability, sandbox, tier });
    output.table(
      rows,
      ['AGENT', 'TIER', 'SANDBOX', 'STATE', 'CAPABILITIES'],
      rows.map((row) => [
        row.node === null ? row.id : `${row.id}@${row.node.slice(0, 12)}`,
        `L${row.tier}`,
        row.sandbox ?? '-',
        row.failure === null ? row.state : `failed: ${row.failure.split('\n')[0]}`,
        row.capabilities.join(', ') || '-',
      ]),
      'no agents match',
    );
    const unstaffed = rows.filter(({ state }) => state === 'unstaffed');
    if (!output.json && unstaffed.length > 0) output.line(staffingHint(unstaffed));
  },
};

function staffingHint(unstaffed: readonly AgentRow[]): string {
  const own = unstaffed.find(({ node }) => node === null);
  const agents = unstaffed.length === 1 ? '1 agent is' : `${unstaffed.length} agents are`;
  const refusal = `${agents} unstaffed: no worker does what they are asked, so they refuse requests and tasks.`;
  return own === undefined ? refusal : `${refusal}\nTo staff ${own.id}: ${vacancyOf(own.id).fix}`;
}
