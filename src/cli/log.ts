import { systemRuntime } from '../runtime/system-runtime.js';
import type { JournalRow } from '../store/tables.js';
import type { Command } from './command.js';
import { usage } from './output.js';
import { duration, whole } from './payload.js';

const DEFAULT_ROWS = 100;

export const command: Command = {
  summary: 'search the journal of what was decided about messages',
  usage: 'log [--thread ID] [--agent A] [--since TIME] [--limit N]',
  options: {
    thread: { type: 'string' },
    agent: { type: 'string' },
    since: { type: 'string' },
    limit: { type: 'string' },
  },
  optionHelp: [
    ['--thread ID', 'only that conversation'],
    ['--agent A', 'only what that agent sent or was sent'],
    ['--since TIME', 'a date, or how long ago: 2026-11-15T10:00, 15m, 7d'],
    ['--limit N', 'the latest N (default: 100)'],
  ],
  examples: ['ecliptic log', 'ecliptic log --agent mars --since 1h', 'ecliptic log --thread 01JD… --json'],
  async run({ connect, values, output }) {
    const { thread, agent } = values;
    const since = values.since === undefined ? undefined : moment(values.since as string);
    const limit = whole(values, 'limit') ?? DEFAULT_ROWS;
    const client = await connect();
    let rows: JournalRow[] = [];
    while (rows.length < limit) {
      const wanted = { thread, agent, since, before: rows[0]?.seq, limit: limit - rows.length };
      const page = await client.call<JournalRow[]>('log', wanted);
      if (page.length === 0) break;
      rows = [...page, ...rows];
    }
    output.table(
      rows,
      ['TIME', 'FROM', 'TO', 'TYPE', 'DECISION', 'ID'],
      rows.map((row) => [
        new Date(row.at).toISOString().slice(0, 23),
        row.sender,
        row.recipient,
        row.type,
        row.code ?? 'delivered',
        row.envelopeId,
      ]),
      'the journal has nothing that fits',
    );
  },
};

function moment(text: string): number {
  if (/^\d+(\.\d+)?(ms|s|m|h|d)$/.test(text)) return systemRuntime().now() - duration({ since: text }, 'since')!;
  const at = Date.parse(text);
  if (Number.isNaN(at)) throw usage(`--since must be a date or a time like 15m, not "${text}"`);
  return at;
}
