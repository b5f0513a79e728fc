import { type ShellCommand, shellCommands, UNKNOWN } from './shell-commands.js';

/**
 * Which git operations a shell command would run. It is read for what agents write, not for what could be hidden from it:
 * an alias, a script or a variable hides an operation.
 */

/** An operation of git that changes a worktree as a whole, or some of its files. */
export interface GitOperation {
  /** As written, shortened. */
  readonly command: string;
  /** The folder that git runs in, relative to the one in which the shell began, or absolute. */
  readonly folder: string;
  /** The pathspecs that it is limited to, relative to its folder; it moves HEAD or the index if undefined. */
  readonly paths?: readonly string[];
}

/** A command that is not finished is not looked at beyond this. */
const MAX_CHARS = 65_536;
const MAX_OPERATIONS = 20;
const MAX_PATHS = 100;
const MAX_FOLDERS = 4;
/** The system takes no longer path. */
const MAX_FOLDER_CHARS = 4_096;
const MAX_DEPTH = 3;
const COMMAND_CHARS = 120;
const words = (text: string): ReadonlySet<string> => new Set(text.split(' '));
/** Words of the shell before a program. */
const KEYWORDS = words('then do else elif if while until time coproc ! {');
const BLOCKS = words('if while until for case select');
const BLOCK_ENDS = words('fi done esac');
/** After them, what follows does not run in the same shell. */
const EXITS = words('exit return break continue');
/** Programs that run another one. */
const WRAPPERS = words(
  'sudo doas env command exec nohup nice ionice builtin timeout stdbuf setsid flock caffeinate chronic watch time find xargs parallel',
);
/** Of these, the files are not among the words. */
const FEEDERS = words('xargs parallel');
const SHELLS = /^(?:.*\/)?(?:ba|z|da|k)?sh$/;
const GIT = /^(?:.*[/\\])?git(?:\.exe)?$/;
const ASSIGNMENT = /^[A-Za-z_]\w*\+?=/;
/** Options of git itself that have a value of their own. */
const GIT_VALUES = words('-c --namespace --exec-path --super-prefix --config-env --attr-source');

interface Kind {
  /** First words that make an operation harmless. */
  readonly first?: RegExp;
  /** Options that make it harmless. */
  readonly option?: RegExp;
  /** Without such an option it is harmless. */
  readonly needs?: RegExp;
  /** Options with a value of their own. */
  readonly values?: ReadonlySet<string>;
  /** It can be limited to files: to those after `--`, or also to words before it. */
  readonly paths?: 'after' | 'all';
}

const DRY = /^(?:-[a-zA-Z]*n[a-zA-Z]*|--dry-run)$/;
const FORCE = /^(?:-[a-zA-Z]*f[a-zA-Z]*|--f\w*)$/;
const FROM_FILE = /^--(?:pathspec-f|stdin)/;
/** Operations that move HEAD or the index, or put other content into the files. */
const KINDS: Readonly<Record<string, Kind>> = {
  checkout: { paths: 'after' },
  switch: {},
  merge: {},
  rebase: { option: /^--(?:show-current-patch|edit-todo)$/ },
  reset: { paths: 'after' },
  stash: { first: /^(?:list|show|drop|clear|create|store)$/ },
  'stash push': { values: words('-m --message'), paths: 'after' },
  pull: {},
  'cherry-pick': {},
  revert: {},
  am: { option: /^--show-current-patch/ },
  restore: { values: words('-s --source -U --unified --inter-hunk-context'), paths: 'all' },
  clean: { option: DRY, values: words('-e --exclude'), paths: 'all' },
  bisect: { first: /^(?:log|view|visualize|terms)$/ },
  rm: { option: DRY, needs: FORCE, paths: 'all' },
  mv: { option: DRY, paths: 'all' },
  'checkout-index': { needs: FORCE, paths: 'all' },
  'read-tree': { option: DRY },
};

export function gitOperations(command: string): GitOperation[] {
  const found: GitOperation[] = [];
  collect(shellCommands(command.slice(0, MAX_CHARS)), [''], found, 0);
  return found.slice(0, MAX_OPERATIONS);
}

/** The folders are those in which the shell may be: it cannot be told whether a condition holds. */
function collect(
  commands: readonly ShellCommand[],
  folders: readonly string[],
  found: GitOperation[],
  depth: number,
): void {
  let at = folders;
  let previous: readonly string[] = [UNKNOWN];
  /** Where the shell is after the commands that `&&` and the like connect, if not there. */
  let also: readonly string[] = [];
  let isConditional = false;
  let blocks = 0;
  /** Where the shell is if the command before, a `cd`, did not fail. */
  let unlessFailed: readonly string[] | undefined;
  const pushed: (readonly string[])[] = [];
  for (const command of commands) {
    if ('inner' in command) {
      collect(command.inner, at, found, depth);
      continue;
    }
    const { then } = command;
    const { program, args, isWrapped } = programIn(command.words);
    if (BLOCKS.has(command.words[0]!)) blocks++;
    if (BLOCK_ENDS.has(command.words[0]!)) blocks = Math.max(0, blocks - 1);
    if (unlessFailed && EXITS.has(program)) at = unlessFailed;
    else also = [...also, ...(unlessFailed ?? [])];
    unlessFailed = undefined;
    const to = folderChange(program, args);
    if (to !== undefined && !then.startsWith('|') && then !== '&' && !isWrapped) {
      const before = at;
      if (program === 'popd') at = pushed.pop() ?? [UNKNOWN];
      else at = to === '-' ? previous : at.map((folder) => joined(folder, to));
      if (program === 'pushd') pushed.push(before);
      previous = before;
      if (isConditional || blocks > 0) also = [...also, ...before];
    } else if (to !== undefined && then === '||') {
      unlessFailed = at.map((folder) => joined(folder, to));
    }
    operationsIn([program, ...args], isWrapped, at, found, depth);
    isConditional = then === '&&' || then.startsWith('|');
    if (isConditional) continue;
    at = [...new Set([...at, ...also])].slice(0, MAX_FOLDERS);
    also = [];
  }
}

/** The folder that a command changes to; `-` is the one before. */
function folderChange(program: string, args: readonly string[]): string | undefined {
  if (program === 'popd') return '';
  if (program !== 'cd' && program !== 'pushd') return undefined;
  // Without a folder it is the home folder, which is not known here.
  return args.find((word) => word === '-' || !word.startsWith('-')) ?? UNKNOWN;
}

function operationsIn(
  all: readonly string[],
  isWrapped: boolean,
  folders: readonly string[],
  found: GitOperation[],
  depth: number,
): void {
  const isFed = all.some((word) => FEEDERS.has(word));
  for (const [index, program] of all.entries()) {
    if ((index > 0 && !isWrapped) || found.length >= MAX_OPERATIONS) return;
    const args = all.slice(index + 1);
    if (GIT.test(program)) {
      for (const folder of folders) {
        const operation = operationOf(isFed ? [...args, UNKNOWN] : args, folder);
        if (operation) found.push(operation);
      }
    } else if ((SHELLS.test(program) || program === 'eval') && depth < MAX_DEPTH) {
      const script = args.findIndex((word) => /^-[a-z]*c$/.test(word));
      const text = program === 'eval' ? args.join(' ') : script < 0 ? '' : (args[script + 1] ?? '');
      collect(shellCommands(text), folders, found, depth + 1);
    }
  }
}

function operationOf(args: readonly string[], from: string): GitOperation | undefined {
  let folder = from;
  let tree: string | undefined;
  let repository: string | undefined;
  let at = 0;
  for (; at < args.length && args[at]!.startsWith('-'); at++) {
    const option = args[at]!;
    const [, name, value] = /^(--(?:work-tree|git-dir))(?:=(.*))?$/s.exec(option) ?? [];
    if (option === '-C') folder = joined(folder, args[++at] ?? '');
    else if (name === '--work-tree') tree = value ?? args[++at] ?? '';
    else if (name === '--git-dir') repository = (value ?? args[++at] ?? '').replace(/\/?\.git\/?$/, '');
    else if (GIT_VALUES.has(option)) at++;
  }
  folder = joined(folder, tree ?? repository ?? '');
  const name = args[at] ?? '';
  const rest = args.slice(at + 1);
  const isPush = name === 'stash' && rest[0] === 'push';
  if (!Object.hasOwn(KINDS, name)) return undefined;
  const kind = KINDS[isPush ? 'stash push' : name]!;
  const { options, before, after } = sorted(isPush ? rest.slice(1) : rest, kind);
  if (kind.first?.test(rest[0] ?? '')) return undefined;
  if (options.some((option) => /^(?:-h|--help)$/.test(option) || kind.option?.test(option))) return undefined;
  if (kind.needs && !options.some((option) => kind.needs!.test(option))) return undefined;
  const paths = pathsOf(name, kind, { options, before, after });
  const command = ['git', name, ...rest].join(' ');
  const text = command.length > COMMAND_CHARS ? `${command.slice(0, COMMAND_CHARS - 1)}…` : command;
  return { command: text, folder, ...(paths && { paths: paths.length > MAX_PATHS ? [UNKNOWN] : paths }) };
}

interface Sorted {
  readonly options: readonly string[];
  /** Other words before `--`, and those after it. */
  readonly before: readonly string[];
  readonly after: readonly string[];
}

function sorted(args: readonly string[], { values }: Kind): Sorted {
  const end = args.indexOf('--');
  const head = end < 0 ? args : args.slice(0, end);
  const own = head.filter((_, at) => !values?.has(head[at - 1] ?? ''));
  return {
    options: own.filter((word) => word.startsWith('-')),
    before: own.filter((word) => !word.startsWith('-')),
    after: end < 0 ? [] : args.slice(end + 1),
  };
}

/** The files that an operation is limited to. */
function pathsOf(name: string, kind: Kind, { options, before, after }: Sorted): readonly string[] | undefined {
  if (!kind.paths) return undefined;
  if (options.some((option) => FROM_FILE.test(option))) return [UNKNOWN];
  if (name === 'checkout-index' && options.some((option) => /^(?:-[a-z]*a|--all)/.test(option))) return [':/'];
  const paths = kind.paths === 'all' || (name === 'stash' && after.length > 0) ? [...before, ...after] : after;
  if (paths.length > 0) return paths;
  // Without a path, git clean removes everything below its folder.
  return name === 'clean' ? ['.'] : undefined;
}

function programIn(given: readonly string[]) {
  let at = 0;
  while (at < given.length && (KEYWORDS.has(given[at]!) || ASSIGNMENT.test(given[at]!))) at++;
  const [first = '', ...args] = given.slice(at);
  const isWrapper = WRAPPERS.has(first.slice(first.lastIndexOf('/') + 1)) || isOption(given, at);
  // `command cd` and `builtin cd` change the folder of the shell itself.
  if ((first === 'command' || first === 'builtin') && /^(?:cd|pushd|popd)$/.test(args[0] ?? '')) {
    return { program: args[0]!, args: args.slice(1), isWrapped: false };
  }
  return { program: first, args, isWrapped: isWrapper };
}

/** `time -p git`: the keyword has options. */
function isOption(given: readonly string[], at: number): boolean {
  return at > 0 && given[at]?.startsWith('-') === true;
}

function joined(folder: string, to: string): string {
  if (to === '') return folder;
  if (folder === '' || to.startsWith('/') || /^[A-Za-z]:[\\/]/.test(to)) return to;
  return folder.length + to.length < MAX_FOLDER_CHARS ? `${folder}/${to}` : UNKNOWN;
}
