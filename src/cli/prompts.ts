import type { Command } from './command.js';

interface PromptRow {
  readonly name: string;
  readonly description?: string;
  readonly arguments?: readonly { readonly name: string; readonly required?: boolean }[];
}

export const command: Command = {
  summary: 'list the prompts of every agent',
  usage: 'prompts [--as AGENT]',
  options: { as: { type: 'string' } },
  optionHelp: [['--as AGENT', 'only what that agent of this node may use']],
  examples: ['ecliptic prompts', 'ecliptic prompts --json'],
  async run({ connect, values, output }) {
    const { as } = values;
    const rows = await (await connect()).call<PromptRow[]>('prompts', { as });
    output.table(
      rows,
      ['PROMPT', 'ARGUMENTS', 'DESCRIPTION'],
      rows.map((row) => [
        row.name,
        row.arguments?.map(({ name, required }) => (required ? name : `[${name}]`)).join(' ') || '-',
        row.description?.split('\n')[0] ?? '',
      ]),
      'no agent offers a prompt',
    );
  },
};
