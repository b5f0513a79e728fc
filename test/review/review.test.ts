import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ReviewReport } from '../../src/roster/review/review-report.js';
import { ROOT } from '../source-files.js';
import { EXPECTED, FIXTURE, SECRETS, TestRepository } from './repository.js';

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const repository = new TestRepository(FIXTURE);
const clean = new TestRepository({
  'package.json': '{ "name": "clean", "version": "1.0.0", "main": "index.js" }\n',
  'index.js': "import { b } from './lib/b.js';\nexport const a = b;\n",
  'lib/b.js': 'export const b = 1;\n',
  'test/b.test.js': "import '../lib/b.js';\nit('is one', () => {});\n",
  '.github/workflows/ci.yml':
    'on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n      - run: npm test\n',
});

beforeAll(() => {
  for (const one of [repository, clean]) {
    one.git('init', '-q', '-b', 'main');
    one.commit();
  }
});
afterAll(() => {
  repository.remove();
  clean.remove();
});

/** The built program, with a home of its own. */
async function review(...args: string[]): Promise<Ended> {
  const env = { PATH: process.env.PATH, HOME: clean.folder, ECLIPTIC_DATA: join(clean.folder, '.git', 'no-data') };
  const options = { cwd: repository.folder, env, maxBuffer: 1 << 26 };
  return promisify(execFile)(process.execPath, [join(ROOT, 'bin', 'ecliptic'), 'review', ...args], options).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error: Ended) => error,
  );
}

describe('ecliptic review', { timeout: 120_000 }, () => {
  it('reports what the agents of the roster found, in each format, and fails on request [RT.5]', async () => {
    const out = join(repository.folder, '.git', 'out');
    const [json, text, markdown, sarif, strict] = await Promise.all([
      review('--json'),
      review(),
      review('--format', 'markdown', '--out', out),
      review('--format', 'sarif'),
      review('--fail-on', 'high', '--json'),
    ]);
    const report = JSON.parse(json.stdout) as ReviewReport;
    const places = report.findings.map(({ rule, file, line }) => `${rule} ${file}:${line}`);
    expect(places.sort()).toEqual([...EXPECTED].sort());
    expect(report.parts.map(({ agent }) => agent).sort()).toEqual(
      ['enceladus', 'jupiter', 'mercury', 'neptune', 'saturn', 'uranus'].sort(),
    );
    expect([json, text, markdown, sarif, strict].map(({ code }) => code)).toEqual([0, 0, 0, 0, 1]);
    expect(text.stdout).toContain('src/keys.js:1\n  critical: a token of GitHub');
    expect(text.stdout).toMatch(/ENCELADUS +looked for secrets in \d+ files: 10 findings/);
    const document = readFileSync(out, 'utf8');
    expect(document).toContain('**critical** `src/keys.js:1` a token of GitHub');
    const log = JSON.parse(sarif.stdout);
    expect(log).toMatchObject({ version: '2.1.0', runs: [{ tool: { driver: { name: 'ecliptic' } } }] });
    const [{ results, tool }] = log.runs;
    expect(results).toHaveLength(EXPECTED.length);
    for (const { ruleId, ruleIndex, level, locations } of results) {
      expect(tool.driver.rules[ruleIndex].id).toBe(ruleId);
      expect(level).toMatch(/^(error|warning|note)$/);
      expect(locations[0].physicalLocation.region.startLine).toBeGreaterThan(0);
    }
    for (const shown of [json.stdout, text.stdout, document, sarif.stdout]) {
      for (const secret of [SECRETS.github, SECRETS.assigned, SECRETS.body]) expect(shown).not.toContain(secret);
    }
  });

  it('reports nothing about a repository with nothing wrong, and starts no node for it [RT.5]', async () => {
    const { code, stdout } = await review(clean.folder, '--fail-on', 'info', '--json');
    const { findings, parts } = JSON.parse(stdout) as ReviewReport;
    expect({ code, findings, failed: parts.filter(({ failed }) => failed) }).toEqual({
      code: 0,
      findings: [],
      failed: [],
    });
    expect(existsSync(join(clean.folder, '.git', 'no-data'))).toBe(false);
  });

  it('reviews a change alone, committed or not [RT.5]', async () => {
    const changed = new TestRepository({ 'old.js': `const clientSecret = '${SECRETS.assigned}';\nconst a = 1;\n` });
    try {
      changed.git('init', '-q');
      changed.commit();
      const base = changed.git('rev-parse', 'HEAD').trim();
      changed.write({ 'old.js': `const clientSecret = '${SECRETS.assigned}';\nimport './gone.js';\n` });
      changed.commit();
      changed.write({ 'new.js': 'function f() {\n  debugger;\n}\n' });
      const { stdout } = await review(changed.folder, '--since', base, '--json');
      const { findings } = JSON.parse(stdout) as ReviewReport;
      expect(findings.map(({ file, line, rule }) => `${rule} ${file}:${line}`)).toEqual([
        'import/missing old.js:2',
        'leftover/debugger new.js:2',
      ]);
      const unknown = await review(changed.folder, '--since', 'no-such-branch');
      expect(unknown).toMatchObject({ code: 1, stderr: expect.stringMatching(/^INVALID_ARGUMENTS: .*no-such-branch/) });
      const option = await review(changed.folder, '--since=--output=x');
      expect(option).toMatchObject({ code: 1, stderr: expect.stringMatching(/^INVALID_ARGUMENTS: /) });
    } finally {
      changed.remove();
    }
  });

  it('runs the tests of a repository only where that is asked for [RT.5]', async () => {
    const tested = new TestRepository({
      'package.json': JSON.stringify({ name: 'tested', version: '1.0.0', scripts: { test: 'node run.js' } }),
      'run.js':
        "require('fs').writeFileSync('ran', '');\nconsole.log('TAP version 13\\nok 1 - a\\nnot ok 2 - b\\n  ---\\n  error: \"no\"\\n  location: \"run.js:2:1\"\\n  ...');\nprocess.exitCode = 1;\n",
    });
    try {
      const looked = await review(tested.folder, '--json');
      expect(JSON.parse(looked.stdout).findings).toEqual([]);
      expect(existsSync(join(tested.folder, 'ran'))).toBe(false);
      const ran = await review(tested.folder, '--run-tests', '--json');
      expect(JSON.parse(ran.stdout).findings).toMatchObject([
        { agent: 'saturn', rule: 'test/failed', file: 'run.js', line: 2, evidence: 'no' },
      ]);
      expect(existsSync(join(tested.folder, 'ran'))).toBe(true);
    } finally {
      tested.remove();
    }
  });
});
