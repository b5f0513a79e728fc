import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { IgnoreRules } from './ignore-rules.js';

it('ignores the same paths as git [RT.6]', () => {
  const patterns = [
    ...[
      '*.log',
      '!keep.log',
      '/top',
      'folder/',
      'a/b',
      'a/**/z',
      '**/deep/x',
      'in/**',
      '# no',
      '\\#yes',
      'q?',
      'sp ace  ',
    ],
    ...['[a-c]1', '[!a-c]2', 'x**y', '**', '*', '*/', 'a\\*', '[', 'foo/*', 'end\\ ', '/**/c', 'nested/*/c'],
  ];
  const paths = [
    ...['a.log', 'keep.log', 'top', 's/top', 'folder', 's/folder/', 'folder/', 'a/b', 's/a/b', 'a/z', 'a/1/2/z', 'a/1'],
    ...['deep/x', 's/deep/x', 'in', 'in/1', 'in/1/2', '# no', '#yes', 'q1', 'q', 'sp ace', 'a1', 'd1', 'd2', 'b2'],
    ...['xy', 'x12y', 'a*', 'ab', 'foo/1', 'foo/1/2', 'end ', 'c', 'nested/c', 'nested/1/c', 'nested/1/2/c'],
  ];
  const folder = mkdtempSync(join(tmpdir(), 'ecliptic-ignore-'));
  const git = (args: string[], input = '') =>
    spawnSync('git', ['-C', folder, '-c', 'core.excludesFile=/dev/null', ...args], { input, encoding: 'utf8' }).stdout;
  try {
    git(['init', '-q']);
    for (const pattern of patterns) {
      writeFileSync(join(folder, '.gitignore'), `${pattern}\n`);
      const expected = new Set(git(['check-ignore', '--no-index', '-z', '--stdin'], paths.join('\0')).split('\0'));
      const rules = new IgnoreRules(`${pattern}\n`);
      // Git also counts the folders above.
      const ours = paths.filter((path) => above(path).some((one) => rules.test(one) === true));
      expect(ours, pattern).toEqual(paths.filter((path) => expected.has(path)));
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

function above(path: string): string[] {
  const names = path.replace(/\/$/, '').split('/');
  return names.map((_, at) => (at + 1 < names.length ? `${names.slice(0, at + 1).join('/')}/` : path));
}
