import { BrokerNames } from './names.js';

export interface ServerConfigUser {
  readonly node: string;
  readonly nkey: string;
}

export interface ServerConfigInit {
  readonly mesh: string;
  readonly users: readonly ServerConfigUser[];
  /** Default `0.0.0.0:4222`. */
  readonly listen?: string | undefined;
  /** JetStream's folder. Default `/var/lib/nats`. */
  readonly store?: string | undefined;
  /** Write every acknowledged message to the disk first: NATS 2.10 and later. Default true. */
  readonly syncAlways?: boolean | undefined;
}

/** What the streams of one mesh may hold together, and how many there may be. */
const MAX_FILE = '16GB';
const MAX_MEMORY = '256MB';
const MAX_STREAMS = 16;
const MAX_CONSUMERS = 10_000;

/** A complete configuration of a NATS server for one mesh: each node can publish and subscribe as itself only. */
export function serverConfig(init: ServerConfigInit): string {
  const { users, listen = '0.0.0.0:4222', store = '/var/lib/nats', syncAlways = true } = init;
  const names = new BrokerNames(init.mesh);
  return [
    `# NATS for the mesh "${names.mesh}". Read again with: nats-server --signal reload`,
    `listen: ${quote(listen)}`,
    '# A durable message with a payload of the largest size, sealed for its recipient.',
    'max_payload: 4MB',
    'jetstream {',
    `  store_dir: ${quote(store)}`,
    ...(syncAlways
      ? ['  # An acknowledged message survives a loss of power.', '  sync_interval: always']
      : ['  # This server has no sync_interval: a loss of power can cost messages that it has acknowledged.']),
    '}',
    'system_account: SYS',
    'accounts {',
    '  SYS {}',
    `  ECL_${names.mesh.replaceAll('-', '_')} {`,
    `    jetstream { max_file: ${MAX_FILE}, max_memory: ${MAX_MEMORY}, max_streams: ${MAX_STREAMS}, max_consumers: ${MAX_CONSUMERS} }`,
    '    users: [',
    ...users.flatMap((user) => userLines(names, user).map((line) => `      ${line}`)),
    '    ]',
    '  }',
    '}',
    '',
  ].join('\n');
}

function userLines(names: BrokerNames, { node, nkey }: ServerConfigUser): string[] {
  return [
    `{ # node ${node}`,
    `  nkey: ${nkey}`,
    '  permissions {',
    `    publish { allow: ${list(publishable(names, node))} }`,
    `    subscribe { allow: ${list(subscribable(names, node))} }`,
    // The host of an invite answers a guest's question, once each.
    '    allow_responses { max: 1, expires: "5s" }',
    '  }',
    '}',
  ];
}

/**
 * Subjects that a node may publish to: its own links, mail, objects, presence and entry, leases and records that nodes write together,
 * and the requests that it makes of JetStream.
 */
function publishable(names: BrokerNames, node: string): string[] {
  const { presenceBucket, directoryBucket, leaseBucket, mailStream, recordStream, objectStream } = names;
  const shared = [`KV_${presenceBucket}`, `KV_${directoryBucket}`, `KV_${leaseBucket}`];
  return [
    names.link('*', node),
    names.mail('*', node),
    names.object(node, '*', '*'),
    names.invite('*'),
    names.record('*'),
    names.key(presenceBucket, node),
    names.key(directoryBucket, node),
    names.key(leaseBucket, '>'),
    '$JS.API.INFO',
    ...[...shared, mailStream].flatMap((stream) => [
      `$JS.API.STREAM.INFO.${stream}`,
      `$JS.API.STREAM.CREATE.${stream}`,
      `$JS.API.CONSUMER.INFO.${stream}.*`,
      `$JS.API.CONSUMER.MSG.NEXT.${stream}.*`,
      `$JS.API.CONSUMER.DELETE.${stream}.*`,
      `$JS.FC.${stream}.>`,
    ]),
    ...shared.flatMap((stream) => [
      `$JS.API.CONSUMER.CREATE.${stream}`,
      `$JS.API.CONSUMER.CREATE.${stream}.>`,
      `$JS.API.DIRECT.GET.${stream}`,
      `$JS.API.DIRECT.GET.${stream}.>`,
    ]),
    `$JS.API.STREAM.INFO.${recordStream}`,
    `$JS.API.STREAM.CREATE.${recordStream}`,
    // Read from the stream's leader, which is never behind.
    `$JS.API.STREAM.MSG.GET.${recordStream}`,
    `$JS.API.STREAM.MSG.GET.KV_${leaseBucket}`,
    // The filter is part of these subjects, so they read this node's mail only.
    `$JS.API.CONSUMER.CREATE.${mailStream}.*.${names.mail(node, '>')}`,
    `$JS.API.CONSUMER.CREATE.${mailStream}.*.${names.mail(node, '*')}`,
    `$JS.API.DIRECT.GET.${mailStream}.${names.mail(node, '>')}`,
    // Objects are encrypted; the key is in the message that refers to them.
    `$JS.API.STREAM.INFO.${objectStream}`,
    `$JS.API.STREAM.CREATE.${objectStream}`,
    `$JS.API.DIRECT.GET.${objectStream}.${names.object('*', '*', '*')}`,
  ];
}

function subscribable(names: BrokerNames, node: string): string[] {
  const own = [names.link(node, '*'), names.mail(node, '*'), `${names.inbox(node)}.>`];
  return [...own, names.invite('*'), names.record('*')];
}

function list(subjects: readonly string[]): string {
  return `[${subjects.map(quote).join(', ')}]`;
}

function quote(text: string): string {
  return JSON.stringify(text);
}
