import type { Command } from './command.js';

export const command: Command = {
  summary: 'show an agent’s card',
  usage: 'card AGENT',
  words: [1, 1],
  examples: ['ecliptic card mars', 'ecliptic card mars --json'],
  async run({ connect, words, output }) {
    const client = await connect();
    const card = await client.call('card', { id: words[0] });
    output.value(card, () => JSON.stringify(card, null, 2));
  },
};
