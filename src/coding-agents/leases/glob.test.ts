import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { tries } from '../../../test/evidence.js';
import { coverOf, isSameGlob, literalGlob, normalGlob, overlaps } from './glob.js';

/** Says in another way what a glob means. */
function meaning(glob: string): RegExp {
  const source = [...glob.matchAll(/\*\*\/|\/\*\*|\*\*|\*|\?|\[[!^]?[^\]]+\]|\{|\}|,|./g)].map(([sign]) => {
    if (sign === '**/') return '(?:[^/]+/)*';
    if (sign === '/**') return '(?:/[^/]+)*';
    if (sign === '**') return '(?:[^/]+(?:/[^/]+)*)?';
    if (sign === '*') return '[^/]*';
    if (sign === '?') return '[^/]';
    if (sign === '{') return '(?:';
    if (sign === '}') return ')';
    if (sign === ',') return '|';
    return sign.startsWith('[') ? `(?!/)${sign.replace('[!', '[^')}` : sign.replace(/[.+^$()|\\]/g, '\\$&');
  });
  return new RegExp(`^(?:${source.join('')})(?:/[^/]+)*$`);
}

/** Every path of up to four names: where two globs of two names each share a path, they share one of these. */
const NAMES = ['a', 'b', 'c', 'ab', 'bb'];
const below = (paths: readonly string[]) => paths.flatMap((path) => NAMES.map((name) => `${path}/${name}`));
const PATHS = [NAMES, below(NAMES), below(below(NAMES)), below(below(below(NAMES)))].flat();

const name = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.constantFrom(
      'a',
      'b',
      'ab',
      '*',
      '?',
      'a*',
      '*b',
      '?b',
      '[ab]',
      '[!a]',
      '[a-b]b',
      '{a,b}',
      '{a,b*}',
      'a?',
    ),
  },
  { weight: 1, arbitrary: fc.constant('**') },
);
const globs = fc.array(name, { minLength: 1, maxLength: 2 }).map((names) => names.join('/'));

describe('two globs', () => {
  it('conflict exactly when both match some path [ON13.1]', () => {
    fc.assert(
      fc.property(globs, globs, (one, other) => {
        const [mine, theirs] = [meaning(one), meaning(other)];
        const shared = PATHS.some((path) => mine.test(path) && theirs.test(path));
        expect(overlaps(normalGlob(one), normalGlob(other)), `${one} and ${other}`).toBe(shared);
      }),
      { numRuns: tries(process.env.ECLIPTIC_SOAK ? 20_000 : 600, 'pairs of globs') },
    );
  });

  it.each([
    ['src/**', 'src/a/b.ts', true],
    ['src', 'src/a/b.ts', true],
    ['src/*.ts', 'src/*.md', false],
    ['src/*.ts', 'src/a/b.ts', false],
    ['**/*.ts', 'src/a/b.ts', true],
    ['{src,test}/**', 'test/x', true],
    ['{src,test}/**', 'docs/x', false],
    ['src/[a-c]*', 'src/d1', false],
    ['./src//x/', 'SRC\\X\\y', true],
    ['app/[id]/page.tsx', 'app/[id]/page.tsx', true],
    ['a/{b,c{d,e}}/f', 'a/ce/f', true],
    ['**', 'anything', true],
  ])('%s and %s: %s', (one, other, expected) => {
    expect(overlaps(normalGlob(one), normalGlob(other))).toBe(expected);
    expect(overlaps(normalGlob(other), normalGlob(one))).toBe(expected);
  });

  it('are compared in bounded time, however they are made [T-F6]', () => {
    const started = process.cpuUsage();
    const stars = (length: number, sign: string) => Array.from({ length }, () => `*${sign}`).join('');
    const deep = (length: number) => Array.from({ length }, () => '**/*a*').join('/');
    const choices = (text: string) =>
      `{${Array.from({ length: 60 }, (_, n) => String.fromCodePoint(200 + n)).join(',')}}${text}`;
    const pairs = [
      [`${stars(240, 'a')}b`, `${stars(240, 'a')}c`],
      [`${deep(60)}/b`, `${deep(60)}/c`],
      [choices(`${stars(16, 'a')}b`), choices(`${stars(16, 'a')}c`)],
      [choices('*[!b]*[!b]*[a-z]*b'), choices('*[!b]*[!b]*[a-z]*c')],
    ] as const;
    for (const [one, other] of pairs) overlaps(normalGlob(one), normalGlob(other));
    const { user, system } = process.cpuUsage(started);
    expect((user + system) / 1_000).toBeLessThan(1_000);
    expect(() => normalGlob(choices(stars(100, 'a')))).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENTS' }));
  });

  it('keep their capital letters, and are compared without them [ON13.1]', () => {
    expect(normalGlob('./Src\\README.md/')).toBe('Src/README.md');
    expect(isSameGlob('Src/README.md', 'src/readme.md')).toBe(true);
    expect([literalGlob('Src/[Id]'), overlaps('Src/**', 'sRC/a')]).toEqual(['Src/[[]Id]', true]);
    expect(coverOf('Src/*.TS')('src/A.ts')).toBe(true);
    expect(coverOf('Src/*.TS')('src/A.md')).toBe(false);
  });

  it('match a literal file name exactly', () => {
    expect(overlaps(normalGlob('app/[id]/page.tsx'), literalGlob('app/[id]/page.tsx'))).toBe(true);
    expect(overlaps(normalGlob('a/b'), literalGlob('a/*'))).toBe(false);
  });

  it.each(['/etc/passwd', '../x', 'a/../../b', '~/x', 'c:\\x', `${'{a,b}'.repeat(7)}`, 'a'.repeat(501)])(
    'are refused when they lead out, or stand for too much: %s',
    (glob) => {
      expect(() => normalGlob(glob)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENTS' }));
    },
  );

  it('are cheap to compare, however they are written', () => {
    const hard = `${'*a'.repeat(100)}/**/${'**/*/'.repeat(20)}x`;
    expect(overlaps(normalGlob(hard), normalGlob(`${'*b'.repeat(100)}*/**`))).toBe(true);
  });
});
