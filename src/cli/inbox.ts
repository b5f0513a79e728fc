import type { MailRow } from '../node/control/rows.js';
import type { Command } from './command.js';
import { allMail, mailTable, short } from './mail-table.js';
import { listed, required } from './payload.js';

export const command: Command = {
  summary: 'list durable messages that an agent has yet to deal with',
  usage: 'inbox --as AGENT [--wait] | inbox --as operator --done ID,ID…',
  options: { as: { type: 'string' }, wait: { type: 'boolean' }, done: { type: 'string' } },
  optionHelp: [
    ['--as AGENT', 'whose inbox: an agent of this node, or operator, which is you'],
    ['--wait', 'if it is empty, wait for the next message'],
    ['--done LIST', 'close these messages to you; answer one with: ecliptic tell NAME TEXT --reply-to ID'],
  ],
  examples: ['ecliptic inbox --as operator', 'ecliptic inbox --as mars', 'ecliptic inbox --as mars --wait --json'],
  async run({ connect, values, output }) {
    const as = required(values, 'as');
    const client = await connect();
    process.on('SIGINT', () => client.close());
    const waitMs = values.wait ? Number.MAX_SAFE_INTEGER : undefined;
    const page = (after: number) => client.call<MailRow[]>('inbox', after === 0 ? { as, waitMs } : { as, after });
    if (as !== 'operator') return mailTable(output, await allMail(page), 'the inbox is empty');
    const done = listed(values, 'done');
    if (done) {
      await client.call('owner.done', { ids: done });
      return output.value({ done }, () => `${done.length} closed`);
    }
    const rows = await allMail(page);
    output.value(rows, () => rows.map(letter).join('\n') || 'no agent has written to you');
    await client.call('owner.shown', { ids: rows.map(({ id }) => id) });
  },
};

/** A message to the person, in full. */
function letter({ id, from, at, payload }: MailRow): string {
  const { text, mesh } = (payload ?? {}) as { text?: unknown; mesh?: { needs?: unknown } };
  const needs = mesh?.needs === undefined || mesh.needs === 'none' ? '' : `  needs ${mesh.needs}`;
  const said = typeof text === 'string' ? text : JSON.stringify(payload);
  const lines = said.split('\n').map((line) => `  ${line}`);
  return [`${id}  ${short(from)}  ${new Date(at).toISOString().slice(0, 19)}${needs}`, ...lines].join('\n');
}
