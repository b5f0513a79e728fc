import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { ROOT } from './source-files.js';

const run = promisify(execFile);
const EXAMPLES = readdirSync(join(ROOT, 'examples')).filter((name) => name.endsWith('.ts'));

describe('the examples', () => {
  it.each(EXAMPLES)(
    '%s checks itself and succeeds [FM.examples]',
    async (name) => {
      // As their README says, without a tool of this repository.
      const { stdout } = await run(process.execPath, ['--import', 'jiti/register', `examples/${name}`], { cwd: ROOT });
      expect(stdout.trim()).not.toBe('');
    },
    60_000,
  );

  it('are thirteen, listed with the page whose claim they show [FM.examples]', () => {
    const list = readFileSync(join(ROOT, 'examples', 'README.md'), 'utf8');
    const rows = [...list.matchAll(/^\| \[([\w-]+\.ts)\]\(\1\) \| .+ \| \[[^\]]+\]\(\.\.\/docs\/[\w.#-]+\) \|$/gm)];
    expect(rows.map(([, name]) => name).sort()).toEqual([...EXAMPLES].sort());
    expect(EXAMPLES.length).toBe(13);
  });

  it('are in the package', () => {
    const { files } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { files: string[] };
    expect(files).toContain('examples');
  });
});
