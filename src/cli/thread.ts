import type { A2AEnvelope } from '../a2a/schemas.js';
import type { Command } from './command.js';

export const command: Command = {
  summary: 'show the messages of a conversation',
  usage: 'thread ID',
  words: [1, 1],
  examples: ['ecliptic thread 01JCQX4M0V7Y8Z9ABCDEFGHJKM'],
  async run({ connect, words, output }) {
    const client = await connect();
    const envelopes = await client.call<A2AEnvelope[]>('thread', { id: words[0] });
    output.table(
      envelopes,
      ['TIME', 'FROM', 'TO', 'TYPE', 'PAYLOAD'],
      envelopes.map(({ timestamp, sender, recipient, type, payload }) => {
        const body = JSON.stringify(payload);
        const time = new Date(timestamp).toISOString().slice(11, 23);
        return [time, sender, recipient, type, body.length > 80 ? `${body.slice(0, 79)}…` : body];
      }),
      'no messages are remembered of that thread',
    );
  },
};
