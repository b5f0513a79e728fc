import { sourceFiles } from './source-files.js';

/** Ids in brackets at the end of a test's title: `it('stores the card [R1.1 P1]', …)`. */
const TITLE = /\b(?:it|test|describe)(?:\.\w+)*\s*\(\s*(['"`])((?:\\.|(?!\1)[\s\S])*)\1/g;
const IDS = /\[([A-Z][\w.-]*(?: [A-Z][\w.-]*)*)\]\s*$/;

/** Which test files cite each requirement. */
export function citations(): Map<string, string[]> {
  const cited = new Map<string, string[]>();
  for (const { path, text } of [...sourceFiles('src'), ...sourceFiles('test')]) {
    if (!path.endsWith('.test.ts')) continue;
    for (const [, , title] of text.matchAll(TITLE)) {
      const ids = IDS.exec(title!)?.[1] ?? '';
      for (const id of ids.split(' ').filter(Boolean)) cited.set(id, [...(cited.get(id) ?? []), path]);
    }
  }
  return cited;
}
