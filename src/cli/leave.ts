import type { Command } from './command.js';

export const command: Command = {
  summary: 'leave the mesh for good',
  usage: 'leave',
  examples: ['ecliptic leave'],
  async run({ connect, output }) {
    const client = await connect();
    await client.call('leave');
    output.value({ left: true }, () => 'This node belongs to no mesh any more. Its agents run on.');
  },
};
