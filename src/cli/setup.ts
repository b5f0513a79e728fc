import { accessSync, constants, existsSync, realpathSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, isAbsolute, join } from 'node:path';
import type { Machine } from '../coding-agents/setup/clients.js';
import { type Change, Setup } from '../coding-agents/setup/setup.js';
import { prepareDataFolder } from '../node/control/data-folder.js';
import { describeError } from '../runtime/errors.js';
import { PROGRAM } from '../runtime/package.js';
import { changedLines } from './changed-lines.js';
import type { Command, Invocation } from './command.js';
import { asks } from './confirm.js';

export const command: Command = {
  summary: 'make the coding agents of this machine members of the mesh, and undo it',
  usage: 'setup [CLIENT...] [--as NAME] [--hooks] [--guard] [--yes | --dry-run] [--undo] [--json]',
  words: [0, 6],
  options: {
    as: { type: 'string' },
    hooks: { type: 'boolean' },
    guard: { type: 'boolean' },
    yes: { type: 'boolean' },
    'dry-run': { type: 'boolean' },
    undo: { type: 'boolean' },
  },
  optionHelp: [
    ['CLIENT', 'claude-code, codex, gemini, cursor, vscode, opencode (default: those found here)'],
    ['--as NAME', 'what others call this agent (default: made from the client and the folder it works in)'],
    ['--hooks', 'also enter the hooks by which mail reaches an agent at the end of its turn, or wakes it'],
    ['--guard', 'also enter the hook that stops edits of files which another agent has reserved'],
    ['--yes', 'apply every change without asking'],
    ['--dry-run', 'show the changes and touch nothing'],
    ['--undo', 'bring every file back, byte for byte where nobody else has changed it since'],
  ],
  examples: ['ecliptic setup', 'ecliptic setup codex --as reviewer --hooks --yes', 'ecliptic setup --undo'],
  async run(invocation) {
    const { values, words, output } = invocation;
    const dataFolder = await invocation.dataFolder();
    const setup = new Setup(thisMachine(invocation.env), dataFolder);
    const clients = setup.clients(words);
    const hooks = values.hooks ? hookCommand(invocation) : undefined;
    const guard = values.guard ? hookCommand(invocation) : undefined;
    const changes = values.undo
      ? setup.planUndo(words)
      : setup.plan(clients, () => serverCommand(invocation), hooks, guard);
    const ready = changes.filter(({ problem }) => problem === undefined);
    const consents = values['dry-run'] ? async () => false : values.yes ? async () => true : asker(output.json);
    const asked = { hooks: values.hooks === true, guard: values.guard === true };
    const notes = values.undo ? [] : setup.notes(clients, asked);
    if (!output.json) for (const change of changes) output.line(describe(change));
    const results: { client: string; file: string; applied: boolean; problem: string | null }[] = [];
    for (const change of changes) {
      const { client, file, title } = change;
      let problem = change.problem ?? null;
      let applied = false;
      if (problem === null && (await consents(title))) {
        try {
          prepareDataFolder(dataFolder);
          if (values.undo) setup.undo(change);
          else setup.apply(change);
          applied = true;
        } catch (error) {
          problem = describeError(error);
        }
      }
      results.push({ client, file, applied, problem });
    }
    const found = clients.map(({ id }) => id);
    output.value({ clients: found, changes: results, notes }, () =>
      [summary(results, ready.length, found, values.undo === true), ...notes.map((note) => `note: ${note}`)].join('\n'),
    );
  },
};

function describe({ title, file, before, after, problem }: Change): string {
  if (problem !== undefined) return `${title}: ${file}: ${problem}\n`;
  const head = `${title}: ${file}${before === undefined ? ' (new)' : ''}${after === undefined ? ' (removed)' : ''}`;
  return `${head}\n${changedLines(before ?? '', after ?? '').join('\n')}\n`;
}

function summary(
  results: readonly { applied: boolean }[],
  ready: number,
  found: readonly string[],
  undone: boolean,
): string {
  if (results.length === 0) {
    if (undone) return 'Nothing to undo.';
    return found.length === 0
      ? 'No coding agent was found here. By hand, it is one line: npx ecliptic mcp --as NAME'
      : `Nothing to do: ${found.join(', ')} as they should be.`;
  }
  const applied = results.filter((result) => result.applied).length;
  if (applied === 0) {
    const again = `ecliptic setup ${undone ? '--undo ' : ''}--yes`;
    return ready === 0 ? 'Nothing was changed.' : `Nothing was changed. Apply it with: ${again}`;
  }
  if (undone) return `${applied} brought back. Start the agents anew.`;
  return `${applied} changed. Start the agents anew; undo it with: ecliptic setup --undo`;
}

/** Asks on the terminal; where there is none, nothing is applied. */
function asker(json: boolean): (title: string) => Promise<boolean> {
  return async (title) => !json && asks(`Apply to ${title}?`, false);
}

/** By absolute paths: clients start servers with little of a path, and little time. */
function serverCommand({ values, env }: Invocation): { command: string; args: string[] } {
  const name = typeof values.as === 'string' ? ['--as', values.as] : [];
  return { command: nodeProgram(env), args: [ownProgram(env), 'mcp', ...name, ...dataOf(values)] };
}

function hookCommand({ values, env }: Invocation): { command: string; args: string[] } {
  return { command: nodeProgram(env), args: [ownProgram(env), ...dataOf(values)] };
}

/** By the name that stays when node is upgraded, such as /usr/local/bin/node, where the path has one. */
function nodeProgram(env: Invocation['env']): string {
  return stableName('node', process.execPath, env) ?? process.execPath;
}

function ownProgram(env: Invocation['env']): string {
  return stableName('ecliptic', PROGRAM, env) ?? PROGRAM;
}

/** The first program of that name on the path, if it is this very file. */
function stableName(name: string, file: string, env: Invocation['env']): string | undefined {
  const found = foldersOf(env)
    .map((folder) => join(folder, name))
    .find(isProgram);
  return found !== undefined && isAbsolute(found) && realpathSync(found) === realpathSync(file) ? found : undefined;
}

function foldersOf(env: Invocation['env']): string[] {
  return (env.PATH ?? '').split(delimiter).filter(Boolean);
}

function dataOf({ data }: Invocation['values']): string[] {
  return typeof data === 'string' ? ['--data', data] : [];
}

function thisMachine(env: Invocation['env']): Machine {
  const folders = foldersOf(env);
  return {
    home: env.HOME || homedir(),
    env,
    platform: process.platform,
    exists: existsSync,
    has: (program) => folders.some((folder) => isProgram(join(folder, program))),
  };
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
