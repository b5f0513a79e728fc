import type { Command } from './command.js';
import { confirm } from './confirm.js';

export const command: Command = {
  summary: 'leave the mesh; coming back takes a new invite',
  usage: 'leave [--yes]',
  options: { yes: { type: 'boolean' } },
  optionHelp: [['--yes', 'do not ask on a terminal']],
  examples: ['ecliptic leave', 'ecliptic leave --yes'],
  async run(invocation) {
    const { connect, output } = invocation;
    const client = await connect();
    await confirm(invocation, 'Leave the mesh? Coming back takes a new invite.');
    await client.call('leave', {}, () => {
      if (!output.json) process.stderr.write('Leaving the mesh …\n');
    });
    output.value({ left: true }, () => 'This node belongs to no mesh any more. Its agents run on.');
  },
};
