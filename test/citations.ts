import { sourceFiles } from './source-files.js';

/** A test's title with the ids it proves at its end: `it('stores the card [R1.1 P1]', …)`, also after `it.each(…)`. */
const TITLE = /\(\s*(['"`])(?:\\.|(?!\1)[^\\\n])*\[([A-Z][\w.-]*(?: [A-Z][\w.-]*)*)\]\1\s*,/g;

/** Which test files cite each requirement. */
export function citations(): Map<string, string[]> {
  const cited = new Map<string, string[]>();
  for (const { path, text } of [...sourceFiles('src'), ...sourceFiles('test')]) {
    if (!path.endsWith('.test.ts')) continue;
    for (const [, , ids] of text.matchAll(TITLE)) {
      for (const id of ids!.split(' ')) cited.set(id, [...(cited.get(id) ?? []), path]);
    }
  }
  return cited;
}
