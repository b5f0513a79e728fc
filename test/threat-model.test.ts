import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { citations } from './citations.js';
import { requirements } from './requirements.js';
import { ROOT } from './source-files.js';

const text = readFileSync(join(ROOT, 'docs', 'threat-model.md'), 'utf8');
/** The last cell of each row about what an actor may and may not do. */
const rows = [...text.matchAll(/^\|[^|\n]*\|[^|\n]*\| ([A-Z][\w. -]*) \|$/gm)].map(([, ids]) => ids!.split(' '));
const inText = [...text.matchAll(/\(([A-Z][A-Z0-9]*[-.]?[\w.-]*\d(?: [A-Z][A-Z0-9]*[-.]?[\w.-]*\d)*)\)/g)].map(
  ([, ids]) => ids!.split(' '),
);

it('the threat model cites, for each thing that an actor may not do, requirements that tests prove [HX.4]', () => {
  expect(rows.length).toBeGreaterThan(30);
  expect(inText.length).toBeGreaterThan(2);
  const known = new Set(requirements.filter(({ planned }) => !planned).map(({ id }) => id));
  const cited = citations();
  const wrong = [...rows, ...inText].flat().filter((id) => !known.has(id) || !cited.has(id));
  expect(wrong).toEqual([]);
});

it('each trial of security and faults has a requirement with tests of its own [HX.4]', () => {
  const cited = citations();
  const trials = [...Array.from({ length: 15 }, (_, index) => `T-F${index + 1}`), 'T-G4'];
  expect(trials.filter((id) => !cited.has(id))).toEqual([]);
});
