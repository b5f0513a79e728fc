import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { SEVERITIES } from '../roster/tools/finding.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import { choice, flag, text, verb } from './command.js';
import { usage } from './output.js';

const FORMATS = ['text', 'markdown', 'json', 'sarif'] as const;

const run = verb({
  summary: 'agents of the roster review a repository between them: offline, without a model, a key or a running node',
  args: ['PATH?'],
  argHelp: [['PATH', 'the folder of the repository (default: this one)']],
  options: {
    since: text('REV', 'only findings on lines that changed since this revision of git'),
    'fail-on': choice(SEVERITIES, 'exit with 1 if there is a finding of this severity or above'),
    format: choice(FORMATS, 'how the report is written (default: text; json with --json)'),
    out: text('FILE', 'write the report into this file'),
    'run-tests': flag('also run the tests, which executes code of the repository'),
  },
  examples: ['', '../other --format markdown --out review.md', '--since main --fail-on high'],
  async run({ words: [path = '.'], values, output }) {
    const { since, 'fail-on': least, out, 'run-tests': runTests } = values;
    const format = values.format ?? (output.json ? 'json' : 'text');
    if (output.json && format !== 'json') throw usage(`--json contradicts --format ${format}`);
    const [{ reviewRepository }, { fails, countText }, { reviewMarkdown, reviewText }, { reviewSarif }] =
      await Promise.all([
        import('./review-swarm.js'),
        import('../roster/review/review-report.js'),
        import('../roster/review/review-text.js'),
        import('../roster/review/review-sarif.js'),
      ]);
    const report = await reviewRepository(resolve(path), { since, runTests: runTests === true });
    const written = {
      text: () => reviewText(report),
      markdown: () => reviewMarkdown(report).trimEnd(),
      json: () => JSON.stringify(report),
      sarif: () => JSON.stringify(reviewSarif(report), null, 2),
    }[format]();
    if (out !== undefined) {
      write(out, `${written}\n`);
      output.value({ report: resolve(out), counts: report.counts }, () => `${countText(report)}; the report is ${out}`);
    } else if (output.json) output.line(JSON.stringify(report));
    else output.line(written);
    if (least !== undefined && fails(report, least)) output.exitCode = 1;
    if (report.parts.some(({ failed }) => failed !== undefined)) output.exitCode = 1;
  },
});

function write(file: string, content: string): void {
  try {
    writeFileSync(file, content);
  } catch (error) {
    throw new EclipticError('USAGE', `${file} cannot be written: ${describeError(error)}`, { file }, error);
  }
}

export const verbs = { run };
