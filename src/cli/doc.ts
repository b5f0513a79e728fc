import type { HistoryRow } from '../node/control/rows.js';
import { text, verb } from './command.js';
import { readPayload } from './input.js';
import { oneLine, shortAddress } from './output.js';

const as = text('AGENT', 'the agent of this node to act as (default: the first that has it open; for set, you)');

const list = verb({
  summary: 'list the shared documents that agents of this node have open',
  examples: ['', '--json'],
  async run({ call, output }) {
    const rows = await call('states');
    output.rows(rows, 'no document is open', ({ name, agent, holds, segments, bytes, members }) => ({
      NAME: name,
      AGENT: agent,
      HOLDS: holds.join(', '),
      SEGMENTS: segments,
      BYTES: bytes,
      MEMBERS: members.map(shortAddress).join(', '),
    }));
  },
});

const get = verb({
  summary: 'print a document, or the value at a path in it',
  args: ['NAME', 'PATH?'],
  argHelp: [['PATH', 'such as tasks.first.title']],
  options: { as },
  examples: ['plan', 'plan tasks.first.title'],
  async run({ call, values, words: [name, path], output }) {
    const value = await call('stateGet', { name, as: values.as, path });
    output.value(value, () => JSON.stringify(value, null, 2));
  },
});

const set = verb({
  summary: 'change a value in a document',
  args: ['NAME', 'PATH', 'JSON'],
  argHelp: [
    ['PATH', 'map.key sets a key, list[] appends to a list, a name alone is a note as agents write them'],
    ['JSON', 'the value; - reads it from standard input'],
  ],
  options: { as },
  examples: [`plan tasks.first '{"title":"login"}' --as mars`, `plan 'log[]' '"begun"'`],
  async run({ call, values, words: [name, path, json], output }) {
    const done = await call('stateSet', { name, as: values.as, path, value: await readPayload(json) });
    output.value(done, () => `set ${path}`);
  },
});

const watch = verb({
  summary: 'print a document, and again after each change',
  args: ['NAME'],
  options: { as },
  examples: ['plan --json'],
  async run({ follow, values, words: [name], output }) {
    await follow('stateWatch', { name, as: values.as }, (event) => {
      output.value(event, () => oneLine(`${event.by ?? 'now'}  ${JSON.stringify(event.content)}`));
    });
  },
});

const history = verb({
  summary: 'list the changes of a document with author and time; --json adds sessions and sizes',
  args: ['NAME'],
  options: { as },
  examples: ['plan'],
  async run({ call, values, words: [name], output }) {
    const rows = await call('stateHistory', { name, as: values.as });
    output.rows(rows, 'no changes yet', (row) => ({
      TIME: when(row),
      AUTHOR: shortAddress(row.author),
      CHANGE: row.changes.join('; ') || `${row.bytes} bytes`,
    }));
  },
});

/** Exact if this node saw the change since its start; otherwise the earliest possible time. */
function when({ at, since }: HistoryRow): string {
  if (at !== null) return new Date(at).toISOString();
  return since === null ? '-' : `after ${new Date(since).toISOString()}`;
}

export const verbs = { list, get, set, watch, history };
