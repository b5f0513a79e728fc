import { describe, expect, it } from 'vitest';
import { couldMean } from './pathspec.js';

describe('a pathspec in a shell command', () => {
  const root = '/no/such/repository';
  const means = (pathspec: string, file: string, from = root) => couldMean(pathspec, { root, from })(file);

  it.each([
    'src/a.ts',
    'src',
    './src/',
    '.',
    'src/*.ts',
    '*.ts',
    's*',
    'SRC/a.ts',
    ':/',
    ':/src',
    ':(top)src',
    'src/{a,b}.ts',
    '{src,lib}/a.ts',
    'src/[ab].ts',
    'src/?.ts',
    'lib/*/../../src/a.ts',
    '$FILE',
    '~/x',
    ':!b.ts',
    '/no/such/repository/src/a.ts',
    '..',
  ])('%s could mean src/a.ts [RD.9]', (pathspec) => {
    expect(means(pathspec, 'src/a.ts')).toBe(true);
  });

  it.each(['src/b.ts', 'sr', 'src/*.js', 'lib/*', '/elsewhere/src', 'src/a', '../other/*.ts'])(
    '%s does not mean src/a.ts [RD.9]',
    (pathspec) => {
      expect(means(pathspec, 'src/a.ts')).toBe(false);
    },
  );

  it('is relative to the folder of the command [RD.9]', () => {
    expect(means('*.ts', 'src/a.ts', `${root}/src`)).toBe(true);
    expect(means('*.ts', 'src/a.ts', `${root}/lib`)).toBe(false);
    expect(means('../*/a.ts', 'src/a.ts', `${root}/lib`)).toBe(true);
    expect(means(':/src', 'src/a.ts', `${root}/lib`)).toBe(true);
  });
});
