import type { A2AEnvelope, A2ALogEvent } from '../mesh/schemas.js';
import { cutText } from '../runtime/text.js';
import type { Command } from './command.js';

export const command: Command = {
  summary: 'show the messages of a conversation, and what providers did for it',
  usage: 'thread ID',
  words: [1, 1],
  examples: ['ecliptic thread 01JCQX4M0V7Y8Z9ABCDEFGHJKM'],
  async run({ connect, words, output }) {
    const client = await connect();
    const envelopes = await client.call<A2AEnvelope[]>('thread', { id: words[0] });
    const events = await client.call<A2ALogEvent[]>('thread.events', { id: words[0] });
    const all = [...envelopes, ...events].sort((a, b) => a.timestamp - b.timestamp);
    output.table(
      all,
      ['TIME', 'FROM', 'TO', 'TYPE', 'PAYLOAD'],
      all.map((one) => [new Date(one.timestamp).toISOString().slice(11, 23), ...columns(one)]),
      'no messages are remembered of that thread',
    );
  },
};

function columns(one: A2AEnvelope | A2ALogEvent): string[] {
  if ('payload' in one) return [one.sender, one.recipient, one.type, short(JSON.stringify(one.payload))];
  const { sender = '', provider = '', topic = '', code, reason, duration, details } = one as A2ALogEvent;
  const took = duration === undefined ? [] : [`${Math.round(duration)} ms`];
  const said = [...(code === undefined ? [] : [`${code}: ${reason ?? ''}`]), ...took];
  return [sender, provider, topic, short([...said, ...(details ? [JSON.stringify(details)] : [])].join(' '))];
}

function short(text: string): string {
  return text.length > 80 ? `${cutText(text, 79)}…` : text;
}
