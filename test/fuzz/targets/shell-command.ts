import { gitOperations } from '../../../src/coding-agents/radar/git-operations.js';
import { shellCommands } from '../../../src/coding-agents/radar/shell-commands.js';
import { type FuzzTarget, must, mustEqual } from '../fuzz-target.js';

const RESET = 'git reset --hard';

/** Words survive quoting in each way, and no unquoted text before a git operation hides it from the guard. */
export const target: FuzzTarget = {
  name: 'shell-command',
  about: 'shell commands, as the guard reads them',
  seeds: [
    'git checkout -- a b && cd x; git stash',
    'bash -c "git reset --hard $(git log)"',
    'cat <<EOF\ngit clean -fd\nEOF\ngit merge x',
    'if true; then (cd a && git pull); fi',
    "echo 'a' \"b`git rm -f c`\" $'d\\'' >f 2>&1 | xargs git restore",
    '$((1 << 2)) # c\nsudo -u x git -C y rebase',
  ],
  words: [
    'git ',
    'reset',
    ' --hard',
    '$(',
    '`',
    "'",
    '"',
    '<<EOF\n',
    '\\',
    '&&',
    '||',
    ';',
    '|',
    'cd ',
    'eval ',
    '((',
    'exit',
  ],
  run(input) {
    const text = input.toString('utf8');
    shellCommands(text);
    const before = gitOperations(text);
    if (!/['"`\\$(){}<>#&\0]/.test(text) && before.length < 20) {
      const after = gitOperations(`${text}\n${RESET}`);
      must(after.length > before.length || after.length === 20, () => `hidden from the guard: ${JSON.stringify(text)}`);
    }
    const words = text
      .split(/\s+/)
      .filter((word) => word !== '' && !word.includes('\0'))
      .slice(0, 20);
    if (words.length === 0) return;
    const quoted = words.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
    mustEqual(wordsOf(quoted), [words], 'words in single quotes');
    const double = words.map((word) => `"${word.replace(/["\\$`]/g, '\\$&')}"`).join('\t');
    mustEqual(wordsOf(double), [words], 'words in double quotes');
  },
};

function wordsOf(text: string): unknown[] {
  return shellCommands(text).map((command) => ('words' in command ? command.words : command.inner));
}
