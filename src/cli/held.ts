import { cutText } from '../runtime/text.js';
import { verb } from './command.js';

const list = verb({
  summary: 'list messages from unknown senders that are held until you decide',
  examples: ['', '--json'],
  async run({ call, output }) {
    const rows = await call('held');
    output.value(rows, () => {
      const lines = rows.map(({ id, from, to, text }) => {
        const line = text.replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ');
        return `${id}  ${from} to ${to}: ${line.length > 200 ? `${cutText(line, 199)}…` : line}`;
      });
      return lines.join('\n') || 'No messages are held.';
    });
  },
});

const letIn = verb({
  summary: 'deliver a held message, and all later ones of its sender',
  args: ['ID'],
  examples: ['01J…'],
  async run({ call, words: [id], output }) {
    const done = await call('held.letIn', { id });
    output.value(done, () => `Messages from ${done.from} are delivered from now on.`);
  },
});

const turnAway = verb({
  summary: 'decline a held message',
  args: ['ID'],
  examples: ['01J…'],
  async run({ call, words: [id], output }) {
    const done = await call('held.turnAway', { id });
    output.value(done, () => `The message from ${done.from} was declined.`);
  },
});

export const verbs = { list, 'let-in': letIn, 'turn-away': turnAway };
