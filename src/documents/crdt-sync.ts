import { z } from 'zod';
import { splitAddress } from '../mesh/address.js';
import { weighJson } from '../mesh/json-value.js';
import { EclipticError } from '../runtime/errors.js';
import type { SharedDocument } from './document.js';
import { unreadable } from './segment.js';
import type { CRDTSyncMessage, VectorClock } from './sync-message.js';

const name = z.string().min(1);
const place = z.int().nonnegative();

/** The list of the updates that are not a `CRDTUpdate`. */
const VALUES = 'updates';

const UpdateSchema = z.union([
  z.strictObject({ map: name, set: z.record(z.string(), z.unknown()) }),
  z.strictObject({ map: name, delete: z.array(z.string()) }),
  z.strictObject({ list: name, at: place, insert: z.array(z.unknown()) }),
  z.strictObject({ list: name, at: place, delete: place }),
  z.strictObject({ text: name, at: place, insert: z.string() }),
  z.strictObject({ text: name, at: place, delete: place }),
]);
export type CRDTUpdate = z.infer<typeof UpdateSchema>;

/** A shared document as a channel of updates: every member receives and keeps each update. */
export class CRDTSyncChannel {
  readonly #document: SharedDocument;

  constructor(document: SharedDocument) {
    this.#document = document;
  }

  /**
   * Applies a `CRDTUpdate`; any other JSON value is appended to the document's list `updates`. Resolves when it is stored
   * and sent to every live member.
   */
  async broadcast(update: unknown, sourceAgentId: string): Promise<void> {
    const { address } = this.#document;
    if (sourceAgentId !== address && sourceAgentId !== splitAddress(address).id) {
      throw new EclipticError('SENDER_REFUSED', `this is the channel of ${address}, not of ${sourceAgentId}`);
    }
    const read = UpdateSchema.safeParse(update);
    if (read.success) this.#make(read.data);
    else if (typeof weighJson(update) === 'number') this.#document.list(VALUES).push(update);
    else throw unreadable('it is not JSON');
    await this.#document.synced();
  }

  /** Calls `handler` with every applied update. Its payload is the bytes of the update in base64. */
  onUpdate(handler: (message: CRDTSyncMessage) => void): () => void {
    return this.#document.onUpdate(handler);
  }

  getVectorClock(): VectorClock {
    return this.#document.vector;
  }

  close(): Promise<void> {
    return this.#document.close();
  }

  #make(update: CRDTUpdate): void {
    const document = this.#document;
    if ('map' in update) {
      const map = document.map(update.map);
      document.transact(() => {
        if ('set' in update) for (const [key, value] of Object.entries(update.set)) map.set(key, value);
        else for (const key of update.delete) map.delete(key);
      });
    } else if ('list' in update) {
      const list = document.list(update.list);
      if ('insert' in update) list.insert(update.at, ...update.insert);
      else list.delete(update.at, update.delete);
    } else {
      const text = document.text(update.text);
      if ('insert' in update) text.insert(update.at, update.insert);
      else text.delete(update.at, update.delete);
    }
  }
}
