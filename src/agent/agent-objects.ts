import type { Party } from '../mesh/policy.js';
import type { ObjectSource, Objects, PutOptions } from '../objects/objects.js';
import type { ObjectRef } from '../objects/reference.js';
import { EclipticError } from '../runtime/errors.js';

/** Bytes that are too large for a message, as one agent may attach and read them. */
export class AgentObjects {
  readonly #objects: Objects;
  readonly #self: () => Party;

  /** `self` throws once the agent has left. */
  constructor(objects: Objects, self: () => Party) {
    this.#objects = objects;
    this.#self = self;
  }

  /** Stores a file, bytes or a stream for the agents in `to`. Put the reference into a message to them. */
  put(source: ObjectSource, options: PutOptions): Promise<ObjectRef> {
    return this.#objects.put(this.#self(), source, options);
  }

  /** Reads an object that a message refers to. The loop ends only if all bytes are there and their digest is right. */
  open(ref: ObjectRef, { signal }: { signal?: AbortSignal } = {}): AsyncIterable<Uint8Array> {
    return this.#objects.open(this.#self(), ref, signal);
  }

  /** Saves an object as a file, which appears when it is complete and checked. A failed attempt is continued by the next. */
  save(ref: ObjectRef, file: string, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    return this.#objects.save(this.#self(), ref, file, signal);
  }

  /** @internal Notes a reference that this agent was shown, so that it can be named by the object's id. */
  note(ref: ObjectRef): void {
    this.#objects.note(ref, this.#self().address);
  }

  /** The objects that this agent has attached. */
  get list(): readonly ObjectRef[] {
    const { address } = this.#self();
    return this.#objects.stored.map(({ ref }) => ref).filter(({ owner }) => owner === address);
  }

  /** Removes an object of this agent before it expires. */
  remove({ object }: Pick<ObjectRef, 'object'>): Promise<void> {
    if (this.list.some((ref) => ref.object === object)) return this.#objects.remove(object);
    return Promise.reject(new EclipticError('OBJECT_NOT_FOUND', `no object of this agent is "${object}"`, { object }));
  }
}
