import type { Command } from './command.js';

export const command: Command = {
  summary: 'stop the running node',
  usage: 'down',
  examples: ['ecliptic down'],
  async run({ connect, output }) {
    const client = await connect();
    const { pid, node } = client.server;
    await client.call('down');
    await client.closed;
    output.value({ stopped: true, node, pid }, () => `The node of process ${pid} has stopped.`);
  },
};
