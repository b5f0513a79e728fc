import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { describe, expect, it, vi } from 'vitest';
import { natsServer } from '../../scripts/need-nats-server.mjs';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { MemoryStore } from '../../src/store/memory-store.js';
import { hasSync, NatsServer } from '../nats-server.js';
import { isFree, stablePort } from '../ports.js';
import { type Cluster, inCluster, until, untilConnected } from './cluster.js';

vi.setConfig({ testTimeout: 60_000 });

describe('a node', () => {
  it(
    'without NATS in its configuration loads nothing of it, and with it does [NX.1]',
    inCluster(async (cluster) => {
      const loaded = async (name: string, args: readonly string[]) => {
        const { env, urls } = recordingLoads(cluster, name);
        const node = await cluster.start(name, { args, env });
        await node.call('invite');
        await node.stop();
        return urls();
      };
      const without = await loaded('without', ['--no-dht', '--listen', '127.0.0.1:0']);
      expect(without.some((url) => /\/host-\w+\.cjs$/.test(url))).toBe(true);
      expect(without.filter((url) => /@nats-io|\/broker-\w+\.cjs$/.test(url))).toEqual([]);
      const { url } = await cluster.natsServer();
      const withIt = await loaded('with', ['--nats', url]);
      expect(withIt.some((each) => each.includes('@nats-io/transport-node'))).toBe(true);
      expect(withIt.filter((each) => /hyperdht|\/hyperswarm\//.test(each))).toEqual([]);
    }),
  );

  it(
    'starts and stops while its broker is away, says so, and connects when the broker comes [NX.1]',
    inCluster(async (cluster) => {
      const server = await cluster.natsServer();
      await server.kill();
      const args = ['--nats', server.url];
      const [a, b, c] = [
        await cluster.start('a', { args }),
        await cluster.start('b', { args }),
        await cluster.start('c', { args }),
      ];
      const { code, warnings } = await a.call<{ code: string; warnings: string[] }>('invite');
      expect(warnings.join()).toContain('cannot be reached');
      const { stdout } = await a.run('doctor');
      expect(stdout).toContain(`problem nats: ${server.url} cannot be reached`);
      // A node that is joining is told as well, with the next command.
      const joining = b.call('join', { code });
      await until(
        async () =>
          /in no mesh[\s\S]*problem nats: .*cannot be reached: .*ecliptic up --nats/.test(
            (await b.run('doctor')).stdout,
          ),
        'b says why it cannot join',
      );
      await c.stop();
      await server.start();
      await joining;
      await untilConnected([a, b]);
      expect((await a.run('doctor')).stdout).toMatch(/ok +nats: .*\(NATS 2\.\d+/);
    }),
  );

  it(
    'in no mesh says why its broker is of no use, or what it lacks, and logs it once [NX.11]',
    inCluster(async (cluster) => {
      const login = { extra: 'authorization { user: ann, password: right }' };
      const servers = {
        plain: await NatsServer.start(),
        closed: await NatsServer.start(login),
        streamless: await NatsServer.start({ jetstream: false }),
      };
      for (const server of Object.values(servers)) cluster.onEnd(() => server.stop());
      const at = async (url: string) => {
        const log: string[] = [];
        const line = (_: unknown, message: string) => void log.push(message);
        const logger = { debug() {}, info() {}, warn: line, error: line };
        const parts = { runtime: systemRuntime({ logger }), store: new MemoryStore() };
        const node = await cluster.inProcess({ nats: { servers: [url] } }, parts);
        const said = () => node.network.diagnose().find(({ text }) => text.startsWith('nats: '));
        return { node, log, said };
      };
      const [plain, closed, streamless] = await Promise.all([
        at(servers.plain.url),
        at(servers.closed.url.replace('//', '//ann:wrong@')),
        at(servers.streamless.url),
      ]);
      await until(() => plain.said()?.level === 'ok', 'the server is of use');
      await until(() => /user or the password/.test(closed.said()?.text ?? ''), 'the password is wrong');
      await until(() => /streams cannot be used.*`-js`/.test(streamless.said()?.text ?? ''), 'there are no streams');
      expect([closed, streamless].map(({ said }) => said()?.level)).toEqual(['problem', 'problem']);
      expect(closed.said()?.text).not.toContain('wrong');
      expect(plain.log).toEqual([]);
      expect(closed.log).toEqual(['NATS connection failed']);
      await until(() => streamless.log.length > 0, 'it is in the log');
      expect((await streamless.node.network.invite()).warnings.join()).toContain('streams cannot be used');
      expect(streamless.log).toEqual(['mail stream cannot be opened']);
    }),
  );

  it(
    'refuses addresses of NATS that are none',
    inCluster(async (cluster) => {
      for (const url of ['localhost', 'http://127.0.0.1:4222', '']) {
        expect(await cluster.run(['up', '--nats', url])).toMatchObject({
          code: 2,
          stderr: expect.stringContaining('--nats: must be nats://host:port or tls://host:port'),
        });
      }
    }),
  );
});

describe('ecliptic nats', () => {
  it(
    'up runs a server that nodes can use, keeps its data, and ends with the command [NX.7]',
    inCluster(async (cluster) => {
      const port = await stablePort();
      const data = join(cluster.folder, 'broker');
      const env = { PATH: `${dirname(natsServer())}:${process.env.PATH}` };
      const child = cluster.launch(
        ['nats', 'up', '--port', String(port), '--json', '--data', data],
        cluster.folder,
        env,
      );
      const [line] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string];
      const { url, folder } = JSON.parse(line) as { url: string; folder: string };
      expect(url).toBe(`nats://127.0.0.1:${port}`);
      const [a, b] = [
        await cluster.start('a', { args: ['--nats', url] }),
        await cluster.start('b', { args: ['--nats', url] }),
      ];
      await a.admit(b);
      await untilConnected([a, b]);
      expect(await a.request('sun', `sun@${b.key}`, 1).catch(({ code }) => code)).toBe('NO_WORKER');
      expect(existsSync(join(folder, 'jetstream'))).toBe(true);
      // A second one on the same port says why it cannot start.
      const other = join(cluster.folder, 'other');
      const second = await cluster.run(['nats', 'up', '--port', String(port), '--data', other], cluster.folder, env);
      expect(second).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/^PROCESS_START_FAILED: .*address already in use/),
      });
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      expect(await exited).toEqual([0, null]);
      expect(await isFree(port)).toBe(true);
      // Also when the command is killed.
      const again = cluster.launch(
        ['nats', 'up', '--port', String(port), '--json', '--data', data],
        cluster.folder,
        env,
      );
      await once(createInterface({ input: again.stdout! }), 'line');
      again.kill('SIGKILL');
      await until(() => isFree(port), 'the server has ended too');
      await a.stop();
      await b.stop();
    }),
  );

  it(
    'config names every member and this node; a removed member is not named [NX.7]',
    inCluster(async (cluster) => {
      const { url } = await cluster.natsServer();
      const [a, b] = [
        await cluster.start('a', { args: ['--nats', url] }),
        await cluster.start('b', { args: ['--nats', url] }),
      ];
      await a.admit(b);
      await untilConnected([a, b]);
      const keys = [await key(cluster, a.data), await key(cluster, b.data)];
      const before = await a.json<{ users: { node: string; nkey: string }[]; config: string }>('nats', 'config');
      expect(before.users.map(({ node, nkey }) => `${node}:${nkey}`).sort()).toEqual(keys.toSorted());
      for (const { nkey } of before.users) expect(before.config).toContain(nkey);
      await b.stop();
      // A member that is away keeps its access, also after a restart of this node.
      await a.stop();
      await a.start();
      expect((await a.json<{ users: unknown[] }>('nats', 'config')).users).toHaveLength(2);
      await a.run('peers', 'remove', b.key, '--yes');
      expect((await a.json<{ users: { node: string }[] }>('nats', 'config')).users.map(({ node }) => node)).toEqual([
        a.key,
      ]);
      const guest = `${'5'.repeat(64)}:${before.users[1]!.nkey}`;
      expect((await a.run('nats', 'config', '--user', guest)).stdout).toContain(`# node ${'5'.repeat(64)}`);
      expect(await a.run('nats', 'config', '--user', 'x')).toMatchObject({ code: 2 });
    }),
  );

  it(
    'config --watch follows joins and removals, and the server shuts a removed node out [NX.7]',
    inCluster(async (cluster) => {
      const port = await stablePort();
      const [file, pid] = [join(cluster.folder, 'server.conf'), join(cluster.folder, 'nats.pid')];
      const sync = hasSync() ? [] : ['--no-sync'];
      const place = ['--listen', `127.0.0.1:${port}`, '--store', join(cluster.folder, 'store'), ...sync];
      const args = ['--nats', `nats://127.0.0.1:${port}`];
      const a = await cluster.start('a', { args });
      expect(await a.run('nats', 'config', '--watch')).toMatchObject({ code: 2 });
      expect((await a.run('nats', 'config', ...place, '--write', file)).stdout).toContain('has 1 users now');
      const server = spawn(natsServer(), ['-c', file, '-P', pid], { stdio: 'ignore' });
      cluster.onEnd(async () => {
        const exited = once(server, 'exit');
        server.kill('SIGKILL');
        await exited;
      });
      await until(() => existsSync(pid), 'the server runs');
      const options = [...place, '--write', file, '--reload', pid, '--watch', '--json', '--data', a.data];
      const watch = cluster.launch(['nats', 'config', ...options]);
      const counts: number[] = [];
      createInterface({ input: watch.stdout! }).on('line', (line) => counts.push(JSON.parse(line).users.length));
      const b = await cluster.start('b', { args });
      await a.run('nats', 'allow', await key(cluster, b.data));
      await until(() => counts.at(-1) === 2, 'b is in the file');
      await a.admit(b);
      await untilConnected([a, b]);
      const log = async () => (await b.doctor()).findings.find(({ text }) => text.startsWith('nats:'));
      expect((await log())?.level).toBe('ok');
      await a.call('peers.remove', { node: b.key });
      await until(() => counts.at(-1) === 1, 'b is no longer in the file');
      await until(
        async () => /cannot be reached.*Authorization/i.test((await log())?.text ?? ''),
        'the server shuts it out',
      );
      expect((await log())?.text).toContain('ecliptic nats allow NODE:NKEY');
      expect(b.log.match(/NATS broker reported an error/g)?.length ?? 0).toBeLessThan(4);
      // While the node is away, the file stays.
      const before = readFileSync(file, 'utf8');
      expect(before).toContain(a.key);
      await a.stop();
      await a.start();
      await until(async () => (await a.doctor()).findings.some(({ text }) => /nats: .*NATS 2/.test(text)), 'a is back');
      expect(readFileSync(file, 'utf8')).toBe(before);
      expect(watch.exitCode).toBeNull();
    }),
  );
});

async function key(cluster: Cluster, data: string): Promise<string> {
  const { node, nkey } = JSON.parse((await cluster.run(['nats', 'key', '--json', '--data', data])).stdout);
  return `${node}:${nkey}`;
}

/** An environment in which a process writes down every module that it loads. */
function recordingLoads(cluster: Cluster, name: string): { env: Record<string, string>; urls: () => string[] } {
  const [hook, file] = [join(cluster.folder, `${name}.mjs`), join(cluster.folder, `${name}.urls`)];
  const loader = `import { appendFileSync } from 'node:fs';
    export async function load(url, context, next) {
      appendFileSync(${JSON.stringify(file)}, url + '\\n');
      return next(url, context);
    }`;
  writeFileSync(
    hook,
    `import { appendFileSync } from 'node:fs';
    import { createRequire, register } from 'node:module';
    register('data:text/javascript,' + encodeURIComponent(${JSON.stringify(loader)}));
    const { cache } = createRequire(import.meta.url);
    process.on('exit', () => appendFileSync(${JSON.stringify(file)}, Object.keys(cache).join('\\n')));`,
  );
  const env = { NODE_OPTIONS: `--import=${pathToFileURL(hook).href}` };
  return { env, urls: () => readFileSync(file, 'utf8').trim().split('\n') };
}
