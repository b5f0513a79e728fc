import type { RadarView } from '../node/control/rows.js';
import { flag, verb } from './command.js';
import { oneLine } from './output.js';

const show = verb({
  summary: 'show the changed files of worktrees on your devices, and where two agents are at the same file',
  options: { local: flag('only on this device'), files: flag('name every changed file') },
  examples: ['', '--files', '--json'],
  async run({ call, values: { local, files = false }, output }) {
    const view = await call('radar', { local });
    output.value(view, () => radarText(view, files));
  },
});

/** One line for each thing that is found. */
export function radarText({ places, overlaps, missing, skipped }: RadarView, files: boolean): string {
  const lines = [
    ...overlaps.map(overlapText),
    ...places.flatMap((place) => {
      const { folder, branch = 'a detached HEAD', agents, more } = place;
      const who = agents.length === 0 ? 'no agent' : agents.map(nameIn).join(', ');
      const count = place.files.length + more;
      const shared =
        agents.length < 2
          ? ''
          : '  (shared: a checkout, merge, rebase, reset or stash of one takes work from the others)';
      const polled = place.mode === 'polled' ? '  (cannot be watched; read from time to time)' : '';
      return [
        `${place.repositoryName}  ${branch}  ${who}  ${count} changed file${count === 1 ? '' : 's'}  ${folder}${shared}${polled}`,
        ...(files ? place.files.map((file) => `  ${file}`) : []),
      ];
    }),
    ...skipped.map(({ folder, reason }) => `not read: ${folder}: ${reason}`),
    ...missing.map(({ name, reason }) => `not asked: ${name}: ${reason}`),
  ];
  // Names of files, folders and branches are foreign text.
  return lines.map(oneLine).join('\n') || 'No agent works in a folder of your devices.';
}

function overlapText({ places, lease, paths }: RadarView['overlaps'][number]): string {
  const where = places.map(({ name, branch, agents, folder }) => {
    const shared = agents.length > 1 ? `in the folder of ${agents.join(', ')}` : undefined;
    const who = shared ?? `by ${agents[0] ?? folder}`;
    return `${who}${branch === undefined ? '' : ` on ${branch}`}${name === '' ? '' : ` (${name})`}`;
  });
  const named = paths.slice(0, 5).join(', ') + (paths.length > 5 ? ` and ${paths.length - 5} more` : '');
  if (lease) return `OVERLAP  ${named}: changed ${where.join()}, reserved by ${nameIn(lease.holder)} (${lease.glob})`;
  return `OVERLAP  ${named}: changed ${where.join(' and ')}`;
}

/** The name in an address. */
function nameIn(address: string): string {
  return address.split('@', 1)[0]!;
}

export const verbs = { show };
