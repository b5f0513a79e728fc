import { type ParseArgsConfig, parseArgs } from 'node:util';
import type { EclipticError } from '../runtime/errors.js';
import { flag, type Noun, type Options, type Table, text, type Verb, type Verbs } from './command.js';
import { usage } from './output.js';

export const GLOBAL_OPTIONS = {
  data: text('DIR', 'the node’s data folder (or ECLIPTIC_DATA)'),
  json: flag('output for programs'),
  help: flag('this text'),
} satisfies Options;

/** A command as it was found: by noun and verb, or by a short word. */
export interface Found {
  readonly noun: Noun;
  readonly verbs: Verbs;
  /** The verb; undefined where the noun alone was named. */
  readonly name: string | undefined;
  /** The words that lead to it, as they were typed. */
  readonly path: string;
  readonly args: readonly string[];
}

/** The command that a line names. */
export async function find(argv: readonly string[], { nouns, words }: Table): Promise<Found> {
  const [first, ...args] = argv as [string, ...string[]];
  const template = Object.hasOwn(words, first) ? words[first]!.split(' ') : [first];
  const noun = nouns.find(({ name }) => name === template[0]);
  if (!noun) throw unknownCommand(first, [...nouns.map(({ name }) => name), ...Object.keys(words)]);
  const { verbs } = await noun.load();
  const fixed = template[1] !== undefined && /^[a-z]/.test(template[1]) ? template[1] : undefined;
  if (fixed !== undefined) return { noun, verbs, name: fixed, path: first, args };
  const otherwise = template.length > 1 ? template.at(-1)!.slice(1, -1) : noun.otherwise;
  const positionals = positionalsOf(args, verbs);
  const place = template.includes('NAME') ? 1 : 0;
  const said = positionals[place];
  if (said && Object.hasOwn(verbs, said.value)) {
    const left = args.filter((_, index) => index !== said.index);
    return { noun, verbs, name: said.value, path: `${first} ${said.value}`, args: left };
  }
  // A word that the default verb does not take must be a mistyped verb.
  if (said && (otherwise === undefined || verbs[otherwise]!.args.length <= place))
    throw unknownVerb(first, said.value, verbs);
  return { noun, verbs, name: otherwise, path: first, args };
}

/** The words of a line that belong to no option, read with the options of all verbs. */
function positionalsOf(args: readonly string[], verbs: Verbs): { index: number; value: string }[] {
  const all = Object.assign({}, ...Object.values(verbs).map(({ options }) => options)) as Options;
  const { tokens } = parseArgs({
    args: [...args],
    options: parserOptions(all),
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  return tokens.filter((token) => token.kind === 'positional');
}

export function parserOptions(options: Options): NonNullable<ParseArgsConfig['options']> {
  const all = { ...GLOBAL_OPTIONS, ...options };
  const entries = Object.entries(all).map(([name, { value, multiple = false }]) => {
    return [name, { type: value === undefined ? 'boolean' : 'string', multiple }] as const;
  });
  return { ...Object.fromEntries(entries), help: { type: 'boolean', short: 'h' } };
}

/** `ecliptic send --as AGENT [options] JSON`. */
export function usageOf(path: string, { args, options }: Verb): string {
  const shown = Object.entries(options).filter(([, option]) => !option.hidden);
  const needed = shown.filter(([, option]) => option.required).map(([name, { value }]) => `--${name} ${value}`);
  const more = shown.some(([, option]) => !option.required) ? ['[options]'] : [];
  return ['ecliptic', path, ...needed, ...args.map(argText), ...more].join(' ');
}

function argText(arg: string): string {
  if (arg.endsWith('...')) return `[${arg.slice(0, -3)} …]`;
  return arg.endsWith('?') ? `[${arg.slice(0, -1)}]` : arg;
}

function unknownCommand(word: string, known: readonly string[]): EclipticError {
  const meant = closest(word, known);
  const hint = meant === undefined ? '' : `; did you mean: ecliptic ${meant}?`;
  return usage(`there is no command "${word}"${hint}; see: ecliptic --help`);
}

function unknownVerb(path: string, word: string, verbs: Verbs): EclipticError {
  const names = Object.keys(verbs);
  const meant = closest(word, names);
  const hint = meant === undefined ? '' : `; did you mean: ecliptic ${path} ${meant}?`;
  return usage(`"${word}" is not one of ${names.join(', ')}${hint}; usage: ecliptic ${path} ${names.join('|')}`);
}

export function verbMissing({ noun, verbs, path }: Found): EclipticError {
  const names = Object.keys(verbs);
  return usage(`say what to do with ${noun.name}: ${names.join(', ')}; usage: ecliptic ${path} ${names.join('|')}`);
}

/** The known word that is most like the given one, if one is like enough. */
export function closest(word: string, known: readonly string[]): string | undefined {
  const most = Math.max(1, Math.floor(word.length / 3));
  const ranked = known
    .map((one) => ({ one, edits: one.startsWith(word) && word.length > 1 ? 1 : distance(word, one) }))
    .sort((a, b) => a.edits - b.edits);
  return ranked[0] && ranked[0].edits <= most ? ranked[0].one : undefined;
}

/** How many letters to insert, delete, replace or swap with their neighbour. */
function distance(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = rows[i - 1]![j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped =
        i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? rows[i - 2]![j - 2]! + 1 : replaced;
      row.push(Math.min(replaced, swapped, rows[i - 1]![j]! + 1, row[j - 1]! + 1));
    }
    rows.push(row);
  }
  return rows[a.length]![b.length]!;
}
