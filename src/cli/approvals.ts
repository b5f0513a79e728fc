import { type Approval, type Verdict, VerdictSchema } from '../system/approvals/approval-queue.js';
import type { Command } from './command.js';
import { misuse } from './misuse.js';

const DONE: Readonly<Record<Verdict, string>> = {
  'allow-once': 'allowed, this once',
  'allow-always': 'allowed, now and from now on',
  deny: 'denied',
};

export const command: Command = {
  summary: 'see what agents wait for your word on, and give it',
  usage: 'approvals [--all] | approvals allow-once|allow-always|deny ID [ID …]',
  options: { all: { type: 'boolean' } },
  optionHelp: [
    ['--all', 'also what was decided of late'],
    ['allow-once', 'let it happen'],
    ['allow-always', 'let it happen, and the same whenever it is asked again'],
    ['deny', 'do not; so does silence, where a question has a time limit'],
  ],
  words: [0, 100],
  examples: ['ecliptic approvals', 'ecliptic approvals allow-once 01JCQX4M0V7Y8Z9ABCDEFGHJKM'],
  async run({ connect, words, values, output }) {
    const [word, ...ids] = words;
    const { data: verdict } = VerdictSchema.safeParse(word);
    if (word !== undefined && (verdict === undefined || ids.length === 0)) {
      throw misuse(command, words);
    }
    const client = await connect();
    if (verdict !== undefined) {
      const decided = await client.call<Approval[]>('approvals.decide', { verdict, ids });
      output.value(decided, () => decided.map(({ summary }) => `${summary}: ${DONE[verdict]}`).join('\n'));
      return;
    }
    const items = await client.call<Approval[]>('approvals', { all: values.all === true });
    output.table(
      items,
      ['ID', 'SINCE', 'UNTIL', 'QUESTION', 'DECISION'],
      items.map(({ id, createdAt, expiresAt, summary, decision }) => [
        id,
        timeOf(createdAt),
        expiresAt === undefined ? '-' : timeOf(expiresAt),
        summary,
        decision ? `${decision.verdict} by ${decision.by}` : '-',
      ]),
      'nothing waits for your word',
    );
  },
};

function timeOf(ms: number): string {
  return new Date(ms).toISOString().slice(11, 19);
}
