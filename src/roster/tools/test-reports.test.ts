import { describe, expect, it } from 'vitest';
import { failuresOf, readTestReport } from './test-reports.js';

const files = ['src/sum.test.ts', 'tests/test_sum.py', 'pkg/sum_test.go', 'test/sum.js'].map((path) => ({
  path,
  text: '',
}));
const lines = (...text: string[]) => text.join('\n');

const REPORTS: Readonly<Record<string, { text: string; counts: readonly [number, number, number]; places: string[] }>> =
  {
    junit: {
      text: lines(
        '<?xml version="1.0"?>',
        '<testsuites><testsuite name="s">',
        '<testcase classname="sum" name="adds &amp; carries" time="0.1"/>',
        '<testcase name="skipped"><skipped/></testcase>',
        '<testcase name="fails" file="tests/test_sum.py" line="12"><failure message="1 > 2">&b;</failure></testcase>',
        '</testsuite></testsuites>',
      ),
      counts: [1, 1, 1],
      places: ['tests/test_sum.py:12'],
    },
    tap: {
      text: lines(
        'TAP version 13',
        'ok 1 - adds',
        'ok 2 - later # SKIP no network',
        '# Subtest: group',
        '    not ok 1 - fails',
        '      ---',
        "      error: 'Expected 1'",
        "      location: '/elsewhere/repo/test/sum.js:9:3'",
        '      ...',
        'not ok 3 - group',
        '  ---',
        "  failureType: 'subtestsFailed'",
        '  ...',
      ),
      counts: [1, 1, 1],
      places: ['test/sum.js:9'],
    },
    vitest: {
      text: lines(
        ' RUN  v4.1.12 /repo',
        ' FAIL  src/sum.test.ts > sum > adds',
        'AssertionError: expected 1 to be 2',
        ' ❯ src/sum.test.ts:5:20',
        '⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[1/1]⎯',
        ' Test Files  1 failed (1)',
        '      Tests  1 failed | 3 passed | 1 skipped (5)',
      ),
      counts: [3, 1, 1],
      places: ['src/sum.test.ts:5'],
    },
    jest: {
      text: JSON.stringify({
        numTotalTests: 3,
        testResults: [
          {
            name: '/repo/src/sum.test.ts',
            assertionResults: [
              { status: 'passed', fullName: 'a' },
              { status: 'pending', fullName: 'b' },
              {
                status: 'failed',
                fullName: 'c',
                failureMessages: ['Error: no\n at x (/repo/node_modules/j/a.js:1:1)\n at /repo/src/sum.test.ts:8:2'],
              },
            ],
          },
        ],
      }),
      counts: [1, 1, 1],
      places: ['src/sum.test.ts:8'],
    },
    pytest: {
      text: lines(
        '============ test session starts ============',
        '__________ test_adds __________',
        '>       assert 1 == 2',
        'E       assert 1 == 2',
        'tests/test_sum.py:4: AssertionError',
        '=========== short test summary info ===========',
        'FAILED tests/test_sum.py::test_adds - assert 1 == 2',
        '====== 1 failed, 2 passed, 1 skipped in 0.02s ======',
      ),
      counts: [2, 1, 1],
      places: ['tests/test_sum.py:4'],
    },
    go: {
      text: lines(
        '--- PASS: TestA (0.00s)',
        '--- FAIL: TestSum (0.00s)',
        '    --- FAIL: TestSum/carry (0.00s)',
        '        sum_test.go:14: got 1, want 2',
        '--- SKIP: TestB (0.00s)',
        'FAIL\texample/pkg\t0.01s',
      ),
      counts: [1, 1, 1],
      places: ['pkg/sum_test.go:14'],
    },
  };

describe('a report of tests', () => {
  it.each(Object.entries(REPORTS))(
    'in the format of %s is recognised, counted and placed [RT.3]',
    (format, expected) => {
      const report = readTestReport(expected.text);
      expect(report.format).toBe(format);
      expect([report.passed, report.failed, report.skipped]).toEqual(expected.counts);
      const findings = failuresOf(report, '/repo', 'report.xml', files);
      expect(findings.map(({ file, line }) => `${file}:${line}`)).toEqual(expected.places);
      expect(findings.every(({ rule, evidence }) => rule === 'test/failed' && evidence !== '')).toBe(true);
    },
  );

  it('reads events of go and the words of jest [RT.3]', () => {
    const events = [
      { Action: 'run', Package: 'p', Test: 'TestSum' },
      { Action: 'output', Package: 'p', Test: 'TestSum', Output: '    sum_test.go:3: bad\n' },
      { Action: 'fail', Package: 'p', Test: 'TestSum' },
      { Action: 'pass', Package: 'p', Test: 'TestOk' },
    ];
    const go = readTestReport(events.map((event) => JSON.stringify(event)).join('\n'));
    expect(go).toMatchObject({ format: 'go', passed: 1, failed: 1, failures: [{ name: 'TestSum', message: 'bad' }] });
    const jest = readTestReport(
      lines(
        'FAIL src/sum.test.ts',
        '  ● sum › adds',
        '',
        '    expect(1).toBe(2)',
        '',
        '      at src/sum.test.ts:6:1',
        '',
        'Tests:       1 failed, 2 passed, 3 total',
      ),
    );
    expect(jest).toMatchObject({ format: 'jest', passed: 2, failed: 1, failures: [{ place: { line: 6 } }] });
  });

  it('is refused where the text is something else [RT.3]', () => {
    expect(() => readTestReport('<html></html>')).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENTS' }));
    expect(() => readTestReport('')).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENTS' }));
  });
});
