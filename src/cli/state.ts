import type { HistoryRow } from '../node/control/rows.js';
import type { Command } from './command.js';
import { short } from './mail-table.js';
import { misuse } from './misuse.js';
import { oneLine } from './output.js';
import { readPayload } from './payload.js';

export const command: Command = {
  summary: 'read, change and follow a shared document',
  usage: 'state NAME [get [PATH] | set PATH JSON | watch | history] [--as AGENT]',
  options: { as: { type: 'string' } },
  optionHelp: [
    ['--as AGENT', 'as whom: an agent of this node (default: the first that has it open; for set, else you)'],
    ['get [PATH]', 'what is in it, or at a path such as tasks.first.title (this is the default)'],
    [
      'set PATH JSON',
      'map.key sets a key, list[] adds to a list, a name alone is a note as agents write them; - reads standard input',
    ],
    ['watch', 'its content, again after each change'],
    ['history', 'who changed what, and when, in order; --json also has sessions and sizes'],
  ],
  words: [1, 4],
  examples: [
    `ecliptic state plan set tasks.first '{"title":"login"}' --as mars`,
    'ecliptic state plan get tasks.first.title',
    `ecliptic state plan set 'log[]' '"begun"'`,
    'ecliptic state plan watch --json',
    'ecliptic state plan history',
  ],
  async run({ connect, values, words, output }) {
    const [name, verb = 'get', path, text] = words;
    const about = { name, as: values.as };
    const client = await connect();
    if (verb === 'get' && words.length <= 3) {
      const value = await client.call('stateGet', { ...about, path });
      output.value(value, () => JSON.stringify(value, null, 2));
    } else if (verb === 'set' && words.length === 4) {
      const done = await client.call('stateSet', { ...about, path, value: await readPayload(text!) });
      output.value(done, () => `set ${path}`);
    } else if (verb === 'history' && words.length === 2) {
      const rows = await client.call<HistoryRow[]>('stateHistory', about);
      output.table(
        rows,
        ['TIME', 'AUTHOR', 'CHANGE'],
        rows.map((row) => [timeText(row), short(row.author), row.changes.join('; ') || `${row.bytes} bytes`]),
        'nothing was written yet',
      );
    } else if (verb === 'watch' && words.length === 2) {
      process.on('SIGINT', () => client.close());
      const ended = client.call('stateWatch', about, (event) => {
        const { by, content } = event as { by: string | null; content: unknown };
        output.value(event, () => oneLine(`${by ?? 'now'}  ${JSON.stringify(content)}`));
      });
      await ended.catch((error) => {
        if (error.code !== 'CANCELLED') throw error;
      });
    } else throw misuse(command, words);
  },
};

/** Exact where this node saw it happen since its start; otherwise not before its author began to write. */
function timeText({ at, since }: HistoryRow): string {
  if (at !== null) return new Date(at).toISOString();
  return since === null ? '-' : `after ${new Date(since).toISOString()}`;
}
