import type { GetPromptResult } from '@modelcontextprotocol/server';
import type { Command } from './command.js';
import { usage } from './output.js';

/** A prompt may take that many arguments. */
const MOST_ARGUMENTS = 64;

export const command: Command = {
  summary: 'fill in a prompt and print its messages',
  usage: 'prompt AGENT.PROMPT [NAME=VALUE …] [--as AGENT]',
  options: { as: { type: 'string' } },
  optionHelp: [
    ['--as AGENT', 'the reader: an agent of this node (default: you, the operator)'],
    ['NAME=VALUE', 'an argument of the prompt'],
  ],
  words: [1, 1 + MOST_ARGUMENTS],
  examples: ['ecliptic prompt mars.review file=auth.ts focus=security'],
  async run({ connect, values, words, output }) {
    const { as } = values;
    const [name, ...pairs] = words;
    const args = Object.fromEntries(pairs.map(argument));
    const result = await (await connect()).call<GetPromptResult>('prompt', { name, arguments: args, as });
    output.value(result, () =>
      result.messages
        .map(({ role, content }) => `${role}: ${content.type === 'text' ? content.text : JSON.stringify(content)}`)
        .join('\n'),
    );
  },
};

function argument(pair: string): [string, string] {
  const at = pair.indexOf('=');
  if (at <= 0) throw usage(`an argument is written NAME=VALUE, not "${pair}"`);
  return [pair.slice(0, at), pair.slice(at + 1)];
}
