import { type Environment, programFault } from '../../system/process/environment.js';

/** The program that runs a command line. The line is one argument: nothing is inserted into it. */
export function shellProgram(line: string): { command: string; args: readonly string[]; verbatim?: boolean } {
  if (process.platform !== 'win32') return { command: '/bin/sh', args: ['-c', line] };
  return { command: process.env.COMSPEC ?? 'cmd.exe', args: ['/d', '/s', '/c', `"${line}"`], verbatim: true };
}

/** Words that a POSIX shell does not look up on the PATH: its own commands, and its grammar. */
const OWN_WORDS: ReadonlySet<string> = new Set(
  `alias bg bind break builtin case cd command continue declare do echo else eval exec exit export false fc fg for
  function getopts hash if jobs kill let local printf pwd read readonly return select set shift source test then time
  times trap true type typeset ulimit umask unalias unset until wait while .`.split(/\s+/),
);

const ASSIGNMENT = /^([A-Za-z_]\w*)=[\w./:@%+,-]*\s+/;
/** A word without quotes, expansions and patterns. A number may be a descriptor, as in `2>file`. */
const PLAIN_WORD = /^(?!\d+[<>])[\w./+@%,-]+(?=$|[\s;&|<>)])/;

/**
 * The program that a command line begins with, if that is certain without being a shell: undefined for a shell's own words
 * and for everything that a shell would expand.
 */
export function firstProgram(line: string): string | undefined {
  let rest = line.trimStart();
  for (let found = ASSIGNMENT.exec(rest); found; found = ASSIGNMENT.exec(rest)) {
    // The line looks elsewhere for its programs.
    if (found[1] === 'PATH') return undefined;
    rest = rest.slice(found[0].length);
  }
  const word = PLAIN_WORD.exec(rest)?.[0];
  return word === undefined || OWN_WORDS.has(word) ? undefined : word;
}

interface Runnable {
  readonly command: string;
  readonly shell?: boolean | undefined;
  readonly cwd: string;
  readonly env: Environment;
}

/** Why a program or command line cannot be run, found out without starting anything; undefined where it can, or may. */
export function execFault({ command, shell = false, cwd, env }: Runnable, inherited: Environment): string | undefined {
  if (command.trim() === '') return 'its command is empty';
  const fault = programFault({ command: shell ? shellProgram(command).command : command, cwd, env }, inherited);
  if (fault !== undefined || !shell || process.platform === 'win32') return fault;
  const first = firstProgram(command);
  return first === undefined ? undefined : programFault({ command: first, cwd, env }, inherited);
}
