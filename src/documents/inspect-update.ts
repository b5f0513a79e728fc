import * as Y from 'yjs';
import { weighJson } from '../mesh/json-value.js';
import { LIMITS } from '../mesh/limits.js';
import { unreadable } from './segment.js';

/** What an update may refer to. */
export interface Known {
  /** The client that it must be of, and how far that client's changes are known. */
  readonly client: number;
  readonly from: number;
  /** How far its author had seen another client's changes. */
  seen(client: number): number;
}

/** A turn can delete no more than what was written, so nothing honest is near this. */
const MAX_LENGTH = 16 * 1_048_576;
const MAX_CLOCK = 2 ** 48;
/** `m` for maps, `l` for lists, `t` for texts: what a name stands for is the same everywhere. */
const ROOT = /^[mlt]:./;

/**
 * Looks at everything in an update before any of it is applied, for Yjs checks nothing: only changes of its author,
 * each following the one before, of kinds that a document has, on things that the author knew. What passes, Yjs takes
 * at once and whole. Returns where the author's changes end. Throws what is wrong.
 */
export function inspectUpdate(update: Uint8Array, known: Known): number {
  // A second run of the same author would hide the first from Yjs.
  if (!(update[0]! <= 1)) throw unreadable('it holds changes of several authors');
  const { structs, ds } = decode(update);
  if (structs.length === 0 && ds.clients.size === 0) throw unreadable('it changes nothing');
  let clock = structs[0]?.id.clock ?? known.from;
  if (clock > known.from) throw unreadable('changes before it are missing');
  const begin = clock;
  for (const struct of structs) {
    if (struct.id.client !== known.client) throw unreadable('it holds changes of another author');
    if (struct.id.clock !== clock) throw unreadable('its changes do not follow each other');
    if (!(struct.length > 0)) throw unreadable('a change is empty');
    if (struct instanceof Y.Item) checkItem(struct, known);
    else if (!(struct instanceof Y.GC)) throw unreadable('it leaves something out');
    clock += struct.length;
  }
  if (clock - begin > MAX_LENGTH || clock > MAX_CLOCK) throw unreadable('its numbers are too large');
  for (const [client, ranges] of ds.clients) {
    const limit = client === known.client ? clock : known.seen(client);
    for (const range of ranges) {
      if (!(range.len > 0) || range.clock + range.len > limit) throw unreadable('it deletes what its author never saw');
    }
  }
  return clock;
}

function decode(update: Uint8Array): ReturnType<typeof Y.decodeUpdate> {
  try {
    return Y.decodeUpdate(update);
  } catch {
    throw unreadable('it is damaged');
  }
}

function checkItem(item: Y.Item, known: Known): void {
  const { origin, rightOrigin, content, parentSub } = item;
  // Yjs types the parent as it is once integrated; before that it is a root's name, an id, or, beside an origin, nothing.
  const parent: unknown = item.parent;
  checkReference(origin, item, known);
  checkReference(rightOrigin, item, known);
  if (parent === null) {
    if (!origin && !rightOrigin) throw unreadable('a change has no place');
  } else if (typeof parent !== 'string' || !ROOT.test(parent) || !isName(parent.slice(2))) {
    throw unreadable('a change is not in a map, list or text');
  } else if ((parent[0] === 'm') !== (parentSub !== null)) throw unreadable('a change has no place');
  if (parentSub !== null && !isKey(parentSub)) throw unreadable('a key is none');
  if (content instanceof Y.ContentAny) {
    if (typeof weighJson(content.arr) !== 'number') throw unreadable('a value is not JSON');
  } else if (!(content instanceof Y.ContentString || content instanceof Y.ContentDeleted)) {
    throw unreadable('a value is of a kind that documents do not have');
  }
}

/** May a map, list or text be called that? */
export function isName(name: string): boolean {
  return name.length > 0 && name.length <= LIMITS.nameChars && name !== '__proto__';
}

/** May a map have that key? */
export function isKey(key: string): boolean {
  return key.length <= LIMITS.textChars && key !== '__proto__';
}

function checkReference(id: Y.ID | null, item: Y.Item, known: Known): void {
  if (!id) return;
  const limit = id.client === known.client ? item.id.clock : known.seen(id.client);
  if (!(id.clock >= 0 && id.clock < limit)) throw unreadable('a change is beside one that its author never saw');
}
