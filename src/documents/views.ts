import type * as Y from 'yjs';
import { weighJson } from '../mesh/json-value.js';
import { EclipticError } from '../runtime/errors.js';
import type { Json, SharedList, SharedMap, SharedText, Written } from './document.js';
import { isKey, isName } from './inspect-update.js';

export interface ViewOf {
  /** The current Yjs document, which may be replaced. */
  readonly doc: Y.Doc;
  /** The address of the author whose changes have this Yjs client id. */
  writerOf(client: number): string | undefined;
  /** Makes a change of that weight. Throws if it is not allowed. */
  change(weight: number, change: () => void): void;
}

const OVERHEAD = 64;

export class MapView implements SharedMap {
  readonly #of: ViewOf;
  readonly #name: string;

  constructor(of: ViewOf, name: string) {
    this.#of = of;
    this.#name = rootName('m', name);
  }

  get #map(): Y.Map<Json> {
    return this.#of.doc.getMap(this.#name);
  }

  get size(): number {
    return this.#map.size;
  }

  get(key: string): Json | undefined {
    return copied(this.#map.get(key));
  }

  has(key: string): boolean {
    return this.#map.has(key);
  }

  set(key: string, value: unknown): void {
    if (typeof key !== 'string' || !isKey(key))
      throw new EclipticError('INVALID_ARGUMENTS', `"${key}" is not a valid key`);
    const weight = key.length + weightOf(value);
    this.#of.change(weight, () => void this.#map.set(key, copied(value as Json)));
  }

  delete(key: string): void {
    if (this.#map.has(key)) this.#of.change(OVERHEAD, () => this.#map.delete(key));
  }

  keys(): string[] {
    return [...this.#map.keys()];
  }

  written(key: string): Written | undefined {
    const item = this.#map._map.get(key);
    if (!item || item.deleted) return undefined;
    const { client, clock } = item.id;
    const by = this.#of.writerOf(client);
    return by === undefined ? undefined : { by, version: `${client}/${clock}` };
  }

  toJSON(): Record<string, Json> {
    return copied(this.#map.toJSON());
  }
}

export class ListView implements SharedList {
  readonly #of: ViewOf;
  readonly #name: string;

  constructor(of: ViewOf, name: string) {
    this.#of = of;
    this.#name = rootName('l', name);
  }

  get #list(): Y.Array<Json> {
    return this.#of.doc.getArray(this.#name);
  }

  get length(): number {
    return this.#list.length;
  }

  get(index: number): Json | undefined {
    return copied(this.#list.get(index));
  }

  insert(index: number, ...values: unknown[]): void {
    assertWithin(index, 0, this.length);
    if (values.length > 0) this.#of.change(weightOf(values), () => this.#list.insert(index, copied(values as Json[])));
  }

  push(...values: unknown[]): void {
    this.insert(this.length, ...values);
  }

  delete(index: number, count = 1): void {
    assertWithin(index, count, this.length);
    if (count > 0) this.#of.change(OVERHEAD, () => this.#list.delete(index, count));
  }

  toJSON(): Json[] {
    return copied(this.#list.toJSON());
  }
}

export class TextView implements SharedText {
  readonly #of: ViewOf;
  readonly #name: string;

  constructor(of: ViewOf, name: string) {
    this.#of = of;
    this.#name = rootName('t', name);
  }

  get #text(): Y.Text {
    return this.#of.doc.getText(this.#name);
  }

  get length(): number {
    return this.#text.length;
  }

  insert(index: number, text: string): void {
    assertWithin(index, 0, this.length);
    if (text !== '') this.#of.change(weightOf(text), () => this.#text.insert(index, text));
  }

  delete(index: number, count: number): void {
    assertWithin(index, count, this.length);
    if (count > 0) this.#of.change(OVERHEAD, () => this.#text.delete(index, count));
  }

  toString(): string {
    return this.#text.toString();
  }

  toJSON(): string {
    return this.toString();
  }
}

function rootName(kind: 'm' | 'l' | 't', name: string): string {
  if (typeof name === 'string' && isName(name)) return `${kind}:${name}`;
  throw new EclipticError('INVALID_ARGUMENTS', `"${name}" is not a valid name for a part of a document`);
}

function weightOf(value: unknown): number {
  const weight = weighJson(value);
  if (typeof weight === 'number') return weight + OVERHEAD;
  const { path, problem, tooLarge } = weight;
  throw new EclipticError(tooLarge ? 'PAYLOAD_TOO_LARGE' : 'INVALID_ENVELOPE', `the value ${path} ${problem}`);
}

function assertWithin(index: number, count: number, length: number): void {
  if (Number.isInteger(index) && Number.isInteger(count) && index >= 0 && count >= 0 && index + count <= length) return;
  throw new EclipticError('INVALID_ARGUMENTS', `there are ${length}, and ${count} from ${index} on are not within`);
}

/** Values are copied in and out, so that callers cannot change the content of a document. */
function copied<T>(value: T): T {
  return typeof value === 'object' && value !== null ? structuredClone(value) : value;
}

/** All non-empty maps, lists and texts by name; where two kinds share a name, the later is listed with its kind. */
export function contentOf(doc: Y.Doc): Record<string, Json> {
  const content: Record<string, Json> = {};
  for (const root of [...doc.share.keys()].sort().reverse()) {
    const value = rootOf(doc, root);
    if (value === undefined) continue;
    const name = root.slice(2);
    content[Object.hasOwn(content, name) ? root : name] = copied(value);
  }
  return content;
}

function rootOf(doc: Y.Doc, root: string): Json | undefined {
  if (root[0] === 'm') {
    const map = doc.getMap<Json>(root);
    return map.size > 0 ? map.toJSON() : undefined;
  }
  if (root[0] === 'l') {
    const list = doc.getArray<Json>(root);
    return list.length > 0 ? list.toJSON() : undefined;
  }
  return doc.getText(root).toString() || undefined;
}
