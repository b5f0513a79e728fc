import { A2A_LIMITS } from './limits.js';
import {
  type Fields,
  type Place,
  readAnyText,
  readFlag,
  readInteger,
  readList,
  readMetadata,
  readObject,
  readOptionalText,
  readOptionalTimestamp,
  readText,
  readTexts,
  within,
} from './reading.js';

/**
 * Messages of the protocol as tables of their fields, for readers off the hot path. A key is the field's name, then `[]`
 * for a list or `{}` for a map, then its presence:
 * `!` required, and in the canonical text of a card even when empty; `+` required, and in it unless empty;
 * `?` explicit presence: in it when set, to whatever value; `-` no part of it; no mark: in it unless it is the default.
 */
export interface Shape {
  readonly [key: string]: Kind | Read | Shape;
}

/** Texts are named by their limit; `words` may be empty. A `count` is a whole number from 0. */
export type Kind = keyof typeof CHARS | 'flag' | 'json' | 'count' | 'time';

type Read = (from: Fields, name: string, place: Place) => unknown;

export interface Field {
  readonly name: string;
  readonly many: '' | '[]' | '{}';
  readonly presence: '' | '!' | '?' | '+' | '-';
  readonly of: Kind | Read | readonly Field[];
}

const { idChars, nameChars, urlChars, cardTextChars, cardEntries } = A2A_LIMITS;
const CHARS = { id: idChars, name: nameChars, url: urlChars, text: cardTextChars, words: cardTextChars };

export function compile(shape: Shape): readonly Field[] {
  return Object.entries(shape).map(([key, of]) => {
    const [, name, many = '', presence] = /^(\w+)(\[\]|\{\})?([!?+-]?)$/.exec(key)!;
    return { name, many, presence, of: typeof of === 'object' ? compile(of) : of } as Field;
  });
}

/** A reader of parameters with these fields. */
export function reader<T>(shape: Shape): (params: unknown) => T {
  const fields = compile(shape);
  return (params) => readFields(readObject(params, 'params'), fields, '') as T;
}

export function readFields(from: Fields, fields: readonly Field[], place: Place): Fields {
  const read: Record<string, unknown> = {};
  for (const field of fields) {
    const value = readField(from, field, place);
    if (value !== undefined) read[field.name] = value;
  }
  return read;
}

function readField(from: Fields, { name, many, presence, of }: Field, place: Place): unknown {
  const required = presence === '!' || presence === '+';
  if (typeof of === 'function') return of(from, name, place);
  if (typeof of === 'string') {
    if (many === '') return readLeaf(from, name, of, required, place);
    return readTexts(from, name, place, CHARS[of as keyof typeof CHARS], cardEntries) ?? (required ? [] : undefined);
  }
  const value = from[name] ?? undefined;
  if (value === undefined && !required) return undefined;
  const at = within(place, name);
  const one = (entry: unknown, where: Place) => readFields(readObject(entry, where), of, where);
  if (many === '') return one(value ?? {}, at);
  if (many === '{}') {
    const entries = Object.entries(readObject(value ?? {}, at));
    return Object.fromEntries(entries.map(([key, entry]) => [key, one(entry, within(at, key))]));
  }
  const list = readList(value ?? [], at, cardEntries).map((entry, index) => one(entry, [at, index]));
  // In ProtoJSON an empty list is one that is not set.
  return list.length > 0 || required ? list : undefined;
}

function readLeaf(from: Fields, name: string, kind: Kind, required: boolean, place: Place): unknown {
  switch (kind) {
    case 'flag':
      return readFlag(from, name, place);
    case 'json':
      return readMetadata(from, name, place);
    case 'count':
      return readInteger(from, name, place, 0);
    case 'time':
      return readOptionalTimestamp(from[name], within(place, name));
  }
  if (!required) return readOptionalText(from, name, place, CHARS[kind]);
  if (kind !== 'words') return readText(from, name, place, CHARS[kind]);
  return from[name] === undefined || from[name] === null ? '' : readAnyText(from, name, place, CHARS[kind]);
}
