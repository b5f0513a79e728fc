import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { lives } from '../../../test/providers/processes.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { Children } from '../process/children.js';
import type { JailRequest } from '../process/jail-settings.js';
import type { Program } from '../process/program.js';
import { Jails } from './jails.js';

const runtime = systemRuntime();
const NOBODY = 65_534;
/** Tells the processes of this run from those of another one. */
const NAP = `1${process.pid}`;
/** Root keeps rights in its jail that other users do not have, so both are tried where this is root. */
const USERS = userInfo().uid === 0 ? [0, NOBODY] : [userInfo().uid];

let folder: string;
let data: string;
let workspace: string;
let jails: Jails;
let children: Children;
/** Sockets of the node and of another lane, and a TCP port of this machine. */
let servers: Server[];
let port: number;
let neighbour: ChildProcess;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ecliptic-jail-test-'));
  chmodSync(folder, 0o755);
  // The data folder lies in the workspace: what is hidden must not be shown again by what surrounds it.
  workspace = join(folder, 'project');
  data = join(workspace, 'data');
  for (const path of [join(data, 'lanes', 'mars'), join(data, 'lanes', 'venus'), join(folder, 'home', '.ssh')]) {
    mkdirSync(path, { recursive: true });
  }
  vi.stubEnv('HOME', join(folder, 'home'));
  writeFileSync(join(folder, 'home', '.ssh', 'id'), 'SECRET of the home');
  writeFileSync(join(data, 'node.key'), 'SECRET of the node');
  writeFileSync(join(folder, 'outside.txt'), 'SECRET outside');
  writeFileSync(join(workspace, 'ecliptic.json'), '{}');
  symlinkSync(join(folder, 'home', '.ssh'), join(workspace, 'link'));
  copyFileSync('/usr/bin/id', join(workspace, 'setuid-id'));
  servers = await Promise.all(
    [join(data, 'control.sock'), join(data, 'lanes', 'venus', 'own.sock'), 0].map(async (place) => {
      const server = createServer((socket) => socket.on('error', () => {}).end('reached')).listen(
        place,
        ...(place === 0 ? ['127.0.0.1' as never] : []),
      );
      await once(server, 'listening');
      return server;
    }),
  );
  port = (servers[2]!.address() as { port: number }).port;
  neighbour = spawn('sleep', ['600'], { stdio: 'ignore' });
  jails = new Jails(runtime, {
    folder: join(data, 'jails'),
    hidden: [data],
    fixed: [join(workspace, 'ecliptic.json')],
  });
  children = await Children.open(runtime, { folder: join(data, 'children'), jails });
});

afterAll(async () => {
  neighbour.kill('SIGKILL');
  for (const server of servers) server.close();
  await children.close({ graceMs: 0 });
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

function request(more: Partial<JailRequest> = {}): JailRequest {
  return { name: 'mars', workspace, own: join(data, 'lanes', 'mars'), required: true, ...more };
}

/** The folders belong to the user of the program, as the owner's do. */
function giveTo(user: number): void {
  if (userInfo().uid !== 0) return;
  for (const path of [folder, workspace, data, join(data, 'lanes'), join(data, 'lanes', 'mars'), join(data, 'jails')]) {
    if (existsSync(path)) chownSync(path, user, user);
  }
  for (const path of ['home', 'home/.ssh', 'home/.ssh/id', 'outside.txt', 'project/data/node.key']) {
    chownSync(join(folder, path), user, user);
  }
  const home = join(data, 'jails', 'mars', 'home');
  mkdirSync(home, { recursive: true, mode: 0o700 });
  chownSync(home, user, user);
  chownSync(join(data, 'jails', 'mars'), user, user);
  chownSync(join(workspace, 'setuid-id'), 0, 0);
  chmodSync(join(workspace, 'setuid-id'), 0o4755);
}

/** What a program prints, with the kernel's words. */
async function runAs(user: number, program: Program, more: Partial<JailRequest> = {}): Promise<string> {
  giveTo(user);
  const jailed = await jails.enter(program, request(more));
  const { command, args, cwd, env } = jailed.program;
  const identity = user === userInfo().uid ? {} : { uid: user, gid: user };
  const child = spawn(command, args ?? [], { cwd, env: { ...process.env, ...env }, ...identity });
  child.stdin.end();
  const said = await Promise.all([text(child.stdout), text(child.stderr)]);
  jailed.release();
  return said.join('');
}

const shell = (script: string): Program => ({ command: '/bin/bash', args: ['-c', script] });
const node = (code: string, ...args: string[]): Program => ({
  command: process.execPath,
  args: ['-e', code, '--', ...args],
});

/** Reports each attempt as the name of the system's error, or `done`. */
const ATTEMPTS = `
const fs = require('node:fs'), net = require('node:net');
const [folder, workspace, data, port, neighbour] = process.argv.slice(1);
const found = {};
const sync = (name, work) => { try { work(); found[name] = 'done'; } catch (error) { found[name] = error.code; } };
const reach = (name, where) => new Promise((resolve) => {
  const socket = net.connect(where, () => { found[name] = 'done'; socket.destroy(); resolve(); });
  socket.on('error', (error) => { found[name] = error.code; resolve(); });
});
sync('write in the workspace', () => fs.writeFileSync(workspace + '/made.txt', 'made'));
sync('write in the home', () => fs.writeFileSync(process.env.HOME + '/kept.txt', 'kept'));
sync('write a temporary file', () => fs.writeFileSync('/tmp/x', ''));
sync('write in its lane', () => fs.writeFileSync(data + '/lanes/mars/x', ''));
sync('write /etc', () => fs.writeFileSync('/etc/ecliptic-test', ''));
sync('write /usr', () => fs.writeFileSync('/usr/ecliptic-test', ''));
sync('write /', () => fs.writeFileSync('/ecliptic-test', ''));
sync('read outside', () => fs.readFileSync(folder + '/outside.txt'));
sync('read a secret of the home', () => fs.readFileSync(folder + '/home/.ssh/id'));
sync('read through a link', () => fs.readFileSync(workspace + '/link/id'));
sync('read the data folder', () => fs.readFileSync(data + '/node.key'));
sync('read /etc/shadow', () => fs.readFileSync('/etc/shadow'));
sync('write the configuration', () => fs.writeFileSync(workspace + '/ecliptic.json', ''));
sync('replace the configuration', () => fs.renameSync(workspace + '/made.txt', workspace + '/ecliptic.json'));
sync('remove the configuration', () => fs.unlinkSync(workspace + '/ecliptic.json'));
sync('signal another process', () => process.kill(Number(neighbour), 0));
sync('leave through a link', () => { fs.symlinkSync(folder, workspace + '/up'); fs.writeFileSync(workspace + '/up/escaped', ''); });
found.processes = fs.readdirSync('/proc').filter((name) => /^\\d+$/.test(name)).length;
found.secret = fs.readdirSync(data).join();
Promise.all([
  reach('reach the control socket', data + '/control.sock'),
  reach('reach the socket of another lane', data + '/lanes/venus/own.sock'),
  reach('reach a port of this machine', { host: '127.0.0.1', port: Number(port) }),
  reach('reach the network', { host: '192.0.2.1', port: 80 }),
]).then(() => console.log(JSON.stringify(found)));
`;

describe('a jail of the operating system', () => {
  it.each(USERS)('lets user %i work in the workspace, and the kernel refuses the rest [JL.1]', async (user) => {
    const args = [folder, workspace, data, String(port), String(neighbour.pid)];
    const found = JSON.parse(await runAs(user, node(ATTEMPTS, ...args)));
    expect(found).toEqual({
      'write in the workspace': 'done',
      'write in the home': 'done',
      'write a temporary file': 'done',
      'write in its lane': 'done',
      'write /etc': 'EROFS',
      'write /usr': 'EROFS',
      'write /': 'EROFS',
      'read outside': 'ENOENT',
      'read a secret of the home': 'ENOENT',
      'read through a link': 'ENOENT',
      'read the data folder': 'ENOENT',
      'read /etc/shadow': 'EACCES',
      'write the configuration': 'EROFS',
      'replace the configuration': 'EBUSY',
      'remove the configuration': 'EBUSY',
      'signal another process': 'ESRCH',
      // It wrote into a private folder of that name, which is gone.
      'leave through a link': 'done',
      'reach the control socket': 'ENOENT',
      'reach the socket of another lane': 'ENOENT',
      'reach a port of this machine': 'ECONNREFUSED',
      'reach the network': 'ENETUNREACH',
      processes: expect.toSatisfy((count: number) => count <= 3),
      secret: 'lanes',
    });
    expect(readFileSync(join(workspace, 'made.txt'), 'utf8')).toBe('made');
    expect(readFileSync(join(data, 'jails', 'mars', 'home', 'kept.txt'), 'utf8')).toBe('kept');
    // Those of the next user are its own.
    const made = [
      'project/up',
      'project/made.txt',
      'project/data/lanes/mars/x',
      'project/data/jails/mars/home/kept.txt',
    ];
    for (const path of made) rmSync(join(folder, path), { force: true });
    for (const name of ['escaped', 'home/kept.txt']) expect(existsSync(join(folder, name))).toBe(false);
  });

  it.each(USERS)('gives user %i no rights: no mounts, namespaces, setuid programs or tracing [JL.2]', async (user) => {
    const trace = `
      grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs)' /proc/self/status
      mount -t tmpfs none /tmp; mount --bind /tmp /usr; umount /etc
      unshare --user --map-root-user true; unshare --mount true
      echo uid $(./setuid-id -u)
      strace -o /dev/null -p ${neighbour.pid}
      echo $(cat /proc/sys/kernel/panic) > /proc/sys/kernel/panic; mknod /tmp/disk b 8 0; chroot / true; ls /sys`;
    const said = await runAs(user, shell(trace));
    expect(said).toMatch(/CapPrm:\s*0+\nCapEff:\s*0+\n/);
    expect(said).toMatch(/NoNewPrivs:\s*1/);
    // A setuid program runs as the user that it was started by.
    expect(said).toContain(`uid ${user}\n`);
    for (const refused of [
      /mount: .*(permission denied|must be superuser|Operation not permitted)/,
      /umount: .*(not permitted|must be superuser|permission denied)/,
      /unshare: unshare failed: (No space left on device|Operation not permitted)[\s\S]*unshare: unshare failed/,
      /strace: attach: ptrace\(PTRACE_SEIZE, \d+\): (No such process|Operation not permitted)/,
      /panic: (Read-only file system|Permission denied)/,
      /mknod: .*not permitted/,
      /chroot: .*not permitted/,
      /ls: cannot access '\/sys'/,
    ]) {
      expect(said).toMatch(refused);
    }
  });

  it('shows a private temporary folder and nothing of its parent’s descriptors [JL.2]', async () => {
    const said = await runAs(userInfo().uid, shell('ls -A /tmp /run /dev/shm; echo $TMPDIR; hostname'));
    expect(said).toContain('/tmp\njail\n');
    expect(said).not.toContain('ecliptic-children');
    const child = await children.start({
      ...shell('ls -l /proc/self/fd | tail -n +2 | sed "s/.* -> //"'),
      jail: request(),
    });
    const [, , , ...more] = (await text(child.stdout)).trimEnd().split('\n');
    expect(more.filter((link) => link !== '/dev/null')).toEqual([expect.stringMatching(/^\/proc\/\d+\/fd$/)]);
  });

  it('ends with its program, and takes everything along that the program started [JL.3]', async () => {
    const script = `setsid sleep ${NAP}0 & (sleep ${NAP}1 &); exec sleep ${NAP}2`;
    const child = await children.start({ ...shell(script), jail: request() });
    await vi.waitFor(() => expect(sleepers()).toHaveLength(3), { timeout: 20_000, interval: 20 });
    const [worker] = sleepers('2');
    process.kill(worker!, 'SIGKILL');
    expect(await child.exited).toEqual({ kind: 'signal', signal: 'SIGKILL' });
    await child.stop();
    expect(sleepers()).toEqual([]);
  });

  it('passes the request to exit on to its program, and its exit code back [JL.3]', async () => {
    const script = 'trap "echo bye; exit 7" TERM; echo up; while :; do sleep 0.05; done';
    const child = await children.start({ ...shell(script), jail: request() });
    await once(child.stdout, 'data');
    const rest = text(child.stdout);
    expect(await child.stop({ graceMs: 10_000 })).toEqual({ kind: 'code', code: 7 });
    expect(await rest).toBe('bye\n');
  });

  it('ends with the node, also when that is killed [JL.3]', { timeout: 60_000 }, async () => {
    const code = `
      import { systemRuntime } from ${JSON.stringify(new URL('../../runtime/system-runtime.ts', import.meta.url).href)};
      import { Children } from ${JSON.stringify(new URL('../process/children.ts', import.meta.url).href)};
      import { Jails } from ${JSON.stringify(new URL('jails.ts', import.meta.url).href)};
      const runtime = systemRuntime();
      const children = await Children.open(runtime, { folder: ${JSON.stringify(join(folder, 'other'))}, jails: new Jails(runtime) });
      const script = "trap '' TERM; setsid sleep ${NAP}3 & while :; do sleep ${NAP}4; done";
      const child = await children.start({ command: '/bin/bash', args: ['-c', script], jail: ${JSON.stringify(request())} });
      setInterval(() => {}, 1000);`;
    const other = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', code], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    try {
      await vi.waitFor(() => expect(sleepers()).toHaveLength(2), { timeout: 20_000, interval: 20 });
    } finally {
      other.kill('SIGKILL');
    }
    await vi.waitFor(() => expect(sleepers()).toEqual([]), { timeout: 20_000, interval: 20 });
  });

  it('is refused a workspace that would show the home or the data folder [JL.4]', async () => {
    const program = shell('true');
    for (const wrong of [
      { workspace: join(folder, 'home') },
      { workspace: folder },
      { write: ['/'] },
      { workspace: data },
    ]) {
      await expect(jails.enter(program, request(wrong))).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
    }
    const place = join(folder, 'elsewhere');
    mkdirSync(place);
    await jails.enter(program, request({ workspace: place }));
    rmSync(place, { recursive: true });
    symlinkSync('/etc', place);
    // Another jailed program may have put the link there.
    await expect(jails.enter(program, request({ workspace: place }))).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
  });

  it('shows further files only as configured [JL.4]', async () => {
    const extra = join(folder, 'extra');
    mkdirSync(join(extra, 'rw'), { recursive: true });
    writeFileSync(join(extra, 'a'), 'readable');
    const script = `cat ${extra}/a; echo x > ${extra}/b; echo y > ${extra}/rw/c; cat ${folder}/home/.ssh/id`;
    const more = { read: [extra, join(folder, 'home', '.ssh', 'id')], write: [join(extra, 'rw')] };
    const said = await runAs(userInfo().uid, shell(script), more);
    expect(said).toContain('readable');
    expect(said).toContain('SECRET of the home');
    expect(said).toContain('Read-only file system');
    expect(readFileSync(join(extra, 'rw', 'c'), 'utf8')).toBe('y\n');
    expect(existsSync(join(extra, 'b'))).toBe(false);
    expect(statSync(join(data, 'jails', 'mars', 'home')).mode & 0o777).toBe(0o700);
  });

  it('reports a program that does not exist [JL.4]', async () => {
    const starting = children.start({ command: 'no-such-program', jail: request() });
    await expect(starting).rejects.toMatchObject({ code: 'PROCESS_START_FAILED' });
  });
});

/** Of the processes that the tests leave behind, if the jail does. */
function sleepers(last = '[0-9]'): number[] {
  const { stdout } = spawnSync('pgrep', ['-f', `^sleep ${NAP}${last}$`], { encoding: 'utf8' });
  return stdout.split('\n').filter(Boolean).map(Number).filter(lives);
}

describe('a repository in the workspace of a jail', () => {
  const git = (cwd: string, ...args: string[]) => {
    const { status, stdout, stderr } = spawnSync('git', args, { cwd, encoding: 'utf8', env: GIT_ENV });
    expect({ args, status, stderr }).toMatchObject({ status: 0 });
    return stdout;
  };
  const GIT_ENV = {
    ...{ PATH: process.env.PATH, HOME: '/nonexistent', GIT_CONFIG_NOSYSTEM: '1' },
    ...{ GIT_AUTHOR_NAME: 'a', GIT_AUTHOR_EMAIL: 'a@b', GIT_COMMITTER_NAME: 'a', GIT_COMMITTER_EMAIL: 'a@b' },
    GIT_ALLOW_PROTOCOL: 'file',
  };
  const inJail = async (cwd: string, script: string, more: Partial<JailRequest> = {}) => {
    const program = { ...shell(script), cwd, env: { ...GIT_ENV, HOME: undefined } };
    return runAs(userInfo().uid, program, { workspace: cwd, own: undefined, ...more });
  };
  /** What a program would do to leave something that runs outside, each with the kernel's answer. */
  const TRIES = `
    attempt() { if (eval "$2") 2> /tmp/why; then echo "$1: done"; else echo "$1: $(grep -oE 'Read-only file system|Device or resource busy|could not lock|could not write' /tmp/why | head -1)"; fi; }
    attempt hook 'echo evil > .git/hooks/pre-commit'
    attempt moved-hooks 'mv .git/hooks .git/old'
    attempt removed-hooks 'rmdir .git/hooks'
    attempt config 'echo "[core]" >> .git/config'
    attempt set 'git config core.hooksPath evil'
    attempt replaced 'cp .git/config .git/mine && mv .git/mine .git/config'
    attempt moved 'mv .git .git-old'`;

  it('is read-only in its hooks and settings, and still takes commits [JL.9]', async () => {
    const project = join(folder, 'repository');
    mkdirSync(project);
    git(project, 'init', '-q', '-b', 'main', '--template=', '.');
    git(project, 'commit', '-q', '--allow-empty', '-m', 'first');
    expect(existsSync(join(project, '.git', 'hooks'))).toBe(false);
    const before = readFileSync(join(project, '.git', 'config'), 'utf8');
    const said = await inJail(
      project,
      `${TRIES}\necho x > x && git add x && git commit -q -m second && git gc -q && git log --format=%s`,
    );
    expect(said.split('\n')).toEqual([
      'hook: Read-only file system',
      'moved-hooks: Device or resource busy',
      'removed-hooks: Device or resource busy',
      'config: Read-only file system',
      expect.stringMatching(/^set: .+/),
      'replaced: Device or resource busy',
      'moved: Device or resource busy',
      'second',
      'first',
      '',
    ]);
    expect(readFileSync(join(project, '.git', 'config'), 'utf8')).toBe(before);
    expect(git(project, 'log', '--format=%s')).toBe('second\nfirst\n');
    expect(readdirSync(join(project, '.git', 'hooks'))).toEqual([]);

    // The owner may open them by name; a link cannot be protected.
    const open = { write: [join(project, '.git', 'hooks')] };
    expect(await inJail(project, 'echo "#!" > .git/hooks/post-commit && echo made', open)).toBe('made\n');
    rmSync(join(project, '.git', 'hooks'), { recursive: true });
    symlinkSync(folder, join(project, '.git', 'hooks'));
    await expect(inJail(project, 'true')).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
  });

  it('cannot be led to other settings, also from a worktree [JL.9]', async () => {
    const project = join(folder, 'main');
    const tree = join(folder, 'tree');
    mkdirSync(project);
    git(project, 'init', '-q', '-b', 'main', '.');
    git(project, 'commit', '-q', '--allow-empty', '-m', 'first');
    git(project, 'config', 'extensions.worktreeConfig', 'true');
    git(project, 'worktree', 'add', '-q', tree);
    const attempts = (...scripts: string[]) =>
      scripts.map((one) => `(${one}) 2>&1 | grep -oE 'Read-only file system|Device or resource busy'`).join('\n');
    const files = ['commondir', 'config.worktree', 'worktrees/tree/commondir', 'worktrees/tree/config.worktree'];
    const own = `${project}/.git`;
    const tries = attempts(
      ...files.map((file) => `echo ../evil > ${own}/${file}`),
      `mv ${own}/worktrees/tree ${own}/other`,
    );
    const refused = `${'Read-only file system\n'.repeat(4)}Device or resource busy\n`;
    const commit = 'git commit -q --allow-empty -m inside && git log -1 --format=%s';
    expect(await inJail(project, `${tries}\n${commit}`)).toBe(`${refused}inside\n`);
    // The file .git of a worktree leads git to its repository, which is opened here.
    const led = attempts('echo gitdir: /tmp > .git', 'rm .git', `echo >> ${own}/config`);
    const more = { write: [own] };
    expect(await inJail(tree, `${led}\n${tries}\n${commit}`, more)).toBe(
      `Read-only file system\nDevice or resource busy\nRead-only file system\n${refused}inside\n`,
    );
    expect(git(project, 'log', '-1', '--format=%s', 'tree')).toBe('inside\n');
    // Nothing of it is left.
    expect(existsSync(join(own, 'commondir'))).toBe(false);
  });

  it('cannot be given other settings by a file that it includes, or by one that counts later [JL.9]', async () => {
    const project = join(folder, 'including');
    mkdirSync(project);
    git(project, 'init', '-q', '-b', 'main', '.');
    git(project, 'commit', '-q', '--allow-empty', '-m', 'first');
    git(project, 'config', 'include.path', '../.gitconfig.team');
    git(project, 'config', 'includeIf.onbranch:other.path', '../conf/more');
    writeFileSync(join(project, '.gitconfig.team'), '[include]\n\tpath = "conf/deep"\n');
    const evil = join(folder, 'including-ran');
    const attack = ['.gitconfig.team', 'conf/deep', 'conf/more', '.git/config.worktree'].map((file) => {
      const write = `printf '[core]\\nfsmonitor = "echo >> ${evil}; false"\\n' > ${file}`;
      return `(${write}) 2>&1 | grep -o 'Read-only file system'`;
    });
    const away = "mv conf other 2>&1 | grep -o 'Device or resource busy'";
    const said = await inJail(project, [...attack, away, 'rm -f x; git status --porcelain x'].join('\n'));
    expect(said).toBe(`${'Read-only file system\n'.repeat(4)}Device or resource busy\n`);
    git(project, 'checkout', '-q', '-b', 'other');
    git(project, 'sparse-checkout', 'set', 'd');
    git(project, 'status');
    expect(existsSync(evil)).toBe(false);
    expect(readdirSync(join(project, 'conf'))).toEqual([]);
    // What a jail hides stays hidden.
    writeFileSync(join(data, 'secret'), 'SECRET');
    git(project, 'config', 'include.path', join(data, 'secret'));
    const more = { write: [workspace] };
    expect(await inJail(project, `cat ${join(data, 'secret')} 2> /dev/null; echo over`, more)).toBe('over\n');
  });
});
