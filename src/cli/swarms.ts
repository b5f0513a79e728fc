import type { SwarmRow } from '../node/control/rows.js';
import { cutText } from '../runtime/text.js';
import type { Command } from './command.js';

export const command: Command = {
  summary: 'list the swarms that agents of this node take part in, the latest first',
  usage: 'swarms',
  examples: ['ecliptic swarms', 'ecliptic swarms --json'],
  async run({ connect, output }) {
    const rows = await (await connect()).call<SwarmRow[]>('swarms');
    output.table(
      rows,
      ['ID', 'STATUS', 'DONE', 'AT WORK', 'ARBITER', 'TASK'],
      rows.map(({ id, status, confirmed, counts, participants, arbiter, epoch, task }) => [
        id,
        confirmed ? status : `${status} (unconfirmed)`,
        `${counts.completed}/${counts.pending + counts.running + counts.completed + counts.failed}`,
        String(participants.length),
        `${arbiter.split('@')[0]} (epoch ${epoch})`,
        cutText(task, 60),
      ]),
      'no swarms',
    );
  },
};
