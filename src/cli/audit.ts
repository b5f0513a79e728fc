import type { AuditReport } from '../mesh/audit/audit-log.js';
import type { Command } from './command.js';
import { misuse } from './misuse.js';

export const command: Command = {
  summary: 'check that the audit log is what was written',
  usage: 'audit verify',
  words: [1, 1],
  examples: ['ecliptic audit verify', 'ecliptic audit verify --json'],
  async run({ connect, words, output }) {
    if (words[0] !== 'verify') throw misuse(command, words);
    const client = await connect();
    const report = await client.call<AuditReport>('audit.verify');
    output.value(report, () => `${report.rows} rows, and every one of them is what was written`);
  },
};
