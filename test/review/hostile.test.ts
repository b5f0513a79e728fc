import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { reviewRepository } from '../../src/cli/review-swarm.js';
import { reviewSarif } from '../../src/roster/review/review-sarif.js';
import { reviewMarkdown, reviewText } from '../../src/roster/review/review-text.js';
import { ToolProcesses } from '../../src/roster/tools/tool-processes.js';
import { runTool } from '../../src/roster/tools/tools.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { Children } from '../../src/system/process/children.js';
import { SECRETS, TestRepository } from './repository.js';

const outside = mkdtempSync(join(tmpdir(), 'ecliptic-outside-'));
const repository = new TestRepository();
const { folder } = repository;
const SECRET = `const key = '${SECRETS.github}';\n`;
const ran = join(outside, 'ran');

beforeAll(() => {
  writeFileSync(join(outside, 'key.js'), SECRET);
  const trap = join(outside, 'trap.sh');
  writeFileSync(trap, `#!/bin/sh\ntouch '${ran}'\n`);
  chmodSync(trap, 0o755);
  repository.git('init', '-q');
  repository.write({
    'package.json': JSON.stringify({
      name: 'hostile',
      version: '1.0.0',
      scripts: Object.fromEntries(['test', 'prepare', 'preinstall', 'postinstall'].map((name) => [name, trap])),
    }),
    'deep/a.js': 'export {};\n',
    'line\nbreak\u001b[31m`|<b>.js': SECRET,
    'long.js': `const a = "${'a'.repeat(300_000)}";\n`,
    'quotes.js': '`'.repeat(100_000),
    'braces.js': '`${'.repeat(50_000),
    'imports.js': `${'import a, {'.repeat(20_000)}\n`,
    'passwords.txt': `${'password'.repeat(20_000)}\n${'secret: "'.repeat(20_000)}\n`,
    'urls.txt': 'https://a:'.repeat(30_000),
    'deep.json': `${'['.repeat(100_000)}`,
    'bomb.yaml': `a: &a [x, x]\n${Array.from({ length: 30 }, (_, n) => `b${n}: &b${n} [*${n === 0 ? 'a' : `b${n - 1}`}, *${n === 0 ? 'a' : `b${n - 1}`}]`).join('\n')}\n`,
    ...Object.fromEntries([1, 2, 3].map((n) => [`nested/${n}.yaml`, '? '.repeat(20_000)])),
    'slow.schema.json': JSON.stringify({ properties: { a: { pattern: '^(a+)+$' } } }),
    'slow.json': JSON.stringify({ $schema: './slow.schema.json', a: `${'a'.repeat(60)}!` }),
    'junit.xml': `<testsuites><testcase name="${'<'.repeat(50_000)}`,
    '.gitattributes': '* filter=trap diff=trap\n',
  });
  repository.commit('first');
  // Git itself takes too long for these.
  repository.write({
    'stars/.gitignore': `${'*a'.repeat(16)}*b\n${'**/'.repeat(20_000)}x\n${'**/*a/'.repeat(100)}b\n`,
    [`stars/${'a'.repeat(100)}.txt`]: 'a\n',
  });
  for (const [name, value] of Object.entries({
    'core.fsmonitor': trap,
    'core.pager': trap,
    'core.sshCommand': trap,
    'diff.external': trap,
    'diff.trap.textconv': trap,
    'filter.trap.clean': trap,
    'filter.trap.smudge': trap,
    'gpg.program': trap,
    'log.showSignature': 'true',
  }))
    repository.git('config', name, value);
  symlinkSync(outside, join(folder, 'escape'));
  symlinkSync(join(outside, 'key.js'), join(folder, 'key.js'));
  symlinkSync('..', join(folder, 'deep', 'loop'));
  symlinkSync('self', join(folder, 'self'));
  writeFileSync(join(folder, 'huge.js'), Buffer.alloc(3 * 1_048_576, 'a'));
  writeFileSync(join(folder, 'binary.js'), Buffer.from([0, 1, 2, ...Buffer.from(SECRET)]));
  writeFileSync(join(folder, Buffer.from([0x62, 0xff, 0x2e, 0x6a, 0x73]).toString('latin1')), 'export {};\n');
  if (process.platform !== 'win32') execFileSync('mkfifo', [join(folder, 'pipe.js')]);
  mkdirSync(join(folder, 'locked'), { mode: 0o000 });
});

afterAll(() => {
  chmodSync(join(folder, 'locked'), 0o755);
  repository.remove();
  rmSync(outside, { recursive: true, force: true });
});

describe('a hostile repository', () => {
  it('makes a review neither run its programs, leave its folder, nor hang [RT.6]', { timeout: 120_000 }, async () => {
    const report = await reviewRepository(folder, { runTests: false, since: undefined });
    expect(report.parts.filter(({ failed }) => failed !== undefined)).toEqual([]);
    expect(report.findings).toContainEqual(
      expect.objectContaining({ file: 'slow.json', message: expect.stringContaining('not checked: the patterns') }),
    );
    const missing = { ...report, findings: [], counts: { info: 0, low: 0, medium: 0, high: 0, critical: 0 } };
    missing.parts = report.parts.map((part) => (part.agent === 'mercury' ? { ...part, failed: 'too late' } : part));
    expect(reviewText(missing)).toMatch(/: incomplete: MERCURY did not finish$/);
    const found = report.findings.filter(({ rule }) => rule.startsWith('secret/'));
    expect(report.findings).toContainEqual(
      expect.objectContaining({ file: 'nested/1.yaml', message: 'nested too deeply to be read' }),
    );
    expect(found.map(({ file }) => file)).toEqual(['line\nbreak\u001b[31m`|<b>.js']);
    expect(report.skipped).toMatchObject({ links: 4, tooLarge: 1, binary: 1 });
    // Since a revision, files are compared with what git stores.
    const since = await reviewRepository(folder, { runTests: false, since: 'HEAD' });
    expect(since.parts.filter(({ failed }) => failed !== undefined)).toEqual([]);
    expect(existsSync(ran)).toBe(false);

    // biome-ignore lint/suspicious/noControlCharactersInRegex: the terminal must not get them
    const control = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/;
    expect(reviewText(report)).not.toMatch(control);
    expect(reviewMarkdown(report)).not.toMatch(control);
    expect(reviewText(report)).toContain('line\\u000abreak\\u001b[31m`|<b>.js:1');
    expect(reviewMarkdown(report)).toContain('``line\\u000abreak\\u001b[31m`\\|<b>.js:1``');
    expect(JSON.stringify(reviewSarif(report))).toContain('line%0Abreak%1B%5B31m%60%7C%3Cb%3E.js');
  });

  it('cannot be searched for longer than the limit, whatever the expression [RT.6]', async () => {
    const runtime = systemRuntime();
    const children = await Children.open(runtime);
    const processes = new ToolProcesses({ runtime, children, timeoutMs: 1_500 });
    const args = { pattern: '^(a|a|aa)+$', regex: true, limit: 10 };
    repository.write({ 'aaaa.txt': `${'a'.repeat(60)}b\n` });
    const search = processes.run({ tool: 'uranus.search', folder, args: { ...args, path: 'aaaa.txt' } });
    await expect(search).rejects.toMatchObject({ code: 'REQUEST_TIMEOUT' });
    const cancelled = new AbortController();
    const other = processes.run({ tool: 'uranus.search', folder, args }, cancelled.signal);
    cancelled.abort(new Error('enough'));
    await expect(other).rejects.toThrow('enough');
    await processes.close();
    await children.close();
  });

  it('ends the process of one tool at most, with a reason [RT.6]', async () => {
    const runtime = systemRuntime();
    const children = await Children.open(runtime);
    const processes = new ToolProcesses({ runtime, children });
    const kill = (signal: NodeJS.Signals) => {
      const start = vi.spyOn(children, 'start').mockImplementationOnce(async (program) => {
        start.mockRestore();
        const child = await children.start(program);
        process.kill(child.pid, signal);
        return child;
      });
    };
    kill('SIGABRT');
    const call = { tool: 'uranus.outline', folder, args: { path: 'deep' } };
    await expect(processes.run(call)).rejects.toMatchObject({
      code: 'HANDLER_FAILED',
      message: expect.stringMatching(/uranus\.outline failed: .*SIGABRT/),
    });
    await expect(processes.run(call)).resolves.toMatchObject({ tool: 'uranus.outline' });
    expect(children.size).toBe(0);
    await processes.close();
    await children.close();
  });

  it('is read within the limits of files and folders [RT.6]', () => {
    const names = (args: object) => () =>
      runTool({ tool: 'mercury.validate', folder, args: { ...args } as Record<string, unknown> });
    for (const file of ['key.js', 'escape/key.js', 'deep/loop/key.js', '../outside.json', 'a\0b.json']) {
      expect(names({ file }), file).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENTS' }));
    }
    expect(names({ file: 'huge.json' })).toThrow(expect.objectContaining({ code: 'RESOURCE_NOT_FOUND' }));
    expect(() => runTool({ tool: 'enceladus.secrets', folder: join(folder, 'nowhere'), args: {} })).toThrow(
      expect.objectContaining({ code: 'RESOURCE_NOT_FOUND' }),
    );
  });

  it('does not lead to the history of another repository [RT.6]', () => {
    const shown = (at: string) => JSON.stringify(runTool({ tool: 'neptune.history', folder: at, args: {} }));
    const own = new TestRepository({ 'README.md': 'own\n' });
    own.git('init', '-q');
    own.commit();
    const worktree = join(outside, 'worktree');
    own.git('worktree', 'add', '-q', worktree);
    expect(shown(own.folder)).toContain('read 1 commit');
    expect(shown(worktree)).toContain('read 1 commit');
    const byFile = new TestRepository({ 'README.md': 'x\n', '.git': `gitdir: ${join(own.folder, '.git')}\n` });
    const byLink = new TestRepository({ 'README.md': 'x\n' });
    symlinkSync(join(own.folder, '.git'), join(byLink.folder, '.git'));
    const byCommonFolder = new TestRepository({ 'README.md': 'x\n' });
    byCommonFolder.git('init', '-q');
    byCommonFolder.write({ '.git/commondir': join(own.folder, '.git') });
    for (const one of [byFile, byLink, byCommonFolder]) expect(shown(one.folder)).toContain('no history');
    for (const one of [own, byFile, byLink, byCommonFolder]) one.remove();
  });
});
