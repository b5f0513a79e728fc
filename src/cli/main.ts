import { resolve } from 'node:path';
import { type ParseArgsConfig, parseArgs } from 'node:util';
import { ControlClient } from '../node/control/client.js';
import { controlPath, defaultDataFolder } from '../node/control/data-folder.js';
import { EclipticError } from '../runtime/errors.js';
import type { Command, Invocation, Values } from './command.js';
import { misuse } from './misuse.js';
import { Output, usage } from './output.js';

/** Each command's file is loaded only when it is called, so that all of them start at once. */
const COMMANDS: Readonly<Record<string, () => Promise<{ command: Command }>>> = {
  up: () => import('./up.js'),
  down: () => import('./down.js'),
  agents: () => import('./agents.js'),
  card: () => import('./card.js'),
  invoke: () => import('./invoke.js'),
  tasks: () => import('./tasks.js'),
  task: () => import('./task.js'),
  cancel: () => import('./cancel.js'),
  run: () => import('./run.js'),
  runs: () => import('./runs.js'),
  swarm: () => import('./swarm.js'),
  swarms: () => import('./swarms.js'),
  send: () => import('./send.js'),
  request: () => import('./request.js'),
  broadcast: () => import('./broadcast.js'),
  state: () => import('./state.js'),
  states: () => import('./states.js'),
  propose: () => import('./propose.js'),
  proposals: () => import('./proposals.js'),
  receipt: () => import('./receipt.js'),
  outbox: () => import('./outbox.js'),
  inbox: () => import('./inbox.js'),
  log: () => import('./log.js'),
  export: () => import('./export.js'),
  replay: () => import('./replay.js'),
  audit: () => import('./audit.js'),
  tools: () => import('./tools.js'),
  call: () => import('./call.js'),
  resources: () => import('./resources.js'),
  read: () => import('./read.js'),
  prompts: () => import('./prompts.js'),
  prompt: () => import('./prompt.js'),
  mcp: () => import('./mcp.js'),
  setup: () => import('./setup.js'),
  watch: () => import('./watch.js'),
  tell: () => import('./tell.js'),
  held: () => import('./held.js'),
  leases: () => import('./leases.js'),
  guard: () => import('./guard.js'),
  token: () => import('./token.js'),
  lanes: () => import('./lanes.js'),
  approvals: () => import('./approvals.js'),
  credentials: () => import('./credentials.js'),
  providers: () => import('./providers.js'),
  provider: () => import('./provider.js'),
  invite: () => import('./invite.js'),
  join: () => import('./join.js'),
  leave: () => import('./leave.js'),
  peers: () => import('./peers.js'),
  doctor: () => import('./doctor.js'),
  hook: () => import('./wake-hook.js'),
  dht: () => import('./dht.js'),
  tail: () => import('./tail.js'),
  thread: () => import('./thread.js'),
  metrics: () => import('./metrics.js'),
  policy: () => import('./policy.js'),
  config: () => import('./config.js'),
};

const GLOBAL_OPTIONS = {
  json: { type: 'boolean' },
  data: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const satisfies ParseArgsConfig['options'];

const GLOBAL_HELP: readonly (readonly [string, string])[] = [
  ['--data DIR', 'the node’s data folder (or ECLIPTIC_DATA)'],
  ['--json', 'output for programs'],
  ['-h, --help', 'this text'],
];

// Whoever reads the output may stop reading; that is no failure of ours.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});
process.exitCode = await main(process.argv.slice(2));

async function main(argv: readonly string[]): Promise<number> {
  const [name, ...rest] = argv;
  const output = new Output(argv.includes('--json'), process.env);
  let command: Command | undefined;
  try {
    if (name === 'help' && rest.some((word) => !word.startsWith('-'))) {
      output.line(help(await find(rest.find((word) => !word.startsWith('-'))!)));
      return 0;
    }
    if (name === undefined || name === 'help' || name === '--help' || name === '-h') {
      output.line(await overview());
      return 0;
    }
    if (name === '--version') {
      output.line((await import('../runtime/package.js')).VERSION);
      return 0;
    }
    command = await find(name);
    const { values, words } = parse(command, name, rest);
    if (values.help) {
      output.line(help(command));
      return 0;
    }
    const { run, close } = invocation(values, words, output);
    await command.run(run).finally(close);
    return output.exitCode;
  } catch (error) {
    const code = output.failure(error);
    return command?.failsWith?.(rest) ?? code;
  }
}

async function find(name: string): Promise<Command> {
  if (!Object.hasOwn(COMMANDS, name)) throw usage(`there is no command "${name}"; see: ecliptic --help`);
  return (await COMMANDS[name]!()).command;
}

function parse(command: Command, name: string, args: string[]): { values: Values; words: string[] } {
  const options = { ...GLOBAL_OPTIONS, ...command.options };
  let parsed: { values: object; positionals: string[] };
  try {
    parsed = parseArgs({ args, options, allowPositionals: true, strict: true });
  } catch (error) {
    throw usage(`${(error as Error).message.split('. ')[0]}; see: ecliptic ${name} --help`);
  }
  const values = parsed.values as Values;
  const [least, most] = command.words ?? [0, 0];
  const count = parsed.positionals.length;
  if (!values.help && (count < least || count > most)) throw misuse(command, parsed.positionals);
  return { values, words: parsed.positionals };
}

/** What the command works with, and the way to let go of it: a connection left open would keep the process alive. */
function invocation(values: Values, words: readonly string[], output: Output): { run: Invocation; close: () => void } {
  const { env } = process;
  let client: ControlClient | undefined;
  const dataFolder = async () => {
    if (values.data === '') throw usage('--data must name a folder');
    if (typeof values.data === 'string') return resolve(values.data);
    if (env.ECLIPTIC_DATA) return resolve(env.ECLIPTIC_DATA);
    const { dataFolderOf } = await import('../node/config/data-setting.js');
    const file = typeof values.config === 'string' ? values.config : env.ECLIPTIC_CONFIG || undefined;
    return dataFolderOf(file, process.cwd()) ?? defaultDataFolder(env);
  };
  const connect = async () => {
    const folder = await dataFolder();
    try {
      client = await ControlClient.connect(controlPath(folder, env));
      return client;
    } catch (error) {
      throw namingFolder(error, folder, typeof values.data === 'string');
    }
  };
  return { run: { values, words, output, env, dataFolder, connect }, close: () => client?.close() };
}

/** Several nodes may run on one machine: the error names the folder that this command looked in. */
function namingFolder(error: unknown, folder: string, given: boolean): unknown {
  if (!(error instanceof EclipticError) || error.code !== 'NO_NODE') return error;
  const { code, message, details } = error;
  return new EclipticError(code, `${message} (data folder ${folder})`, { ...details, folder, given }, error);
}

async function overview(): Promise<string> {
  const rows = await Promise.all(
    Object.entries(COMMANDS).map(async ([name, load]) => [name, (await load()).command.summary] as const),
  );
  return [
    'ecliptic: a coordination fabric for AI agents',
    '',
    'usage: ecliptic COMMAND [options]',
    '',
    ...columns(rows),
    '',
    'Every command takes:',
    ...columns(GLOBAL_HELP),
    '',
    'Start with: ecliptic up      One command in detail: ecliptic help COMMAND',
  ].join('\n');
}

function help(command: Command): string {
  return [
    command.summary,
    '',
    `usage: ecliptic ${command.usage}`,
    '',
    ...columns([...(command.optionHelp ?? []), ...GLOBAL_HELP]),
    '',
    'examples:',
    ...command.examples.map((example) => `  ${example}`),
  ].join('\n');
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`);
}
