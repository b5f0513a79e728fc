import type { HeldRow } from '../coding-agents/coding-agents.js';
import { cutText } from '../runtime/text.js';
import type { Command } from './command.js';
import { misuse } from './misuse.js';

export const command: Command = {
  summary: 'mail of strangers that waits for you: list it, let it in, or turn it away',
  usage: 'held [let-in|turn-away ID] [--json]',
  words: [0, 2],
  examples: ['ecliptic held', 'ecliptic held let-in 01J…   # this sender’s mail comes through from now on'],
  async run({ connect, words, output }) {
    const [decision, id] = words;
    const client = await connect();
    if (decision === undefined) {
      const rows = await client.call<HeldRow[]>('held');
      output.value(rows, () => (rows.length === 0 ? 'Nothing is held.' : rows.map(describe).join('\n')));
      return;
    }
    if ((decision !== 'let-in' && decision !== 'turn-away') || id === undefined) {
      throw misuse(command, words);
    }
    const done = await client.call<{ from: string }>(decision === 'let-in' ? 'held.letIn' : 'held.turnAway', { id });
    output.value(done, () => (decision === 'let-in' ? `Mail from ${done.from} comes through.` : 'It was turned away.'));
  },
};

function describe({ id, from, to, text }: HeldRow): string {
  const line = text.replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ');
  return `${id}  ${from} to ${to}: ${line.length > 200 ? `${cutText(line, 199)}…` : line}`;
}
