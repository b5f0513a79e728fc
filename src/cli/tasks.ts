import type { TaskRow } from '../control/task-methods.js';
import type { Command } from './command.js';
import { whole } from './payload.js';
import { stateText } from './task-text.js';

export const command: Command = {
  summary: 'list the tasks that A2A clients gave to this node',
  usage: 'tasks [--state S] [--caller NAME] [--limit N]',
  options: { state: { type: 'string' }, caller: { type: 'string' }, limit: { type: 'string' } },
  optionHelp: [
    [
      '--state S',
      'only those: submitted, working, input-required, auth-required, completed, failed, canceled, rejected',
    ],
    ['--caller NAME', 'only those of that caller'],
    ['--limit N', 'the latest N (default: 100)'],
  ],
  examples: ['ecliptic tasks', 'ecliptic tasks --state working', 'ecliptic tasks --caller alice --json'],
  async run({ connect, values, output }) {
    const { state, caller } = values;
    const limit = whole(values, 'limit');
    const rows = await (await connect()).call<TaskRow[]>('tasks', { state, caller, limit });
    output.table(
      rows,
      ['ID', 'STATE', 'CALLER', 'AGENT', 'UPDATED'],
      rows.map(({ id, state: is, caller: whose, agent, updatedAt }) => [
        id,
        stateText(is),
        whose,
        agent,
        updatedAt ?? '-',
      ]),
      'no tasks',
    );
  },
};
