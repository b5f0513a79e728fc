import * as Y from 'yjs';

const ENCODER = new Y.UpdateEncoderV1();
const MAX_KEPT_BYTES = 65_536;

/** An encoder starts with a buffer outside of the heap, which costs as much as the changes of a turn. */
function emptied(encoder: Y.UpdateEncoderV1): Y.UpdateEncoderV1 {
  const { restEncoder: rest } = encoder;
  if (rest.cbuf.length > MAX_KEPT_BYTES) rest.cbuf = new Uint8Array(100);
  rest.bufs = [];
  rest.cpos = 0;
  return encoder;
}

/**
 * Collects this replica's own changes until they are taken as one update. Yjs would write an update for every change, and
 * merging those costs more than the changes.
 */
export class OwnChanges {
  readonly #doc: Y.Doc;
  #deleted: ReturnType<typeof Y.createDeleteSet>[];
  #clock: number;

  /** `earlier` are the collected changes of another copy of the same document. */
  constructor(doc: Y.Doc, earlier?: OwnChanges) {
    this.#doc = doc;
    this.#deleted = earlier ? [...earlier.#deleted] : [];
    this.#clock = earlier ? earlier.#clock : 0;
    doc.on('afterTransaction', (transaction: Y.Transaction) => {
      if (transaction.local && transaction.deleteSet.clients.size > 0) this.#deleted.push(transaction.deleteSet);
    });
  }

  get any(): boolean {
    return this.#deleted.length > 0 || Y.getState(this.#doc.store, this.#doc.clientID) > this.#clock;
  }

  /** The changes since the last call, and their end. */
  take(): { update: Uint8Array; clock: number } | undefined {
    if (!this.any) return undefined;
    const update = this.write();
    this.#clock = Y.getState(this.#doc.store, this.#doc.clientID);
    this.#deleted = [];
    return { update, clock: this.#clock };
  }

  write(): Uint8Array {
    const { store, clientID: client } = this.#doc;
    const encoder = emptied(ENCODER);
    if (Y.getState(store, client) > this.#clock) {
      // This version of the format encodes lengths, clients and clocks in the same way.
      encoder.writeLen(1);
      const structs = store.clients.get(client)!;
      const begin = Y.findIndexSS(structs, this.#clock);
      encoder.writeLen(structs.length - begin);
      encoder.writeClient(client);
      encoder.writeLen(this.#clock);
      structs[begin]!.write(encoder, this.#clock - structs[begin]!.id.clock);
      for (let index = begin + 1; index < structs.length; index++) structs[index]!.write(encoder, 0);
    } else encoder.writeLen(0);
    this.#writeDeleted(encoder);
    return encoder.toUint8Array();
  }

  #writeDeleted(encoder: Y.UpdateEncoderV1): void {
    const { clients } = this.#deleted.length === 1 ? this.#deleted[0]! : Y.mergeDeleteSets(this.#deleted);
    encoder.writeLen(clients.size);
    for (const [client, ranges] of [...clients].sort(([a], [b]) => b - a)) {
      encoder.writeClient(client);
      encoder.writeLen(ranges.length);
      for (const { clock, len } of ranges) {
        encoder.writeDsClock(clock);
        encoder.writeDsLen(len);
      }
    }
  }
}

/** Runs `apply` in one transaction that counts as another's changes. */
export function asOne<T>(doc: Y.Doc, apply: () => T): T {
  return Y.transact(doc, apply, undefined, false);
}
