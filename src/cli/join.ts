import type { Command } from './command.js';

export const command: Command = {
  summary: 'join the mesh that a code invites to',
  usage: 'join CODE',
  words: [1, 1],
  examples: ['ecliptic join ecl1…'],
  async run({ connect, words, output }) {
    const client = await connect();
    if (!output.json) process.stderr.write('Looking for the node that made this code …\n');
    const joined = await client.call<{ mesh: string }>('join', { code: words[0] });
    output.value(joined, () => `This node is now a member. See who is there with: ecliptic peers`);
  },
};
