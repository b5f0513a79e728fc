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
  /** The files that it is limited to, relative to its folder; it moves HEAD or the index if undefined. */
  readonly paths?: readonly string[];
}

/** A command that is not finished is not looked at beyond this. */
const MAX_CHARS = 65_536;
const MAX_OPERATIONS = 20;
const MAX_PATHS = 100;
const COMMAND_CHARS = 120;
/** Words before a program that run it. */
const WRAPPERS: ReadonlySet<string> = new Set([
  'sudo',
  'env',
  'command',
  'exec',
  'nohup',
  'time',
  'nice',
  'builtin',
  'then',
  'do',
  'else',
  'if',
  '!',
  '{',
]);
const SHELLS = /^(?:.*\/)?(?:ba|z|da|k)?sh$/;
const ASSIGNMENT = /^[A-Za-z_]\w*=/;
/** Options of git itself that have a value of their own. */
const GIT_VALUES: ReadonlySet<string> = new Set(['-c', '--git-dir', '--work-tree', '--namespace', '--exec-path']);
/** Operations that move HEAD or the index, or put other content into the files; these forms of them do not. */
const TAKES: Readonly<Record<string, RegExp | undefined>> = {
  checkout: undefined,
  switch: undefined,
  merge: undefined,
  rebase: /^--(?:show-current-patch|edit-todo)$/,
  reset: undefined,
  stash: /^(?:list|show|drop|clear|create|store)$/,
  pull: undefined,
  'cherry-pick': undefined,
  revert: undefined,
  am: /^--show-current-patch/,
  restore: undefined,
  clean: /^(?:-[a-zA-Z]*n[a-zA-Z]*|--dry-run)$/,
  bisect: /^(?:log|view|visualize|terms)$/,
};
/** Options of these operations with a value of their own. */
const VALUES: ReadonlySet<string> = new Set(['-b', '-B', '-m', '--message', '-s', '--source', '-e', '--exclude', '-X']);

export function gitOperations(command: string): GitOperation[] {
  const found: GitOperation[] = [];
  collect(command.slice(0, MAX_CHARS), '', found, 0);
  return found.slice(0, MAX_OPERATIONS);
}

function collect(command: string, folder: string, found: GitOperation[], depth: number): void {
  let at = folder;
  for (const words of commandsIn(command)) {
    const [program = '', ...args] = withoutWrappers(words);
    if (program === 'cd' || program === 'pushd') {
      const to = args.find((word) => !word.startsWith('-'));
      if (to !== undefined) at = joined(at, to);
    } else if (SHELLS.test(program) && depth < 3) {
      const script = args.findIndex((word) => /^-[a-z]*c$/.test(word));
      if (script >= 0) collect(args[script + 1] ?? '', at, found, depth + 1);
    } else if (/^(?:.*[/\\])?git(?:\.exe)?$/.test(program)) {
      const operation = operationOf(args, at);
      if (operation) found.push(operation);
    }
  }
}

function operationOf(args: readonly string[], from: string): GitOperation | undefined {
  let folder = from;
  let at = 0;
  for (; at < args.length && args[at]!.startsWith('-'); at++) {
    const option = args[at]!;
    if (option === '-C') folder = joined(folder, args[++at] ?? '');
    else if (option.startsWith('--work-tree=')) folder = joined(from, option.slice('--work-tree='.length));
    else if (option === '--work-tree') folder = joined(from, args[++at] ?? '');
    else if (GIT_VALUES.has(option)) at++;
  }
  const name = args[at] ?? '';
  if (!Object.hasOwn(TAKES, name)) return undefined;
  const rest = args.slice(at + 1);
  if (rest.some((word) => /^(?:-h|--help)$/.test(word))) return undefined;
  if (rest.some((word) => TAKES[name]?.test(word))) return undefined;
  const paths = pathsOf(name, rest);
  const command = ['git', name, ...rest].join(' ');
  const text = command.length > COMMAND_CHARS ? `${command.slice(0, COMMAND_CHARS - 1)}…` : command;
  return { command: text, folder, ...(paths && { paths: paths.slice(0, MAX_PATHS) }) };
}

/** The files that an operation is limited to. */
function pathsOf(name: string, args: readonly string[]): string[] | undefined {
  const end = args.indexOf('--');
  const after = end < 0 ? [] : args.slice(end + 1);
  const canBeLimited =
    ['checkout', 'reset', 'restore', 'clean'].includes(name) || (name === 'stash' && args[0] === 'push');
  if (!canBeLimited) return undefined;
  if (after.length > 0) return after;
  if (name !== 'restore' && name !== 'clean') return undefined;
  const words = args.filter((word, at) => !word.startsWith('-') && !VALUES.has(args[at - 1] ?? ''));
  if (words.length > 0) return words;
  // Without a path, git clean removes everything below its folder.
  return name === 'clean' ? ['.'] : undefined;
}

function withoutWrappers(words: readonly string[]): readonly string[] {
  let at = 0;
  while (at < words.length) {
    const word = words[at]!;
    const isOption = at > 0 && word.startsWith('-') && WRAPPERS.has(words[at - 1]!);
    if (!WRAPPERS.has(word) && !ASSIGNMENT.test(word) && !isOption) break;
    at++;
  }
  return words.slice(at);
}

function joined(folder: string, to: string): string {
  if (folder === '' || to.startsWith('/') || /^[A-Za-z]:[\\/]/.test(to)) return to;
  return `${folder}/${to}`;
}

/** The beginning of a text that follows on later lines, up to a line with this word. */
const HERE_DOCUMENT = /<<-?[ \t]*(['"]?)([\w.-]+)\1/y;

/** The simple commands of a shell text, as their words. Text in backquotes and parentheses is a command too. */
function commandsIn(text: string): string[][] {
  const commands: string[][] = [];
  let words: string[] = [];
  let word: string | undefined;
  let documents: string[] = [];
  const endWord = () => {
    if (word !== undefined) words.push(word);
    word = undefined;
  };
  const endCommand = () => {
    endWord();
    if (words.length > 0) commands.push(words);
    words = [];
  };
  for (let at = 0; at < text.length; at++) {
    const char = text[at]!;
    if (char === "'") {
      const end = text.indexOf("'", at + 1);
      word = (word ?? '') + text.slice(at + 1, end < 0 ? undefined : end);
      at = end < 0 ? text.length : end;
    } else if (char === '"') {
      word ??= '';
      for (at++; at < text.length && text[at] !== '"'; at++) {
        if (text[at] === '\\' && /["\\$`]/.test(text[at + 1] ?? '')) at++;
        word += text[at];
      }
    } else if (char === '\\') {
      at++;
      if (text[at] !== '\n') word = (word ?? '') + (text[at] ?? '');
    } else if (char === '#' && word === undefined) {
      const end = text.indexOf('\n', at);
      endCommand();
      at = end < 0 ? text.length : end;
    } else if (char === '<' && text[at + 1] === '<') {
      HERE_DOCUMENT.lastIndex = at;
      const found = text[at + 2] === '<' ? null : HERE_DOCUMENT.exec(text);
      endWord();
      if (found) documents.push(found[2]!);
      at += (found?.[0].length ?? 3) - 1;
    } else if (char === '\n') {
      endCommand();
      for (const document of documents) at = endOfDocument(text, at, document);
      documents = [];
    } else if (/[;&|()`]/.test(char)) {
      endCommand();
    } else if (/\s/.test(char)) {
      endWord();
    } else {
      word = (word ?? '') + char;
    }
  }
  endCommand();
  return commands;
}

/** The newline after the document that begins after the one at `from`, or the end of the text. */
function endOfDocument(text: string, from: number, word: string): number {
  for (let at = from; at < text.length; ) {
    const end = text.indexOf('\n', at + 1);
    const line = text.slice(at + 1, end < 0 ? undefined : end);
    if (end < 0 || line.trim() === word) return end < 0 ? text.length : end;
    at = end;
  }
  return text.length;
}
