import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
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

  it('gives modules of agents the classes of the program', async () => {
    const source = `import { EclipticError } from 'ecliptic';
      export function setup(agent) {
        agent.onRequest(() => agent.request('absent', 1).catch((error) => error instanceof EclipticError));
      }`;
    await Promise.all(['js', 'ts'].map((kind) => writeFile(join(user, `module.${kind}`), source)));
    const agents = { js: { module: './module.js' }, ts: { module: './module.ts' }, asker: {} };
    await writeFile(join(user, 'ecliptic.json'), JSON.stringify({ agents }));
    const env = { ...process.env, ECLIPTIC_DATA: join(folder, 'data'), XDG_CACHE_HOME: folder, PORT: '0' };
    const program = join(user, 'node_modules', 'ecliptic', 'bin', 'ecliptic');
    // The second start runs from stored code.
    for (let start = 0; start < 2; start++) {
      const node = spawn(process.execPath, [program, 'up', '--json', '--log', 'warn'], {
        cwd: user,
        env,
        stdio: ['ignore', 'pipe', 2],
      });
      try {
        await once(node.stdout!, 'data');
        for (const to of ['js', 'ts']) {
          const args = [program, 'request', '--as', 'asker', '--to', to, '1', '--json'];
          const { stdout } = await run(process.execPath, args, { cwd: user, env });
          expect(JSON.parse(stdout)).toBe(true);
        }
      } finally {
        node.kill('SIGTERM');
        await once(node, 'exit');
      }
    }
  });

  it('contains the built page of the dashboard', async () => {
    const page = join(user, 'node_modules', 'ecliptic', 'dist', 'web');
    expect((await readdir(page)).sort()).toEqual(['charts.js', 'docs.css', 'index.html', 'page.css', 'page.js']);
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
