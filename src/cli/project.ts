import { resolve } from 'node:path';
import { verb } from './command.js';

const list = verb({
  summary: 'list the projects that coding agents work in and that have an ecliptic.json, and whether it is used',
  examples: ['', '--json'],
  async run({ call, output }) {
    const rows = await call('projects');
    output.rows(
      rows,
      'no project with an ecliptic.json is known to this node; only a node in the background runs agents of projects',
      ({ folder, state, reason, ...row }) => ({
        FOLDER: folder,
        STATE: state,
        AGENTS: row.agents.join(', ') || '-',
        CLIENTS: row.clients.join(', ') || '-',
        REASON: reason ?? (state === 'asked' ? 'see: ecliptic approval list' : ''),
      }),
    );
  },
});

const forget = verb({
  summary: 'end the agents of a project, and forget what you decided about it',
  args: ['FOLDER'],
  examples: ['.', '~/work/website'],
  async run({ call, words: [folder], output }) {
    const row = await call('project.forget', { folder: resolve(folder) });
    output.value(row, () => `${row.folder}: its agents have ended; you are asked again when a client joins there`);
  },
});

export const verbs = { list, forget };
