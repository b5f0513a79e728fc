import { readFileSync } from 'node:fs';

const CONTRACT = new URL('../../docs/contract.md', import.meta.url);

/** One guarantee, and what its row names as proof. */
export interface Guarantee {
  readonly subject: string;
  /** Test files, and folders of them. */
  readonly paths: readonly string[];
  /** Parts of the evidence, cited as `npm run NAME`. */
  readonly parts: readonly string[];
}

export function guarantees(page = readFileSync(CONTRACT, 'utf8')): Guarantee[] {
  const table = page.slice(0, page.indexOf('\n## '));
  return table
    .split('\n')
    .filter((line) => line.startsWith('| ') && !line.startsWith('| subject |'))
    .map((line) => {
      const [subject, , proof] = line.slice(2, -2).split(' | ');
      const cited = [...proof!.matchAll(/`([^`]+)`/g)].map(([, text]) => text!);
      const commands = cited.filter((text) => text.startsWith('npm run '));
      return {
        subject: subject!,
        paths: cited.filter((text) => !commands.includes(text)),
        parts: commands.map((text) => text.slice('npm run '.length)),
      };
    });
}

/** Every path that is cited, but for those inside another one. */
export function citedPaths(rows: readonly Guarantee[] = guarantees()): string[] {
  const all = [...new Set(rows.flatMap(({ paths }) => paths))].sort();
  return all.filter((path) => !all.some((other) => other !== path && other.endsWith('/') && path.startsWith(other)));
}
