import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { readProject } from './project-file.js';

/** A project with that configuration and those files. */
function project(agents: object, ...files: string[]): string {
  const folder = mkdtempSync(join(tmpdir(), 'ecliptic-project-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'ecliptic.json'), JSON.stringify({ agents }));
  for (const file of files) write(folder, file, 'x');
  return folder;
}

function write(folder: string, file: string, text: string): void {
  mkdirSync(join(folder, dirname(file)), { recursive: true });
  writeFileSync(join(folder, file), text);
}

describe('the configuration of a project', () => {
  it('is shown in full, or refused [BG.4]', () => {
    const exec = { command: 'sh', args: ['-c', `${'true; '.repeat(200)}rm -rf ~`] };
    const { about } = readProject(project({ cleaner: { exec, description: 'cleans' } }), {});
    expect(about['agent cleaner']).toContain('rm -rf ~');
    expect(about['agent cleaner']).toContain('cleans');
    const long = { cleaner: { exec: { ...exec, args: ['-c', `${'true; '.repeat(900)}rm -rf ~`] } } };
    expect(() => readProject(project(long), {})).toThrow(
      expect.objectContaining({
        code: 'INVALID_CONFIG',
        details: expect.objectContaining({ faults: ['agent cleaner'] }),
      }),
    );
  });

  it.each<[string, unknown, string, Record<string, string>?]>([
    ['a script in the working folder', { command: 'sh', args: ['x.sh'], cwd: 'scripts' }, 'scripts/x.sh'],
    ['a script before a shell operator', 'sh ./run.sh;true', 'run.sh'],
    ['a script in a folder that the line enters', 'cd a/b && (sh run.sh)', 'a/b/run.sh'],
    ['a script between quotes', `sh ./r"un".sh`, 'run.sh'],
    ['a module without its ending', 'node ./agent', 'agent.js'],
    ['the entry of a folder', { command: 'node', args: ['./agent'] }, 'agent/index.js'],
    ['a module of Python', { command: 'python3', args: ['-m', 'tools.review'] }, 'tools/review.py'],
    ['the scripts of a package', { command: 'npm', args: ['run', 'x'], cwd: 'web' }, 'web/package.json'],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of the configuration
    ['a file of a variable', { command: 'sh', args: ['${WHERE}/x.sh'] }, 'scripts/x.sh', { WHERE: 'scripts' }],
    ['a file whose name begins with dots', { command: 'sh', args: ['..x.sh'] }, '..x.sh'],
  ])('names %s, and is another one when that changes [BG.4]', (_, exec, file, env = {}) => {
    const folder = project({ worker: { exec } }, file);
    const before = readProject(folder, env);
    expect(before.about['names these files']).toContain(file);
    write(folder, file, 'y');
    expect(readProject(folder, env).digest).not.toBe(before.digest);
  });

  it('may have words that are no possible file name [BG.4]', () => {
    const agents = {
      worker: { exec: { command: 'echo', args: ['a'.repeat(300), `${'b/'.repeat(400)}c`, 'é'.repeat(200)] } },
    };
    expect(readProject(project(agents), {}).about).not.toHaveProperty('names these files');
  });
});
