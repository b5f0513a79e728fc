import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto';
import type { StreamConfig } from '@nats-io/jetstream';
import type { ObjectArchive } from '../objects/archive.js';
import type { ObjectRef } from '../objects/reference.js';
import { wait } from '../runtime/async.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { brokerError, type NatsConnection } from './connection.js';
import { hasMessageTtl, openStream, replicas } from './stores.js';

/** Bytes of an object in one message of the stream. */
const CHUNK_BYTES = 262_144;
/** Chunks that are published or fetched at once. */
const AT_ONCE = 4;
/** The stream's bytes, of all nodes together. */
const STREAM_BYTES = 2 * 1_073_741_824;
const MAX_AGE_MS = 30 * 86_400_000;
const NANOS = 1_000_000;
const CONNECT_MS = 500;
const PUBLISH_MS = 10_000;
/** A copy of the stream may be a little behind its leader. */
const LAG_MS: readonly number[] = [50, 200, 1_000];

const CIPHER = 'aes-256-gcm';
const TAG_BYTES = 16;

/**
 * Sealed copies of objects in one stream of the broker, a message for each chunk. Only its node can publish under an
 * object's subjects. Each chunk is encrypted with a key from the reference, for its place in its object, so the broker reads
 * nothing and can change nothing unnoticed. The stream has no consumers: a reader asks for the chunks that it needs.
 */
export class NatsObjects implements ObjectArchive {
  readonly #runtime: Runtime;
  readonly #connection: NatsConnection;

  constructor(runtime: Runtime, connection: NatsConnection) {
    this.#runtime = runtime;
    this.#connection = connection;
  }

  onAvailable(listener: () => void): () => void {
    return this.#connection.onConnected(listener);
  }

  async store(ref: ObjectRef, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    await this.#connection.ready(CONNECT_MS);
    const seal = new ChunkSeal(ref);
    const ttl = (await this.#open())
      ? Math.max(1, Math.ceil((ref.expiresAt - this.#runtime.now()) / 1_000))
      : undefined;
    const publishing: Promise<void>[] = [];
    let index = 0;
    for await (const chunk of inChunks(bytes)) {
      if (publishing.length >= AT_ONCE) await publishing.shift();
      const published = this.#publish(ref.object, index, seal.seal(index, chunk), ttl);
      // Awaited below, perhaps after another has failed.
      published.catch(() => {});
      publishing.push(published);
      index++;
    }
    await Promise.all(publishing);
  }

  async *read(ref: ObjectRef, offset: number): AsyncGenerator<Uint8Array> {
    const seal = new ChunkSeal(ref);
    const count = chunksOf(ref.size);
    const fetching: Promise<Uint8Array>[] = [];
    let next = Math.floor(offset / CHUNK_BYTES);
    try {
      for (let index = next; index < count; index++) {
        while (next < count && fetching.length < AT_ONCE) {
          const fetched = this.#fetch(ref, next++);
          fetched.catch(() => {});
          fetching.push(fetched);
        }
        const content = seal.open(index, await fetching.shift()!);
        yield content.subarray(Math.max(0, offset - index * CHUNK_BYTES));
      }
    } catch (error) {
      throw brokerError(error);
    }
  }

  /** Nodes have no right to delete, which could not be limited to their own subjects: an empty message replaces each chunk. */
  async remove({ object, size }: Pick<ObjectRef, 'object' | 'size'>): Promise<void> {
    for (let index = 0; index < chunksOf(size); index++) await this.#publish(object, index, new Uint8Array());
  }

  /** Opens the stream. True if its messages may have a time to live. */
  async #open(): Promise<boolean> {
    const { names } = this.#connection;
    const subjects = [names.object('*', '*', '*')];
    const wanted = {
      name: names.objectStream,
      subjects,
      retention: 'limits',
      storage: 'file',
      discard: 'new',
      max_bytes: STREAM_BYTES,
      max_msgs_per_subject: 1,
      max_age: MAX_AGE_MS * NANOS,
      allow_direct: true,
      num_replicas: replicas(this.#connection),
      ...(hasMessageTtl(this.#connection) && { allow_msg_ttl: true }),
    } as Partial<StreamConfig> & { name: string };
    try {
      const { config } = await openStream(this.#connection, wanted);
      if (config.subjects.includes(subjects[0]!) && config.allow_direct) return config.allow_msg_ttl === true;
    } catch (error) {
      throw brokerError(error);
    }
    throw new EclipticError('BROKER_UNREACHABLE', `the stream ${wanted.name} is not one for objects; delete it`);
  }

  async #publish(object: string, index: number, bytes: Uint8Array, ttlSeconds?: number): Promise<void> {
    const { names, node } = this.#connection;
    try {
      const jetstream = await this.#connection.jetstream();
      const { headers } = await import('@nats-io/transport-node');
      const head = headers();
      if (ttlSeconds !== undefined) head.set('Nats-TTL', `${ttlSeconds}s`);
      const subject = names.object(node, object, String(index));
      await jetstream.publish(subject, bytes, { timeout: PUBLISH_MS, headers: head, retries: 2 });
    } catch (error) {
      throw brokerError(error);
    }
  }

  async #fetch({ object, node }: ObjectRef, index: number): Promise<Uint8Array> {
    const { names } = this.#connection;
    const { direct } = await this.#connection.manager();
    const subject = names.object(node, object, String(index));
    for (let attempt = 0; ; attempt++) {
      const message = await direct.getMessage(names.objectStream, { last_by_subj: subject });
      if (message?.data.byteLength) return message.data;
      const lag = message || this.#connection.info?.cluster === undefined ? undefined : LAG_MS[attempt];
      if (lag === undefined) {
        throw new EclipticError('OBJECT_NOT_FOUND', `the broker does not have object ${object}`, { object });
      }
      await wait(this.#runtime, lag);
    }
  }
}

/** Encrypts the chunks of one object: with its own key, and for their place in it. */
class ChunkSeal {
  readonly #ref: ObjectRef;
  readonly #key: Buffer;

  constructor(ref: ObjectRef) {
    this.#ref = ref;
    const { key, object } = ref;
    this.#key = Buffer.from(hkdfSync('sha256', Buffer.from(key, 'base64url'), object, 'ecliptic object chunks', 32));
  }

  seal(index: number, chunk: Uint8Array): Buffer {
    const cipher = createCipheriv(CIPHER, this.#key, nonce(index)).setAAD(this.#place(index));
    return Buffer.concat([cipher.update(chunk), cipher.final(), cipher.getAuthTag()]);
  }

  open(index: number, sealed: Uint8Array): Buffer {
    const end = sealed.byteLength - TAG_BYTES;
    try {
      const decipher = createDecipheriv(CIPHER, this.#key, nonce(index)).setAAD(this.#place(index));
      decipher.setAuthTag(sealed.subarray(end));
      return Buffer.concat([decipher.update(sealed.subarray(0, end)), decipher.final()]);
    } catch {
      const { object } = this.#ref;
      throw new EclipticError('OBJECT_DAMAGED', `the broker changed chunk ${index} of object ${object}`, { object });
    }
  }

  #place(index: number): Buffer {
    const { node, object, size } = this.#ref;
    return Buffer.from(`${node}.${object}.${size}.${index}`);
  }
}

/** An object has a key of its own and never changes, so the number of a chunk is a nonce. */
function nonce(index: number): Buffer {
  const bytes = Buffer.alloc(12);
  bytes.writeUInt32BE(index, 8);
  return bytes;
}

function chunksOf(size: number): number {
  return Math.ceil(size / CHUNK_BYTES);
}

/** The same bytes in chunks of equal size. */
async function* inChunks(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of bytes) {
    for (let at = 0; at < part.byteLength; ) {
      const piece = part.subarray(at, at + CHUNK_BYTES - size);
      parts.push(piece);
      size += piece.byteLength;
      at += piece.byteLength;
      if (size < CHUNK_BYTES) continue;
      yield Buffer.concat(parts);
      parts = [];
      size = 0;
    }
  }
  if (size > 0) yield Buffer.concat(parts);
}
