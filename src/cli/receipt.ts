import type { Receipt } from '../mail/receipt.js';
import type { Command } from './command.js';

export const command: Command = {
  summary: 'say what became of a durable message',
  usage: 'receipt ID',
  words: [1, 1],
  examples: ['ecliptic receipt 01JD…', 'ecliptic receipt 01JD… --json'],
  async run({ connect, words, output }) {
    const client = await connect();
    const receipt = await client.call<{ state: string; over: boolean; story: Receipt }>('receipt', { id: words[0] });
    output.value(receipt, () =>
      receipt.story
        .map(({ state, at, reason }) => `${new Date(at).toISOString()}  ${state}${reason ? `: ${reason}` : ''}`)
        .join('\n'),
    );
  },
};
