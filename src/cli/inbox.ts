import type { MailRow } from '../control/mail-methods.js';
import type { Command } from './command.js';
import { allMail, mailTable } from './mail-table.js';
import { required } from './payload.js';

export const command: Command = {
  summary: 'list durable messages that an agent has yet to deal with',
  usage: 'inbox --as AGENT [--wait]',
  options: { as: { type: 'string' }, wait: { type: 'boolean' } },
  optionHelp: [
    ['--as AGENT', 'whose inbox: an agent of this node'],
    ['--wait', 'if it is empty, wait for the next message'],
  ],
  examples: ['ecliptic inbox --as mars', 'ecliptic inbox --as mars --wait --json'],
  async run({ connect, values, output }) {
    const as = required(values, 'as');
    const client = await connect();
    process.on('SIGINT', () => client.close());
    const waitMs = values.wait ? Number.MAX_SAFE_INTEGER : undefined;
    const page = (after: number) => client.call<MailRow[]>('inbox', after === 0 ? { as, waitMs } : { as, after });
    mailTable(output, await allMail(page), 'the inbox is empty');
  },
};
