import type { Verdict } from '../system/approvals/approval-queue.js';
import { flag, verb } from './command.js';
import { timeText } from './output.js';

const list = verb({
  summary: 'list approval requests of agents',
  options: { all: flag('include recent decisions') },
  examples: ['', '--all --json'],
  async run({ call, values: { all }, output }) {
    const items = await call('approvals', { all });
    output.rows(items, 'no approval requests', ({ id, createdAt, expiresAt, summary, decision }) => ({
      ID: id,
      SINCE: timeText(createdAt, 'seconds'),
      UNTIL: expiresAt === undefined ? '-' : timeText(expiresAt, 'seconds'),
      QUESTION: summary,
      DECISION: decision ? `${decision.verdict} by ${decision.by}` : '-',
    }));
  },
});

function decide(verdict: Verdict, summary: string, done: string) {
  return verb({
    summary,
    args: ['ID', 'ID...'],
    examples: ['01JCQX4M0V7Y8Z9ABCDEFGHJKM'],
    async run({ call, words: ids, output }) {
      const decided = await call('approvals.decide', { verdict, ids });
      output.value(decided, () => decided.map((item) => `${item.summary}: ${done}`).join('\n'));
    },
  });
}

export const verbs = {
  list,
  'allow-once': decide('allow-once', 'allow a request once', 'allowed, this once'),
  'allow-always': decide(
    'allow-always',
    'allow a request, and the same one from now on',
    'allowed, now and from now on',
  ),
  deny: decide('deny', 'deny a request; a request with a time limit is denied when its time is over', 'denied'),
};
