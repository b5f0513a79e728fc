import type { JetStreamManager, StreamConfig, StreamInfo } from '@nats-io/jetstream';
import type { KV, KvOptions } from '@nats-io/kv';
import { brokerError, type NatsConnection } from './connection.js';

/** Copies of a bucket or stream on a cluster: with three, one server may be lost. */
const REPLICAS = 3;

/** Has the connected server a TTL for each message? */
export function hasMessageTtl(connection: NatsConnection): boolean {
  const [major = 0, minor = 0] = (connection.info?.version ?? '').split(/[.-]/).map(Number);
  return major > 2 || (major === 2 && minor >= 11);
}

/** How many copies to ask for on the connected server. */
export function replicas(connection: NatsConnection): number {
  return connection.info?.cluster === undefined ? 1 : REPLICAS;
}

/** How often a cluster is asked for all copies, a second apart: one that has just started cannot give them yet. */
const ATTEMPTS = 10;

/** Makes a bucket or stream with as many copies as there should be, or with one on a cluster of fewer servers. */
export async function replicated<T>(connection: NatsConnection, make: (copies: number) => Promise<T>): Promise<T> {
  const copies = replicas(connection);
  for (let attempt = 1; ; attempt++) {
    try {
      return await make(attempt > ATTEMPTS ? 1 : copies);
    } catch (error) {
      const isShort = /insufficient|no suitable peers|replicas/i.test(String(error));
      if (!isShort || copies === 1 || attempt > ATTEMPTS) throw error;
      await connection.pause(1_000);
    }
  }
}

/** Opens a bucket, and creates it if it is missing. Rejects with `BROKER_UNREACHABLE`. */
export async function openBucket(connection: NatsConnection, name: string, options: Partial<KvOptions>): Promise<KV> {
  try {
    const kvm = await connection.kvm();
    return await replicated(connection, (copies) => kvm.create(name, { ...options, replicas: copies }));
  } catch (error) {
    throw brokerError(error);
  }
}

/** Opens a stream, and creates it if it is missing. One that exists is used as it is. */
export async function openStream(
  connection: NatsConnection,
  wanted: Partial<StreamConfig> & { name: string },
): Promise<StreamInfo> {
  const manager = await connection.manager();
  return (await found(manager, wanted.name)) ?? (await created(connection, manager, wanted));
}

async function found(manager: JetStreamManager, name: string): Promise<StreamInfo | undefined> {
  try {
    return await manager.streams.info(name);
  } catch (error) {
    if (/not found/i.test(String(error))) return undefined;
    throw error;
  }
}

function created(
  connection: NatsConnection,
  manager: JetStreamManager,
  wanted: Partial<StreamConfig> & { name: string },
): Promise<StreamInfo> {
  return replicated(connection, async (copies) => {
    try {
      return await manager.streams.add({ ...wanted, num_replicas: copies });
    } catch (error) {
      // Another node may have been first, also with other limits.
      const theirs = await found(manager, wanted.name);
      if (theirs) return theirs;
      throw error;
    }
  });
}

/** Does the stream exist? The owner may have created it, and nodes then need no right to. */
export async function hasStream(connection: NatsConnection, name: string): Promise<boolean> {
  try {
    await (await connection.manager()).streams.info(name);
    return true;
  } catch (error) {
    if (/not found/i.test(String(error))) return false;
    throw brokerError(error);
  }
}

/** The server's codes for a write whose expected revision or sequence is not the latest. */
const CONFLICTS: readonly unknown[] = [10071, 10164];

/** Has the server refused a write because another came first? */
export function isConflict(error: unknown): boolean {
  return CONFLICTS.includes((error as { code?: unknown }).code);
}
