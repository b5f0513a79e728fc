import type { ObjectRef } from './reference.js';

/** Keeps sealed copies of objects, so that they can be read while their node is away. A port; NATS implements it. */
export interface ObjectArchive {
  /** Stores the object under its node's name. `bytes` reads the object from its beginning. */
  store(ref: ObjectRef, bytes: AsyncIterable<Uint8Array>): Promise<void>;
  /** The object from an offset on. `OBJECT_NOT_FOUND` if the archive does not have it, `OBJECT_DAMAGED` if it was changed. */
  read(ref: ObjectRef, offset: number): AsyncIterable<Uint8Array>;
  /** Calls back whenever the archive can be reached again. Returns what unsubscribes. */
  onAvailable(listener: () => void): () => void;
  /** Removes an object of this node. */
  remove(ref: Pick<ObjectRef, 'object' | 'size'>): Promise<void>;
}
