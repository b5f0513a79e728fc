import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { citedPaths, guarantees } from '../scripts/evidence/contract.js';
import { isGenuine, renderPage } from '../scripts/evidence/page.js';
import { PARTS } from '../scripts/evidence/parts.js';
import type { FileResult, Results } from '../scripts/evidence/results.js';
import { runPart, valuesIn } from '../scripts/evidence/run.js';
import { billOfMaterials, licencePage, packagesOf, refused } from '../scripts/supply/packages.mjs';
import { ROOT, sourceFiles } from './source-files.js';

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const page = read('docs/evidence.md');

interface Bill {
  readonly components: {
    name: string;
    version: string;
    'bom-ref': string;
    hashes?: { alg: string; content: string }[];
  }[];
  readonly dependencies: { ref: string; dependsOn: string[] }[];
}

describe('the evidence page', () => {
  it('has a row for each line of the contract, and each line names tests that exist [EV.1]', () => {
    const rows = guarantees();
    const lines = read('docs/contract.md')
      .split('\n## ')[0]!
      .match(/^\| (?!subject \|)/gm)!;
    expect(rows).toHaveLength(lines.length);
    expect(rows.length).toBeGreaterThan(40);
    const shown = page.slice(0, page.indexOf('\n## The other parts')).match(/^\| (?!subject \|)[^|]+/gm)!;
    expect(shown.map((cell) => cell.slice(2).trim())).toEqual(rows.map(({ subject }) => subject));
    const files = [...sourceFiles('src'), ...sourceFiles('test')].map(({ path }) => path);
    for (const { subject, paths, parts } of rows) {
      expect(paths.length + parts.length, subject).toBeGreaterThan(0);
      for (const path of paths) {
        const tests = files.filter((file) => file.endsWith('.test.ts') && (file === path || file.startsWith(path)));
        expect(tests.length, `${subject}: ${path}`).toBeGreaterThan(0);
      }
      for (const part of parts)
        expect(
          PARTS.map(({ name }) => name),
          subject,
        ).toContain(part);
    }
  });

  it('is what its results give; a figure that was typed by hand shows [EV.2]', () => {
    expect(page).toBe(renderPage(JSON.parse(read('docs/evidence.json'))));
    expect(isGenuine(page)).toBe(true);
    expect(isGenuine(page.replace(/\d/, (digit) => String((Number(digit) + 1) % 10)))).toBe(false);
  });

  it('says of each line what passed, failed or was not run, and how much was tried [EV.2]', () => {
    const rows = guarantees(
      '| subject | guarantee | tests |\n|---|---|---|\n| mail | arrives | `test/mail/`, `npm run simulate` |\n| store | keeps | `src/s.test.ts` |\n| tools | run | `src/t.test.ts` |\n\n## End',
    );
    const file = (more: Partial<FileResult>): FileResult => ({
      ...{ at: '2026-01-02T03:04:05.000Z', commit: 'abc', seconds: 1, passed: 3, skipped: 0, failed: [], tried: [] },
      ...more,
    });
    const seeds = { what: 'seeds', count: 500, first: 1, last: 500 };
    const seed = (number: number) => ({ what: 'seeds', count: 1, first: number, last: number });
    const part = {
      passed: true,
      figures: { seeds: 2_000 },
      failures: [],
      command: 'npm run simulate',
      checks: { store: 7 },
    };
    const results: Results = {
      full: {
        tests: {
          'test/mail/a.test.ts': file({ tried: [seed(700), seeds, seed(501), { what: 'kills', count: 40 }] }),
          'test/mail/b.test.ts': file({ tried: [{ what: 'kills', count: 2 }], skipped: 1 }),
          'src/s.test.ts': file({}),
        },
        parts: { simulate: { ...part, at: '2026-01-03T00:00:00.000Z', commit: 'abd', seconds: 9 } },
      },
      quick: {
        tests: { 'src/s.test.ts': file({ at: '2026-02-02T00:00:00.000Z', failed: ['it breaks'], commit: 'def+' }) },
        parts: {},
      },
    };
    const text = renderPage(results, rows);
    expect(text).toContain(
      '| mail | passed | 6 (1 skipped) | seeds 1–501 700, 42 kills | simulate: seeds 2,000 | full | 2026-01-02 | `abc`, `abd` | `npm run soak -- test/mail/` |',
    );
    expect(text).toContain(
      '| store | **failed** | 3 |  | simulate (full): 7 checks | quick | 2026-02-02 | `def+` | `npx vitest run src/s.test.ts` |',
    );
    expect(text).toMatch(/\| tools \| not run \|/);
    expect(text).toContain('- src/s.test.ts: it breaks');
    expect(citedPaths(rows)).toEqual(['src/s.test.ts', 'src/t.test.ts', 'test/mail/']);
  });
});

describe('a part of the evidence', () => {
  const minutes = { full: 1, quick: 1 };
  const part = (command: string[]) => ({
    ...PARTS[0]!,
    name: 'trial',
    command: { full: command, quick: command },
    minutes,
  });

  it('whose command does not exist, fails or prints no figures has failed [EV.3]', async () => {
    const missing = await runPart(part(['no-such-command']), 'quick', 'abc');
    expect(missing).toMatchObject({ passed: false, failures: ['there is no command "npm run no-such-command"'] });
    const silent = await runPart(part(['requirements']), 'quick', 'abc');
    expect(silent).toMatchObject({
      passed: false,
      figures: {},
      failures: [expect.stringMatching(/^the command printed no/)],
    });
  });

  it('is read from one JSON value, or from one a line [EV.3]', () => {
    expect(valuesIn('{\n "a": 1\n}\n')).toEqual([{ a: 1 }]);
    expect(valuesIn('> building\n{"target":"a"}\n[stray\n{"target":"b"}\n')).toEqual([
      { target: 'a' },
      { target: 'b' },
    ]);
    const fuzz = PARTS.find(({ name }) => name === 'fuzz')!;
    const rows = [
      { target: 'frames', inputs: 10, failures: 0, seconds: 1 },
      { target: 'cards', inputs: 12, failures: 1, seconds: 1 },
    ];
    const found = {
      figures: { targets: 2, 'fewest inputs of a target': 10, 'inputs in all': 22 },
      failures: [expect.any(String)],
    };
    expect(fuzz.read(rows)).toEqual(found);
    expect(fuzz.read([rows])).toEqual(found);
    for (const { read: of } of PARTS) {
      expect(() => of([])).toThrow();
      expect(() => of([[]])).toThrow();
    }
  });
});

describe('the packages of the lock', () => {
  const packages = packagesOf();

  it('are on the page of licences, and each licence is allowed [EV.4]', () => {
    expect(refused(packages)).toEqual([]);
    expect(read('docs/licences.md'), 'npm run sbom').toBe(licencePage(packages));
    const strange = { ...packages[0]!, licence: 'SSPL-1.0' };
    expect(
      refused([strange, { ...strange, licence: '(MIT OR SSPL-1.0)' }, { ...strange, licence: 'MIT AND SSPL-1.0' }]),
    ).toEqual([strange, { ...strange, licence: 'MIT AND SSPL-1.0' }]);
  });

  it('that users get are in the bill of materials, with their digests, and no others but bundled ones [EV.4]', () => {
    const { components, dependencies } = billOfMaterials(packages, ['preact']) as Bill;
    const names = components.map(({ name }) => name);
    expect(names).toEqual(
      expect.arrayContaining([...Object.keys(JSON.parse(read('package.json')).dependencies), 'preact']),
    );
    expect(names).not.toContain('vitest');
    const ws = components.find(({ name }) => name === 'ws')!;
    expect(ws).toMatchObject({ purl: `pkg:npm/ws@${ws.version}`, licenses: [{ license: { id: 'MIT' } }] });
    expect(ws.hashes![0]).toEqual({ alg: 'SHA-512', content: expect.stringMatching(/^[0-9a-f]{128}$/) });
    const refs = new Set(components.map((component) => component['bom-ref']));
    for (const { ref, dependsOn } of dependencies) for (const one of [ref, ...dependsOn]) expect(refs).toContain(one);
  });
});
