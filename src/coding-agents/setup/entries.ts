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
  // A key may be written with quotes.
  const keys = table.split('.').map((key) => `(?:${key}|"${key}"|'${key}')`);
  const spaced = keys.join('\\s*\\.\\s*');
  return {
    set(text = '', server) {
      const eol = text.includes('\r\n') ? '\r\n' : '\n';
      const block = [header, ...lines(server), ''].join(eol);
      const found = place(text);
      if (found) return text.slice(0, found.start) + block + text.slice(found.end);
      assertFree(statementsOf(text));
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
    const statements = statementsOf(text);
    const start = new RegExp(`^[ \\t]*\\[[ \\t]*${spaced}[ \\t]*\\][ \\t]*(?:#.*)?\\r?$`, 'm').exec(statements)?.index;
    if (start === undefined) return undefined;
    const lineEnd = statements.indexOf('\n', start);
    const next = lineEnd < 0 ? -1 : statements.slice(lineEnd + 1).search(/^[ \t]*\[/m);
    return { start, end: next < 0 ? text.length : lineEnd + 1 + next };
  }

  /** TOML can write the same table inline, with dotted keys or as a list; such a file is left unchanged. */
  function assertFree(statements: string): void {
    const [parent, ...own] = keys;
    const name = own.join('\\s*\\.\\s*');
    const [above = '', ...tables] = `\n${statements}`.split(/^(?=[ \t]*\[)/m);
    const inParent = tables.filter((one) => new RegExp(`^[ \\t]*\\[[ \\t]*${parent}[ \\t]*\\]`).test(one));
    const isTaken =
      new RegExp(`^[ \\t]*${parent}[ \\t]*[.=]`, 'm').test(above) ||
      new RegExp(`^[ \\t]*\\[\\[[ \\t]*(?:${parent}|${spaced})[ \\t]*\\]\\]`, 'm').test(statements) ||
      inParent.some((one) => new RegExp(`^[ \\t]*${name}[ \\t]*[.=]`, 'm').test(one));
    if (!isTaken) return;
    throw invalid(`it has ${table.split('.')[0]} in a form that is not changed here; add ${header} by hand`);
  }
}

/** The text of a TOML file with spaces for what is within its lists, inline tables and long texts: no line there is a statement. */
function statementsOf(text: string): string {
  const pattern =
    /"""(?:\\[\s\S]|[^\\])*?"{3,5}|'''[\s\S]*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|#[^\n]*|[[{]|[\]}]|\n/g;
  let blank = '';
  let from = 0;
  let depth = 0;
  let isHeader = isHeaderAt(text, 0);
  const keep = (to: number, isHidden: boolean) => {
    const part = text.slice(from, to);
    blank += isHidden ? part.replace(/[^\r\n]/g, ' ') : part;
    from = to;
  };
  for (const { 0: token, index } of text.matchAll(pattern)) {
    keep(index, depth > 0);
    const end = index + token.length;
    if (token === '\n') {
      keep(end, false);
      if (depth === 0) isHeader = isHeaderAt(text, end);
    } else if (isHeader) keep(end, false);
    else if (/^[[{]/.test(token)) {
      keep(end, depth > 0);
      depth++;
    } else if (/^[\]}]/.test(token)) {
      depth = Math.max(0, depth - 1);
      keep(end, depth > 0);
    } else keep(end, depth > 0 || /^("""|''')/.test(token));
  }
  keep(text.length, depth > 0);
  return blank;
}

function isHeaderAt(text: string, at: number): boolean {
  return /[ \t]*\[/y.test(text.slice(at, at + 200));
}

export function invalid(message: string): EclipticError {
  return new EclipticError('INVALID_CONFIG', message);
}
