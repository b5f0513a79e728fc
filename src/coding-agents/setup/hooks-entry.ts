import { EclipticError } from '../../runtime/errors.js';
import type { Entry, ServerCommand } from './client.js';
import { editJson } from './json-edit.js';
import { readJson } from './json-entry.js';

export interface HooksInit {
  /** What is called: the command of this program, and its arguments. */
  readonly words: (event: string) => readonly string[];
  readonly events: readonly string[];
  /** How one hook is written. */
  readonly hook: (command: string) => object;
  /** What such a file begins with. */
  readonly head?: object;
}

/** This program's hooks in a JSON file, after those of others, which stay as they are, to the byte. */
export function hooksEntry({ words, events, hook, head = {} }: HooksInit): Entry {
  const isOurs = (event: string) => (each: unknown) =>
    JSON.stringify(each ?? null).includes(` ${words(event).join(' ')}`);
  return {
    set(text, server) {
      const wanted = events.map((event) => [event, hook(hookCommand(server, words(event)))] as const);
      if (text === undefined || text.trim() === '') {
        const hooks = Object.fromEntries(wanted.map(([event, each]) => [event, [each]]));
        return `${JSON.stringify({ ...head, hooks }, null, 2)}\n`;
      }
      return wanted.reduce((before, [event, each]) => {
        const present = hooksOf(before, event);
        const at = present?.findIndex(isOurs(event)) ?? -1;
        if (at >= 0 && JSON.stringify(present![at]) === JSON.stringify(each)) return before;
        if (!present) return edited(before, [event], [each]);
        return edited(before, [event, at >= 0 ? at : present.length], each, at < 0);
      }, text);
    },
    remove(text) {
      const without = events.reduce((before, event) => {
        const present = hooksOf(before, event) ?? [];
        const at = present.findIndex(isOurs(event));
        if (at < 0) return before;
        return edited(before, present.length === 1 ? [event] : [event, at], undefined);
      }, text);
      const { hooks } = readJson(without) as { hooks?: unknown };
      const empty = without !== text && JSON.stringify(hooks) === '{}';
      return empty ? edited(without, [], undefined) : without;
    },
  };
}

function hooksOf(text: string, event: string): unknown[] | undefined {
  const { hooks = {} } = readJson(text) as { hooks?: unknown };
  const isObject = typeof hooks === 'object' && hooks !== null && !Array.isArray(hooks);
  const found = isObject ? (hooks as Record<string, unknown>)[event] : null;
  if (found === undefined || Array.isArray(found)) return found;
  throw new EclipticError('INVALID_CONFIG', `its "hooks" are not what they should be; enter ${event} by hand`);
}

function edited(text: string, path: readonly (string | number)[], value: unknown, isArrayInsertion = false): string {
  return editJson(text, ['hooks', ...path], value, { isArrayInsertion });
}

/** As one line for the shell that the client runs it with. */
function hookCommand({ command, args }: ServerCommand, words: readonly string[]): string {
  const [program, ...rest] = args;
  return [command, program!, ...words, ...rest].map(quoted).join(' ');
}

function quoted(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  return process.platform === 'win32' ? `"${word}"` : `'${word.replaceAll("'", "'\\''")}'`;
}
