import type { WebSocket } from 'ws';
import * as sync from 'y-protocols/sync';
import * as Y from 'yjs';

type Decoder = Parameters<typeof sync.readSyncMessage>[0];

const SYNC = 0;

/** The protocol of y-websocket on bare `ws`: its messages, without its rooms and retries. */
export class SyncedDoc {
  /** Resolves when the other side's state is here. */
  readonly ready: Promise<void>;

  constructor(doc: Y.Doc, socket: WebSocket) {
    const send = (encoder: Y.UpdateEncoderV1) => {
      if (socket.readyState === socket.OPEN) socket.send(encoder.toUint8Array());
    };
    const greet = () => {
      const encoder = message();
      sync.writeSyncStep1(encoder.restEncoder, doc);
      send(encoder);
    };
    const pass = (update: Uint8Array, origin: unknown) => {
      if (origin === socket) return;
      const encoder = message();
      sync.writeUpdate(encoder.restEncoder, update);
      send(encoder);
    };
    doc.on('update', pass);
    socket.on('close', () => doc.off('update', pass));
    this.ready = new Promise((resolve) => {
      socket.on('message', (data: Buffer) => {
        const encoder = message();
        const kind = sync.readSyncMessage(past(data), encoder.restEncoder, doc, socket);
        if (kind === sync.messageYjsSyncStep1) send(encoder);
        if (kind === sync.messageYjsSyncStep2) resolve();
      });
    });
    if (socket.readyState === socket.OPEN) greet();
    else socket.on('open', greet);
  }
}

/** A message of the sync kind. */
function message(): Y.UpdateEncoderV1 {
  const encoder = new Y.UpdateEncoderV1();
  encoder.writeLen(SYNC);
  return encoder;
}

/** A message, read up to its subject. */
function past(data: Buffer): Decoder {
  return { arr: new Uint8Array(data.buffer, data.byteOffset, data.byteLength), pos: 1 };
}
