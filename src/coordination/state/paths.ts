import { EclipticError } from '../../runtime/errors.js';
import type { Json, SharedDocument } from './document.js';

/** What is there, by names and places with dots between them; a name with dots in it is found, too. */
export function valueAt(content: Json, path: string): Json {
  if (typeof content === 'object' && content !== null) {
    const record = content as Readonly<Record<string, Json>>;
    if (Object.hasOwn(record, path)) return record[path]!;
    for (let dot = path.indexOf('.'); dot > 0; dot = path.indexOf('.', dot + 1)) {
      const name = path.slice(0, dot);
      if (Object.hasOwn(record, name)) return valueAt(record[name]!, path.slice(dot + 1));
    }
  }
  throw new EclipticError('INVALID_ARGUMENTS', `there is nothing at "${path}"`);
}

/** `map.key` sets a key, `list[]` puts something at a list's end, and a name alone is a text. */
export function writeAt(document: SharedDocument, path: string, value: unknown): void {
  const dot = path.indexOf('.');
  if (path.endsWith('[]')) document.list(path.slice(0, -2)).push(value);
  else if (dot > 0) document.map(path.slice(0, dot)).set(path.slice(dot + 1), value);
  else if (typeof value === 'string') {
    const text = document.text(path);
    document.transact(() => {
      text.delete(0, text.length);
      text.insert(0, value);
    });
  } else {
    throw new EclipticError('USAGE', 'the path is "map.key", "list[]", or the name of a text with a JSON string');
  }
}
