import { resolve } from 'node:path';
import { sizeText } from '../objects/reference.js';
import { required, text, verb } from './command.js';
import { shortAddress, timeText } from './output.js';

const list = verb({
  summary: 'list files that agents here have attached or were sent',
  examples: ['', '--json'],
  async run({ call, output }) {
    output.rows(await call('objects'), 'there are no objects', (row) => ({
      ID: row.id,
      NAME: row.name,
      SIZE: sizeText(row.size),
      FROM: shortAddress(row.from),
      TO: row.to.map(shortAddress).join(', '),
      EXPIRES: timeText(row.expiresAt, 'seconds'),
    }));
  },
});

const get = verb({
  summary: 'fetch a file that was sent to an agent here',
  args: ['REF'],
  argHelp: [['REF', 'the id of an object, or the reference in a message, as JSON']],
  options: {
    out: required(text('FILE', 'where to save it; a file that is there is replaced')),
    as: text('AGENT', 'the agent that it was sent to, if the node does not know'),
  },
  examples: ['01JD… --out report.pdf', `--as mars --out report.pdf '{"object":"01JD…",…}'`],
  async run({ call, words: [object], values: { out, as }, output }) {
    const saved = await call('object.get', { object, file: resolve(out), as });
    output.value(saved, () => `${out}: ${sizeText(saved.size)}, SHA-256 ${saved.sha256} verified`);
  },
});

const remove = verb({
  summary: 'remove a file that an agent here has attached, before it expires',
  args: ['ID'],
  examples: ['01JD…'],
  async run({ call, words: [id], output }) {
    await call('object.remove', { id });
    output.value({ removed: id }, () => `removed ${id}`);
  },
});

export const verbs = { list, get, remove };
