import type { Overview } from '../coding-agents/overview.js';
import { wait } from '../runtime/async.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { choice, flag, list, required, text, verb } from './command.js';
import { LiveArea } from './live-area.js';

const setup = verb({
  summary: 'connect the coding agents of this machine to the mesh, and undo it',
  args: ['CLIENT...'],
  argHelp: [['CLIENT', 'claude-code, codex, gemini, cursor, vscode or opencode (default: those found here)']],
  options: {
    as: text('NAME', 'the agent’s name on the mesh (default: made from the client and its folder)'),
    hooks: flag('also install the hooks that deliver mail at the end of a turn, or wake the agent'),
    guard: flag('also install the hook that stops edits of files which another agent has reserved'),
    yes: flag('apply every change without asking'),
    'dry-run': flag('show the changes and apply none'),
    undo: flag('restore every file, byte for byte unless it was changed since'),
  },
  examples: ['', 'codex --as reviewer --hooks --yes', '--undo'],
  async run(invocation) {
    await (await import('./setup.js')).setUp(invocation);
  },
});

const mcp = verb({
  summary: 'make the coding agent that starts this a member of the mesh (MCP on standard input and output)',
  options: {
    as: text('NAME', 'the agent’s name on the mesh (default: made from the client and the folder)'),
    tools: choice(['mesh', 'core', 'all'], 'the eight mesh tools (default), four of them, or also every agent’s tools'),
    capability: list('LIST', 'what it can do for others, separated by commas'),
    tier: choice(['0', '1', '2', '3'], 'default: 3'),
    'no-start': flag('wait for a node instead of starting one in the background'),
    for: text('AGENT', 'no new member: give the program of this agent every agent’s tools, in its name'),
  },
  examples: [
    'claude mcp add ecliptic -- npx % --as alice',
    '--as reviewer --capability review',
    '--as alice --tools all',
  ],
  async run(invocation) {
    await (await import('./mcp.js')).serveMcp(invocation);
  },
});

const acp = verb({
  summary: 'make an agent of the mesh the agent of the editor that starts this (ACP on standard input and output)',
  options: {
    to: required(text('AGENT', 'an agent of the mesh, here or on another node')),
    'no-start': flag('wait for a node instead of starting one in the background'),
  },
  examples: ['--to mars', '--to mars@desktop'],
  async run(invocation) {
    await (await import('./acp.js')).serveAcp(invocation);
  },
});

const watch = verb({
  summary: 'show the coding agents of this machine: presence, unread mail, tasks, leases, held mail',
  options: { once: flag('show it once and exit') },
  examples: ['', '--once --json'],
  async run({ connect, values, output }) {
    const client = await connect();
    const runtime = systemRuntime();
    const area = new LiveArea(output);
    let shown = '';
    for (;;) {
      const view = await client.call('overview');
      const now = JSON.stringify(view);
      if (area.live && !values.once) area.draw(overviewRows(view));
      else if (now !== shown) output.value(view, () => overviewRows(view).join('\n'));
      shown = now;
      if (values.once) return;
      await wait(runtime, EVERY_MS);
    }
  },
});

const EVERY_MS = 1_000;

function overviewRows({ agents, tasks, leases, held, forYou }: Overview): string[] {
  const width = Math.max(5, ...agents.map(({ name }) => name.length));
  return [
    `${'AGENT'.padEnd(width)}  STATE   SEES MAIL  UNREAD  OPEN  DOES`,
    ...agents.map(({ name, state, seesMail, unread, open, summary }) => {
      const counts = `${String(unread).padStart(6)}  ${String(open).padStart(4)}`;
      return `${name.padEnd(width)}  ${state.padEnd(6)}  ${seesMail.padEnd(9)}  ${counts}  ${summary}`;
    }),
    ...(agents.length === 0 ? ['no coding agent yet; see: ecliptic setup'] : []),
    '',
    `for you: ${forYou.length === 0 ? 'nothing' : `${forYou.length}; see: ecliptic inbox`}`,
    ...forYou.map(
      ({ id, from, needs, text: said }) => `  ${id}  ${from}${needs === 'none' ? '' : ` (needs ${needs})`}: ${said}`,
    ),
    `tasks: ${tasks.length === 0 ? 'none' : ''}`,
    ...tasks.map(({ id, from, to, state, title }) => `  ${id}  ${from} to ${to}  ${state}  ${title}`),
    `leases: ${leases.length === 0 ? 'none' : ''}`,
    ...leases.map(({ name, glob, repositoryName, label }) => `  ${name}  ${glob}  in ${repositoryName}  ${label}`),
    `held: ${held.length === 0 ? 'nothing' : `${held.length}; see: ecliptic held`}`,
    ...held.map(({ id, from, to }) => `  ${id}  ${from} to ${to}`),
  ];
}

const hook = verb({
  summary: 'the hook that coding agents call at the start of a session and the end of a turn, to receive mail',
  options: {
    client: required(text('CLIENT', 'claude-code, codex, gemini, cursor or opencode')),
    event: required(text('EVENT', 'the client’s own name of the hook, as SessionStart, Stop, AfterAgent, stop')),
  },
  examples: ['--client claude-code --event SessionStart', '--client gemini --event AfterAgent'],
  // Clients take 2 for an order to stop or to continue, and any other code for a hook that does not work.
  failsWith: () => 1,
  async run(invocation) {
    await (await import('./hooks.js')).answerHook(invocation);
  },
});

const guard = verb({
  summary:
    'a hook that stops edits of files that another agent has reserved or changed, and git operations that take its work',
  options: {
    client: choice(
      ['claude-code', 'codex', 'gemini', 'cursor', 'opencode'],
      'answer the hook of that client on standard input',
    ),
    'pre-commit': flag('check the staged files; exits with 1 if another agent holds one of them'),
  },
  examples: [
    '--client claude-code   # as PreToolUse hook for Edit|Write|MultiEdit|NotebookEdit',
    '--client codex         # as PreToolUse hook for apply_patch',
    '--client gemini        # as BeforeTool hook for write_file|replace|run_shell_command',
    '--client cursor        # as preToolUse hook',
    '--client opencode      # in a plugin, before edit, write and apply_patch',
    '--pre-commit           # in .git/hooks/pre-commit',
  ],
  // Git takes any code but 0 for a veto; clients take 2 for a denial, and any other code for a hook that does not work.
  failsWith: (args) => (args.includes('--pre-commit') ? 0 : 1),
  async run(invocation) {
    await (await import('./hooks.js')).guardFiles(invocation);
  },
});

export const verbs = { setup, mcp, acp, watch, hook, guard };
