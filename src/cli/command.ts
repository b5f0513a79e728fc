import type { Method } from '../node/control/api.js';
import type { CallArguments, ControlClient } from '../node/control/client.js';
import { type Output, usage } from './output.js';

/** An option of a command: `T` is the type of its value. */
export interface Option<T = unknown> {
  readonly help: string;
  /** The name of its value in help texts; without one it is a flag. */
  readonly value?: string;
  readonly choices?: readonly string[];
  /** May be given several times. */
  readonly multiple?: true;
  readonly required?: true;
  /** Accepted, but not shown. */
  readonly hidden?: true;
  /** Reads a given value; `name` is the option as it is typed, such as `--tier`. */
  read(given: string, name: string): T;
}

export type Options = Readonly<Record<string, Option>>;

type Given<T> = Option<T | undefined>;

export function flag(help: string): Given<boolean> {
  return { help, read: () => true };
}

export function text(value: string, help: string): Given<string> {
  return { help, value, read: (given) => given };
}

export function required<T>(option: Given<T>): Option<T> {
  const { read } = option;
  return {
    ...option,
    required: true,
    read(given, name) {
      if (given === '') throw usage(`${name} is missing`);
      return read(given, name) as T;
    },
  };
}

export function choice<const C extends string>(choices: readonly C[], help: string): Given<C> {
  const named = choices.length > 1 ? `${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}` : choices[0];
  return {
    help,
    value: choices.join('|'),
    choices,
    read(given, name) {
      const found = choices.find((one) => one === given);
      if (found === undefined) throw usage(`${name} is ${named}, not "${given}"`);
      return found;
    },
  };
}

export function whole(help: string, value = 'N'): Given<number> {
  return {
    help,
    value,
    read(given, name) {
      const number = Number(given);
      if (given.trim() !== '' && Number.isSafeInteger(number) && number >= 0) return number;
      throw usage(`${name} must be a whole number, not "${given}"`);
    },
  };
}

/** Several values, separated by commas. */
export function list(value: string, help: string): Given<string[]> {
  return { help, value, read: (given) => given.split(',').map((part) => part.trim()) };
}

/** An option that may be repeated; its value is a list. */
export function many(value: string, help: string): Given<string[]> {
  return { help, value, multiple: true, read: (given) => [given] };
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A time in milliseconds, given as `90s`, `15m` or `7d`; `bare` is the unit of a number alone. */
export function duration(help: string, bare?: 'ms' | 's'): Given<number> {
  return { help, value: 'TIME', read: (given, name) => readDuration(given, name, bare) };
}

export function readDuration(given: string, name: string, bare?: 'ms' | 's'): number {
  const [, amount, unit = bare] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(given) ?? [];
  if (amount !== undefined && unit !== undefined && Number(amount) > 0) return Number(amount) * UNITS[unit]!;
  const number = bare === undefined ? '' : `500 (${bare}), `;
  throw usage(`${name} must be a time like ${number}90s, 15m or 7d, not "${given}"`);
}

export function hidden<T>(option: Option<T>): Option<T> {
  return { ...option, hidden: true };
}

/** Options of commands that call an A2A agent by its URL. */
export const REMOTE_OPTIONS = {
  token: text('T', 'a bearer token for the agent (or ECLIPTIC_TOKEN)'),
  'allow-private': flag('reach private addresses too; a loopback address in the URL is always allowed'),
};

/** The words of a command as a tuple: `ID` is required, `PATH?` optional, `ID...` any number. */
export type WordsOf<Args extends readonly string[]> = Args extends readonly [infer First, ...infer Rest]
  ? Rest extends readonly string[]
    ? First extends `${string}...`
      ? string[]
      : First extends `${string}?`
        ? [string?, ...WordsOf<Rest>]
        : [string, ...WordsOf<Rest>]
    : never
  : [];

type ValuesOf<O extends Options> = { readonly [Name in keyof O]: O[Name] extends Option<infer T> ? T : never };

/** The options that every command takes. */
export interface GlobalValues {
  readonly json?: boolean;
  readonly data?: string;
  readonly help?: boolean;
}

/** One run of a command. */
export interface Invocation<Words = readonly string[], Values = Readonly<Record<string, unknown>>> {
  readonly words: Words;
  readonly values: Values & GlobalValues;
  readonly output: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly table: Table;
  /** The data folder by flag, environment, configuration file or default. */
  dataFolder(): Promise<string>;
  /** A connection to the running node. */
  connect(): Promise<ControlClient>;
  /** Connects and calls one operation of the node. */
  readonly call: ControlClient['call'];
  /** Calls a subscription, and returns when it ends or the user presses Ctrl-C. */
  follow<M extends Method>(method: M, ...rest: CallArguments<M>): Promise<void>;
}

export interface Verb {
  readonly summary: string;
  /** Names of the words, as `WordsOf` has them. */
  readonly args: readonly string[];
  /** Explains a word or a value that its name does not. */
  readonly argHelp?: readonly (readonly [string, string])[];
  readonly options: Options;
  /** Arguments of typical calls; `%` stands for the command itself where it is not the first word. */
  readonly examples: readonly string[];
  /** The exit code of a failure, for hooks whose callers take other codes for an order. */
  readonly failsWith?: (args: readonly string[]) => number;
  run(invocation: Invocation): Promise<void>;
}

export type Verbs = Readonly<Record<string, Verb>>;

interface VerbInit<Args extends readonly string[], O extends Options>
  extends Pick<Verb, 'summary' | 'argHelp' | 'failsWith'> {
  readonly args?: Args;
  readonly options?: O;
  readonly examples?: readonly string[];
  run(invocation: Invocation<WordsOf<Args>, ValuesOf<O>>): Promise<void>;
}

/** Declares a command; the types of its words and options reach `run`. */
export function verb<const Args extends readonly string[] = [], const O extends Options = Record<never, never>>(
  init: VerbInit<Args, O>,
): Verb {
  const { args = [], options = {}, examples = [''], ...rest } = init;
  return { ...rest, args, options, examples, run: init.run as unknown as Verb['run'] };
}

/** Who needs a command; help shows the groups in this order. */
export const GROUPS = ['everyday', 'coding agents', 'operating', 'devices', 'developing'] as const;
export type Group = (typeof GROUPS)[number];

export interface Noun {
  readonly name: string;
  readonly group: Group;
  readonly summary: string;
  /** Loads the file with its verbs, when one of them is called. */
  readonly load: () => Promise<{ readonly verbs: Verbs }>;
  /** The verb of a call that names none. */
  readonly otherwise: string | undefined;
}

/** Every command of the program, and the short words for them. */
export interface Table {
  readonly nouns: readonly Noun[];
  readonly words: Readonly<Record<string, string>>;
  /** The short words in the overview. */
  readonly shown: Readonly<Partial<Record<Group, readonly string[]>>>;
}

export function noun(name: string, group: Group, summary: string, load: Noun['load'], otherwise?: string): Noun {
  return { name, group, summary, load, otherwise };
}
