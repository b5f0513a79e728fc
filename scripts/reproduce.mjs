/**
 * Builds and packs this folder's files twice, in two new folders, with another time zone, language and home, and
 * compares the packages: `npm run reproduce [-- --json]`.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const asJson = process.argv.includes('--json');
/** The folders' names differ in length, so that a path in the output shows. */
const PLACES = [
  ['one', { TZ: 'UTC', LANG: 'C', LC_ALL: 'C' }],
  ['another-and-longer', { TZ: 'Asia/Kathmandu', LANG: 'tr_TR.UTF-8', LC_ALL: 'tr_TR.UTF-8' }],
];

const folder = mkdtempSync(join(tmpdir(), 'ecliptic-reproduce-'));
const failures = [];
const builds = [];
try {
  for (const [name, env] of PLACES) {
    const place = join(folder, name);
    copyFiles(place);
    const home = join(folder, `home-${name}`);
    mkdirSync(home);
    const pack = 'npm pack --silent --ignore-scripts --pack-destination "$HOME"';
    const command = `node scripts/build.mjs && ${pack}`;
    const built = spawnSync('sh', ['-c', command], {
      cwd: place,
      env: { PATH: process.env.PATH, HOME: home, ...env },
      encoding: 'utf8',
    });
    if (built.status !== 0) throw new Error(`the build failed: ${built.stderr.trim().split('\n').at(-1)}`);
    const tarball = readdirSync(home).find((file) => file.endsWith('.tgz'));
    builds.push({ files: digests(join(place, 'dist')), package: digest(join(home, tarball)) });
  }
  const [first, second] = builds;
  for (const path of new Set([...Object.keys(first.files), ...Object.keys(second.files)])) {
    if (first.files[path] !== second.files[path]) failures.push(`dist/${path} differs`);
  }
  if (failures.length === 0 && first.package !== second.package) failures.push('the packages differ');
} catch (error) {
  failures.push(error.message);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

const figures = {
  builds: builds.length,
  'files built': Object.keys(builds[0]?.files ?? {}).length,
  'sha256 of the package': builds[0]?.package ?? '',
};
if (asJson) console.log(JSON.stringify({ figures, failures }));
else console.log([...Object.entries(figures).map(([name, value]) => `${name}: ${value}`), ...failures].join('\n'));
process.exitCode = failures.length > 0 ? 1 : 0;

/** What git would commit, with the packages that are installed here. */
function copyFiles(place) {
  const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  for (const path of execFileSync('git', list, { cwd: root, maxBuffer: 64 << 20 })
    .toString()
    .split('\0')
    .filter(Boolean)) {
    mkdirSync(dirname(join(place, path)), { recursive: true });
    cpSync(join(root, path), join(place, path));
  }
  symlinkSync(join(root, 'node_modules'), join(place, 'node_modules'));
}

function digests(path) {
  const files = readdirSync(path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const names = files.map(({ parentPath, name }) => join(parentPath, name)).sort();
  return Object.fromEntries(names.map((file) => [file.slice(path.length + 1), digest(file)]));
}

function digest(path) {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}
