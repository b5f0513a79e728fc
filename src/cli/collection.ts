import type { CollectionName } from '../collections/entry.js';
import type { EntryRow } from '../node/control/rows.js';
import { many, text, verb, whole } from './command.js';
import { readText } from './input.js';
import { oneLine, shortAddress } from './output.js';

const as = text('AGENT', 'the agent of this node to act as (default: you, the owner)');
const limit = whole('at most so many entries (default 10, at most 50)');
const tag = text('TAG', 'only entries with this tag');

/** The same verbs for each collection; `example` has a text to add and a query that finds it. */
export function collectionVerbs(collection: CollectionName, [added, query]: readonly [string, string]) {
  const list = verb({
    summary: 'list the newest entries',
    options: { as, tag, limit },
    examples: ['', '--tag ci --json'],
    async run({ call, values: { as, tag, limit }, output }) {
      const rows = await call('entries', { collection, as, tag, limit });
      output.rows(rows, `no entries yet; add one with: ecliptic ${collection} add TEXT`, shown);
    },
  });
  const search = verb({
    summary: 'list the entries that fit a query best',
    args: ['QUERY'],
    options: { as, tag, limit },
    examples: [`'${query}'`],
    async run({ call, values: { as, tag, limit }, words: [query], output }) {
      const rows = await call('entries', { collection, query, as, tag, limit });
      output.rows(rows, 'nothing found', shown);
    },
  });
  const add = verb({
    summary: 'add an entry, for all agents of the mesh',
    args: ['TEXT'],
    argHelp: [['TEXT', 'the entry; - reads it from standard input']],
    options: { as, tag: many('TAG', 'a word to find it by; may be repeated') },
    examples: [`'${added}'`, `'${added}' --tag team --as mars`],
    async run({ call, values, words: [given], output }) {
      const row = await call('entries.add', {
        ...{ collection, text: await readText(given), as: values.as },
        ...(values.tag && { tags: values.tag }),
      });
      output.value(row, () => `added ${row.uri}`);
    },
  });
  const forget = verb({
    summary: 'remove an entry',
    args: ['ID'],
    options: { as },
    examples: ['01JD8ZK3'],
    async run({ call, values, words: [id], output }) {
      const row = await call('entries.forget', { collection, id, as: values.as });
      output.value(row, () => `removed ${row.uri}: ${oneLine(row.text)}`);
    },
  });
  return { list, search, add, forget };
}

function shown({ id, text, tags, author, owner, at }: EntryRow) {
  return {
    ID: id,
    TEXT: oneLine(text),
    TAGS: tags.join(' '),
    AUTHOR: `${shortAddress(author)}${owner ? ' (you)' : ''}`,
    TIME: new Date(at).toISOString().slice(0, 16),
  };
}
