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

  it('makes objects of one kind with one hidden class, although Node 20 gives each spread object its own', async () => {
    await writeFile(
      join(user, 'shapes.js'),
      `import { createNode } from 'ecliptic';
       const node = await createNode();
       const messages = [];
       node.agent({ id: 'mars' }).onTask(({ message }) => void messages.push(message));
       const { url } = await node.serve({ port: 0, open: true });
       const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hello' }] };
       const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } });
       const headers = { 'Content-Type': 'application/json', 'A2A-Version': '1.0' };
       for (let i = 0; i < 20; i++) await (await fetch(url + '/a2a/rpc', { method: 'POST', headers, body })).text();
       console.log(messages.length, %HaveSameMap(messages[18], messages[19]));
       await node.stop();`,
    );
    const { stdout } = await run(process.execPath, ['--allow-natives-syntax', 'shapes.js'], { cwd: user });
    expect(stdout).toBe('20 true\n');
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
