import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { acpAgent, ProcessHost } from './process-host.js';
import { lives, until } from './processes.js';

/** Tells the processes of this run from those of another one. */
const NAP = `2${process.pid}`;
const PROBE = fileURLToPath(new URL('jail-probe.mjs', import.meta.url));

let running: ProcessHost | undefined;
let outside: string;
let project: string;
/** What a program on this machine could reach without a jail. */
let server: Server;
let port: number;

beforeEach(async () => {
  outside = mkdtempSync(join(tmpdir(), 'ecliptic-jailed-'));
  project = join(outside, 'project');
  mkdirSync(project);
  mkdirSync(join(outside, 'home', '.ssh'), { recursive: true });
  writeFileSync(join(outside, 'home', '.ssh', 'id'), 'SECRET of the home');
  vi.stubEnv('HOME', join(outside, 'home'));
  server = createServer((_request, answer) => answer.end('a model'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  port = (server.address() as AddressInfo).port;
});

afterEach(async () => {
  await running?.stop();
  running = undefined;
  server.close();
  vi.unstubAllEnvs();
  rmSync(outside, { recursive: true, force: true });
});

/** Everything that a probe tries; the node of the test gets its paths from the environment. */
function wanted(folder: string): object {
  const data = join(folder, 'data');
  return {
    write: [
      join(project, 'result.txt'),
      '/tmp/own',
      join(outside, 'outside.txt'),
      '/etc/ecliptic-test',
      join(data, 'x'),
    ],
    read: [join(outside, 'home', '.ssh', 'id'), join(data, 'node.key'), join(data, 'owner.token'), '/etc/shadow'],
    sockets: [join(data, 'control.sock')],
    ports: [port],
    pid: process.pid,
  };
}

const refused = (folder: string) => {
  const data = join(folder, 'data');
  return {
    write: {
      [join(project, 'result.txt')]: 'done',
      '/tmp/own': 'done',
      // Folders above the workspace are private ones.
      [join(outside, 'outside.txt')]: 'done',
      '/etc/ecliptic-test': 'EROFS',
      [join(data, 'x')]: expect.stringMatching(/^(done|ENOENT)$/),
    },
    read: {
      [join(outside, 'home', '.ssh', 'id')]: 'ENOENT',
      [join(data, 'node.key')]: 'ENOENT',
      [join(data, 'owner.token')]: 'ENOENT',
      '/etc/shadow': 'EACCES',
    },
    sockets: { [join(data, 'control.sock')]: 'ENOENT' },
    ports: { [port]: 'ECONNREFUSED' },
    signal: 'ESRCH',
    processes: expect.toSatisfy((count: number) => count < 6),
  };
};

describe('a provider in a jail', () => {
  it('of each kind does its work, and the kernel refuses what lies outside [JL.5 IT5]', {
    timeout: 60_000,
  }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'ecliptic-processes-'));
    const spec = JSON.stringify(wanted(folder));
    const of = (mode: string) => ({ command: process.execPath, args: [PROBE, mode, spec], cwd: project });
    const mcpServers = { probe: { ...of('mcp'), jail: 'required' as const } };
    running = await ProcessHost.start(
      {
        task: { exec: of('exec'), jail: 'required' },
        service: { command: of('command'), jail: { required: true } },
        // An agent in a sandbox is jailed without being told to.
        coder: { acp: { ...acpAgent(), cwd: project }, sandbox: 'lab' },
      },
      {
        mcpServers,
        sandbox: { enforced: true, allow: { lab: ['sun'] } },
        policy: [{ action: '*', decision: 'allow' }],
      },
      undefined,
      folder,
    );
    await running.ready('task', 'service', 'coder', 'mcp/probe');
    const { sun, control } = running;
    expect(await sun.request('task', 'try')).toEqual(refused(folder));
    expect(await sun.request('service', { value: 1 })).toEqual(refused(folder));
    const { content } = await sun.mcp.call('probe.probe', {});
    expect(JSON.parse((content[0] as { text: string }).text)).toEqual(refused(folder));
    for (const path of [join(outside, 'outside.txt'), join(folder, 'data', 'x')]) expect(existsSync(path)).toBe(false);
    expect(readFileSync(join(project, 'result.txt'), 'utf8')).toBe('written by the probe');

    // The commands that a coding agent lets the node run are in its jail, too.
    const secret = join(outside, 'home', '.ssh', 'id');
    expect(await sun.request('coder', `do:file ${secret}`)).toBe('refused ENOENT');
    const command = `do:run cat ${secret}; echo made > made.txt; cat made.txt; echo x > /etc/ecliptic-test; ls /proc | grep -c '^[0-9]'`;
    const said = String(await sun.request('coder', command));
    expect(said).toContain('No such file or directory');
    expect(said).toContain('made');
    expect(said).toMatch(/Read-only file system|cannot create \/etc/);

    const rows = await control.call('providers');
    expect(rows.map(({ id, jail }) => [id, jail]).sort()).toEqual([
      ['coder', 'bwrap'],
      ['mcp/probe', 'bwrap'],
      ['service', 'bwrap'],
      ['task', 'bwrap'],
    ]);
    const { findings } = await control.call('doctor');
    expect(findings).toContainEqual({ level: 'ok', text: expect.stringMatching(/^programs can be jailed: bwrap/) });
  });

  it('reaches the mesh’s tools, the listed hosts and nothing else of the network [JL.6]', {
    timeout: 60_000,
  }, async () => {
    const tries = `
      const http = require('node:http');
      const [direct, http3000] = JSON.parse(process.argv[1]);
      const get = (port) => new Promise((resolve) => http.get({ host: '127.0.0.1', port, path: '/' }, (r) => { r.resume(); resolve(r.statusCode); }).on('error', (e) => resolve(e.code)));
      const tunnel = (path) => new Promise((resolve) => {
        const { hostname, port } = new URL(process.env.HTTPS_PROXY);
        http.request({ host: hostname, port, method: 'CONNECT', path }).on('connect', (r, s) => { s.destroy(); resolve(r.statusCode); }).on('error', (e) => resolve(e.code)).end();
      });
      const plain = (url) => new Promise((resolve) => {
        const { hostname, port } = new URL(process.env.HTTP_PROXY);
        http.get({ host: hostname, port, path: url }, (r) => { r.resume(); resolve(r.statusCode); }).on('error', (e) => resolve(e.code));
      });
      (async () => console.log(JSON.stringify({
        listed: await get(direct), listedByProxy: await tunnel('127.0.0.1:' + direct), plain: await plain('http://127.0.0.1:' + direct + '/'),
        node: await get(http3000), nodeByProxy: await tunnel('127.0.0.1:' + http3000), other: await tunnel('example.com:443'),
        metadata: await plain('http://169.254.169.254/latest'),
      })))();`;
    const folder = mkdtempSync(join(tmpdir(), 'ecliptic-processes-'));
    const script = join(project, 'tries.cjs');
    const jail = { required: true, network: [`127.0.0.1:${port}`] };
    const exec = { command: 'sh', args: ['-c', 'node -e "$(cat tries.cjs)" "$(cat ports.json)"'], cwd: project };
    writeFileSync(script, tries);
    running = await ProcessHost.start(
      {
        task: { exec, jail },
        // The variable names the model that it needs.
        model: { exec: { ...exec, env: { OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1` } }, jail: 'required' },
        coder: { acp: { ...acpAgent(), cwd: project }, jail: 'required' },
      },
      {},
      undefined,
      folder,
    );
    await running.ready('task', 'model', 'coder');
    const { sun, host } = running;
    const { port: own } = new URL(host.gateway.url);
    writeFileSync(join(project, 'ports.json'), JSON.stringify([port, Number(own)]));
    const expected = {
      ...{ listed: 200, listedByProxy: 200, plain: 200 },
      ...{ node: 'ECONNREFUSED', nodeByProxy: 403, other: 403, metadata: 403 },
    };
    expect(await sun.request('task', 'try')).toEqual(expected);
    expect(await sun.request('model', 'try')).toEqual(expected);
    expect(await sun.request('coder', 'do:tools')).toContain('ecliptic');
    // Of the node's own port, a coding agent reaches the MCP endpoint only.
    expect(await sun.request('coder', 'do:message sun').catch(({ message }) => message)).toContain('refused');
  });

  it('is not started where it requires a jail and the machine has none; else that is said [JL.7]', async () => {
    vi.stubEnv('PATH', join(outside, 'nothing'));
    const exec = { command: process.execPath, args: ['-e', 'console.log(1)'], cwd: project };
    running = await ProcessHost.start({ must: { exec, jail: 'required' }, may: { exec, jail: true } });
    await running.ready('may');
    const { sun, control } = running;
    await until(() => running!.host.node.providers.list().some(({ id, phase }) => id === 'must' && phase === 'failed'));
    await expect(sun.request('must', 'x')).rejects.toMatchObject({
      message: expect.stringContaining('bubblewrap is not installed; install bubblewrap'),
    });
    expect(await sun.request('may', 'x')).toBe('1');
    const row = (await control.call('providers')).find(({ id }) => id === 'may');
    expect(row?.jail).toBe('none: bubblewrap is not installed');
    const { findings } = await control.call('doctor');
    expect(findings).toContainEqual({ level: 'problem', text: expect.stringMatching(/^not jailed: .*"may".*apt-get/) });
  });

  it('is unavailable, with the reason, where its jail cannot be entered, until that is repaired [JL.7]', async () => {
    const exec = { command: process.execPath, args: ['-e', 'console.log(1)'], cwd: project };
    const missing = join(outside, 'missing');
    spawnSync('git', ['init', '-q', project]);
    rmSync(join(project, '.git', 'hooks'), { recursive: true });
    symlinkSync(outside, join(project, '.git', 'hooks'));
    const bare = { ...exec, cwd: join(outside, 'bare') };
    mkdirSync(bare.cwd);
    running = await ProcessHost.start({
      ...{ linked: { exec, jail: true }, lost: { exec: bare, jail: { required: true, read: [missing] } } },
    });
    const { sun, control } = running;
    const row = async (name: string) => (await control.call('providers')).find(({ id }) => id === name);
    await vi.waitFor(async () => {
      const link = { phase: 'failed', state: 'unavailable', jail: null, message: expect.stringContaining('is a link') };
      expect(await row('linked')).toMatchObject(link);
      expect(await row('lost')).toMatchObject({ phase: 'failed', message: expect.stringContaining('has no ') });
    });
    await expect(sun.request('lost', 'x')).rejects.toMatchObject({ message: expect.stringContaining(missing) });
    const { findings } = await control.call('doctor');
    const text = expect.stringMatching(/"linked".*unavailable.*is a link/);
    expect(findings).toContainEqual(expect.objectContaining({ level: 'problem', text }));
    writeFileSync(missing, 'x');
    await running.host.node.providers.restart('lost');
    expect(await sun.request('lost', 'x')).toBe('1');
    expect(await row('lost')).toMatchObject({ state: 'healthy', jail: expect.stringContaining('bwrap') });
  });

  it('leaves no process when the node is killed [JL.3]', { timeout: 60_000 }, async () => {
    const { BIN } = await import('../source-files.js');
    writeFileSync(
      join(project, 'ecliptic.json'),
      JSON.stringify({
        ...{ roster: false, network: { dht: false }, data: '../data', http: { port: 0 } },
        agents: { sun: { tier: 0 }, task: { exec: `setsid sleep ${NAP}0 & sleep ${NAP}1`, jail: 'required' } },
      }),
    );
    const node = spawn(process.execPath, [BIN, 'up'], { cwd: project, stdio: 'ignore' });
    const cli = (...args: string[]) => spawn(process.execPath, [BIN, ...args], { cwd: project, stdio: 'ignore' });
    const { ControlClient } = await import('../../src/node/control/client.js');
    try {
      const control = await vi.waitFor(() => ControlClient.connect(join(outside, 'data', 'control.sock')), {
        ...{ timeout: 40_000, interval: 100 },
      });
      control.close();
      cli('request', '--as', 'sun', '--to', 'task', '"x"');
      await vi.waitFor(() => expect(sleepers()).toBe(2), { timeout: 20_000, interval: 50 });
    } finally {
      node.kill('SIGKILL');
    }
    await vi.waitFor(() => expect(sleepers()).toBe(0), { timeout: 20_000, interval: 50 });
  });
});

/** How many of the processes that the killed node had started are left. */
function sleepers(): number {
  const { stdout } = spawnSync('pgrep', ['-f', `^sleep ${NAP}[01]$`], { encoding: 'utf8' });
  return stdout.split('\n').filter((pid) => pid !== '' && lives(Number(pid))).length;
}
