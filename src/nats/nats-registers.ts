import { createHash } from 'node:crypto';
import type { KV, KvEntry } from '@nats-io/kv';
import type { Identity } from '../network/membership/identity.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Registered, Registers } from '../store/shared/registers.js';
import { BucketWatch } from './bucket-watch.js';
import { brokerError, type CoreConnection, type NatsConnection } from './connection.js';
import { SignedValues } from './signed-value.js';
import { hasStream, isConflict, openBucket } from './stores.js';

export interface NatsRegistersComponents {
  runtime: Runtime;
  identity: Identity;
  connection: NatsConnection;
}

export interface NatsRegistersInit {
  /** Whose registers they are, such as the mesh's root key: nodes of several meshes can share a broker. */
  readonly scope: () => string;
  /** A secret of those that may read the values. */
  readonly secret?: (() => Uint8Array | undefined) | undefined;
}

const WRITE_MS = 3_000;
const MAX_KNOWN = 20_000;
const SCOPE_CHARS = 16;
const NOTHING: Registered = { revision: 0, writer: undefined, value: undefined };

/** Registers in a key-value bucket; the revision of a key is the sequence number of its message in the bucket's stream. */
export class NatsRegisters implements Registers {
  readonly #components: NatsRegistersComponents;
  readonly #init: NatsRegistersInit;
  readonly #values: SignedValues;
  /** The latest revision of each key that was seen, whether its value is genuine, and the latest with a genuine one. */
  readonly #latest = new Map<
    string,
    { readonly revision: number; readonly isGenuine: boolean; readonly genuine: number }
  >();
  #opened: { readonly core: CoreConnection; readonly bucket: Promise<KV> } | undefined;

  constructor(components: NatsRegistersComponents, init: NatsRegistersInit) {
    this.#components = components;
    this.#init = init;
    this.#values = new SignedValues({ ...components, secret: init.secret }, 'nats register');
  }

  get scope(): string {
    return this.#init.scope();
  }

  get place(): string {
    return `NATS bucket ${this.#name}`;
  }

  async read(key: string): Promise<Registered> {
    const full = `${this.#prefix()}${key}`;
    try {
      const entry = await (await this.#bucket()).get(full);
      return entry ? this.#open(full, entry) : NOTHING;
    } catch (error) {
      throw brokerError(error);
    }
  }

  async write(key: string, value: unknown, expected: number): Promise<number | undefined> {
    const full = `${this.#prefix()}${key}`;
    const bytes = this.#values.make({ store: this.#name, key: full }, expected, value);
    const most = this.#components.connection.info?.max_payload ?? Number.POSITIVE_INFINITY;
    if (bytes.length > most)
      throw new EclipticError('QUEUE_FULL', `the value has ${bytes.length} bytes, and the broker takes ${most}`);
    try {
      const revision = await (await this.#bucket()).put(full, bytes, { previousSeq: expected, timeout: WRITE_MS });
      if (revision > expected) return revision;
      throw new EclipticError('BROKER_UNREACHABLE', `NATS answered a write with revision ${revision}, an old one`);
    } catch (error) {
      if (isConflict(error)) return undefined;
      throw brokerError(error);
    }
  }

  watch(listener: (key: string, entry: Registered) => void): () => void {
    const watch = new BucketWatch(this.#components, {
      open: () => this.#bucket(),
      onEntry: (entry) => {
        const prefix = this.#prefix();
        if (entry.key.startsWith(prefix)) listener(entry.key.slice(prefix.length), this.#open(entry.key, entry));
      },
    });
    watch.start();
    return () => watch.stop();
  }

  onReachable(listener: () => void): () => void {
    return this.#components.connection.onConnected(listener);
  }

  get #name(): string {
    return this.#components.connection.names.leaseBucket;
  }

  #prefix(): string {
    return `${createHash('sha256').update(this.scope).digest('hex').slice(0, SCOPE_CHARS)}.`;
  }

  /**
   * A value counts only at the revision that it was written after: an old value that is copied back names a replaced revision.
   * A forged value does not raise the known revision: a broker can show any, and writers continue from the one before.
   */
  #open(key: string, { operation, revision, value }: KvEntry): Registered {
    const latest = this.#latest.get(key) ?? { revision: 0, isGenuine: true, genuine: 0 };
    const opened = operation === 'PUT' ? this.#values.open({ store: this.#name, key }, value) : undefined;
    let isGenuine = opened !== undefined;
    if (revision > latest.revision) {
      isGenuine &&= opened!.replaces >= latest.genuine;
      const genuine = isGenuine ? revision : latest.genuine;
      if (this.#latest.size < MAX_KNOWN || this.#latest.has(key))
        this.#latest.set(key, { revision, isGenuine, genuine });
    } else if (revision === latest.revision) isGenuine = latest.isGenuine;
    return { revision, writer: isGenuine ? opened?.writer : undefined, value: isGenuine ? opened?.value : undefined };
  }

  #bucket(): Promise<KV> {
    const { core } = this.#components.connection;
    if (this.#opened?.core === core) return this.#opened.bucket;
    const bucket = this.#openBucket();
    const opened = { core, bucket };
    this.#opened = opened;
    bucket.catch(() => {
      if (this.#opened === opened) this.#opened = undefined;
    });
    return bucket;
  }

  async #openBucket(): Promise<KV> {
    const { connection } = this.#components;
    if (await hasStream(connection, `KV_${this.#name}`)) return (await connection.kvm()).open(this.#name);
    // Reads come from the leader only: those of followers can be far behind.
    return openBucket(connection, this.#name, { history: 1, allow_direct: false });
  }
}
