import { type Change, Setup } from '../coding-agents/setup/setup.js';
import { prepareDataFolder } from '../node/control/data-folder.js';
import { describeError } from '../runtime/errors.js';
import { PROGRAM } from '../runtime/package.js';
import type { Invocation } from './command.js';
import { asks } from './input.js';
import { stableName, thisMachine } from './this-machine.js';

interface SetupValues {
  readonly as?: string;
  readonly hooks?: boolean;
  readonly guard?: boolean;
  readonly yes?: boolean;
  readonly 'dry-run'?: boolean;
  readonly undo?: boolean;
}

type SetupInvocation = Invocation<readonly string[], SetupValues>;

/** Shows the changes to the configuration of each client, and applies those that the user agrees to. */
export async function setUp(invocation: SetupInvocation): Promise<void> {
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
}

/** The changes that would connect the clients on this machine; nothing is applied. */
export async function setupLines(invocation: SetupInvocation): Promise<string[]> {
  const setup = new Setup(thisMachine(invocation.env), await invocation.dataFolder());
  const changes = setup.plan(setup.clients([]), () => serverCommand(invocation), undefined, undefined);
  return changes.map(describe);
}

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
      : `Nothing to do: ${found.join(', ')} are set up.`;
  }
  const applied = results.filter((result) => result.applied).length;
  if (applied === 0) {
    const again = `ecliptic setup ${undone ? '--undo ' : ''}--yes`;
    return ready === 0 ? 'Nothing was changed.' : `Nothing was changed. Apply it with: ${again}`;
  }
  if (undone) return `${applied} restored. Restart the agents.`;
  return `${applied} changed. Restart the agents; undo it with: ecliptic setup --undo`;
}

/** Asks on the terminal; without one nothing is applied. */
function asker(json: boolean): (title: string) => Promise<boolean> {
  return async (title) => !json && asks(`Apply to ${title}?`, false);
}

/** With absolute paths, because clients start servers with a short PATH and little time. */
function serverCommand({ values, env }: SetupInvocation): { command: string; args: string[] } {
  const name = values.as === undefined ? [] : ['--as', values.as];
  return { command: nodeProgram(env), args: [ownProgram(env), 'mcp', ...name, ...dataOf(values)] };
}

function hookCommand({ values, env }: SetupInvocation): { command: string; args: string[] } {
  return { command: nodeProgram(env), args: [ownProgram(env), ...dataOf(values)] };
}

/** Prefers a name that survives an upgrade of node, such as /usr/local/bin/node. */
function nodeProgram(env: Invocation['env']): string {
  return stableName('node', process.execPath, env) ?? process.execPath;
}

function ownProgram(env: Invocation['env']): string {
  return stableName('ecliptic', PROGRAM, env) ?? PROGRAM;
}

function dataOf({ data }: SetupInvocation['values']): string[] {
  return data === undefined ? [] : ['--data', data];
}

/** Unchanged lines that are shown around a change. */
const CONTEXT = 2;

/** The differing lines of two texts: removed ones with `-`, added ones with `+`. */
function changedLines(before: string, after: string): string[] {
  const from = before === '' ? [] : before.split('\n');
  const to = after === '' ? [] : after.split('\n');
  let same = 0;
  while (same < from.length && same < to.length && from[same] === to[same]) same++;
  let tail = 0;
  while (tail < from.length - same && tail < to.length - same && from.at(-1 - tail) === to.at(-1 - tail)) tail++;
  return [
    ...from.slice(Math.max(0, same - CONTEXT), same).map((line) => `  ${line}`),
    ...from.slice(same, from.length - tail).map((line) => `- ${line}`),
    ...to.slice(same, to.length - tail).map((line) => `+ ${line}`),
    ...to.slice(to.length - tail, to.length - tail + CONTEXT).map((line) => `  ${line}`),
  ];
}
