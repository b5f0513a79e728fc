import type { DocumentRow } from '../node/control/rows.js';
import type { Command } from './command.js';
import { short } from './mail-table.js';

export const command: Command = {
  summary: 'list the shared documents that agents of this node have open',
  usage: 'states',
  examples: ['ecliptic states', 'ecliptic states --json'],
  async run({ connect, output }) {
    const rows = await (await connect()).call<DocumentRow[]>('states');
    output.table(
      rows,
      ['NAME', 'AGENT', 'HOLDS', 'SEGMENTS', 'BYTES', 'MEMBERS'],
      rows.map(({ name, agent, holds, segments, bytes, members }) => {
        return [name, agent, holds.join(', '), String(segments), String(bytes), members.map(short).join(', ')];
      }),
      'no document is open',
    );
  },
};
