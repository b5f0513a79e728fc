import { existsSync, readFileSync } from 'node:fs';
import type { Difference } from '../mesh/audit/journal-log.js';
import type { ControlClient } from '../node/control/client.js';
import { fitting } from '../node/control/protocol.js';
import { describeError } from '../runtime/errors.js';
import type { Command } from './command.js';
import { usage } from './output.js';

export const command: Command = {
  summary: 'ask today’s rules about recorded messages, and show what would differ',
  usage: 'replay FILE|ID',
  words: [1, 1],
  examples: ['ecliptic replay journal.jsonl', 'ecliptic replay 01JD…   # a message or a thread of the journal'],
  async run({ connect, words, output }) {
    const [what] = words as [string];
    const rows = existsSync(what) ? readLines(what) : undefined;
    const client = await connect();
    const result = rows ? await replayAll(client, rows) : await client.call<Replayed>('replay', { id: what });
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

interface Replayed {
  readonly asked: number;
  readonly differences: readonly Difference[];
}

/** Asks in pages, for a call holds only so much. */
async function replayAll(client: ControlClient, lines: readonly Line[]): Promise<Replayed> {
  let asked = 0;
  const differences: Difference[] = [];
  for (let at = 0; at < lines.length || at === 0; ) {
    const page = fitting(lines.slice(at, at + PAGE), ({ chars }) => chars);
    const result = await client.call<Replayed>('replay', { rows: page.map(({ row }) => row) });
    asked += result.asked;
    differences.push(...result.differences);
    at += Math.max(1, page.length);
  }
  return { asked, differences };
}

interface Line {
  readonly row: unknown;
  readonly chars: number;
}

const PAGE = 10_000;

function readLines(file: string): Line[] {
  const lines: Line[] = [];
  for (const [index, line] of readText(file).split('\n').entries()) {
    if (line.trim() === '') continue;
    try {
      lines.push({ row: JSON.parse(line), chars: line.length });
    } catch {
      throw usage(`${file}:${index + 1}: is not JSON`);
    }
  }
  return lines;
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw usage(`${file} cannot be read: ${describeError(error)}`);
  }
}
