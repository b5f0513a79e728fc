import { GROUPS, type Noun, type Options, type Table, type Verb, type Verbs } from './command.js';
import { type Found, find, GLOBAL_OPTIONS, usageOf } from './lookup.js';
import { usage } from './output.js';

type Rows = readonly (readonly [string, string])[];

const EXIT_CODES: Rows = [
  ['0', 'the command did its work'],
  ['1', 'it failed, or its answer is bad news (doctor found a problem, policy says no, a run is incomplete)'],
  ['2', 'wrong usage: an unknown command or option, a missing word, a value of the wrong kind'],
  ['130, 143', '`up` was told twice to stop (Ctrl-C, SIGTERM) or before it had started'],
];

/** The text of `ecliptic help …`. */
export async function helpOn(words: readonly string[], table: Table): Promise<string> {
  const [topic, ...rest] = words.filter((word) => !word.startsWith('-'));
  if (words.includes('--json-schema')) return schemaOf(topic === undefined ? undefined : [topic, ...rest], table);
  if (topic === undefined) return overview(table);
  if (topic === 'exit-codes') return exitCodes();
  if (topic === 'words') return shortWords(table);
  if (topic === 'all') return everything(table);
  if (/^[A-Z][A-Z_]+$/.test(topic)) return aboutError(topic);
  return helpOf(await find([topic, ...rest], table), table);
}

/** The help of a verb, or of a noun that was named alone. */
export function helpOf(found: Found, { words }: Table): string {
  const { noun, verbs, name, path } = found;
  const alone = path === noun.name || words[path]?.includes('[') === true;
  if (!alone && name !== undefined) return verbHelp(path, verbs[name]!);
  const names = Object.keys(verbs);
  if (names.length === 1) return verbHelp(pathOf(noun, names[0]!, verbs), verbs[names[0]!]!);
  const shown = words[path] === undefined ? noun.name : path;
  const short = Object.entries(words).filter(([, meaning]) => meaning.split(' ')[0] === noun.name);
  return [
    noun.summary,
    '',
    `usage: ecliptic ${shown} ${noun.otherwise === undefined ? 'VERB' : '[VERB]'} …`,
    '',
    ...columns(
      Object.entries(verbs).map(([verb, { summary }]) => [
        verb === noun.otherwise ? `${verb} (default)` : verb,
        summary,
      ]),
    ),
    '',
    'examples:',
    ...names.map((verb) => `  ${example(`${noun.name} ${verb}`, verbs[verb]!.examples[0] ?? '')}`),
    ...(words[path] === undefined ? [] : [`  ${example(path, verbs[name!]!.examples[0] ?? '')}`]),
    '',
    ...(short.length === 0
      ? []
      : [`Short words: ${short.map(([word, meaning]) => `${word} (${meaning})`).join(', ')}`]),
    `One verb in detail: ecliptic help ${noun.name} VERB`,
  ].join('\n');
}

/** How a verb is written: one that its noun always means is left out. */
function pathOf(noun: Noun, verb: string, verbs: Verbs): string {
  return noun.otherwise === verb && Object.keys(verbs).length === 1 ? noun.name : `${noun.name} ${verb}`;
}

function verbHelp(path: string, verb: Verb): string {
  return [
    verb.summary,
    '',
    `usage: ${usageOf(path, verb)}`,
    '',
    ...columns([...(verb.argHelp ?? []), ...optionRows(verb.options), ...optionRows(GLOBAL_OPTIONS)]),
    '',
    'examples:',
    ...verb.examples.map((one) => `  ${example(path, one)}`),
  ].join('\n');
}

async function overview(table: Table): Promise<string> {
  const groups = await Promise.all(
    GROUPS.map(async (group) => {
      const words = await Promise.all((table.shown[group] ?? []).map((word) => wordRow(word, table)));
      const nouns = table.nouns.filter((noun) => noun.group === group);
      return [group, [...words, ...nouns.map(({ name, summary }) => [name, summary] as const)]] as const;
    }),
  );
  const width = Math.max(...groups.flatMap(([, rows]) => rows.map(([name]) => name.length)));
  return [
    'ecliptic: a coordination fabric for AI agents',
    '',
    'usage: ecliptic NOUN VERB [options], or a short word such as: ecliptic send',
    ...groups.flatMap(([group, rows]) => ['', `${group[0]!.toUpperCase()}${group.slice(1)}:`, ...columns(rows, width)]),
    '',
    'Every command takes:',
    ...columns(optionRows(GLOBAL_OPTIONS), width),
    '',
    'Start with: ecliptic up      In detail: ecliptic help NOUN, or help send, help words, help exit-codes, help CODE',
    'For programs: --json, one value on each line; its schema: ecliptic help --json-schema agent list',
  ].join('\n');
}

/** Every command, as a document in Markdown. */
async function everything(table: Table): Promise<string> {
  const lines = [
    '# Commands',
    '',
    'Made from the program by `ecliptic help all`. With `--json`, each line of the output is one value, and an error is one line on standard',
    'error. `ecliptic help --json-schema agent list` prints the schema of a command’s values; all of them are in `schema/output.schema.json`.',
    'Every command takes:',
    '',
  ];
  lines.push(...markdownRows(optionRows(GLOBAL_OPTIONS)));
  for (const noun of table.nouns) {
    lines.push('', `## ${noun.name}`, '', `${noun.summary[0]!.toUpperCase()}${noun.summary.slice(1)}.`);
    const { verbs } = await noun.load();
    for (const [name, verb] of Object.entries(verbs)) {
      const path = pathOf(noun, name, verbs);
      const short = Object.entries(table.words).filter(([, meaning]) => meaning.replace(/[[\]]/g, '') === path);
      lines.push('', `### ${path}`, '', `${verb.summary[0]!.toUpperCase()}${verb.summary.slice(1)}.`, '');
      lines.push('```text', usageOf(path, verb), ...short.map(([word]) => `short: ecliptic ${word}`), '```');
      const rows = [...(verb.argHelp ?? []), ...optionRows(verb.options)];
      if (rows.length > 0) lines.push('', ...markdownRows(rows));
    }
  }
  return lines.join('\n');
}

/** The JSON Schema of what a command prints with `--json`; of all commands, if none is named. */
async function schemaOf(words: readonly [string, ...string[]] | undefined, table: Table): Promise<string> {
  const { outputSchema, outputSchemas } = await import('./output-schema.js');
  if (words === undefined) return JSON.stringify(outputSchemas(), null, 2);
  const { noun, verbs, name } = await find(words, table);
  const path = name === undefined ? noun.name : pathOf(noun, name, verbs);
  const schema = outputSchema(path);
  if (schema) return JSON.stringify(schema, null, 2);
  const known = Object.keys(outputSchemas().commands).filter((one) => one.split(' ')[0] === noun.name);
  const others = known.length === 0 ? 'it prints no JSON' : `name one of: ${known.join(', ')}`;
  throw usage(`there is no schema for the output of "${path}": ${others}`);
}

/** The row of an error code in the documents. */
async function aboutError(code: string): Promise<string> {
  const [{ readFileSync }, { join }, { DOCS_FOLDER }] = await Promise.all([
    import('node:fs'),
    import('node:path'),
    import('../runtime/package.js'),
  ]);
  const page = readFileSync(join(DOCS_FOLDER, 'errors.md'), 'utf8');
  const row = page.split('\n').find((line) => line.startsWith(`| \`${code}\` |`));
  if (row === undefined)
    throw usage(`there is no error code ${code}; all of them: docs/errors.md, or /docs/errors of a node`);
  const [, , meaning, retryable, , , action] = row.split(/(?<!\\)\|/).map((cell) => cell.trim());
  return [`${code}: ${meaning}`, '', `What to do: ${action}`, `The same call may succeed later: ${retryable}`].join(
    '\n',
  );
}

function markdownRows(rows: Rows): string[] {
  const safe = (text: string) => text.replaceAll('|', '\\|');
  return ['| | |', '|---|---|', ...rows.map(([left, right]) => `| \`${safe(left)}\` | ${safe(right)} |`)];
}

async function wordRow(word: string, table: Table): Promise<readonly [string, string]> {
  const { verbs, name } = await find([word], table);
  return [word, verbs[name!]!.summary];
}

function shortWords({ words }: Table): string {
  return ['Short words, and the commands that they stand for:', '', ...columns(Object.entries(words))].join('\n');
}

function exitCodes(): string {
  const hooks = 'The hooks of coding agents (hook, guard) follow the rules of their clients instead.';
  return ['Exit codes:', '', ...columns(EXIT_CODES), '', hooks].join('\n');
}

function example(path: string, args: string): string {
  return args.includes('%') ? args.replaceAll('%', `ecliptic ${path}`) : `ecliptic ${path} ${args}`.trimEnd();
}

function optionRows(options: Options): Rows {
  return Object.entries(options)
    .filter(([, option]) => !option.hidden)
    .map(([name, { value, help }]) => {
      const flagText = name === 'help' ? '-h, --help' : `--${name}`;
      return [value === undefined ? flagText : `${flagText} ${value}`, help];
    });
}

function columns(rows: Rows, least = 0): string[] {
  const width = Math.max(least, ...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`);
}
