import type { StreamConfig, StreamInfo } from '@nats-io/jetstream';
import { EclipticError } from '../runtime/errors.js';
import type { NatsConnection } from './connection.js';
import { openStream, replicas } from './stores.js';

export interface MailStreamLimits {
  /** The stream's bytes, of all nodes together. */
  readonly maxBytes: number;
  /** Batches from one node to another. */
  readonly maxBatches: number;
}

export const MAIL_STREAM_LIMITS: MailStreamLimits = { maxBytes: 1_073_741_824, maxBatches: 10_000 };

/** As long as a message of another node can live. */
const MAX_AGE_MS = 30 * 86_400_000;
/** A batch that is published again within this time is recognised as the same. */
const DUPLICATE_MS = 120_000;
const NANOS = 1_000_000;

/** The settings that matter: with others, mail could be lost or read by the wrong node. */
const CHECKED = ['retention', 'discard', 'storage', 'max_age', 'max_msgs_per_subject'] as const;

/**
 * Opens the stream of mail for absent nodes, and creates it if it is missing. One that exists is used as it is, and never
 * changed; `differences` are for the owner.
 */
export async function openMailStream(
  connection: NatsConnection,
  limits: MailStreamLimits,
): Promise<{ info: StreamInfo; differences: string[] }> {
  const { names } = connection;
  const wanted = {
    name: names.mailStream,
    subjects: [names.mail('*', '*')],
    retention: 'limits',
    storage: 'file',
    discard: 'new',
    discard_new_per_subject: true,
    max_bytes: limits.maxBytes,
    max_msgs_per_subject: limits.maxBatches,
    max_age: MAX_AGE_MS * NANOS,
    duplicate_window: DUPLICATE_MS * NANOS,
    allow_rollup_hdrs: true,
    num_replicas: replicas(connection),
  } as Partial<StreamConfig> & { name: string };
  const info = await openStream(connection, wanted);
  const { config } = info;
  if (!config.subjects.includes(names.mail('*', '*')) || !config.allow_rollup_hdrs || config.retention !== 'limits')
    throw new EclipticError('BROKER_UNREACHABLE', `the stream ${wanted.name} is not one for mail; delete it`);
  const differences = CHECKED.filter((name) => config[name] !== wanted[name]).map((name) => {
    return `${name} is ${config[name]}, not ${wanted[name]}`;
  });
  return { info, differences };
}
