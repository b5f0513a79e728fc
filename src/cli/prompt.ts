import { text, verb } from './command.js';
import { usage } from './output.js';

const list = verb({
  summary: 'list the prompts of every agent',
  options: { as: text('AGENT', 'only prompts that this agent of the node may use') },
  examples: ['', '--json'],
  async run({ call, values: { as }, output }) {
    const rows = await call('prompts', { as });
    output.rows(rows, 'no agent offers a prompt', (row) => ({
      PROMPT: row.name,
      ARGUMENTS: row.arguments?.map(({ name, required }) => (required ? name : `[${name}]`)).join(' ') || '-',
      DESCRIPTION: row.description?.split('\n')[0] ?? '',
    }));
  },
});

const get = verb({
  summary: 'fill in a prompt and print its messages',
  args: ['AGENT.PROMPT', 'NAME=VALUE...'],
  options: { as: text('AGENT', 'the reader: an agent of this node (default: you, the operator)') },
  examples: ['mars.review file=auth.ts focus=security'],
  async run({ call, values: { as }, words: [name, ...pairs], output }) {
    const result = await call('prompt', { name, arguments: Object.fromEntries(pairs.map(argument)), as });
    output.value(result, () =>
      result.messages
        .map(({ role, content }) => `${role}: ${content.type === 'text' ? content.text : JSON.stringify(content)}`)
        .join('\n'),
    );
  },
});

function argument(pair: string): [string, string] {
  const at = pair.indexOf('=');
  if (at <= 0) throw usage(`an argument is written NAME=VALUE, not "${pair}"`);
  return [pair.slice(0, at), pair.slice(at + 1)];
}

export const verbs = { list, get };
