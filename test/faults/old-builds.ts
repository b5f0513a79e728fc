import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from '../source-files.js';

/** The last commit whose nodes spoke no later version of the wire protocol. No build spoke version 4 and not 5. */
const LAST_OF = { 2: '3149205^', 3: '017de60^' } as const;
export type OldVersion = keyof typeof LAST_OF;
export const OLD_VERSIONS = Object.keys(LAST_OF).map(Number) as OldVersion[];

/** The program of an earlier build, made from the history of this repository; it uses the packages that are installed here. */
export function oldBuild(version: OldVersion): string {
  const commit = git('rev-parse', '--short=12', LAST_OF[version]).trim();
  const place = join(tmpdir(), `ecliptic-build-${commit}`);
  const program = join(place, 'bin', 'ecliptic');
  if (existsSync(join(place, 'dist', 'index.js'))) return program;
  const folder = mkdtempSync(join(tmpdir(), 'ecliptic-building-'));
  mkdirSync(join(folder, 'made'));
  const made = join(folder, 'made');
  execFileSync('tar', ['-x', '-C', made], {
    input: execFileSync('git', ['archive', commit], { cwd: ROOT, maxBuffer: 1 << 28 }),
  });
  symlinkSync(join(ROOT, 'node_modules'), join(made, 'node_modules'));
  execFileSync(process.execPath, ['scripts/build.mjs'], { cwd: made, stdio: 'ignore' });
  renameSync(made, place);
  return program;
}

function git(...words: string[]): string {
  try {
    return execFileSync('git', words, { cwd: ROOT, encoding: 'utf8' });
  } catch (error) {
    throw new Error('earlier builds are made from the history: this needs a clone with all commits', { cause: error });
  }
}
