import {
  applyEdits,
  findNodeAtLocation,
  type JSONPath,
  modify,
  type ParseError,
  parse,
  parseTree,
  printParseErrorCode,
} from 'jsonc-parser';
import { EclipticError } from '../../runtime/errors.js';

/** An absolute command, so that no client looks anything up or downloads it. */
export interface ServerCommand {
  readonly command: string;
  readonly args: readonly string[];
}

/** Writes and removes our part of a configuration file. All other bytes of the file stay as they are. */
export interface Entry {
  set(text: string | undefined, server: ServerCommand): string;
  /** Undefined where the file is to be deleted. */
  remove(text: string): string | undefined;
}

/** An entry in a JSON file, with or without comments. */
export function jsonEntry(path: readonly string[], value: (server: ServerCommand) => object): Entry {
  return {
    set(text, server) {
      const wanted = value(server);
      if (text === undefined || text.trim() === '') {
        const document = path.reduceRight<unknown>((inner, key) => ({ [key]: inner }), wanted);
        return `${JSON.stringify(document, null, 2)}\n`;
      }
      const document = readJson(text);
      const present = path.reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], document);
      return JSON.stringify(present) === JSON.stringify(wanted) ? text : editJson(text, [...path], wanted);
    },
    remove(text) {
      readJson(text);
      return editJson(text, [...path], undefined);
    },
  };
}

export interface HooksInit {
  /** The command of this program that a hook runs, and its arguments. */
  readonly words: (event: string) => readonly string[];
  readonly events: readonly string[];
  readonly hook: (command: string) => object;
  /** Fields that a new file begins with. */
  readonly head?: object | undefined;
}

/** This program's hooks in a JSON file, after the hooks of others. */
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
        if (!present) return editJson(before, ['hooks', event], [each]);
        return editJson(before, ['hooks', event, at >= 0 ? at : present.length], each, at < 0);
      }, text);
    },
    remove(text) {
      const without = events.reduce((before, event) => {
        const present = hooksOf(before, event) ?? [];
        const at = present.findIndex(isOurs(event));
        if (at < 0) return before;
        return editJson(before, present.length === 1 ? ['hooks', event] : ['hooks', event, at], undefined);
      }, text);
      const { hooks } = readJson(without) as { hooks?: unknown };
      const empty = without !== text && JSON.stringify(hooks) === '{}';
      return empty ? editJson(without, ['hooks'], undefined) : without;
    },
  };
}

/** The object in a JSON file; the error of a malformed one names the line. */
export function readJson(text: string): object {
  const errors: ParseError[] = [];
  const document: unknown = parse(text, errors, { allowTrailingComma: true });
  const [fault] = errors;
  if (!fault && typeof document === 'object' && document !== null && !Array.isArray(document)) return document;
  const line = text.slice(0, fault?.offset ?? 0).split('\n').length;
  const what = fault ? `${printParseErrorCode(fault.error)} in line ${line}` : 'it holds no object';
  throw invalid(`it is not valid JSON (${what}); correct it first`);
}

function hooksOf(text: string, event: string): unknown[] | undefined {
  const { hooks = {} } = readJson(text) as { hooks?: unknown };
  const isObject = typeof hooks === 'object' && hooks !== null && !Array.isArray(hooks);
  const found = isObject ? (hooks as Record<string, unknown>)[event] : null;
  if (found === undefined || Array.isArray(found)) return found;
  throw invalid(`its "hooks" are not what they should be; enter ${event} by hand`);
}

/** One command line for the shell of the client. */
function hookCommand({ command, args }: ServerCommand, words: readonly string[]): string {
  const [program, ...rest] = args;
  return [command, program!, ...words, ...rest].map(quoted).join(' ');
}

function quoted(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  return process.platform === 'win32' ? `"${word}"` : `'${word.replaceAll("'", "'\\''")}'`;
}

/**
 * Sets the value at a path or, with `undefined`, removes it; `isInsertion` puts an array element before the one there.
 * `modify` with formatting would reformat everything on the same lines, so only the new text is laid out, here.
 */
export function editJson(text: string, path: JSONPath, value: unknown, isInsertion = false): string {
  if (value === undefined) return without(text, path);
  const [edit] = modify(text, path, value, { isArrayInsertion: isInsertion });
  if (!edit) return text;
  const content = laidOut(text, edit.offset, edit.length, edit.content);
  return applyEdits(text, [{ ...edit, content }]);
}

/** `modify` removes too little or too much from arrays on one line, so find the place by the tree. */
function without(text: string, path: JSONPath): string {
  const root = parseTree(text, [], { allowTrailingComma: true });
  const node = root && findNodeAtLocation(root, path);
  const member = node?.parent?.type === 'property' ? node.parent : node;
  const siblings = member?.parent?.children;
  if (!member || !siblings) return text;
  const cut = (from: number, to: number) => text.slice(0, from) + text.slice(to);
  const at = siblings.indexOf(member);
  const [previous, next] = [siblings[at - 1], siblings[at + 1]];
  const end = member.offset + member.length;
  if (previous) return cut(previous.offset + previous.length, end);
  if (next) return cut(member.offset, next.offset);
  const comma = /^\s*,/.exec(text.slice(end))?.[0].length ?? 0;
  return cut(member.parent!.offset + 1, end + comma);
}

/** Uses the indentation and line ends of the file; a one-line object stays on one line. */
function laidOut(text: string, offset: number, length: number, content: string): string {
  const before = text.slice(0, offset);
  const eol = text.includes('\r\n') ? '\r\n' : '\n';
  const [, comma, body, trailing] = /^(,?)([\s\S]*?)(,?)$/.exec(content)!;
  const line = before.slice(before.lastIndexOf('\n') + 1);
  const indent = /^[ \t]*/.exec(line)![0];
  const unit = /^([ \t]+)\S/m.exec(text)?.[1] ?? '  ';
  if (length > 0) return indented(body!, indent, unit, eol);
  const opensHere = /[{[]\s*$/.test(before);
  const spread = opensHere ? before.includes('\n') || text.slice(offset).includes('\n') : opensLine(text, offset);
  if (!spread) return `${comma}${comma ? ' ' : ''}${body}${trailing}`;
  const inner = opensHere ? indent + unit : indent;
  const closes = opensHere && !/^[^\S\n]*\r?\n/.test(text.slice(offset)) && trailing === '' ? eol + indent : '';
  return `${comma}${eol}${inner}${indented(body!, inner, unit, eol)}${trailing}${closes}`;
}

/** Does the member that ends at this offset begin its own line? */
function opensLine(text: string, offset: number): boolean {
  const root = parseTree(text, [], { allowTrailingComma: true });
  const ends = (node: typeof root): typeof root => {
    const inside = node?.children?.map(ends).find((found) => found !== undefined);
    const whole = node && (node.type === 'property' || node.parent?.type === 'array');
    return whole && node.offset + node.length === offset ? node : inside;
  };
  const member = ends(root);
  return member !== undefined && /(^|\n)[ \t]*$/.test(text.slice(0, member.offset));
}

/** Formats `"key":value`, or a value, over several lines. */
function indented(body: string, indent: string, unit: string, eol: string): string {
  const [, key = '', json] = /^("(?:[^"\\]|\\.)*"\s*:\s*)?([\s\S]*)$/.exec(body)!;
  const value = JSON.stringify(JSON.parse(json!), null, unit).replaceAll('\n', `${eol}${indent}`);
  return `${key.replace(/\s*:\s*$/, ': ')}${value}`;
}

/** A table of its own in a TOML file. Edited by hand rather than with a library: see docs/decisions/0050. */
export function tomlEntry(table: string, lines: (server: ServerCommand) => readonly string[]): Entry {
  const header = `[${table}]`;
  const spaced = table.replaceAll('.', '\\s*\\.\\s*');
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

  /** From the table's header to the next header. */
  function place(text: string): { start: number; end: number } | undefined {
    const start = new RegExp(`^[ \\t]*\\[${spaced}\\][ \\t]*(?:#.*)?$`, 'm').exec(text)?.index;
    if (start === undefined) return undefined;
    const rest = text.slice(start + 1);
    const next = /^[ \t]*\[/m.exec(rest.slice(rest.indexOf('\n') + 1));
    if (rest.indexOf('\n') < 0 || !next) return { start, end: text.length };
    return { start, end: start + 1 + rest.indexOf('\n') + 1 + next.index };
  }

  /** TOML can write the same table inline or with dotted keys; such a file is left unchanged. */
  function assertFree(text: string): void {
    const [parent] = table.split('.');
    if (!new RegExp(`^[ \\t]*(${parent}\\s*=|${spaced}\\s*[.=])`, 'm').test(text)) return;
    throw invalid(`it has ${parent} in a form that is not changed here; add ${header} by hand`);
  }
}

export function invalid(message: string): EclipticError {
  return new EclipticError('INVALID_CONFIG', message);
}
