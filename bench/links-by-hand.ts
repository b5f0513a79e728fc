import { randomUUID } from 'node:crypto';
import { Duplex } from 'node:stream';
import NoiseSecretStream from '@hyperswarm/secret-stream';
import type { NatsConnection } from '@nats-io/transport-node';
import DHT from 'hyperdht';
import { createWebSocketStream, type WebSocket } from 'ws';

/**
 * What one would write by hand to get the promises of a link: encrypted, in order, each message taken once by the agent it
 * is for, and acknowledged to its sender. Without policy, grants, refusals, resumption and limits.
 */
export interface Frames {
  write(frame: Uint8Array): boolean;
  on(event: 'data', listener: (frame: Uint8Array) => void): unknown;
}

type Message = [number: number, id: string, sender: string, recipient: string, timestamp: number, payload: unknown];

/** Messages of one turn go out in one frame; `send` resolves when the other side has taken the message. */
export class PromisedSender {
  readonly #frames: Frames;
  readonly #unacknowledged: (() => void)[] = [];
  readonly #run = randomUUID();
  #acknowledged = 0;
  #number = 0;
  #batch: string[] = [];

  constructor(frames: Frames) {
    this.#frames = frames;
    frames.on('data', (frame) => {
      const upTo = JSON.parse(text(frame)) as number;
      for (const resolve of this.#unacknowledged.splice(0, upTo - this.#acknowledged)) resolve();
      this.#acknowledged = upTo;
    });
  }

  send(recipient: string, payload: unknown): Promise<void> {
    return new Promise((resolve) => {
      const number = ++this.#number;
      const message: Message = [number, `${this.#run}-${number}`, 'sun', recipient, Date.now(), payload];
      if (this.#batch.length === 0) queueMicrotask(() => this.#flush());
      this.#batch.push(JSON.stringify(message));
      this.#unacknowledged.push(resolve);
    });
  }

  #flush(): void {
    this.#frames.write(Buffer.from(`[${this.#batch.join(',')}]`));
    this.#batch = [];
  }
}

/** The other side: takes each message once, and acknowledges those of one turn together. */
export function takePromised(frames: Frames, agents: ReadonlyMap<string, (payload: unknown) => void>): void {
  let taken = 0;
  let due = false;
  frames.on('data', (frame) => {
    for (const [number, , , recipient, , payload] of JSON.parse(text(frame)) as Message[]) {
      if (number !== taken + 1) continue;
      taken = number;
      agents.get(recipient)?.(payload);
    }
    if (due) return;
    due = true;
    setImmediate(() => {
      due = false;
      frames.write(Buffer.from(String(taken)));
    });
  });
}

export function webSocketStream(socket: WebSocket): Duplex {
  return createWebSocketStream(socket);
}

/** A broker takes messages of up to 1 MiB. */
const PUBLISH_BYTES = 524_288;

/** One publish for each chunk that is written, unless it is too large for one. */
export function natsStream(connection: NatsConnection, to: string, from: string): Duplex {
  const stream = new Duplex({
    read() {},
    write(chunk: Uint8Array, _, done) {
      for (let at = 0; at < chunk.byteLength; at += PUBLISH_BYTES) {
        connection.publish(to, chunk.subarray(at, at + PUBLISH_BYTES));
      }
      done();
    },
  });
  connection.subscribe(from, { callback: (_, { data }) => void stream.push(data) });
  return stream;
}

export function secured(initiator: boolean, raw: Duplex): Promise<NoiseSecretStream> {
  const stream = new NoiseSecretStream(initiator, raw, { keyPair: DHT.keyPair() });
  stream.on('error', () => {});
  return new Promise((resolve) => stream.on('open', () => resolve(stream)));
}

function text(frame: Uint8Array): string {
  return Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength).toString();
}
