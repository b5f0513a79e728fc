import type { RunSummary } from '../plans/run-records.js';
import type { Command } from './command.js';
import { whole } from './payload.js';

export const command: Command = {
  summary: 'list the plans that were run, the latest first',
  usage: 'runs [--limit N]',
  options: { limit: { type: 'string' } },
  optionHelp: [['--limit N', 'the latest N (default: 100)']],
  examples: ['ecliptic runs', 'ecliptic runs --limit 5 --json'],
  async run({ connect, values, output }) {
    const limit = whole(values, 'limit');
    const rows = await (await connect()).call<RunSummary[]>('runs', { limit });
    output.table(
      rows,
      ['ID', 'PLAN', 'STATUS', 'AGENT', 'UPDATED'],
      rows.map(({ id, name, status, agent, updatedAt }) => [
        id,
        name,
        status,
        agent,
        new Date(updatedAt).toISOString(),
      ]),
      'no plan was run yet',
    );
  },
};
