import { existsSync, readFileSync } from 'node:fs';
import type { Difference } from '../records/journal-log.js';
import type { Command } from './command.js';
import { usage } from './output.js';

export const command: Command = {
  summary: 'ask today’s rules about recorded messages, and show what would differ',
  usage: 'replay FILE|ID',
  words: [1, 1],
  examples: ['ecliptic replay journal.jsonl', 'ecliptic replay 01JD…   # a message or a thread of the journal'],
  async run({ connect, words, output }) {
    const [what] = words as [string];
    const request = existsSync(what) ? { rows: readLines(what) } : { id: what };
    const client = await connect();
    const result = await client.call<{ asked: number; differences: Difference[] }>('replay', request);
    output.value(result, () =>
      [
        `${result.asked} decisions, ${result.differences.length} would differ`,
        ...result.differences.map(({ envelopeId, sender, recipient, type, recorded, now }) => {
          return `  ${envelopeId}  ${sender} → ${recipient}  ${type}: was ${recorded}, would be ${now}`;
        }),
      ].join('\n'),
    );
  },
};

function readLines(file: string): unknown[] {
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.trim() !== '');
  return lines.map((line, index) => {
    try {
      return JSON.parse(line);
    } catch {
      throw usage(`${file}:${index + 1}: is not JSON`);
    }
  });
}
