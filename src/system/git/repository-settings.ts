import { EclipticError } from '../../runtime/errors.js';

/** Commands that only read a worktree: where a filter is missing, they may take a file for a changed one. */
const READING: ReadonlySet<string> = new Set(['diff', 'log', 'status']);
/** In the order of git's own reading: what the repository itself says comes after them. */
const TRUSTED: ReadonlySet<string> = new Set(['system', 'global']);

/** Settings of a repository that git obeys. They start nothing, and lead git to no other file. */
const HARMLESS: readonly RegExp[] = [
  /^core\.(repositoryformatversion|filemode|symlinks|ignorecase|precomposeunicode|protecthfs|protectntfs|longpaths)$/,
  /^core\.(autocrlf|eol|safecrlf|checkroundtripencoding|checkstat|trustctime|untrackedcache|sharedrepository)$/,
  /^core\.(logallrefupdates|sparsecheckout|sparsecheckoutcone)$/,
  // Each checkout has settings of its own with `worktreeconfig`; they are in the same list.
  /^extensions\.(?!worktreeconfig$)/,
  /^(i18n\.|(user|author|committer)\.(name|email)$)/,
  /^remote\..*\.(url|pushurl|fetch|promisor|partialclonefilter)$/s,
  /^url\..*\.(insteadof|pushinsteadof)$/s,
  /^branch\..*\.(remote|merge)$/s,
];
/** Of what is left out, settings without which git would store or merge content in another way than its owner wants. */
const PROGRAMS: readonly (readonly [RegExp, string])[] = [
  [/^filter\..*\.(clean|smudge|process)$/s, ''],
  // A merge driver that fails is a conflict; without it, git would merge the lines.
  [/^merge\..*\.driver$/s, 'false'],
];
const REQUIRED = /^filter\..*\.required$/s;
/** Shows that git obeys settings in its environment, which it does since 2.31. */
const CANARY = 'ecliptic.settings';
const MAX_SETTINGS = 10_000;
const MAX_OVERRIDDEN = 1_000;

export const LIST_SETTINGS = ['config', '--list', '--show-scope', '-z'] as const;
export const LISTING_ENVIRONMENT = environment([[CANARY, 'obeyed']]);

type Setting = readonly [name: string, value: string];

/** What git is run with instead of the settings of a repository, which may name programs. */
export interface HarmlessSettings {
  /** The text of a file of settings. */
  readonly text: string;
  readonly env: Readonly<Record<string, string>>;
  readonly bare: boolean;
}

/**
 * Settings with which git starts no program that the repository names, from the output of `LIST_SETTINGS`. Where the
 * user's own settings define the same program, such as that of Git LFS, git starts theirs.
 */
export function harmlessSettings(listing: string, command: string | undefined): HarmlessSettings {
  const trusted = new Set<string>();
  const harmless: Setting[] = [];
  const instead = new Map<string, string>();
  let [obeyed, bare] = [false, false];
  const words = listing.split('\0');
  for (let at = 0; at + 1 < words.length; at += 2) {
    const [scope, setting] = [words[at]!, words[at + 1]!];
    const end = setting.indexOf('\n');
    const [name, value] = end < 0 ? [setting, 'true'] : [setting.slice(0, end), setting.slice(end + 1)];
    if (name === CANARY) obeyed = true;
    else if (TRUSTED.has(scope)) trusted.add(name);
    else if (name === 'core.bare') bare = value === 'true';
    else if (HARMLESS.some((pattern) => pattern.test(name))) harmless.push([name, value]);
    else {
      const off = PROGRAMS.find(([pattern]) => pattern.test(name))?.[1];
      if (off !== undefined) instead.set(name, off);
      // A command that writes content must rather fail than store it without its filter.
      else if (REQUIRED.test(name)) instead.set(name, READING.has(command ?? '') ? 'false' : value);
    }
  }
  if (!obeyed) throw failed(command, 'git ignores settings in its environment; install git 2.31 or later');
  const overridden = [...instead].filter(([name]) => !trusted.has(name));
  if (overridden.length > MAX_OVERRIDDEN) {
    const message = `the settings of the repository name ${overridden.length} programs; at most ${MAX_OVERRIDDEN} can be kept from running`;
    throw failed(command, message);
  }
  if (harmless.length > MAX_SETTINGS) {
    throw failed(command, `the repository has ${harmless.length} settings; at most ${MAX_SETTINGS} are read`);
  }
  return { text: harmless.map(asText).join(''), env: environment(overridden), bare };
}

/** One setting in the syntax of git's files. */
function asText([name, value]: Setting): string {
  const [first, last] = [name.indexOf('.'), name.lastIndexOf('.')];
  const [section, key] = [name.slice(0, first), name.slice(last + 1)];
  const sub = first === last ? '' : ` "${name.slice(first + 1, last).replace(/["\\]/g, '\\$&')}"`;
  const quoted = value.replace(/["\\]/g, '\\$&').replaceAll('\n', '\\n').replaceAll('\t', '\\t');
  return `[${section}${sub}]\n\t${key} = "${quoted}"\n`;
}

function environment(settings: readonly Setting[]): Record<string, string> {
  const entries = settings.flatMap(([name, value], at) => [
    [`GIT_CONFIG_KEY_${at}`, name],
    [`GIT_CONFIG_VALUE_${at}`, value],
  ]);
  return { ...Object.fromEntries(entries), GIT_CONFIG_COUNT: String(settings.length) };
}

function failed(command: string | undefined, message: string): EclipticError {
  return new EclipticError('GIT_FAILED', message, { command: command ?? '' });
}
