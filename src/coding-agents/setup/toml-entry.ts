import { EclipticError } from '../../runtime/errors.js';
import type { Entry, ServerCommand } from './client.js';

/** A table of its own in a TOML file. Everything else in the file stays as it is, to the byte. */
export function tomlEntry(table: string, lines: (server: ServerCommand) => readonly string[]): Entry {
  const header = `[${table}]`;
  return {
    set(text = '', server) {
      const eol = text.includes('\r\n') ? '\r\n' : '\n';
      const block = [header, ...lines(server), ''].join(eol);
      const found = place(text);
      if (found) return text.slice(0, found.start) + block + text.slice(found.end);
      assertFree(text);
      const gap = text === '' ? '' : text.endsWith('\n') ? eol : eol + eol;
      return text + gap + block;
    },
    remove(text) {
      const found = place(text);
      if (!found) return text;
      const before = text.slice(0, found.start).replace(/(\r?\n)\r?\n$/, '$1');
      return before + text.slice(found.end);
    },
  };

  /** Where the table begins, and where the next one does. */
  function place(text: string): { start: number; end: number } | undefined {
    const start = new RegExp(`^[ \\t]*\\[${table.replaceAll('.', '\\s*\\.\\s*')}\\][ \\t]*(?:#.*)?$`, 'm').exec(
      text,
    )?.index;
    if (start === undefined) return undefined;
    const rest = text.slice(start + 1);
    const next = /^[ \t]*\[/m.exec(rest.slice(rest.indexOf('\n') + 1));
    if (rest.indexOf('\n') < 0 || !next) return { start, end: text.length };
    return { start, end: start + 1 + rest.indexOf('\n') + 1 + next.index };
  }

  /** TOML has other ways to say the same; where one of them is used, nothing is changed. */
  function assertFree(text: string): void {
    const [parent] = table.split('.');
    if (new RegExp(`^[ \\t]*(${parent}\\s*=|${table.replaceAll('.', '\\s*\\.\\s*')}\\s*[.=])`, 'm').test(text)) {
      throw new EclipticError(
        'INVALID_CONFIG',
        `it has ${parent} in a form that is not changed here; add ${header} by hand`,
      );
    }
  }
}
