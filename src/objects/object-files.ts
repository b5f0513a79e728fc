import { createHash } from 'node:crypto';
import { constants, existsSync, mkdirSync, rmSync } from 'node:fs';
import { type FileHandle, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { describeError, EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { syncFolder, writePrivately } from '../system/files/private-file.js';
import { CHUNK_BYTES, MAX_RECEIVED, OBJECT_LIMITS, type ObjectLimits } from './limits.js';
import { type ObjectRef, ObjectRefSchema } from './reference.js';

const StoredSchema = z.object({
  ref: ObjectRefSchema,
  /** The full addresses of the agents that may read it. */
  readers: z.array(z.string()),
  createdAt: z.number(),
  /** Has the archive a copy? */
  archived: z.boolean(),
});
/** An object of this node. */
export type StoredObject = z.infer<typeof StoredSchema>;

const ReceivedSchema = z.object({ ref: ObjectRefSchema, reader: z.string(), at: z.number() });
/** A reference that an agent of this node got. */
export type ReceivedRef = z.infer<typeof ReceivedSchema>;

interface Share {
  bytes: number;
  objects: number;
}

const CONTENT = '.bin';
const DRAFT = '.part';

/**
 * The objects of a node as files in one folder: `<id>.bin` with the content, and `<id>.json` with its reference and readers,
 * which is written last. `received/` has the references that agents of this node got.
 */
export class ObjectFiles {
  readonly #runtime: Runtime;
  readonly #folder: string;
  readonly #limits: ObjectLimits;
  readonly #objects = new Map<string, StoredObject>();
  readonly #received = new Map<string, ReceivedRef>();
  readonly #shares = new Map<string, Share>();
  #bytes = 0;

  private constructor(runtime: Runtime, folder: string, limits: ObjectLimits) {
    this.#runtime = runtime;
    this.#folder = folder;
    this.#limits = limits;
  }

  static async open(runtime: Runtime, folder: string, limits: Partial<ObjectLimits> = {}): Promise<ObjectFiles> {
    const files = new ObjectFiles(runtime, folder, { ...OBJECT_LIMITS, ...limits });
    await usable(folder, async () => {
      if (existsSync(folder)) await files.#load();
    });
    return files;
  }

  get all(): StoredObject[] {
    return [...this.#objects.values()];
  }

  get received(): ReceivedRef[] {
    return [...this.#received.values()];
  }

  find(id: string): StoredObject | undefined {
    const found = this.#objects.get(id);
    return found && found.ref.expiresAt > this.#runtime.now() ? found : undefined;
  }

  /** Stores the bytes as an object. Fails with `OBJECT_TOO_LARGE` or `OBJECTS_FULL`, and then leaves nothing behind. */
  async write(
    about: Pick<ObjectRef, 'node' | 'owner' | 'name' | 'mediaType' | 'expiresAt'>,
    readers: readonly string[],
    bytes: AsyncIterable<Uint8Array>,
  ): Promise<StoredObject> {
    const object = this.#runtime.id();
    const draft = this.#path(object + DRAFT);
    const share = this.#share(about.owner);
    let size = 0;
    this.#requireRoom(about.owner, share, 0);
    share.objects++;
    try {
      this.#makeFolder();
      const hash = createHash('sha256');
      const file = await open(draft, 'wx', 0o600);
      try {
        for await (const chunk of bytes) {
          this.#requireSize(size + chunk.byteLength);
          this.#requireRoom(about.owner, share, chunk.byteLength);
          size += chunk.byteLength;
          this.#count(share, chunk.byteLength);
          hash.update(chunk);
          await writeAll(file, chunk);
        }
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(draft, this.#path(object + CONTENT));
      const key = Buffer.from(this.#runtime.bytes(32)).toString('base64url');
      const ref: ObjectRef = { object, ...about, key, size, sha256: hash.digest('hex') };
      const stored = { ref, readers: [...readers], createdAt: this.#runtime.now(), archived: false };
      this.#save(stored);
      return stored;
    } catch (error) {
      this.#release(about.owner, size);
      await rm(draft, { force: true });
      await rm(this.#path(object + CONTENT), { force: true });
      throw error instanceof EclipticError ? error : failed(this.#folder, error);
    }
  }

  /** The content from an offset on, in chunks. */
  async *read(id: string, offset: number): AsyncGenerator<Uint8Array> {
    const file = await open(this.#path(id + CONTENT), constants.O_RDONLY).catch(() => {
      throw new EclipticError('OBJECT_NOT_FOUND', `object ${id} is gone`, { object: id });
    });
    try {
      for (let at = offset; ; ) {
        const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
        const { bytesRead } = await file.read(buffer, 0, CHUNK_BYTES, at);
        if (bytesRead === 0) return;
        at += bytesRead;
        yield buffer.subarray(0, bytesRead);
      }
    } finally {
      await file.close();
    }
  }

  markArchived(id: string): void {
    const stored = this.#objects.get(id);
    if (stored) this.#save({ ...stored, archived: true });
  }

  remove(id: string): StoredObject | undefined {
    const stored = this.#objects.get(id);
    if (!stored) return undefined;
    this.#objects.delete(id);
    this.#release(stored.ref.owner, stored.ref.size);
    // The content goes first: what is left after a crash is removed at the next start.
    rmSync(this.#path(id + CONTENT), { force: true });
    rmSync(this.#path(`${id}.json`), { force: true });
    return stored;
  }

  /** Notes a reference, so that it can be found by the object's id. */
  note(ref: ObjectRef, reader: string): void {
    if (this.#received.has(ref.object)) return;
    const [oldest] = this.#received.size >= MAX_RECEIVED ? this.#received.keys() : [];
    if (oldest !== undefined) this.#forget(oldest);
    const received = { ref, reader, at: this.#runtime.now() };
    this.#received.set(ref.object, received);
    this.#makeFolder();
    writePrivately(this.#receivedPath(ref.object), JSON.stringify(received));
  }

  /** Removes everything that has expired. Returns the objects among it. */
  expire(): StoredObject[] {
    const now = this.#runtime.now();
    for (const { ref } of this.received) if (ref.expiresAt <= now) this.#forget(ref.object);
    return this.all.filter(({ ref }) => ref.expiresAt <= now).flatMap(({ ref }) => this.remove(ref.object) ?? []);
  }

  /** Made by the first object: most nodes have none. */
  #makeFolder(): void {
    mkdirSync(join(this.#folder, 'received'), { recursive: true, mode: 0o700 });
  }

  async #load(): Promise<void> {
    this.#makeFolder();
    const names = new Set(await readdir(this.#folder));
    for (const name of names) {
      const id = name.slice(0, name.lastIndexOf('.'));
      if (name.endsWith(DRAFT) || (name.endsWith(CONTENT) && !names.has(`${id}.json`))) {
        await rm(this.#path(name), { force: true });
      }
    }
    for (const name of names) {
      if (!name.endsWith('.json')) continue;
      const id = name.slice(0, -'.json'.length);
      const stored = await this.#parsed(this.#path(name), StoredSchema);
      if (stored && names.has(id + CONTENT)) {
        this.#objects.set(id, stored);
        const share = this.#share(stored.ref.owner);
        share.objects++;
        this.#count(share, stored.ref.size);
      } else await rm(this.#path(name), { force: true });
    }
    for (const name of (await readdir(join(this.#folder, 'received'))).sort()) {
      const found = await this.#parsed(join(this.#folder, 'received', name), ReceivedSchema);
      if (found) this.#received.set(found.ref.object, found);
    }
  }

  async #parsed<T>(path: string, schema: z.ZodType<T>): Promise<T | undefined> {
    try {
      return schema.parse(JSON.parse(await readFile(path, 'utf8')));
    } catch (error) {
      this.#runtime.logger.warn({ file: path, err: error }, 'object record is damaged');
      return undefined;
    }
  }

  #save(stored: StoredObject): void {
    writePrivately(this.#path(`${stored.ref.object}.json`), JSON.stringify(stored));
    this.#objects.set(stored.ref.object, stored);
  }

  #forget(id: string): void {
    this.#received.delete(id);
    rmSync(this.#receivedPath(id), { force: true });
  }

  #share(owner: string): Share {
    const share = this.#shares.get(owner) ?? { bytes: 0, objects: 0 };
    this.#shares.set(owner, share);
    return share;
  }

  #count(share: Share, bytes: number): void {
    share.bytes += bytes;
    this.#bytes += bytes;
  }

  #release(owner: string, bytes: number): void {
    const share = this.#share(owner);
    share.objects--;
    this.#count(share, -bytes);
    if (share.objects === 0) this.#shares.delete(owner);
  }

  #requireSize(size: number): void {
    const { objectBytes: limit } = this.#limits;
    if (size <= limit) return;
    throw new EclipticError('OBJECT_TOO_LARGE', `an object has at most ${limit} bytes`, { limit });
  }

  #requireRoom(owner: string, share: Share, more: number): void {
    const { agentBytes, agentObjects, nodeBytes } = this.#limits;
    if (share.bytes + more > agentBytes || (more === 0 && share.objects >= agentObjects)) {
      const message = `agent "${owner}" has its share of ${agentObjects} objects and ${agentBytes} bytes`;
      throw new EclipticError('OBJECTS_FULL', message, { agentId: owner, agentBytes, agentObjects });
    }
    if (this.#bytes + more <= nodeBytes) return;
    throw new EclipticError('OBJECTS_FULL', `the objects of this node have ${nodeBytes} bytes`, { nodeBytes });
  }

  #path(name: string): string {
    return join(this.#folder, name);
  }

  #receivedPath(id: string): string {
    return join(this.#folder, 'received', `${id}.json`);
  }
}

/** The bytes of a file, which must be an ordinary one: a pipe could block. */
export async function* fileBytes(path: string): AsyncGenerator<Uint8Array> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((error) => {
    throw new EclipticError('RESOURCE_NOT_FOUND', `${path} cannot be read: ${describeError(error)}`, { path }, error);
  });
  try {
    if (!(await file.stat()).isFile()) throw new EclipticError('RESOURCE_NOT_FOUND', `${path} is no file`, { path });
    yield* handleBytes(file);
  } finally {
    await file.close();
  }
}

/** The bytes of an open file. The next chunk replaces the last in its memory. */
export async function* handleBytes(file: FileHandle): AsyncGenerator<Uint8Array> {
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  for (;;) {
    const { bytesRead } = await file.read(buffer, 0, CHUNK_BYTES);
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
  }
}

/** Writes an object to a file that appears under its name once it is complete; a part that is there is continued. */
export class ObjectFileWriter {
  readonly #path: string;
  readonly #part: string;
  readonly #ref: ObjectRef;
  readonly #hash = createHash('sha256');
  #file: FileHandle | undefined;
  #size = 0;

  constructor(ref: ObjectRef, path: string) {
    this.#ref = ref;
    this.#path = path;
    this.#part = `${path}.${ref.object}${DRAFT}`;
  }

  /** Opens the part. Returns the offset at which it goes on. */
  async open(): Promise<number> {
    try {
      for await (const chunk of fileBytes(this.#part)) {
        this.#hash.update(chunk);
        this.#size += chunk.byteLength;
      }
    } catch (error) {
      if ((error as EclipticError).code !== 'RESOURCE_NOT_FOUND') throw error;
    }
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND | constants.O_NOFOLLOW;
    this.#file = await open(this.#part, flags, 0o600).catch((error) => {
      throw failed(this.#path, error);
    });
    return this.#size;
  }

  async write(chunk: Uint8Array): Promise<void> {
    this.#hash.update(chunk);
    this.#size += chunk.byteLength;
    await writeAll(this.#file!, chunk).catch((error) => {
      throw failed(this.#path, error);
    });
  }

  /** Checks size and digest; then the file gets its name. */
  async finish(): Promise<void> {
    await this.#file!.sync();
    await this.close();
    requireDigest(this.#ref, this.#size, this.#hash.digest('hex'));
    await rename(this.#part, this.#path);
    syncFolder(dirname(this.#path));
  }

  /** Deletes the part. */
  async discard(): Promise<void> {
    await this.close();
    await rm(this.#part, { force: true });
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
  }
}

/** Throws `OBJECT_DAMAGED` if the bytes are not those of the reference. */
export function requireDigest({ object, size, sha256 }: ObjectRef, found: number, digest: string): void {
  if (found === size && digest === sha256) return;
  const reason = found === size ? 'their SHA-256 is another' : `there are ${found} of ${size}`;
  const message = `the bytes of object ${object} are not those of its reference: ${reason}`;
  throw new EclipticError('OBJECT_DAMAGED', message, { object });
}

async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let at = 0; at < chunk.byteLength; ) at += (await file.write(chunk, at)).bytesWritten;
}

async function usable(folder: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    throw failed(folder, error);
  }
}

function failed(path: string, error: unknown): EclipticError {
  return new EclipticError('DATA_FOLDER', `cannot write ${path}: ${describeError(error)}`, {}, error);
}
