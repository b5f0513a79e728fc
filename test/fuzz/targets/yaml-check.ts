import { reviewData, validateFile } from '../../../src/roster/tools/data-files.js';
import { type FuzzTarget, must } from '../fuzz-target.js';

const schema = {
  type: 'object',
  properties: { a: { type: 'string', pattern: '^(a+)+$' } },
  additionalProperties: { type: ['number', 'array'] },
};

/** Files that a review reads: findings have a place in the file, and bombs end soon. */
export const target: FuzzTarget = {
  name: 'yaml-check',
  about: 'YAML and JSON files of a repository',
  seeds: [
    'a: aaaaaaaaaaaaaaaaaaaaaaaaaab\nb: [1, 2]\n',
    'a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n',
    'name: ci\non: push\njobs:\n  t:\n    runs-on: x\n    steps:\n      - run: echo $a\n',
    '{"a": "b", "a": 1, /* c */}',
    'x: |\n  y\n? [k]\n: v\n!!set {a, b}\n',
  ],
  words: ['&a ', '*a', '<<: *a', '!!', '? ', '- ', '|\n', '[[', '{{', '---\n', '"', '%YAML'],
  maxBytes: 2_048,
  maxMs: 400,
  run(input) {
    const text = input.toString('utf8');
    for (const path of ['a.yaml', '.github/workflows/ci.yml', 'tsconfig.json', 'a.json']) {
      const file = { path, text };
      const lines = text.split('\n').length;
      const findings = [...reviewData([file]), ...validateFile({ file, schema, name: 's' })];
      for (const { line } of findings) {
        must(line === undefined || (line >= 1 && line <= lines), () => `line ${line} of ${lines}`);
      }
    }
  },
};
