import type { Command } from './command.js';

interface ResourceRow {
  readonly uri?: string;
  readonly uriTemplate?: string;
  readonly name: string;
  readonly mimeType?: string;
  readonly agent: string;
}

export const command: Command = {
  summary: 'list the resources of every agent',
  usage: 'resources [--as AGENT]',
  options: { as: { type: 'string' } },
  optionHelp: [['--as AGENT', 'only what that agent of this node may read']],
  examples: ['ecliptic resources', 'ecliptic resources --json'],
  async run({ connect, values, output }) {
    const { as } = values;
    const rows = await (await connect()).call<ResourceRow[]>('resources', { as });
    output.table(
      rows,
      ['URI', 'NAME', 'TYPE', 'AGENT'],
      rows.map(({ uri, uriTemplate, name, mimeType, agent }) => [
        uri ?? uriTemplate ?? '',
        name,
        mimeType ?? '-',
        agent,
      ]),
      'no agent offers a resource',
    );
  },
};
