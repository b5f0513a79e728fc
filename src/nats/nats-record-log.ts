import { createHash } from 'node:crypto';
import type { StreamConfig } from '@nats-io/jetstream';
import type { Subscription } from '@nats-io/transport-node';
import type { Identity } from '../network/membership/identity.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import type { SharedLogs, SharedLogTail, SharedLogValue } from '../store/shared/record-log.js';
import { brokerError, type CoreConnection, type NatsConnection } from './connection.js';
import { SignedValues } from './signed-value.js';
import { hasStream, isConflict, replicated } from './stores.js';

export interface NatsRecordLogsComponents {
  runtime: Runtime;
  identity: Identity;
  connection: NatsConnection;
}

/** Whose logs they are, and the key that its members have and the broker has not; undefined while this node is no member. */
export type LogSecret = () => { readonly scope: string; readonly key: Uint8Array | undefined };

const APPEND_MS = 3_000;
const MAX_AGE_MS = 30 * 86_400_000;
const MAX_BYTES = 1_073_741_824;
const NANOS = 1_000_000;
/** Values of one read. */
const MAX_READ = 256;
/** A value is announced before it can be read. */
const AFTER_NEWS_MS = 20;

/** Logs in one stream, each under a subject of its own. The sequence of a value is that of its message. */
export class NatsRecordLogs implements SharedLogs {
  readonly #components: NatsRecordLogsComponents;
  readonly #secret: LogSecret;
  readonly #values: SignedValues;
  /** The connection on which the stream was last seen. */
  #opened: CoreConnection | undefined;

  constructor(components: NatsRecordLogsComponents, secret: LogSecret) {
    this.#components = components;
    this.#secret = secret;
    this.#values = new SignedValues({ ...components, secret: () => secret().key }, 'nats record');
  }

  async append(log: string, expectedLast: number, value: unknown): Promise<number | undefined> {
    const { connection } = this.#components;
    if (!this.#secret().key)
      throw new EclipticError('NO_MESH', 'this node belongs to no mesh that could read its logs');
    const subject = this.#subject(log);
    const bytes = this.#values.make(this.#place(subject), expectedLast, value);
    const most = connection.info?.max_payload ?? Number.POSITIVE_INFINITY;
    if (bytes.length > most)
      throw new EclipticError('PAYLOAD_TOO_LARGE', `the value has ${bytes.length} bytes, and the broker takes ${most}`);
    try {
      await this.#open();
      const js = await connection.jetstream();
      const expect = { lastSubjectSequence: expectedLast };
      return (await js.publish(subject, bytes, { expect, timeout: APPEND_MS })).seq;
    } catch (error) {
      if (isConflict(error)) return undefined;
      throw brokerError(error);
    }
  }

  async read(log: string, above: number): Promise<SharedLogTail> {
    const subject = this.#subject(log);
    const values: SharedLogValue[] = [];
    let last = above;
    for (let count = 0; count < MAX_READ; count++) {
      const message = await this.#next(subject, last);
      if (!message) return { values, last, isCut: false };
      last = message.seq;
      const opened = this.#values.open(this.#place(subject), message.data);
      if (opened?.value !== undefined) values.push({ sequence: last, writer: opened.writer, value: opened.value });
    }
    return { values, last, isCut: true };
  }

  watch(log: string, listener: () => void): () => void {
    const { runtime, connection } = this.#components;
    let subscription: Subscription | undefined;
    let soon: Timer | undefined;
    const tell = () => {
      soon = undefined;
      listener();
    };
    // A message here is a sign only: the server may refuse to store it.
    const callback = () => {
      soon ??= runtime.setTimer(tell, AFTER_NEWS_MS);
    };
    const remove = connection.onConnected(() => {
      subscription?.unsubscribe();
      subscription = connection.core.subscribe(this.#subject(log), { callback });
      callback();
    });
    return () => {
      remove();
      soon?.cancel();
      subscription?.unsubscribe();
    };
  }

  get #name(): string {
    return this.#components.connection.names.recordStream;
  }

  #place(subject: string) {
    return { store: this.#name, key: subject };
  }

  /** A digest, so that subjects do not tell the names of logs. */
  #subject(log: string): string {
    const digest = createHash('sha256').update(`${this.#secret().scope}\n${log}`).digest('hex');
    return this.#components.connection.names.record(digest.slice(0, 40));
  }

  async #next(subject: string, above: number) {
    try {
      await this.#open();
      const manager = await this.#components.connection.manager();
      // The client's type leaves this form out, which servers have since 2.9.
      const query = { seq: above + 1, next_by_subj: subject } as { seq: number };
      return await manager.streams.getMessage(this.#name, query);
    } catch (error) {
      throw brokerError(error);
    }
  }

  async #open(): Promise<void> {
    const { connection } = this.#components;
    const { core } = connection;
    if (this.#opened === core) return;
    if (!(await hasStream(connection, this.#name))) await this.#create();
    const { config } = await (await connection.manager()).streams.info(this.#name);
    if (!isSafe(config) || !config.subjects.includes(connection.names.record('*')))
      throw new EclipticError('BROKER_UNREACHABLE', `the stream ${this.#name} is not one for records; delete it`);
    this.#opened = core;
  }

  async #create(): Promise<void> {
    const { connection } = this.#components;
    const config = {
      name: this.#name,
      subjects: [connection.names.record('*')],
      storage: 'file',
      // A log that cannot grow shows at once. One that has lost its beginning would show at a restart.
      discard: 'new',
      max_age: MAX_AGE_MS * NANOS,
      max_bytes: MAX_BYTES,
      // Reads come from the leader only: those of followers can be behind.
      allow_direct: false,
      deny_delete: true,
      deny_purge: true,
    } as Partial<StreamConfig> & { name: string };
    try {
      const manager = await connection.manager();
      await replicated(connection, (copies) => manager.streams.add({ ...config, num_replicas: copies }));
    } catch (error) {
      // Another node was faster.
      if (!(await hasStream(connection, this.#name))) throw brokerError(error);
    }
  }
}

/** A stream with other settings loses records early, and any member may have created it. */
function isSafe({ discard, retention, max_age, max_msgs_per_subject }: StreamConfig): boolean {
  const isLasting = max_age === 0 || max_age >= MAX_AGE_MS * NANOS;
  return discard === 'new' && retention === 'limits' && isLasting && max_msgs_per_subject <= 0;
}
