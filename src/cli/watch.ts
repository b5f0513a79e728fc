import type { Overview } from '../coding-agents/overview.js';
import { wait } from '../runtime/async.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import type { Command } from './command.js';
import { LiveArea } from './live-area.js';

export const command: Command = {
  summary: 'one screen of the coding agents here: who is there, unread mail, tasks, leases, what is held',
  usage: 'watch [--once] [--json]',
  options: { once: { type: 'boolean' } },
  optionHelp: [['--once', 'show it once and end']],
  examples: ['ecliptic watch', 'ecliptic watch --once --json'],
  async run({ connect, values, output }) {
    const client = await connect();
    const runtime = systemRuntime();
    const area = new LiveArea(output);
    let shown = '';
    for (;;) {
      const view = await client.call<Overview>('overview');
      const text = JSON.stringify(view);
      if (area.live && !values.once) area.draw(rows(view));
      else if (text !== shown) output.value(view, () => rows(view).join('\n'));
      shown = text;
      if (values.once) return;
      await wait(runtime, EVERY_MS);
    }
  },
};

const EVERY_MS = 1_000;

function rows({ agents, tasks, leases, held, forYou }: Overview): string[] {
  const width = Math.max(5, ...agents.map(({ name }) => name.length));
  return [
    `${'AGENT'.padEnd(width)}  STATE   SEES MAIL  UNREAD  OPEN  DOES`,
    ...agents.map(({ name, state, seesMail, unread, open, summary }) => {
      const counts = `${String(unread).padStart(6)}  ${String(open).padStart(4)}`;
      return `${name.padEnd(width)}  ${state.padEnd(6)}  ${seesMail.padEnd(9)}  ${counts}  ${summary}`;
    }),
    ...(agents.length === 0 ? ['no coding agent yet; see: ecliptic setup'] : []),
    '',
    `for you: ${forYou.length === 0 ? 'nothing' : `${forYou.length}; see: ecliptic inbox --as operator`}`,
    ...forYou.map(
      ({ id, from, needs, text }) => `  ${id}  ${from}${needs === 'none' ? '' : ` (needs ${needs})`}: ${text}`,
    ),
    `tasks: ${tasks.length === 0 ? 'none' : ''}`,
    ...tasks.map(({ id, from, to, state, title }) => `  ${id}  ${from} to ${to}  ${state}  ${title}`),
    `leases: ${leases.length === 0 ? 'none' : ''}`,
    ...leases.map(({ name, glob, repositoryName, label }) => `  ${name}  ${glob}  in ${repositoryName}  ${label}`),
    `held: ${held.length === 0 ? 'nothing' : `${held.length}; see: ecliptic held`}`,
    ...held.map(({ id, from, to }) => `  ${id}  ${from} to ${to}`),
  ];
}
