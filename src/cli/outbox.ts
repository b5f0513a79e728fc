import type { MailRow } from '../node/control/rows.js';
import type { Command } from './command.js';
import { allMail, mailTable } from './mail-table.js';

export const command: Command = {
  summary: 'list durable messages that their recipients’ nodes do not have yet',
  usage: 'outbox',
  examples: ['ecliptic outbox', 'ecliptic outbox --json'],
  async run({ connect, output }) {
    const client = await connect();
    const rows = await allMail((after) => client.call<MailRow[]>('outbox', { after }));
    mailTable(output, rows, 'nothing waits to go out');
  },
};
