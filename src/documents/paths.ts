import * as Y from 'yjs';
import { EclipticError } from '../runtime/errors.js';
import { cutText } from '../runtime/text.js';
import type { Json, SharedDocument } from './document.js';

/** The map of the values that are addressed by a single name. */
const NOTES = 'notes';
const MAX_NAMES = 20;

/** The value at a path of names and indexes separated by dots; names may contain dots. */
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

/** `map.key` sets a key, `list[]` appends to a list; a single name is the text of that name, or else a note. */
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

export function removeAt(document: SharedDocument, path: string): void {
  const dot = path.indexOf('.');
  document.map(dot < 0 ? NOTES : path.slice(0, dot)).delete(path.slice(dot + 1));
}

function hasText(document: SharedDocument, name: string): boolean {
  const content = document.toJSON() as Readonly<Record<string, Json>>;
  return Object.hasOwn(content, name) && typeof content[name] === 'string';
}

/** The prefix of a root's name: its kind, so that a map and a list may share a name. */
const KIND = /^\w:/;
const VALUE_CHARS = 60;

/**
 * The changes of an update as text: `tasks.login = {…}`, `log[] + "begun"`, `- tasks.old`. An update names a place only by
 * its neighbours, so places are looked up in the document that it was applied to.
 */
export function changesIn(doc: Y.Doc, update: Uint8Array): string[] {
  const { structs, ds } = Y.decodeUpdate(update);
  const made = new Map<string, unknown[]>();
  for (const struct of structs) {
    const place = struct instanceof Y.Item ? placeOf(doc, struct.id) : undefined;
    if (place === undefined) continue;
    const values = valuesOf((struct as Y.Item).content);
    made.set(place, place.endsWith(']') || place.endsWith('~') ? [...(made.get(place) ?? []), ...values] : values);
  }
  const removed = new Set<string>();
  for (const [client, items] of ds.clients) {
    for (const { clock } of items) {
      const place = placeOf(doc, Y.createID(client, clock));
      if (place !== undefined && !made.has(place)) removed.add(place);
    }
  }
  return [...[...made].map(changeText), ...[...removed].map((place) => `- ${place.replace(/~$/, '')}`)];
}

function changeText([place, values]: [string, unknown[]]): string {
  if (place.endsWith('~')) return `${place.slice(0, -1)} + ${short(values.join(''))}`;
  if (place.endsWith(']')) return `${place} + ${values.map(short).join(', ')}`;
  return `${place} = ${values.map(short).join(', ')}`;
}

/** `map.key`, `list[]` or `text~`; undefined if the place no longer exists. */
function placeOf(doc: Y.Doc, id: Y.ID): string | undefined {
  let item: unknown;
  try {
    item = Y.getItem(doc.store, id);
  } catch {
    return undefined;
  }
  if (!(item instanceof Y.Item) || !(item.parent instanceof Y.AbstractType)) return undefined;
  const { parent, parentSub, content } = item;
  const name = parent._item ? placeOf(doc, parent._item.id) : Y.findRootTypeKey(parent).replace(KIND, '');
  if (name === undefined) return undefined;
  if (parentSub !== null) return `${name}.${parentSub}`;
  return parent instanceof Y.Text || content instanceof Y.ContentString ? `${name}~` : `${name}[]`;
}

function valuesOf(content: Y.Item['content']): unknown[] {
  if (content instanceof Y.ContentString) return [content.str];
  return content instanceof Y.ContentDeleted ? [] : content.getContent();
}

function short(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > VALUE_CHARS ? `${cutText(text, VALUE_CHARS - 1)}…` : text;
}
