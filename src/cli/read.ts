import type { ReadResourceResult } from '@modelcontextprotocol/server';
import type { Command } from './command.js';

export const command: Command = {
  summary: 'read a resource and print its content',
  usage: 'read URI [--as AGENT]',
  options: { as: { type: 'string' } },
  optionHelp: [['--as AGENT', 'the reader: an agent of this node (default: you, the operator)']],
  words: [1, 1],
  examples: ['ecliptic read memory://rules', 'ecliptic read file:///logo.png --json'],
  async run({ connect, values, words, output }) {
    const { as } = values;
    const result = await (await connect()).call<ReadResourceResult>('read', { uri: words[0], as });
    output.value(result, () =>
      result.contents
        .map((content) =>
          'text' in content ? content.text : `${content.blob.length} characters of base64; see --json`,
        )
        .join('\n'),
    );
  },
};
