import { createHash, timingSafeEqual } from 'node:crypto';
import { fullAddress, joinAddress } from '../mesh/address.js';
import type { Party, Policy } from '../mesh/policy.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { Network } from '../network/peers/network.js';
import { wait } from '../runtime/async.js';
import { Backoff } from '../runtime/backoff.js';
import { EclipticError, type ErrorCode } from '../runtime/errors.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import type { ObjectArchive } from './archive.js';
import { DEFAULT_TTL_MS, MAX_READERS, MAX_TTL_MS, PATIENCE_MS } from './limits.js';
import { away, ObjectExchange, type ObjectQuestion } from './object-exchange.js';
import {
  fileBytes,
  type ObjectFiles,
  ObjectFileWriter,
  type ReceivedRef,
  requireDigest,
  type StoredObject,
} from './object-files.js';
import { type ObjectRef, objectName, readRef } from './reference.js';

/** A path, the bytes themselves, or a stream of them. */
export type ObjectSource = string | Uint8Array | AsyncIterable<Uint8Array>;

export interface PutOptions {
  /** The agents that may read it: ids, or id@node. */
  readonly to: string | readonly string[];
  /** Default: the name of the file. */
  readonly name?: string | undefined;
  /** Default: `application/octet-stream`. */
  readonly mediaType?: string | undefined;
  /** How long it is kept. Default 7 days, at most 30. */
  readonly ttlMs?: number | undefined;
}

export interface ObjectsComponents {
  runtime: Runtime;
  registry: AgentRegistry;
  policy: Policy;
  nodeKey: string;
  network: Network | undefined;
  /** Undefined on a node without a data folder, which can read objects and attach none. */
  files: ObjectFiles | undefined;
  archive: ObjectArchive | undefined;
  /** An agent that is away, from the address book of durable mail. */
  findAway: (address: string) => Party | undefined;
}

/** After these, the same bytes may come later or from another source. */
const PASSING: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'PEER_UNREACHABLE',
  'BROKER_UNREACHABLE',
  'AGENT_UNAVAILABLE',
  'DELIVERY_FAILED',
  'QUEUE_FULL',
]);
const FIRST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 2_000;
/** How often expired objects are removed, and copies are stored that the archive could not take before. */
const UPKEEP_MS = 30_000;

/**
 * Bytes that are too large for a message. They are files of the node whose agent attached them; agents that have a
 * reference fetch them from there, or from the archive while that node is away.
 */
export class Objects {
  readonly #components: ObjectsComponents;
  readonly #exchange: ObjectExchange | undefined;
  readonly #saving = new Set<string>();
  #upkeep: Timer | undefined;
  #stopped = false;
  #stopListening: (() => void) | undefined;
  #archiving: Promise<void> = Promise.resolve();

  constructor(components: ObjectsComponents) {
    this.#components = components;
    const { runtime, network } = components;
    if (!network) return;
    this.#exchange = new ObjectExchange({
      runtime,
      network,
      serve: (node, question) => this.#serve(joinAddress(question.reader, node), question),
    });
    network.handle(this.#exchange);
  }

  start(): void {
    this.#stopListening = this.#components.archive?.onAvailable(() => this.#archiveAll());
    this.#tend();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#stopListening?.();
    this.#upkeep?.cancel();
    this.#exchange?.close();
    await this.#archiving;
  }

  /** The objects of this node's agents. */
  get stored(): readonly StoredObject[] {
    return this.#components.files?.all ?? [];
  }

  /** The references that agents of this node got in durable mail. */
  get received(): readonly ReceivedRef[] {
    return this.#components.files?.received ?? [];
  }

  /** Stores an object for some readers. Resolves with the reference that a message to them carries. */
  async put(owner: Party, source: ObjectSource, options: PutOptions): Promise<ObjectRef> {
    const { runtime, nodeKey } = this.#components;
    const files = this.#requireFiles();
    const readers = this.#readers(owner, options.to);
    const { ttlMs = DEFAULT_TTL_MS, mediaType = 'application/octet-stream' } = options;
    const name = objectName(options.name ?? (typeof source === 'string' ? source : 'object'));
    const expiresAt = runtime.now() + Math.min(ttlMs, MAX_TTL_MS);
    const about = { node: nodeKey, owner: owner.address, name, mediaType, expiresAt };
    readRef({ ...about, object: '0'.repeat(26), key: 'x'.repeat(43), size: 0, sha256: '0'.repeat(64) });
    const stored = await files.write(about, readers, bytesOf(source));
    await this.#archive(stored);
    return stored.ref;
  }

  /** The bytes of an object. The end comes only after size and digest are right; otherwise the reading fails. */
  async *open(reader: Party, given: ObjectRef, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    const ref = readRef(given);
    const hash = createHash('sha256');
    let size = 0;
    for await (const chunk of this.#bytes(reader, ref, 0, signal)) {
      hash.update(chunk);
      size += chunk.byteLength;
      yield chunk;
    }
    requireDigest(ref, size, hash.digest('hex'));
  }

  /** Saves an object under a path, which appears once the object is complete. An earlier attempt is continued. */
  async save(reader: Party, given: ObjectRef, path: string, signal?: AbortSignal): Promise<void> {
    const ref = readRef(given);
    if (this.#saving.has(path)) throw new EclipticError('INVALID_TRANSITION', `${path} is being written already`);
    this.#saving.add(path);
    try {
      // Where an earlier attempt left a wrong part, everything is fetched again.
      if (!(await this.#save(reader, ref, path, signal))) await this.#save(reader, ref, path, signal);
    } finally {
      this.#saving.delete(path);
    }
  }

  /** Removes an object of this node, and its copy in the archive. */
  async remove(id: string): Promise<void> {
    const removed = this.#components.files?.remove(id);
    if (!removed) throw notFound(id);
    await this.#removeCopy(removed);
  }

  /** Notes a reference that came in a message, so that a person or a coding agent can name it by the object's id. */
  note(ref: ObjectRef, reader: string): void {
    const { files, nodeKey, runtime } = this.#components;
    if (ref.node === nodeKey) return;
    try {
      files?.note(ref, reader);
    } catch (error) {
      // The message that has it is shown all the same.
      runtime.logger.error({ object: ref.object, err: error }, 'reference to an object cannot be noted');
    }
  }

  // Reading

  /** False if the part of an earlier attempt, which was deleted now, may have been wrong. */
  async #save(reader: Party, ref: ObjectRef, path: string, signal?: AbortSignal): Promise<boolean> {
    const writer = new ObjectFileWriter(ref, path);
    const offset = await writer.open();
    try {
      for await (const chunk of this.#bytes(reader, ref, offset, signal)) await writer.write(chunk);
      await writer.finish();
      return true;
    } catch (error) {
      if ((error as EclipticError).code !== 'OBJECT_DAMAGED') throw error;
      await writer.discard();
      if (offset === 0) throw error;
      return false;
    } finally {
      await writer.close();
    }
  }

  /** The bytes from an offset on, from one source after the other until all are there. */
  async *#bytes(reader: Party, ref: ObjectRef, offset: number, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    const { runtime } = this.#components;
    const backoff = new Backoff(FIRST_RETRY_MS, LONGEST_RETRY_MS);
    this.#requireAllowed(this.#ownerOf(ref), reader);
    let heard = runtime.stopwatch();
    for (let at = offset; at < ref.size; ) {
      try {
        for await (const chunk of this.#source(reader, ref, at, signal)) {
          at += chunk.byteLength;
          // The digest of all bytes is then wrong too, but an endless stream must end.
          if (at > ref.size) requireDigest(ref, at, '');
          yield chunk;
          heard = runtime.stopwatch();
          backoff.reset();
        }
        if (at < ref.size) requireDigest(ref, at, '');
      } catch (error) {
        const isPassing = error instanceof EclipticError && PASSING.has(error.code);
        if (!isPassing || signal?.aborted || runtime.stopwatch() - heard > PATIENCE_MS) throw error;
        await wait(runtime, backoff.next(), signal);
      }
    }
  }

  #source(reader: Party, ref: ObjectRef, offset: number, signal?: AbortSignal): AsyncIterable<Uint8Array> {
    const { network, nodeKey, archive } = this.#components;
    const { node, object, key } = ref;
    const question = { object, key, reader: reader.address, offset };
    if (node === nodeKey) return this.#serve(fullAddress(reader.address, nodeKey), question);
    if (archive && !network?.peers.reachable(node)) return fromArchive(archive, ref, offset);
    if (!this.#exchange) throw away(node, 'this node has no network');
    return this.#exchange.read(node, question, signal);
  }

  #ownerOf({ owner, node }: ObjectRef): Party {
    const { registry, nodeKey, findAway } = this.#components;
    const address = node === nodeKey ? owner : joinAddress(owner, node);
    return registry.entry(address) ?? findAway(address) ?? stranger(address, node === nodeKey ? undefined : node);
  }

  // Serving

  /** The bytes for a reader with its full address. Every reader is checked, also one of this node. */
  #serve(reader: string, { object, key, offset }: ObjectQuestion): AsyncIterable<Uint8Array> {
    const { files, registry, nodeKey, findAway } = this.#components;
    const stored = files?.find(object);
    if (!files || !stored) throw notFound(object);
    if (!isSame(stored.ref.key, key) || !stored.readers.includes(reader)) {
      throw new EclipticError('OBJECT_REFUSED', `object ${object} was not sent to ${reader}`, { object });
    }
    const [id, node] = reader.split('@') as [string, string];
    const address = node === nodeKey ? id : reader;
    const party = registry.entry(address) ?? findAway(address);
    this.#requireAllowed(this.#ownerOf(stored.ref), party ?? stranger(address, node === nodeKey ? undefined : node));
    return files.read(object, offset);
  }

  /** Content flows from the owner to the reader, as in an answer: the owner's sandbox decides. */
  #requireAllowed(owner: Party, reader: Party): void {
    const decision = this.#components.policy.judgeAnswer(owner, reader);
    if (!decision.allowed) throw new EclipticError(decision.code, decision.reason);
  }

  #readers(owner: Party, to: string | readonly string[]): string[] {
    const { registry, findAway, nodeKey } = this.#components;
    const names = typeof to === 'string' ? [to] : to;
    if (names.length === 0 || names.length > MAX_READERS) {
      throw new EclipticError('INVALID_PARAMS', `an object has 1 to ${MAX_READERS} readers`, { field: 'to' });
    }
    return names.map((name) => {
      const reader = registry.entry(name) ?? findAway(name) ?? registry.resolve(name, registry.entry(owner.address));
      this.#requireAllowed(owner, reader);
      return fullAddress(reader.address, nodeKey);
    });
  }

  // Upkeep

  #tend(): void {
    const { runtime, files } = this.#components;
    if (!files) return;
    for (const expired of files.expire()) void this.#removeCopy(expired);
    this.#archiveAll();
    this.#upkeep = runtime.setTimer(() => this.#tend(), UPKEEP_MS);
  }

  #archiveAll(): void {
    for (const stored of this.stored) if (!stored.archived) void this.#archive(stored);
  }

  /** Stores a copy for readers on other nodes; one that the archive cannot take now is tried again later. */
  #archive({ ref, readers }: StoredObject): Promise<void> {
    const { archive, nodeKey, runtime } = this.#components;
    if (!archive || readers.every((reader) => reader.endsWith(`@${nodeKey}`))) return Promise.resolve();
    const files = this.#requireFiles();
    this.#archiving = this.#archiving.then(async () => {
      const stored = files.find(ref.object);
      if (!stored || stored.archived) return;
      try {
        await archive.store(ref, this.#untilStopped(files.read(ref.object, 0)));
        files.markArchived(ref.object);
      } catch (error) {
        runtime.logger.warn({ object: ref.object, err: error }, 'object cannot be stored in the archive');
      }
    });
    return this.#archiving;
  }

  /** A node that stops does not wait for a large copy; it is stored after the next start. */
  async *#untilStopped(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of bytes) {
      if (this.#stopped) throw new EclipticError('NODE_STOPPED', 'this node has stopped');
      yield chunk;
    }
  }

  async #removeCopy({ ref, archived }: StoredObject): Promise<void> {
    const { archive, runtime } = this.#components;
    if (!archived) return;
    await archive?.remove(ref).catch((error: unknown) => {
      // The archive forgets it by its age.
      runtime.logger.warn({ object: ref.object, err: error }, 'object cannot be removed from the archive');
    });
  }

  #requireFiles(): ObjectFiles {
    const { files } = this.#components;
    if (files) return files;
    throw new EclipticError('STORE_REQUIRED', 'objects need a node with a data folder');
  }
}

/** An archive without the object says nothing about its node, which may come back. */
async function* fromArchive(archive: ObjectArchive, ref: ObjectRef, offset: number): AsyncGenerator<Uint8Array> {
  try {
    yield* archive.read(ref, offset);
  } catch (error) {
    if ((error as EclipticError).code !== 'OBJECT_NOT_FOUND') throw error;
    throw away(ref.node, 'it is away, and the broker does not have it');
  }
}

function bytesOf(source: ObjectSource): AsyncIterable<Uint8Array> {
  if (typeof source === 'string') return fileBytes(source);
  return source instanceof Uint8Array ? once(source) : source;
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

function isSame(one: string, other: string): boolean {
  return one.length === other.length && timingSafeEqual(Buffer.from(one), Buffer.from(other));
}

/** An agent whose card is not known: it is in no sandbox that could allow it anything. */
function stranger(address: string, node: string | undefined): Party {
  return { address, node, tier: 3, sandboxId: undefined };
}

function notFound(id: string): EclipticError {
  return new EclipticError('OBJECT_NOT_FOUND', `there is no object "${id}" here, or it has expired`, { object: id });
}
