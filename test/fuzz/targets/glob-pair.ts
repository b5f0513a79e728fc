import { coverOf, literalGlob, normalGlob, overlaps } from '../../../src/coding-agents/leases/glob.js';
import { type FuzzTarget, must } from '../fuzz-target.js';

/** Two globs and a path, one on each line. */
export const target: FuzzTarget = {
  name: 'glob-pair',
  about: 'globs of leases: which overlap, and which paths they cover',
  seeds: [
    'src/**\nsrc/a/*.ts\nsrc/a/b.ts',
    '{a,b}/c\n[ab]/?\na/c',
    '*a*a*a*b\n*b*b*b*a\naab',
    '**/x/**\nx\nx/y',
    '[!a-c]?\n{x,{y,z}}\nzz',
  ],
  words: ['**', '/', '{a,b}', '[a-z]', '[!', '?', '*', '..', '\\'],
  maxBytes: 1_600,
  run(input) {
    const [first = '', second = '', path = ''] = input.toString('utf8').split('\n');
    const one = normalGlob(first);
    must(normalGlob(one) === one, () => `${JSON.stringify(one)} has another normal form`);
    const other = normalGlob(second);
    const meet = overlaps(one, other);
    must(meet === overlaps(other, one), () => `${one} and ${other} overlap one way only`);
    must(overlaps(one, one), () => `${one} does not overlap itself`);
    const literal = normalPath(path);
    if (literal === undefined) return;
    const byOne = coverOf(one)(literal);
    must(byOne === overlaps(one, literalGlob(literal)), () => `${one} covers ${literal} by one way only`);
    // A path that is exactly what both globs say is in what they share.
    const [exactlyOne, exactlyOther] = [asPattern(one)?.test(literal), asPattern(other)?.test(literal)];
    if (exactlyOne) must(byOne, () => `${one} matches ${literal}, but does not cover it`);
    if (exactlyOne) must(coverOf(one)(`${literal}/below`), () => `${one} covers ${literal} and nothing in it`);
    if (exactlyOne && exactlyOther) must(meet, () => `both ${one} and ${other} match ${literal}, but do not overlap`);
  },
};

/** As in a repository: relative, without empty names. */
function normalPath(text: string): string | undefined {
  const names = text.normalize('NFC').toLowerCase().split('/');
  const fits =
    text.length <= 300 && names.every((name) => name !== '' && name !== '.' && name !== '..' && !name.includes('\\'));
  return fits ? names.join('/') : undefined;
}

/** A short glob without braces and brackets, as a regular expression. */
function asPattern(glob: string): RegExp | undefined {
  if (glob.length > 40 || /[{[\]}]/.test(glob) || (glob.match(/\*/g)?.length ?? 0) > 6) return undefined;
  const names = glob.split('/').map((name) => {
    if (name === '**') return '(?:[^/]+/)*';
    const escaped = name.replace(/[.+^$()|\\]/g, '\\$&');
    return `${escaped.replace(/\*+/g, '[^/]*').replaceAll('?', '[^/]')}/`;
  });
  // In each name at least one character, whatever the stars stand for.
  return new RegExp(`^${names.join('').replace(/\/$/, '')}$`, 'u');
}
