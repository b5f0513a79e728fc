import { type ParseError, parse, printParseErrorCode } from 'jsonc-parser';
import { EclipticError } from '../../runtime/errors.js';
import type { Entry, ServerCommand } from './client.js';
import { editJson } from './json-edit.js';

/** An entry in a JSON file, with or without comments. Everything else in the file stays as it is, to the byte. */
export function jsonEntry(path: readonly string[], value: (server: ServerCommand) => object): Entry {
  return {
    set(text, server) {
      const wanted = value(server);
      if (text === undefined || text.trim() === '') return `${JSON.stringify(nested(path, wanted), null, 2)}\n`;
      const document = readJson(text);
      const present = path.reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], document);
      if (JSON.stringify(present) === JSON.stringify(wanted)) return text;
      return editJson(text, [...path], wanted);
    },
    remove(text) {
      readJson(text);
      return editJson(text, [...path], undefined);
    },
  };
}

/** The object in a JSON file, with or without comments; says what is wrong with one that has none. */
export function readJson(text: string): object {
  const errors: ParseError[] = [];
  const document: unknown = parse(text, errors, { allowTrailingComma: true });
  const [fault] = errors;
  if (!fault && typeof document === 'object' && document !== null && !Array.isArray(document)) return document;
  const line = text.slice(0, fault?.offset ?? 0).split('\n').length;
  const what = fault ? `${printParseErrorCode(fault.error)} in line ${line}` : 'it holds no object';
  throw new EclipticError('INVALID_CONFIG', `it is not valid JSON (${what}); correct it first`);
}

function nested(path: readonly string[], value: unknown): unknown {
  return path.reduceRight((inner, key) => ({ [key]: inner }), value);
}
