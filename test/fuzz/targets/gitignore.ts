import { IgnoreRules } from '../../../src/roster/tools/ignore-rules.js';
import { type FuzzTarget, mustEqual } from '../fuzz-target.js';

/** The path on the first line, the rules behind it. */
export const target: FuzzTarget = {
  name: 'gitignore',
  about: '.gitignore files',
  seeds: [
    'src/a.ts\n*.ts\n!a.ts\n',
    'build/\n/build/\n',
    'a/b/c\na/**/c\n**/c\nc/**\n',
    'aaaaaaaaaaaaaaaaaaaaaaaaab\n*a*a*a*a*a*a*c\n',
    '[x]\n[[]x]\n\\[x]\n#c\n \\ \n',
  ],
  words: ['**', '/', '!', '[!a]', '[a-z]', '\\', '#', '?', '*', ' '],
  run(input) {
    const [path = '', ...lines] = input.toString('utf8').split('\n');
    if (path.length > 500) return;
    // As one set, and as the last rule that says something.
    const verdicts = lines.map((line) => new IgnoreRules(line).test(path));
    const last = verdicts.findLast((verdict) => verdict !== undefined);
    mustEqual(new IgnoreRules(lines.join('\n')).test(path), last, 'the last rule that matches');
    mustEqual(new IgnoreRules(`# c\n\n${lines.join('\n')}\n\n#`).test(path), last, 'with comments around');
    mustEqual(new IgnoreRules(lines.join('\r\n')).test(path), last, 'with other ends of lines');
  },
};
