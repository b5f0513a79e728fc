import { afterAll, describe, expect, it } from 'vitest';
import type { Finding } from '../../src/roster/tools/finding.js';
import type { ToolReport } from '../../src/roster/tools/tool-report.js';
import { runTool } from '../../src/roster/tools/tools.js';
import { ROOT } from '../source-files.js';
import { labels } from './labels.js';
import { EXPECTED, FIXTURE, SECRETS, TestRepository } from './repository.js';

const repository = new TestRepository(FIXTURE);
afterAll(() => repository.remove());

const REVIEW = [
  'enceladus.secrets',
  'jupiter.imports',
  'neptune.history',
  'uranus.leftovers',
  'mercury.validate',
  'saturn.report',
];
const { folder } = repository;
const review = (place: string): ToolReport[] => REVIEW.map((tool) => runTool({ tool, folder: place, args: {} }));
const shown = ({ rule, file, line }: Finding) => `${rule} ${file}:${line}`;

describe('the tools of the roster', () => {
  const reports = review(folder);
  const findings = reports.flatMap((report) => report.findings);

  it('find all that is wrong in a fixture, and nothing that only looks wrong [RT.1]', () => {
    expect(findings.map(shown).sort()).toEqual([...EXPECTED].sort());
  });

  it('say the agent, and evidence without the secret, of each finding [RT.1]', () => {
    for (const { agent, rule, evidence, message, line } of findings) {
      expect({ agent, evidence, message, line }, rule).toEqual({
        agent: expect.stringMatching(/^(enceladus|jupiter|uranus|mercury|saturn)$/),
        evidence: expect.stringMatching(/\S/),
        message: expect.stringMatching(/\S/),
        line: expect.any(Number),
      });
    }
    const text = JSON.stringify(reports);
    for (const secret of [SECRETS.github, SECRETS.aws, SECRETS.assigned, SECRETS.password, SECRETS.body]) {
      expect(text).not.toContain(secret);
      expect(text).not.toContain(secret.slice(4, 14));
    }
  });

  it('find in pinned packages what their labels say, and nothing else [RT.2]', () => {
    for (const { name, version, findings: expected } of labels) {
      const found = review(`${ROOT}/node_modules/${name}`).flatMap((report) => report.findings);
      const seen = found.filter(({ severity }) => severity !== 'info').map(shown);
      expect(seen.sort(), `${name}@${version}`).toEqual(expected.map(({ finding }) => finding).sort());
    }
  });

  it('read the history of git: churn, ownership and hot spots [RT.1]', () => {
    const busy = new TestRepository({ 'src/busy.js': `${'x;\n'.repeat(400)}` });
    try {
      busy.git('init', '-q');
      for (let change = 0; change < 21; change++) {
        busy.write({ 'src/busy.js': `${'x;\n'.repeat(400)}// ${change}\n` });
        busy.commit();
      }
      const { findings: hot, facts, summary } = runTool({ tool: 'neptune.history', folder: busy.folder, args: {} });
      expect(hot.map(shown)).toEqual(['history/hot-spot src/busy.js:1']);
      expect(hot[0]).toMatchObject({
        severity: 'info',
        message: expect.stringContaining('21 of the latest 21 commits'),
      });
      expect(facts.mostChanged).toMatchObject([{ file: 'src/busy.js', commits: 21, authors: [['Ada', 21]] }]);
      expect(summary).toContain('read 21 commits by 1 author:');
    } finally {
      busy.remove();
    }
  });

  it('follow imports between scripts of Python in one folder [RT.1]', () => {
    const scripts = new TestRepository({ 'bin/x.py': 'from y import f\n', 'bin/y.py': 'import x\n' });
    try {
      const { findings: cycles } = runTool({ tool: 'jupiter.imports', folder: scripts.folder, args: {} });
      expect(cycles.map(shown)).toEqual(['import/cycle bin/x.py:1']);
    } finally {
      scripts.remove();
    }
  });

  it('search lines and list symbols [RT.1]', () => {
    const search = (args: object) =>
      runTool({ tool: 'uranus.search', folder, args: { limit: 10, ...args } }).facts.hits;
    expect(search({ pattern: 'Values.a' })).toEqual([
      { file: 'data/template.yaml', line: 1, text: 'a: {{ .Values.a }}' },
    ]);
    expect(search({ pattern: '^DB_\\w+=', regex: true, path: 'deploy' })).toMatchObject([
      { file: 'deploy/prod.env', line: 1 },
    ]);
    expect(search({ pattern: 'no such text' })).toEqual([]);
    const { facts } = runTool({ tool: 'uranus.outline', folder, args: { path: 'src/stop.js' } });
    expect(facts.symbols).toEqual([{ kind: 'function', name: 'f', file: 'src/stop.js', line: 1, exported: true }]);
  });

  it('validate one file by the schema that the caller names, within the workspace [RT.1]', () => {
    const validate = (file: string, schema: string) =>
      runTool({ tool: 'mercury.validate', folder, args: { file, schema } }).findings.map(({ message }) => message);
    expect(validate('data/valid.json', 'data/schema.json')).toEqual([]);
    expect(validate('data/commented.json', 'data/schema.json')).toEqual([
      'a: this is not allowed here (by data/schema.json)',
    ]);
    for (const outside of ['../x.json', '/etc/passwd']) {
      expect(() => validate(outside, 'data/schema.json')).toThrow(
        expect.objectContaining({ code: 'INVALID_ARGUMENTS' }),
      );
    }
  });
});
