import { EclipticError } from '../runtime/errors.js';
import type { Json, SharedDocument } from './document.js';

/** The map that holds each value that is called by one name, without a place of its own. */
const NOTES = 'notes';
/** Names that an error lists. */
const MAX_NAMES = 20;

/** The value at names and places with dots between them; a name with dots in it is found, too. */
export function valueAt(content: Json, path: string): Json {
  const { [NOTES]: notes } = content as { readonly [NOTES]?: Json };
  const isMap = typeof notes === 'object' && notes !== null && !Array.isArray(notes);
  const found = isMap && Object.hasOwn(notes, path) ? (notes as Record<string, Json>)[path] : within(content, path);
  if (found !== undefined) return found;
  const names = [...new Set([...Object.keys(content as object), ...(isMap ? Object.keys(notes) : [])])];
  const more = names.length > MAX_NAMES ? ', …' : '';
  const known =
    names.length === 0 ? 'the document is empty' : `there are: ${names.slice(0, MAX_NAMES).join(', ')}${more}`;
  throw new EclipticError('INVALID_ARGUMENTS', `there is nothing at "${path}"; ${known}`);
}

function within(content: Json, path: string): Json | undefined {
  if (typeof content !== 'object' || content === null) return undefined;
  const record = content as Readonly<Record<string, Json>>;
  if (Object.hasOwn(record, path)) return record[path]!;
  for (let dot = path.indexOf('.'); dot > 0; dot = path.indexOf('.', dot + 1)) {
    const name = path.slice(0, dot);
    if (Object.hasOwn(record, name)) return within(record[name]!, path.slice(dot + 1));
  }
  return undefined;
}

/** `map.key` sets a key, `list[]` adds to a list; a name alone is a note, or the text that the document has by that name. */
export function writeAt(document: SharedDocument, path: string, value: unknown): void {
  const dot = path.indexOf('.');
  if (path.endsWith('[]')) document.list(path.slice(0, -2)).push(value);
  else if (dot > 0) document.map(path.slice(0, dot)).set(path.slice(dot + 1), value);
  else if (!hasText(document, path)) document.map(NOTES).set(path, value);
  else if (typeof value === 'string') {
    const text = document.text(path);
    document.transact(() => {
      text.delete(0, text.length);
      text.insert(0, value);
    });
  } else throw new EclipticError('USAGE', `"${path}" is a text: give a JSON string`);
}

/** Removes a key of a map, or a note. */
export function removeAt(document: SharedDocument, path: string): void {
  const dot = path.indexOf('.');
  document.map(dot < 0 ? NOTES : path.slice(0, dot)).delete(path.slice(dot + 1));
}

function hasText(document: SharedDocument, name: string): boolean {
  const content = document.toJSON() as Readonly<Record<string, Json>>;
  return Object.hasOwn(content, name) && typeof content[name] === 'string';
}
