import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const SOURCES = ['src', 'web', 'scripts', 'package-lock.json', 'tsconfig.json'];

/** The time of the latest change below a path, or 0 if it is not there. */
function latest(path) {
  const found = statSync(path, { throwIfNoEntry: false });
  if (!found?.isDirectory()) return found?.mtimeMs ?? 0;
  return Math.max(found.mtimeMs, ...readdirSync(path).map((name) => latest(join(path, name))));
}

// npm also prepares a folder that it links, as for the first `npx ecliptic` in a clone: it need not be built again then.
const built = statSync(join(root, 'docs', 'commands.md'), { throwIfNoEntry: false })?.mtimeMs ?? 0;
if (SOURCES.some((path) => latest(join(root, path)) > built)) await import('./build.mjs');
