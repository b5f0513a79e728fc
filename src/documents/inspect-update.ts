import * as Y from 'yjs';
import { weighJson } from '../mesh/json-value.js';
import { LIMITS } from '../mesh/limits.js';
import { unreadable } from './segment.js';

/** The changes that an update may refer to. */
export interface Known {
  /** The client of its author, and the end of that client's known changes. */
  readonly client: number;
  readonly from: number;
  /** The end of another client's changes that its author has applied. */
  seen(client: number): number;
}

/** A turn cannot delete more than was written, so no honest update comes near this. */
const MAX_LENGTH = 16 * 1_048_576;
const MAX_CLOCK = 2 ** 48;
/** `m` for maps, `l` for lists, `t` for texts: the kind is part of the name, so all replicas agree on it. */
const ROOT = /^[mlt]:./;

/**
 * Validates an update before it is applied, because Yjs checks nothing: it may only contain consecutive changes of its
 * author, of known kinds, that refer to changes its author has applied. Yjs applies a valid update at once and completely.
 * Returns the end of the author's changes. Throws if the update is invalid.
 */
export function inspectUpdate(update: Uint8Array, known: Known): number {
  // With a second run of the same author, Yjs would drop the first.
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
  // The declared type holds once it is integrated; before, the parent is a root's name, an id, or null beside an origin.
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

export function isName(name: string): boolean {
  return name.length > 0 && name.length <= LIMITS.nameChars && name !== '__proto__';
}

export function isKey(key: string): boolean {
  return key.length <= LIMITS.textChars && key !== '__proto__';
}

function checkReference(id: Y.ID | null, item: Y.Item, known: Known): void {
  if (!id) return;
  const limit = id.client === known.client ? item.id.clock : known.seen(id.client);
  if (!(id.clock >= 0 && id.clock < limit)) throw unreadable('a change is beside one that its author never saw');
}
