import { execFile } from 'node:child_process';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { installPackage } from './installed-package.js';

const run = promisify(execFile);

describe('the packed package', () => {
  let folder: string;
  let user: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ecliptic-pack-'));
    user = await installPackage(folder);
  }, 120_000);

  afterAll(() => rm(folder, { recursive: true, force: true }));

  it('installs into an empty folder and carries a conversation', async () => {
    await writeFile(
      join(user, 'talk.js'),
      `import { createNode } from 'ecliptic';
       const node = await createNode();
       node.agent({ id: 'mars' }).onRequest((message) => ({ built: message.payload.what }));
       const answer = await node.agent({ id: 'sun' }).request('mars', { what: 'login' });
       console.log(JSON.stringify(answer));
       await node.stop();`,
    );
    const { stdout } = await run(process.execPath, ['talk.js'], { cwd: user });
    expect(JSON.parse(stdout)).toEqual({ built: 'login' });
  });

  it('contains the built page of the dashboard', async () => {
    const page = join(user, 'node_modules', 'ecliptic', 'dist', 'web');
    expect((await readdir(page)).sort()).toEqual(['charts.js', 'index.html', 'page.css', 'page.js']);
  });

  it('offers the simulated runtime and network, and nothing that is not listed', async () => {
    await writeFile(
      join(user, 'entries.js'),
      `const simulation = await import('ecliptic/simulation');
       const hidden = await import('ecliptic/dist/a2a/router.js').catch((error) => error.code);
       console.log(JSON.stringify([Object.keys(simulation), hidden]));`,
    );
    const { stdout } = await run(process.execPath, ['entries.js'], { cwd: user });
    const listed = ['MemoryNetwork', 'MemoryRendezvous', 'SimulatedRuntime', 'linkInProcess'];
    expect(JSON.parse(stdout)).toEqual([listed, 'ERR_PACKAGE_PATH_NOT_EXPORTED']);
  });
});
