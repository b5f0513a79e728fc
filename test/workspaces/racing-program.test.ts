import { chmodSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { dirtyFiles } from '../../src/coding-agents/radar/dirty-files.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { Git } from '../../src/system/git/git.js';
import { Jails } from '../../src/system/jail/jails.js';
import { Children } from '../../src/system/process/children.js';
import { Repository } from './repository.js';
import { Workbench } from './workbench.js';

/** How often the program and the node meet. */
const ROUNDS = 30;

function evilSettings(proof: string, more = '[include]\n\tpath = settings\n'): string {
  const run = (name: string) => `"echo ${name} >> '${proof}'; cat"`;
  return [
    '[core]\n\trepositoryformatversion = 0',
    `\tfsmonitor = ${run('fsmonitor')}\n\thooksPath = hooks\n\tattributesFile = attributes`,
    `[filter "x"]\n\tclean = ${run('clean')}\n\tsmudge = ${run('smudge')}\n\tprocess = ${run('process')}`,
    `[diff]\n\texternal = ${run('external')}\n[diff "x"]\n\ttextconv = ${run('textconv')}\n\tcommand = ${run('command')}`,
    `${more}[extensions]\n\tworktreeConfig = true\n`,
  ].join('\n');
}

it('settings that change while git starts are not read: no filter, hook, include or attribute of them counts [WT.20]', async () => {
  const bench = await Workbench.create(Repository.create({ 'a.txt': 'a\n', '.gitattributes': '* filter=x diff=x\n' }));
  onTestFinished(() => bench.close());
  const { repository, git } = bench;
  const data = join(repository.folder, '.git');
  const proof = join(repository.home, 'ran');
  // Between the listing of the settings and the command itself, this git is the program that races the node.
  const bin = join(repository.home, 'bin');
  const evil = evilSettings(proof);
  const real = repository.git('--exec-path');
  repository.write(
    {
      evil,
      included: evilSettings(proof, ''),
      good: '[core]\n\trepositoryformatversion = 0\n[user]\n\tname = "A \\"b\\" #c"\n',
      git: [
        '#!/bin/sh',
        `case " $* " in *' config '*|*' --path-format=absolute '*) cp '${bin}/good' '${data}/config';; *)`,
        `cp '${bin}/evil' '${data}/config'; cp '${bin}/included' '${data}/settings'; cp '${bin}/included' '${data}/config.worktree'`,
        `mkdir -p '${data}/hooks'; printf '#!/bin/sh\\necho hook >> "${proof}"' > '${data}/hooks/pre-commit'; chmod +x '${data}/hooks/pre-commit';; esac`,
        `exec '${real}/git' "$@"`,
      ].join('\n'),
    },
    bin,
  );
  chmodSync(join(bin, 'git'), 0o755);
  const env = { PATH: `${bin}:${process.env.PATH}` };
  repository.write({ 'a.txt': 'changed\n' });
  const place = { folder: repository.folder };
  const user = ['-c', 'user.email=a@b'];
  expect(await git.run(place, ['status', '--porcelain'], { env })).toBe(' M a.txt\n');
  expect(await git.run(place, ['diff'], { env })).toContain('+changed');
  await git.run(place, ['add', '--all'], { env });
  await git.run(place, [...user, 'commit', '--quiet', '-m', 'x'], { env });
  expect(await git.run(place, ['log', '--format=%an', '-1', '-p'], { env })).toMatch(/^A "b" #c\n/);
  expect(existsSync(join(data, 'settings'))).toBe(true);
  expect(existsSync(proof)).toBe(false);
});

it.runIf(process.platform === 'linux')(
  'a jailed program that rewrites settings all the time runs nothing outside its jail [WT.20 JL.9]',
  async () => {
    const home = realpathSync(mkdtempSync(join(tmpdir(), 'ecliptic-race-')));
    const repository = Repository.create({ 'a.txt': 'a\n', '.gitattributes': '* filter=x\n' });
    const runtime = systemRuntime();
    const jails = new Jails(runtime, { folder: join(home, 'jails'), hidden: [home] });
    const children = await Children.open(runtime, { folder: join(home, 'children'), jails });
    onTestFinished(async () => {
      await children.close({ graceMs: 0 });
      repository.remove();
      rmSync(home, { recursive: true, force: true });
    });
    const proof = join(home, 'ran');
    // The jail protects the repository at the top of its folder; this one is further down.
    const data = join(repository.folder, '.git');
    writeFileSync(join(repository.home, 'evil'), evilSettings(proof));
    mkdirSync(join(home, 'git'));
    const loop = `
      const { copyFileSync, renameSync, writeSync } = require('node:fs');
      process.chdir(${JSON.stringify(repository.folder)});
      copyFileSync('.git/config', '../good');
      for (let n = 0; ; n++) {
        copyFileSync(n % 2 ? '../good' : '../evil', '.git/next');
        renameSync('.git/next', '.git/config');
        if (n === 1) writeSync(1, 'ready');
      }`;
    const program = await children.start({
      ...{ command: process.execPath, args: ['-e', loop], name: 'racer', cwd: repository.folder },
      jail: { name: 'racer', workspace: repository.home, required: true },
    });
    const begun = new Promise<void>((resolve) => program.stdout.once('data', () => resolve()));
    expect(await Promise.race([begun, program.exited])).toBeUndefined();
    const git = new Git({ runtime, children }, { folder: join(home, 'git') });
    for (let round = 0; round < ROUNDS; round++) {
      repository.write({ 'a.txt': `${round}\n` });
      expect((await dirtyFiles(git, { gitDir: data, workTree: repository.folder })).files).toEqual(['a.txt']);
    }
    expect(existsSync(proof)).toBe(false);
    await program.stop({ graceMs: 0 });
  },
);
