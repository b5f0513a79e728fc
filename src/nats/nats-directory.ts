import type { KV, KvWatchEntry } from '@nats-io/kv';
import type { Directory, DirectoryEntry, DirectoryListener } from '../network/directory/directory.js';
import { NODE_KEY } from '../network/membership/identity.js';
import { within } from '../runtime/async.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import { BucketWatch } from './bucket-watch.js';
import type { NatsConnection } from './connection.js';
import type { Presence } from './presence.js';
import { openText, sealText } from './sealed-entry.js';
import { openBucket } from './stores.js';

/** The largest entry that is published. A broker takes messages of 1 MiB unless configured otherwise. */
export const MAX_ENTRY_BYTES = 512 * 1_024;
/** The bucket forgets an entry that its node has not published again for this long. */
const BUCKET_TTL_MS = 24 * 3_600_000;
const RETRY_MS = 500;
/** Time to withdraw the entry when this node stops. */
const STOP_MS = 1_000;

export interface NatsDirectoryComponents {
  runtime: Runtime;
  connection: NatsConnection;
  presence: Presence;
  /** Encrypts entries: 32 bytes that all members know. Undefined: nothing is published and nothing read. */
  key: () => Uint8Array | undefined;
  /** Was the latest entry stored? False: it is too large. */
  onPublished?: (stored: boolean) => void;
}

interface Held {
  /** The latest value of the bucket. */
  sealed: Uint8Array;
  /** The value decrypted; absent while no key opens it. */
  text: string | undefined;
  /** The key that did not open it. */
  tried: Uint8Array | undefined;
  /** Does the listener have it? */
  listed: boolean;
}

/** The directory in a key-value bucket: an encrypted value for each node, and a watch that brings every change. */
export class NatsDirectory implements Directory {
  readonly needsNeighbours = false;
  readonly #components: NatsDirectoryComponents;
  readonly #watch: BucketWatch;
  readonly #remove: (() => void)[] = [];
  readonly #entries = new Map<string, Held>();
  #listener: DirectoryListener | undefined;
  #bucket: KV | undefined;
  /** This node's entry. */
  #text: string | undefined;
  /** The entry that the bucket has, and the key that it is under. */
  #stored: { readonly text: string; readonly secret: Uint8Array } | undefined;
  #putting: Promise<void> | undefined;
  #retry: Timer | undefined;
  /** Values that did not decrypt: of another mesh, under another key, or changed. */
  ignored = 0;

  constructor(components: NatsDirectoryComponents) {
    this.#components = components;
    this.#watch = new BucketWatch(components, {
      open: () => this.#open(),
      onBegin: (bucket) => this.#begin(bucket),
      onEntry: (entry) => this.#take(entry),
    });
  }

  async start(listener: DirectoryListener): Promise<void> {
    const { connection, presence } = this.#components;
    this.#listener = listener;
    this.#remove.push(
      connection.onDisconnected(() => {
        this.#bucket = undefined;
      }),
      presence.onGone((node) => this.#unlist(node)),
      // Its entry may have come before, not have changed while it was away, or not have been readable yet.
      presence.onHeard((node) => {
        this.#list(node);
        if (this.#entries.get(node)?.listed) this.#listener?.onHeard(node);
      }),
    );
    this.#watch.start();
  }

  publish({ text }: DirectoryEntry): void {
    this.#text = text;
    this.#put();
    // The key may have come or changed.
    for (const node of this.#entries.keys()) this.#list(node);
  }

  forget(node: string): void {
    this.#entries.delete(node);
  }

  async stop(): Promise<void> {
    const { connection, runtime } = this.#components;
    this.#listener = undefined;
    for (const remove of this.#remove.splice(0)) remove();
    this.#watch.stop();
    this.#entries.clear();
    // The last entry, which says that this node is gone, is under way.
    await within(runtime, this.#settled(), STOP_MS, () => undefined);
    this.#retry?.cancel();
    this.#text = undefined;
    const wasStored = this.#stored !== undefined;
    this.#stored = undefined;
    const gone = wasStored && connection.isConnected && this.#bucket?.delete(connection.node).catch(() => {});
    if (gone) await within(runtime, gone, STOP_MS, () => undefined);
    this.#bucket = undefined;
  }

  async #settled(): Promise<void> {
    while (this.#putting) await this.#putting;
  }

  #open(): Promise<KV> {
    const { connection } = this.#components;
    return openBucket(connection, connection.names.directoryBucket, { history: 1, ttl: BUCKET_TTL_MS });
  }

  #begin(bucket: KV): void {
    this.#bucket = bucket;
    // The broker may have lost what it had not written to its disk.
    this.#stored = undefined;
    this.#put();
  }

  /** At most one put is under way; texts that come meanwhile replace each other. */
  #put(): void {
    if (this.#putting || this.#text === undefined || !this.#bucket) return;
    const { runtime, key, onPublished } = this.#components;
    const secret = key();
    // Without a key, the next `publish` tries again.
    if (!secret) {
      onPublished?.(false);
      return;
    }
    if (this.#text === this.#stored?.text && Buffer.compare(secret, this.#stored.secret) === 0) return;
    this.#retry?.cancel();
    this.#putting = this.#store(this.#bucket, this.#text, secret).then(
      () => {
        this.#putting = undefined;
        this.#put();
      },
      (error: unknown) => {
        this.#putting = undefined;
        runtime.logger.debug({ err: error }, 'NATS directory entry was not stored');
        this.#retry = runtime.setTimer(() => this.#put(), RETRY_MS);
      },
    );
  }

  async #store(bucket: KV, text: string, secret: Uint8Array): Promise<void> {
    const { runtime, connection, onPublished } = this.#components;
    const fits = Buffer.byteLength(text) <= MAX_ENTRY_BYTES;
    if (fits) await bucket.put(connection.node, sealText(runtime, secret, connection.node, text));
    this.#stored = { text, secret };
    onPublished?.(fits);
  }

  #take({ key: node, operation, value }: KvWatchEntry): void {
    const { connection } = this.#components;
    if (!NODE_KEY.test(node) || node === connection.node) return;
    if (operation !== 'PUT') {
      this.#unlist(node);
      this.#entries.delete(node);
      return;
    }
    const known = this.#entries.get(node);
    if (known && Buffer.compare(known.sealed, value) === 0) return;
    // While the new value cannot be read, the node stays listed with the one before.
    const listed = known?.listed === true;
    this.#entries.set(node, { sealed: value, text: undefined, tried: undefined, listed: false });
    this.#list(node);
    this.#entries.get(node)!.listed ||= listed;
  }

  /** A node that crashed leaves its entry behind, so an entry counts only while its node is present. */
  #list(node: string): void {
    const held = this.#entries.get(node);
    if (!held || (held.listed && held.text !== undefined) || !this.#components.presence.get(node)) return;
    held.text ??= this.#decrypt(node, held);
    if (held.text === undefined) return;
    held.listed = true;
    try {
      this.#listener?.onEntry(held.text);
    } catch (error) {
      // Whoever may write to the bucket wrote nonsense under that node's key.
      this.ignored++;
      this.#components.runtime.logger.warn({ node, err: error }, 'NATS directory entry was refused');
    }
  }

  #decrypt(node: string, held: Held): string | undefined {
    const secret = this.#components.key();
    if (!secret || (held.tried && Buffer.compare(held.tried, secret) === 0)) return undefined;
    const text = openText(secret, node, held.sealed);
    held.tried = secret;
    if (text === undefined) this.ignored++;
    return text;
  }

  #unlist(node: string): void {
    const held = this.#entries.get(node);
    if (!held?.listed) return;
    held.listed = false;
    this.#listener?.onGone(node);
  }
}
