import type { AgentRow } from '../node/control/rows.js';
import { vacancyOf } from '../roster/planetary-roster.js';
import { choice, flag, REMOTE_OPTIONS, text, verb } from './command.js';
import { usage } from './output.js';

const list = verb({
  summary: 'list the agents',
  options: {
    capability: text('C', 'only agents that offer it'),
    tier: choice(['0', '1', '2', '3'], 'only agents of that tier'),
    sandbox: text('S', 'only agents in that sandbox'),
  },
  examples: ['', '--tier 2', '--capability backend.api --json'],
  async run({ call, values: { capability, sandbox, tier }, output }) {
    const rows = await call('agents', { capability, sandbox, tier: tier === undefined ? undefined : Number(tier) });
    output.rows(rows, 'no agents match', (row) => ({
      AGENT: row.node === null ? row.id : `${row.id}@${row.node.slice(0, 12)}`,
      TIER: `L${row.tier}`,
      SANDBOX: row.sandbox,
      STATE: row.failure === null ? row.state : `failed: ${row.failure.split('\n')[0]}`,
      CAPABILITIES: row.capabilities.join(', ') || '-',
    }));
    const unstaffed = rows.filter(({ state }) => state === 'unstaffed');
    if (!output.json && unstaffed.length > 0) output.line(staffingHint(unstaffed));
  },
});

function staffingHint(unstaffed: readonly AgentRow[]): string {
  const own = unstaffed.filter(({ node }) => node === null);
  const agents = unstaffed.length === 1 ? '1 agent is' : `${unstaffed.length} agents are`;
  const refusal = `${agents} unstaffed: no worker does what they are asked, so they refuse requests and tasks.`;
  const [first] = own;
  if (!first) return `${refusal}\nTheir own nodes staff them.`;
  if (own.length === 1) return `${refusal}\nTo staff ${first.id}: ${vacancyOf(first.id).fix}`;
  return `${refusal}\nTo find workers for all of them: ecliptic staff      For one: ecliptic staff --roles ${first.id}`;
}

const show = verb({
  summary: 'show the card of this node, of one of its agents, or of a remote agent',
  args: ['AGENT|URL?'],
  argHelp: [['URL', 'the address of an A2A agent, or of its card']],
  options: { a2a: flag('the A2A card of an agent of the mesh, as its node signs it'), ...REMOTE_OPTIONS },
  examples: ['', 'mars --json', 'mars@desktop --a2a', 'https://agent.example.com'],
  async run(invocation) {
    const { call, words, values, output } = invocation;
    const [subject] = words;
    if (values.a2a) {
      if (subject === undefined) throw usage('name an agent: mars@desktop');
      const card = await call('a2a.card', { to: subject });
      const { meshCardText } = await import('./remote.js');
      return output.value(card, () => meshCardText(card));
    }
    if (subject !== undefined && /^https?:\/\//i.test(subject)) {
      const { showRemoteCard } = await import('./remote.js');
      return showRemoteCard(subject, invocation);
    }
    const card = await (subject === undefined ? call('node.card') : call('card', { id: subject }));
    output.value(card, () => JSON.stringify(card, null, 2));
  },
});

export const verbs = { list, show };
