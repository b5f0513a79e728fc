import { EclipticError } from '../../runtime/errors.js';

/** Commands that never start a program of the settings; hooks and lazy fetching are off for all commands. */
const HARMLESS: ReadonlySet<string> = new Set([
  ...['check-ignore', 'for-each-ref', 'ls-files', 'merge-base', 'rev-list', 'rev-parse', 'symbolic-ref'],
]);
/** Commands that only read a worktree: where a filter is missing, they may take a file for a changed one. */
const READING: ReadonlySet<string> = new Set(['diff', 'log', 'status']);
/** In the order of git's own reading: what the repository itself says comes after them. */
const TRUSTED: ReadonlySet<string> = new Set(['system', 'global']);

/** Settings that name a program, with the value that lets none run. */
const PROGRAMS: readonly (readonly [RegExp, string])[] = [
  [/^filter\..*\.(clean|smudge|process)$/s, ''],
  // A merge driver that fails is a conflict; an empty one would silently keep one side.
  [/^merge\..*\.driver$/s, 'false'],
  [/^diff\.(.*\.)?(command|textconv|external)$/s, 'false'],
  [/^gpg\.(.*\.)?(program|defaultkeycommand)$/s, 'false'],
  [/^hook\..*\.command$/s, 'true'],
];
const REQUIRED = /^filter\..*\.required$/s;
/** Shows that git obeys settings in its environment, which it does since 2.31. */
const CANARY = 'ecliptic.settings';
const MAX_OVERRIDDEN = 1_000;

export const LIST_SETTINGS = ['config', '--list', '--show-scope', '-z'] as const;
export const LISTING_ENVIRONMENT = environment([[CANARY, 'obeyed']]);

/** Could the command start a program that the settings of a repository name? */
export function startsPrograms(command: string | undefined): boolean {
  return command === undefined || !HARMLESS.has(command);
}

/**
 * The environment in which git starts no program that the repository names, from the output of `LIST_SETTINGS`. Where the
 * user's own settings define the same program, such as that of Git LFS, git starts theirs.
 */
export function withoutPrograms(listing: string, command: string | undefined): Record<string, string> {
  const own = new Map<string, string>();
  const named = new Set<string>();
  let obeyed = false;
  const words = listing.split('\0');
  for (let at = 0; at + 1 < words.length; at += 2) {
    const [scope, setting] = [words[at]!, words[at + 1]!];
    const end = setting.indexOf('\n');
    const [name, value] = end < 0 ? [setting, 'true'] : [setting.slice(0, end), setting.slice(end + 1)];
    if (name === CANARY) obeyed = true;
    else if (TRUSTED.has(scope)) own.set(name, value);
    else named.add(name);
  }
  if (!obeyed) {
    const message = 'git ignores settings in its environment; install git 2.31 or later';
    throw new EclipticError('GIT_FAILED', message, { command: command ?? '' });
  }
  const settings: [string, string][] = [];
  for (const name of named) {
    const off = PROGRAMS.find(([pattern]) => pattern.test(name))?.[1];
    if (off !== undefined) settings.push([name, own.get(name) ?? off]);
    // A command that writes content must rather fail than store it without its filter.
    else if (REQUIRED.test(name) && READING.has(command ?? '')) settings.push([name, own.get(name) ?? 'false']);
  }
  if (settings.length > MAX_OVERRIDDEN) {
    const message = `the settings of the repository name ${settings.length} programs; at most ${MAX_OVERRIDDEN} can be kept from running`;
    throw new EclipticError('GIT_FAILED', message, { command: command ?? '' });
  }
  return environment(settings);
}

function environment(settings: readonly (readonly [string, string])[]): Record<string, string> {
  const entries = settings.flatMap(([name, value], at) => [
    [`GIT_CONFIG_KEY_${at}`, name],
    [`GIT_CONFIG_VALUE_${at}`, value],
  ]);
  return { ...Object.fromEntries(entries), GIT_CONFIG_COUNT: String(settings.length) };
}
