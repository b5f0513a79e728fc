import { createHash } from 'node:crypto';
import type { ConsumerMessages, JsMsg } from '@nats-io/jetstream';
import type { Custody, MailRelay, RelayListener, SealedBatch } from '../mail/relay.js';
import { type Identity, isSignedBy } from '../network/membership/identity.js';
import { BOX_BYTES, SealedBoxes } from '../network/membership/sealed-box.js';
import { wait } from '../runtime/async.js';
import { Backoff } from '../runtime/backoff.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import { BatchParts, markPart, partsOf } from './batch-parts.js';
import { brokerError, type NatsConnection } from './connection.js';
import { MAIL_STREAM_LIMITS, type MailStreamLimits, openMailStream } from './mail-stream.js';

export interface NatsMailComponents {
  runtime: Runtime;
  identity: Identity;
  connection: NatsConnection;
  /** The mesh's root key; undefined while this node belongs to none. */
  mesh: () => string | undefined;
}

const PURPOSE = 'relayed mail';
const SIGNATURE_CHARS = 86;
/** A server's `max_payload`, if it does not say. */
const DEFAULT_PAYLOAD = 1_048_576;
/** Room for the headers of a message. */
const HEADER_BYTES = 1_024;
/** The largest batch; one that is larger than the server's messages goes in parts. */
const MAX_BATCH_BYTES = 8 * 1_048_576;
/** Senders whose batches came in part: each may have as many bytes in memory. */
const MAX_PART_SENDERS = 16;
const PUBLISH_MS = 5_000;
/** Batches that are fetched ahead, and their bytes. */
const READ_AHEAD_BYTES = 4 * 1_048_576;
/** How often this node looks whether the stream is still the same. */
const CHECK_MS = 30_000;
/**
 * How long a replicated stream must lack batches before they count as lost. A server that was cut off from the others
 * answers from its own copy until it notices, after about ten seconds, and one that was just elected may be behind.
 */
const LOST_MS = 30_000;
const FIRST_RETRY_MS = 250;
const LONGEST_RETRY_MS = 10_000;

/**
 * Mail for absent nodes in one stream of the broker. A message of the stream is a batch: signed by its sender, and sealed to
 * its recipient under its subject, so that the broker sees who writes to whom, when and how much, and nothing else.
 */
export class NatsMail implements MailRelay {
  readonly #components: NatsMailComponents;
  readonly #limits: MailStreamLimits;
  readonly #boxes: SealedBoxes;
  readonly #stopping = new AbortController();
  readonly #backoff = new Backoff(FIRST_RETRY_MS, LONGEST_RETRY_MS);
  #listener: RelayListener | undefined;
  #removals: (() => void)[] = [];
  /** Which reader is the current one: another begins at each connection. */
  #reader = 0;
  #messages: ConsumerMessages | undefined;
  #reading: Promise<void> = Promise.resolve();
  /** Until the stream is open: whether it is the one of before decides what is published. */
  #opening: Promise<void> = Promise.resolve();
  /** The stream that is open: when it was created, and the highest sequence that is known. */
  #opened = { id: 0, last: 0 };
  #check: Timer | undefined;
  #differences: readonly string[] = [];
  readonly #parts = new BatchParts({ maxBytes: MAX_BATCH_BYTES, maxSenders: MAX_PART_SENDERS });

  constructor(components: NatsMailComponents, limits: Partial<MailStreamLimits> = {}) {
    this.#components = components;
    this.#limits = { ...MAIL_STREAM_LIMITS, ...limits };
    this.#boxes = new SealedBoxes(components.runtime, components.identity.seed);
  }

  get maxBytes(): number {
    return MAX_BATCH_BYTES - BOX_BYTES - SIGNATURE_CHARS;
  }

  get maxBatches(): number {
    return this.#limits.maxBatches;
  }

  /** How the stream differs from one that this version would create. */
  get differences(): readonly string[] {
    return this.#differences;
  }

  start(listener: RelayListener): void {
    const { connection } = this.#components;
    this.#listener = listener;
    this.#removals = [connection.onConnected(() => this.#open()), connection.onDisconnected(() => this.#endReader())];
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#check?.cancel();
    for (const remove of this.#removals) remove();
    this.#endReader();
    await this.#reading;
  }

  read(after: number): void {
    const reader = this.#endReader();
    this.#reading = this.#reading.then(() => this.#read(reader, after));
  }

  seal(node: string, body: string): SealedBatch {
    const { identity, connection } = this.#components;
    const statement = this.#statement(identity.key, node, Buffer.from(body));
    if (!statement) throw new EclipticError('NO_MESH', 'this node belongs to no mesh');
    const content = Buffer.from(identity.sign(PURPOSE, statement) + body);
    const bytes = this.#boxes.seal(node, connection.names.mail(node, identity.key), content);
    // Of the sealed bytes: no other node can publish something else under this id before.
    return { node, id: digestOf(bytes), bytes };
  }

  async publish({ node, id, bytes }: SealedBatch, { replace }: { replace: boolean }): Promise<Custody> {
    const { connection, identity } = this.#components;
    const { names } = connection;
    try {
      await this.#opening;
      const jetstream = await connection.jetstream();
      const { headers } = await import('@nats-io/transport-node');
      const size = (connection.info?.max_payload ?? DEFAULT_PAYLOAD) - HEADER_BYTES;
      const parts = bytes.length <= size ? [['', bytes] as const] : partsOf(id, bytes, Math.max(1, size));
      let [custody, messages]: [Custody | undefined, number] = [undefined, 0];
      for (const [part, data] of parts) {
        const head = headers();
        if (replace && messages === 0) head.set('Nats-Rollup', 'sub');
        if (part !== '') markPart(head, part);
        const options = {
          msgID: `${id}${messages === 0 ? '' : `.${messages}`}`,
          timeout: PUBLISH_MS,
          headers: head,
          retries: 0,
        };
        const { stream, seq, duplicate } = await jetstream.publish(names.mail(node, identity.key), data, options);
        // Sequences only grow: this is another stream.
        if (seq < this.#opened.last && !duplicate) this.#checkSoon(0);
        this.#opened.last = Math.max(seq, this.#opened.last);
        messages++;
        custody = stream === names.mailStream ? { custodian: this.#custodian, position: seq, messages } : undefined;
        if (!custody) break;
      }
      if (custody) return custody;
    } catch (error) {
      // The stream may have been deleted.
      if (/no responders|503/i.test(describeError(error)) && connection.isConnected) this.#open();
      throw brokerError(error);
    }
    throw new EclipticError('BROKER_UNREACHABLE', `mail went to a stream that is not ${names.mailStream}`);
  }

  get #custodian(): string {
    const { info } = this.#components.connection;
    return info?.cluster === undefined ? `NATS server ${info?.server_name ?? ''}` : `NATS cluster ${info.cluster}`;
  }

  #statement(from: string, to: string, body: Uint8Array) {
    const mesh = this.#components.mesh();
    return mesh === undefined ? undefined : { mesh, from, to, digest: digestOf(body) };
  }

  /** Ends the current reader. Returns the number of the next. */
  #endReader(): number {
    this.#messages?.stop();
    this.#messages = undefined;
    return ++this.#reader;
  }

  /** Opens the stream and reads on where this node was. */
  #open(): void {
    const reader = this.#endReader();
    this.#opening = this.#reading.then(async () => {
      const { connection, runtime } = this.#components;
      let behindSince: number | undefined;
      let logged: string | undefined;
      while (reader === this.#reader && !this.#stopping.signal.aborted) {
        try {
          const { info, differences } = await openMailStream(connection, this.#limits);
          this.#differences = differences;
          if (differences.length > 0) runtime.logger.warn({ differences }, 'mail stream has other settings');
          const store = { id: Date.parse(info.created), last: info.state.last_seq };
          const isBehind = info.config.num_replicas > 1 && store.last < this.#listener!.reached(store.id);
          behindSince = isBehind ? (behindSince ?? runtime.stopwatch()) : undefined;
          if (behindSince !== undefined && runtime.stopwatch() - behindSince < LOST_MS)
            throw new EclipticError('BROKER_UNREACHABLE', 'the server does not have the latest mail of its cluster');
          const after = await this.#listener!.opened(store);
          this.#opened = store;
          if (reader === this.#reader) this.read(after);
          this.#checkSoon();
          return;
        } catch (error) {
          const reason = describeError(error);
          if (reader === this.#reader && reason !== logged)
            runtime.logger.warn({ reason }, 'mail stream cannot be opened');
          logged = reason;
          await wait(runtime, this.#backoff.next(), this.#stopping.signal);
        }
      }
    });
    this.#reading = this.#opening;
  }

  /** Looks whether the stream is still the same: one that was deleted and created again has other sequences. */
  #checkSoon(ms = CHECK_MS): void {
    const { runtime, connection } = this.#components;
    this.#check?.cancel();
    this.#check = runtime.setTimer(async () => {
      if (this.#stopping.signal.aborted || !connection.isConnected) return;
      try {
        const { created, state } = await (await connection.manager()).streams.info(connection.names.mailStream);
        const { id, last } = this.#opened;
        if (Date.parse(created) !== id || state.last_seq < last) return this.#open();
      } catch (error) {
        if (/not found/i.test(describeError(error))) return this.#open();
      }
      this.#checkSoon();
    }, ms);
  }

  async #read(reader: number, after: number): Promise<void> {
    const { connection, identity, runtime } = this.#components;
    const { names } = connection;
    if (reader !== this.#reader || this.#stopping.signal.aborted) return;
    this.#parts.clear();
    try {
      const { DeliverPolicy } = await import('@nats-io/jetstream');
      const consumer = await (await connection.jetstream()).consumers.get(names.mailStream, {
        filter_subjects: names.mail(identity.key, '*'),
        deliver_policy: DeliverPolicy.StartSequence,
        opt_start_seq: after + 1,
      });
      const messages = await consumer.consume({ max_bytes: READ_AHEAD_BYTES, abort_on_missing_resource: true });
      if (reader !== this.#reader) return messages.stop();
      this.#messages = messages;
      this.#backoff.reset();
      for await (const message of messages) {
        if (reader !== this.#reader) return;
        await this.#take(message);
      }
    } catch (error) {
      if (reader === this.#reader) runtime.logger.warn({ err: error }, 'mail stream cannot be read');
    }
    if (reader !== this.#reader || this.#stopping.signal.aborted) return;
    await wait(runtime, this.#backoff.next(), this.#stopping.signal);
    if (reader === this.#reader && connection.isConnected) this.#open();
  }

  async #take({ subject, headers, data, seq: position }: JsMsg): Promise<void> {
    const listener = this.#listener!;
    const node = subject.slice(subject.lastIndexOf('.') + 1);
    const batch = { node, position };
    if (data.byteLength > MAX_BATCH_BYTES) return listener.refuse(batch, `it has ${data.byteLength} bytes`);
    const whole = this.#parts.take(node, headers, data);
    if (whole === 'begun') return listener.begun(batch);
    if (whole === 'more') return;
    if (whole === 'broken') return listener.refuse(batch, 'a part of it is missing');
    const content = this.#boxes.open(subject, whole);
    if (!content) return listener.refuse(batch, 'it is damaged, or not for this node');
    const [signature, body] = [content.subarray(0, SIGNATURE_CHARS), content.subarray(SIGNATURE_CHARS)];
    const statement = this.#statement(node, this.#components.identity.key, body);
    if (!statement || !isSignedBy(node, PURPOSE, statement, signature.toString('latin1')))
      return listener.refuse(batch, 'that node did not sign it for this one in this mesh');
    await listener.take({ ...batch, body: body.toString('utf8') });
  }
}

function digestOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('base64url');
}
