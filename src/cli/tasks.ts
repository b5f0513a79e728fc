import type { TaskRow } from '../node/control/rows.js';
import { cutText } from '../runtime/text.js';
import type { Command } from './command.js';
import { whole } from './payload.js';
import { stateText } from './task-text.js';

export const command: Command = {
  summary: 'list the work of this node: tasks of A2A clients, proposals between agents, sub-tasks of swarms',
  usage: 'tasks [--kind a2a|proposal|swarm] [--state S] [--caller NAME] [--limit N]',
  options: {
    kind: { type: 'string' },
    state: { type: 'string' },
    caller: { type: 'string' },
    limit: { type: 'string' },
  },
  optionHelp: [
    [
      '--kind K',
      'only those: a2a (see one with `task ID`), proposal (`proposals`, `thread ID`), swarm (`swarm show ID`)',
    ],
    [
      '--state S',
      'only those: submitted, working, input-required, auth-required, completed, failed, canceled, rejected',
    ],
    ['--caller NAME', 'only those of that caller'],
    ['--limit N', 'the latest N (default: 100)'],
  ],
  examples: [
    'ecliptic tasks',
    'ecliptic tasks --state working',
    'ecliptic tasks --kind swarm',
    'ecliptic tasks --caller alice --json',
  ],
  async run({ connect, values, output }) {
    const { kind, state, caller } = values;
    const limit = whole(values, 'limit');
    const rows = await (await connect()).call<TaskRow[]>('tasks', { kind, state, caller, limit });
    output.table(
      rows,
      ['ID', 'KIND', 'STATE', 'CALLER', 'AGENT', 'UPDATED', 'TASK'],
      rows.map(({ id, kind: sort, state: is, caller: whose, agent, updatedAt, text }) => [
        id,
        sort,
        stateText(is),
        whose,
        agent,
        updatedAt ?? '-',
        cutText(text, 40),
      ]),
      'no tasks',
    );
  },
};
