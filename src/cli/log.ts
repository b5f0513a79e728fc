import { existsSync } from 'node:fs';
import type { Difference } from '../mesh/audit/journal-log.js';
import type { JournalRow } from '../mesh/audit/tables.js';
import type { ControlClient } from '../node/control/client.js';
import { fitting } from '../node/control/protocol.js';
import type { Replayed } from '../node/control/rows.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { cutText } from '../runtime/text.js';
import { type Option, readDuration, text, verb, whole } from './command.js';
import { readTextFile } from './input.js';
import { timeText, usage } from './output.js';

const DEFAULT_ROWS = 100;
const TEXT_CHARS = 80;

const since: Option<number | undefined> = {
  value: 'TIME',
  help: 'a date, or how long ago: 2026-11-15T10:00, 15m, 7d',
  read(given, name) {
    if (/^\d+(\.\d+)?(ms|s|m|h|d)$/.test(given)) return systemRuntime().now() - readDuration(given, name);
    const at = Date.parse(given);
    if (Number.isNaN(at)) throw usage(`${name} must be a date or a time like 15m, not "${given}"`);
    return at;
  },
};

const search = verb({
  summary: 'search the journal of decisions about messages',
  options: {
    thread: text('ID', 'only that conversation'),
    agent: text('A', 'only messages from or to that agent'),
    text: text('WORDS', 'only messages with all these words, also in mail of coding agents and of yours'),
    since,
    limit: whole('the latest N (default: 100)'),
  },
  examples: ['', '--agent mars --since 1h', '--text "login page"', '--thread 01JD… --json'],
  async run({ connect, values, output }) {
    const { thread, agent, text: words, since: from, limit = DEFAULT_ROWS } = values;
    const client = await connect();
    let rows: (JournalRow & { readonly text?: string })[] = [];
    while (rows.length < limit) {
      const wanted = { thread, agent, text: words, since: from, before: rows[0]?.seq, limit: limit - rows.length };
      const page = await client.call('log', wanted);
      if (page.length === 0) break;
      rows = [...page, ...rows];
    }
    const hasText = rows.some((row) => row.text !== undefined);
    output.rows(rows, 'no decisions match', (row) => ({
      TIME: timeText(row.at, 'milliseconds'),
      FROM: row.sender,
      TO: row.recipient,
      TYPE: row.type,
      DECISION: row.code ?? 'delivered',
      ID: row.envelopeId,
      ...(hasText && { TEXT: cutText(row.text ?? '', TEXT_CHARS) }),
    }));
  },
});

const exportAll = verb({
  summary: 'write the whole journal, one JSON object a line',
  examples: ['> journal.jsonl'],
  async run({ call, output }) {
    await call('export', {}, (row) => output.line(JSON.stringify(row)));
  },
});

const replay = verb({
  summary: 'decide recorded messages by the present rules, and show the differences',
  args: ['FILE|ID'],
  examples: ['journal.jsonl', '01JD…   # a message or a thread of the journal'],
  async run({ connect, words: [subject], output }) {
    const lines = existsSync(subject) ? readLines(subject) : undefined;
    const client = await connect();
    const result = lines ? await replayAll(client, lines) : await client.call('replay', { id: subject });
    output.value(result, () =>
      [
        `${result.asked} decisions, ${result.differences.length} would differ`,
        ...result.differences.map(({ envelopeId, sender, recipient, type, recorded, now }) => {
          return `  ${envelopeId}  ${sender} → ${recipient}  ${type}: was ${recorded}, would be ${now}`;
        }),
      ].join('\n'),
    );
  },
});

interface Line {
  readonly row: unknown;
  readonly chars: number;
}

const PAGE = 10_000;

/** Replays page by page: one call cannot hold a whole journal. */
async function replayAll(client: ControlClient, lines: readonly Line[]): Promise<Replayed> {
  let asked = 0;
  const differences: Difference[] = [];
  for (let at = 0; at < lines.length || at === 0; ) {
    const page = fitting(lines.slice(at, at + PAGE), ({ chars }) => chars);
    const result = await client.call('replay', { rows: page.map(({ row }) => row) });
    asked += result.asked;
    differences.push(...result.differences);
    at += Math.max(1, page.length);
  }
  return { asked, differences };
}

function readLines(file: string): Line[] {
  const lines: Line[] = [];
  for (const [index, line] of readTextFile(file, 'USAGE').split('\n').entries()) {
    if (line.trim() === '') continue;
    try {
      lines.push({ row: JSON.parse(line), chars: line.length });
    } catch {
      throw usage(`${file}:${index + 1}: is not JSON`);
    }
  }
  return lines;
}

export const verbs = { search, export: exportAll, replay };
