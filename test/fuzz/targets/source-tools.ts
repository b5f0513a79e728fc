import { reviewImports } from '../../../src/roster/tools/imports.js';
import { outlineOf } from '../../../src/roster/tools/outline.js';
import { findSecrets } from '../../../src/roster/tools/secrets.js';
import { findFocusedTests, readTestReport } from '../../../src/roster/tools/test-reports.js';
import { type FuzzTarget, must, unlessRefused } from '../fuzz-target.js';

const NAMES = ['a.ts', 'b.py', 'c.go', 'd.rs', 'e.java', 'f.md', 'g.vue'];

/** Source files and test reports of a repository: the name's number, then the text. */
export const target: FuzzTarget = {
  name: 'source-tools',
  about: 'source files and test reports, as the roster’s tools read them',
  seeds: [
    "\0import { a } from './b.js';\nexport class A { m() { return `x`; } }\nit.only('x', () => {});\n",
    '\x01import os\nfrom .a import b\nclass C:\n  def f(self): pass\n',
    '\x02<?xml version="1.0"?><testsuites><testsuite tests="1"><testcase name="a"><failure message="m">t</failure></testcase></testsuite></testsuites>',
    '\x03TAP version 13\n1..1\nnot ok 1 - x\n  ---\n  a: b\n  ...\n',
    '\x04{"testResults":[{"name":"a","assertionResults":[{"status":"failed","title":"t","failureMessages":["m"]}]}],"numTotalTests":1}',
    '\x05{"Action":"fail","Package":"p","Test":"T","Output":"x\\n"}\n',
    '\x06=== FAILURES ===\n___ test_a ___\nE assert\na.py:3: E\n=== 1 failed in 1s ===\n',
    '\0const key = "AKIAIOSFODNN7EXAMPLE"; const t = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";\n',
  ],
  words: [
    'import ',
    ' from ',
    'export ',
    'class ',
    'function ',
    '/*',
    '*/',
    '`',
    '${',
    '<testcase',
    '<![CDATA[',
    ']]>',
    '<!--',
    'not ok 1',
    '=== ',
    'AKIA',
    '-----BEGIN',
  ],
  maxMs: 250,
  run(input) {
    const path = NAMES[(input[0] ?? 0) % NAMES.length]!;
    const file = { path, text: input.subarray(1).toString('utf8') };
    const lines = file.text.split('\n').length;
    for (const { line } of outlineOf(file)) must(line >= 1 && line <= lines, () => `line ${line} of ${lines}`);
    findSecrets([file]);
    findFocusedTests([file]);
    reviewImports('/nowhere', [file, { path: 'b.ts', text: file.text }], () => false);
    unlessRefused(() => readTestReport(file.text));
  },
};
