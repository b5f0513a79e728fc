import type { Command } from './command.js';

export const command: Command = {
  summary: 'say something to an agent as yourself, sealed with a key that no agent has',
  usage: 'tell NAME TEXT [--reply-to ID] [--json]',
  options: { 'reply-to': { type: 'string' } },
  optionHelp: [['--reply-to ID', 'the message of that agent that this answers; see: ecliptic inbox --as operator']],
  words: [2, 2],
  examples: ['ecliptic tell alice "Stop at the next commit, please."', 'ecliptic tell bob@laptop "You have my go."'],
  async run({ connect, values, words, output }) {
    const [to, text] = words;
    const client = await connect();
    const told = await client.call<{ id: string; to: string }>('tell', { to, text, replyTo: values['reply-to'] });
    output.value(told, () => `${told.id} to ${told.to}; see: ecliptic receipt ${told.id}`);
  },
};
