import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { ControlClient } from '../node/control/client.js';
import { configuredDataFolder, controlPath, defaultDataFolder } from '../node/control/data-folder.js';
import { EclipticError } from '../runtime/errors.js';
import type { GlobalValues, Invocation, Table, Verb } from './command.js';
import { closest, type Found, find, GLOBAL_OPTIONS, parserOptions, usageOf, verbMissing } from './lookup.js';
import { Output, usage } from './output.js';
import { withProgress } from './progress.js';

/** Runs one command line; resolves with the exit code. */
export async function runProgram(given: readonly string[], table: Table): Promise<number> {
  const argv = wordsFirst(given);
  const [first, ...rest] = argv;
  const output = new Output(argv.includes('--json'), process.env);
  let verb: Verb | undefined;
  try {
    if (first === 'help' || first === '--help' || first === '-h') {
      output.line(await (await import('./help.js')).helpOn(rest, table));
      return 0;
    }
    if (first === '--version') {
      output.line((await import('../runtime/package.js')).VERSION);
      return 0;
    }
    const found = await find(argv, table);
    verb = found.name === undefined ? undefined : found.verbs[found.name];
    if (rest.some((word) => word === '--help' || word === '-h')) {
      output.line((await import('./help.js')).helpOf(found, table));
      return 0;
    }
    if (!verb) throw verbMissing(found);
    const { run, close } = invocation(found, verb, table, output);
    await verb.run(run).finally(close);
    return output.exitCode;
  } catch (error) {
    const code = output.failure(error);
    return verb?.failsWith?.(rest) ?? code;
  }
}

/** Options that every command takes may stand before its words. Without a word, the command is `welcome`. */
function wordsFirst(given: readonly string[]): string[] {
  const rest = [...given];
  const options: string[] = [];
  while (/^--(json|data)(=|$)/.test(rest[0] ?? '')) options.push(...rest.splice(0, rest[0] === '--data' ? 2 : 1));
  return rest.length === 0 ? ['welcome', ...options] : [...rest, ...options];
}

/** The words and options of a call, checked. */
function parse({ path, args }: Found, verb: Verb): Pick<Invocation, 'words' | 'values'> {
  const how = usageOf(path, verb);
  let parsed: { values: Readonly<Record<string, unknown>>; positionals: string[] };
  try {
    parsed = parseArgs({ args: [...args], options: parserOptions(verb.options), allowPositionals: true, strict: true });
  } catch (error) {
    throw usage(`${optionFault(error as Error, verb)}; see: ecliptic ${path} --help`);
  }
  const { values, positionals: words } = parsed;
  const missing = verb.args[words.length];
  if (missing !== undefined && !/(\?|\.\.\.)$/.test(missing)) throw usage(`${missing} is missing; usage: ${how}`);
  const most = verb.args.at(-1)?.endsWith('...') ? Number.POSITIVE_INFINITY : verb.args.length;
  if (words.length > most) throw usage(`"${words[most]}" is one word too many; usage: ${how}`);
  const read: Record<string, unknown> = { json: values.json, data: values.data };
  for (const [name, option] of Object.entries(verb.options)) {
    const given = values[name] as string | boolean | string[] | undefined;
    if (given === undefined && option.required) throw usage(`--${name} is missing; usage: ${how}`);
    if (given === undefined) continue;
    read[name] = Array.isArray(given)
      ? given.flatMap((one) => option.read(one, `--${name}`))
      : option.read(String(given), `--${name}`);
  }
  return { words, values: read };
}

function optionFault({ message }: Error, { options }: Verb): string {
  const unknown = /Unknown option '(--?[\w-]+)'/.exec(message)?.[1];
  if (unknown === undefined) return message.split('. ')[0]!;
  const meant = closest(unknown.replace(/^-+/, ''), [...Object.keys(options), ...Object.keys(GLOBAL_OPTIONS)]);
  return `there is no option ${unknown}${meant === undefined ? '' : `; did you mean --${meant}?`}`;
}

/** The tools of a command, and a function that closes its connection, which would keep the process alive. */
function invocation(found: Found, verb: Verb, table: Table, output: Output) {
  const { env } = process;
  const { words, values } = parse(found, verb);
  let client: ControlClient | undefined;
  const dataFolder = () => folderOf(values, env);
  const connect = async () => {
    const folder = await dataFolder();
    try {
      client = await ControlClient.connect(controlPath(folder, env));
      return client;
    } catch (error) {
      throw namingFolder(error, folder, values.data !== undefined);
    }
  };
  // Only one connection is closed at the end.
  const call: Invocation['call'] = async (...rest) => {
    const work = (client ?? (await connect())).call(...rest);
    // A call with events shows them itself.
    if (output.json || process.stderr.isTTY !== true || rest.length > 2) return work;
    return withProgress(work, rest[0]);
  };
  const follow: Invocation['follow'] = async (...rest) => {
    const node = await connect();
    process.on('SIGINT', () => node.close());
    await node.call(...rest).catch((error) => {
      if (error.code !== 'CANCELLED') throw error;
    });
  };
  const run: Invocation = { words, values, output, env, table, dataFolder, connect, call, follow };
  return { run, close: () => client?.close() };
}

async function folderOf(values: GlobalValues & { config?: unknown }, env: Invocation['env']): Promise<string> {
  if (values.data === '') throw usage('--data must name a folder');
  if (values.data !== undefined) return resolve(values.data);
  if (env.ECLIPTIC_DATA) return resolve(env.ECLIPTIC_DATA);
  const file = typeof values.config === 'string' ? values.config : env.ECLIPTIC_CONFIG || undefined;
  return (await configuredDataFolder(file, process.cwd())) ?? defaultDataFolder(env);
}

/** Several nodes may run on one machine, so the error names the folder that was tried. */
function namingFolder(error: unknown, folder: string, given: boolean): unknown {
  if (!(error instanceof EclipticError) || error.code !== 'NO_NODE') return error;
  const { code, message, details } = error;
  return new EclipticError(code, `${message} (data folder ${folder})`, { ...details, folder, given }, error);
}
