/** Writes the API reference of the package's entry points to api-docs/, from the exported types: `npm run docs:api`. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const tools = join(root, 'scripts', 'api-reference');
const typedoc = join(tools, 'node_modules', 'typedoc', 'bin', 'typedoc');
if (!existsSync(typedoc)) run('npm', ['ci', '--prefix', tools]);
const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const entries = Object.values(exports)
  .filter((entry) => entry.types)
  .map(({ types }) => join('src', types.replace('./dist/', '').replace('.d.ts', '.ts')));
run(process.execPath, [
  typedoc,
  ...entries.flatMap((entry) => ['--entryPoints', entry]),
  ...[
    '--tsconfig',
    'tsconfig.json',
    '--out',
    'api-docs',
    '--readme',
    'none',
    '--excludeInternal',
    '--skipErrorChecking',
    '--validation.notExported',
    'false',
  ],
]);

function run(program, args) {
  const { status } = spawnSync(program, args, { cwd: root, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}
