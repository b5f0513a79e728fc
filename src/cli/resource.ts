import { text, verb } from './command.js';

const list = verb({
  summary: 'list the resources of every agent',
  options: { as: text('AGENT', 'only resources that this agent of the node may read') },
  examples: ['', '--json'],
  async run({ call, values: { as }, output }) {
    const rows = await call('resources', { as });
    output.rows(rows, 'no agent offers a resource', (row) => ({
      URI: row.uri ?? row.uriTemplate ?? '',
      NAME: row.name,
      TYPE: row.mimeType,
      AGENT: row.agent,
    }));
  },
});

const read = verb({
  summary: 'read a resource and print its content',
  args: ['URI'],
  options: { as: text('AGENT', 'the reader: an agent of this node (default: you, the operator)') },
  examples: ['memory://rules', 'file:///logo.png --json'],
  async run({ call, values: { as }, words: [uri], output }) {
    const result = await call('read', { uri, as });
    output.value(result, () =>
      result.contents
        .map((content) =>
          'text' in content ? content.text : `${content.blob.length} characters of base64; see --json`,
        )
        .join('\n'),
    );
  },
});

export const verbs = { list, read };
