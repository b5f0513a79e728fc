import type { ProviderRow } from '../providers/registry/registered-provider.js';
import type { Command } from './command.js';

export const command: Command = {
  summary: 'list the providers that do agents’ work, and how they are',
  usage: 'providers',
  examples: ['ecliptic providers', 'ecliptic providers --json'],
  async run({ connect, output }) {
    const rows = await (await connect()).call<ProviderRow[]>('providers');
    output.table(
      rows,
      ['PROVIDER', 'TYPE', 'HEALTH', 'PHASE', 'WORK', 'DONE', 'FAILED', 'REMARK'],
      rows.map((row) => [
        row.id,
        row.type,
        row.state,
        row.phase,
        `${row.inFlight}/${row.concurrencyLimit}`,
        String(row.completed),
        String(row.failed),
        row.message?.split('\n')[0] ?? '',
      ]),
      'no providers; give an agent "a2a", "acp" or "command" in ecliptic.json',
    );
  },
};
