import type { MailRow } from '../control/mail-methods.js';
import type { Command } from './command.js';
import { mailTable } from './mail-table.js';

export const command: Command = {
  summary: 'list durable messages that their recipients’ nodes do not have yet',
  usage: 'outbox',
  examples: ['ecliptic outbox', 'ecliptic outbox --json'],
  async run({ connect, output }) {
    const client = await connect();
    mailTable(output, await client.call<MailRow[]>('outbox'), 'nothing waits to go out');
  },
};
