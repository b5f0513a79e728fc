import type { KV, KvWatchEntry } from '@nats-io/kv';
import { z } from 'zod';
import { type Identity, isSignedBy, NODE_KEY } from '../network/membership/identity.js';
import { Callbacks, logCallback } from '../runtime/callbacks.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import { BucketWatch } from './bucket-watch.js';
import type { NatsConnection } from './connection.js';
import { NKEY_USER } from './nkey.js';
import { hasMessageTtl, openBucket } from './stores.js';

const EVERY_MS = 3_000;
/**
 * Each confirmation goes to every node, so a large mesh confirms less often: at least this many milliseconds for each node. The
 * interval doubles, because each node checks the signature of a confirmation with another interval.
 */
const EVERY_MS_PER_NODE = 20;
/** Missed confirmations after which a node counts as gone. */
const MISSED = 3;
/** Longest interval that another node may claim. */
const MAX_EVERY_MS = 300_000;
/** The bucket forgets a node that crashed after this, where the server has no TTL for each key. */
const BUCKET_TTL_MS = 300_000;
const CHECK_MS = 1_000;
const TRIED_MS = 50;
/** How soon a confirmation that the server did not store is repeated. */
const RETRY_MS = 500;
/** The server drops a key this much later than the nodes do, so that an election of its leader removes no node. */
const SERVER_GRACE_MS = 30_000;
/** A cluster without a leader elects one within nine seconds. */
const PATIENCE_MS = 10_000;
const MAX_PATIENCE_MS = 300_000;
const MAX_VALUE_BYTES = 4_096;
const MAX_NODES = 16_384;
const PURPOSE = 'nats presence';

const EntrySchema = z.object({
  /** The key with which this node logs in at the broker. */
  nkey: z.string().regex(NKEY_USER),
  /** Tells this process from another with the same key. */
  session: z.string().max(64),
  everyMs: z.number().int().min(1_000).max(MAX_EVERY_MS),
  /** Which meshes it is a member of, readable to their members only. */
  tags: z.array(z.string().max(64)).max(8),
  /** Milliseconds since the epoch, and higher each time: an entry that is repeated by the broker confirms nothing. */
  at: z.int().nonnegative(),
});
type Entry = z.infer<typeof EntrySchema>;
const SignedSchema = z.object({ entry: EntrySchema, signature: z.string().max(128) });

export interface PresentNode extends Readonly<Entry> {
  readonly node: string;
}

interface Known extends PresentNode {
  heardAt: number;
}

export interface PresenceComponents {
  runtime: Runtime;
  identity: Identity;
  connection: NatsConnection;
}

/** Which nodes are connected to the broker, by signed entries that each confirms every few seconds. */
export class Presence {
  readonly #components: PresenceComponents;
  readonly #session: string;
  readonly #nodes = new Map<string, Known>();
  /** The latest entry of each node, by its time, also of those that are gone. */
  readonly #latest = new Map<string, number>();
  readonly #present: Callbacks<[node: PresentNode]>;
  readonly #heard: Callbacks<[node: string]>;
  readonly #gone: Callbacks<[node: string]>;
  readonly #watch: BucketWatch;
  readonly #remove: (() => void)[] = [];
  #bucket: KV | undefined;
  /** Absent: this node is not announced. */
  #tags: readonly string[] | undefined;
  /** The time in this node's latest entry. */
  #at = 0;
  #nextPut: Timer | undefined;
  #everyMs = EVERY_MS;
  /** When this node's own confirmation last came back from the bucket. */
  #echoedAt = 0;
  #connectedAt = 0;
  /** How far the server's clock is ahead of this node's; undefined if it does not tell. */
  #serverAhead: number | undefined;
  /** How long the bucket may be silent before this node goes to another server. */
  #patience = PATIENCE_MS;
  #check: Timer | undefined;
  /** Has another process announced itself with this node's key? */
  doubled = false;

  constructor(components: PresenceComponents) {
    this.#components = components;
    this.#session = components.runtime.id();
    this.#present = new Callbacks('nats presence', logCallback(components.runtime.logger));
    this.#heard = new Callbacks('nats presence', logCallback(components.runtime.logger));
    this.#gone = new Callbacks('nats presence', logCallback(components.runtime.logger));
    this.#watch = new BucketWatch(components, {
      open: () => this.#open(),
      onBegin: (bucket) => this.#begin(bucket),
      onEntry: (entry) => this.#take(entry),
    });
  }

  start(): void {
    const { connection, runtime } = this.#components;
    this.#remove.push(
      connection.onConnected(() => {
        this.#connectedAt = runtime.stopwatch();
      }),
      connection.onDisconnected(() => {
        this.#bucket = undefined;
        this.#nextPut?.cancel();
      }),
    );
    this.#watch.start();
    const check = () => {
      this.#expire();
      this.#checkServer();
      this.#check = runtime.setTimer(check, CHECK_MS);
    };
    this.#check = runtime.setTimer(check, CHECK_MS);
  }

  /** Why the bucket cannot be used. */
  get failure(): string | undefined {
    return this.#watch.failure;
  }

  /** Resolves when the bucket is open, or cannot be opened. */
  async tried(): Promise<void> {
    const { connection } = this.#components;
    while (connection.isConnected && !this.#bucket && this.failure === undefined) await connection.pause(TRIED_MS);
  }

  get nodes(): Iterable<PresentNode> {
    return this.#nodes.values();
  }

  get(node: string): PresentNode | undefined {
    return this.#nodes.get(node);
  }

  /** Called when a node comes, and when its entry changes. Returns what unsubscribes. */
  onPresent(listener: (node: PresentNode) => void): () => void {
    return this.#present.add(listener);
  }

  /** Called each time a node has confirmed that it is there. */
  onHeard(listener: (node: string) => void): () => void {
    return this.#heard.add(listener);
  }

  onGone(listener: (node: string) => void): () => void {
    return this.#gone.add(listener);
  }

  /** Announces this node from now on, with these tags. */
  announce(tags: readonly string[]): void {
    this.#tags = tags;
    this.#put();
  }

  /** Withdraws the announcement. */
  async withdraw(): Promise<void> {
    const { identity } = this.#components;
    const announced = this.#tags !== undefined;
    this.#tags = undefined;
    this.#nextPut?.cancel();
    if (announced) await this.#bucket?.delete(identity.key).catch(() => {});
  }

  async stop(): Promise<void> {
    for (const remove of this.#remove.splice(0)) remove();
    this.#check?.cancel();
    await this.withdraw();
    this.#watch.stop();
    this.#nodes.clear();
  }

  async #open(): Promise<KV> {
    const { connection, runtime } = this.#components;
    const bucket = await openBucket(connection, connection.names.presenceBucket, {
      history: 1,
      ttl: BUCKET_TTL_MS,
      maxValueSize: MAX_VALUE_BYTES,
      // The server tells watchers when a key has run out.
      ...(hasMessageTtl(connection) && { markerTTL: 60_000 }),
    });
    const { streamInfo } = await bucket.status();
    const serverNow = Date.parse((streamInfo as { ts?: string }).ts ?? '');
    this.#serverAhead = Number.isNaN(serverNow) ? undefined : serverNow - runtime.now();
    return bucket;
  }

  #begin(bucket: KV): void {
    this.#bucket = bucket;
    this.#startWaiting();
    this.#put();
  }

  #put(): void {
    const { runtime } = this.#components;
    this.#nextPut?.cancel();
    if (!this.#bucket || !this.#tags) return;
    const everyMs = intervalFor(this.#nodes.size);
    this.#everyMs = everyMs;
    this.#nextPut = runtime.setTimer(() => this.#put(), everyMs * (0.8 + 0.2 * runtime.random()));
    this.#publish(everyMs, this.#tags).catch((error: unknown) => {
      runtime.logger.debug({ err: error }, 'NATS presence was not stored');
      if (!this.#bucket || !this.#tags) return;
      this.#nextPut?.cancel();
      this.#nextPut = runtime.setTimer(() => this.#put(), RETRY_MS);
    });
  }

  async #publish(everyMs: number, tags: readonly string[]): Promise<void> {
    const { connection, identity, runtime } = this.#components;
    this.#at = Math.max(this.#at + 1, Math.floor(runtime.now()));
    const entry = { nkey: connection.key.text, session: this.#session, everyMs, tags: [...tags], at: this.#at };
    const signature = identity.sign(PURPOSE, { ...entry, node: identity.key, mesh: connection.names.mesh });
    const subject = connection.names.key(connection.names.presenceBucket, identity.key);
    const seconds = Math.ceil((everyMs * MISSED + SERVER_GRACE_MS) / 1_000);
    const js = await connection.jetstream();
    await js.publish(
      subject,
      JSON.stringify({ entry, signature }),
      hasMessageTtl(connection) ? { ttl: `${seconds}s` } : {},
    );
  }

  #take({ key: node, operation, value, created }: KvWatchEntry): void {
    const { runtime, identity } = this.#components;
    if (!NODE_KEY.test(node)) return;
    if (operation !== 'PUT') {
      this.#forget(node);
      return;
    }
    const latest = this.#latest.get(node) ?? 0;
    if (latest === 0 && this.#latest.size >= MAX_NODES) return;
    const entry = this.#read(node, Buffer.from(value).toString(), latest);
    if (!entry) return;
    this.#latest.set(node, entry.at);
    if (node === identity.key) {
      this.#takeOwn(entry);
      return;
    }
    const known = this.#nodes.get(node);
    const age = this.#serverAhead === undefined ? 0 : runtime.now() + this.#serverAhead - created.getTime();
    // The entry of a node that crashed before this one came.
    if (!known && age > entry.everyMs * MISSED) return;
    const present = { ...entry, node, heardAt: runtime.stopwatch() };
    this.#nodes.set(node, present);
    if (!known || contentOf(known) !== contentOf(entry)) this.#present.call(present);
    this.#heard.call(node);
  }

  #takeOwn({ session, at }: Entry): void {
    this.doubled = session !== this.#session && this.#at > 0;
    if (session === this.#session) {
      this.#echoedAt = this.#components.runtime.stopwatch();
      this.#patience = PATIENCE_MS;
    } else if (at >= this.#at) {
      // The clock of an earlier process was ahead.
      this.#at = at;
      this.#put();
    }
  }

  #read(node: string, text: string, after: number): Entry | undefined {
    const { connection } = this.#components;
    if (text.length > MAX_VALUE_BYTES) return undefined;
    try {
      const { entry, signature } = SignedSchema.parse(JSON.parse(text));
      if (entry.at <= after) return undefined;
      const signed = { ...entry, node, mesh: connection.names.mesh };
      return isSignedBy(node, PURPOSE, signed, signature) ? entry : undefined;
    } catch {
      return undefined;
    }
  }

  #expire(): void {
    const { runtime, connection } = this.#components;
    if (!connection.isConnected || !this.#bucket) return;
    const now = runtime.stopwatch();
    // Nothing came back from the bucket, not even this node's own confirmation: silence says nothing about the others.
    if (this.#tags && now - this.#echoedAt > this.#everyMs + CHECK_MS) this.#startWaiting();
    for (const { node, heardAt, everyMs } of this.#nodes.values()) {
      if (now - heardAt > everyMs * MISSED + CHECK_MS) this.#forget(node);
    }
  }

  /** A server that is cut off from the others of its cluster still answers, but has no streams. */
  #checkServer(): void {
    const { runtime, connection } = this.#components;
    if (!this.#tags || !connection.isConnected) return;
    const silentFor = runtime.stopwatch() - Math.max(this.#echoedAt, this.#connectedAt);
    if (silentFor <= this.#patience) return;
    this.#patience = Math.min(this.#patience * 2, MAX_PATIENCE_MS);
    connection.leaveServer('this server has no access to the streams of its cluster');
  }

  /** Counts the silence of every node from now on. */
  #startWaiting(): void {
    const now = this.#components.runtime.stopwatch();
    for (const known of this.#nodes.values()) known.heardAt = now;
  }

  #forget(node: string): void {
    if (this.#nodes.delete(node)) this.#gone.call(node);
  }
}

/** The part of an entry that stays the same until something about the node changes. */
function contentOf({ nkey, session, everyMs, tags }: Entry): string {
  return JSON.stringify([nkey, session, everyMs, tags]);
}

function intervalFor(nodes: number): number {
  const doublings = Math.ceil(Math.log2(Math.max(1, (nodes * EVERY_MS_PER_NODE) / EVERY_MS)));
  return Math.min(MAX_EVERY_MS, EVERY_MS * 2 ** doublings);
}
