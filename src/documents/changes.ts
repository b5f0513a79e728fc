import * as Y from 'yjs';
import { cutText } from '../runtime/text.js';

/** A root type's name begins with its kind, so that a map and a list of one name are two things. */
const KIND = /^\w:/;
/** Characters of a value that are told. */
const VALUE_CHARS = 60;

/**
 * The changes that an update of this document made, for people: `tasks.login = {…}`, `log[] + "begun"`, `- tasks.old`.
 * An update names a place only by its neighbours, so places are looked up in the document that it was applied to.
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

/** `map.key`, `list[]` or `text~`; undefined where the document no longer knows. */
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
