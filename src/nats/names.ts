import { EclipticError } from '../runtime/errors.js';

/** A mesh's name on a broker: several meshes can share one broker account. */
export const BROKER_MESH = /^[A-Za-z0-9_-]{1,64}$/;
export const DEFAULT_BROKER_MESH = 'main';

/** The subjects, buckets and streams of one mesh on a broker. Permissions are written in terms of them. */
export class BrokerNames {
  readonly mesh: string;

  constructor(mesh: string = DEFAULT_BROKER_MESH) {
    if (!BROKER_MESH.test(mesh))
      throw new EclipticError('INVALID_CONFIG', `"${mesh}" is no name of a mesh on NATS: use [A-Za-z0-9_-]{1,64}`);
    this.mesh = mesh;
  }

  /** `ecl.<mesh>.…` */
  subject(...tokens: readonly string[]): string {
    return ['ecl', this.mesh, ...tokens].join('.');
  }

  /** The name of a bucket or stream: `ecl_<mesh>_<name>`. */
  store(name: string): string {
    return `ecl_${this.mesh}_${name}`;
  }

  /** The subject of the bytes of a link from one node to another. `*` stands for any node. */
  link(to: string, from: string): string {
    return this.subject('l', to, from);
  }

  /** The subject of durable mail from one node to another, in the stream `mailStream`. */
  mail(to: string, from: string): string {
    return this.subject('m', to, from);
  }

  /** The subject of one log, in the stream `recordStream`. */
  record(log: string): string {
    return this.subject('r', log);
  }

  /** The subject of one chunk of an object of a node, in the stream `objectStream`. */
  object(node: string, id: string, chunk: string): string {
    return this.subject('o', node, id, chunk);
  }

  /** Where answers to one node's requests arrive. Own prefixes keep nodes from reading each other's answers. */
  inbox(node: string): string {
    return this.subject('i', node);
  }

  /** Where a host waits for guests of one invite: only who knows the topic knows the subject. */
  invite(topic: string): string {
    return this.subject('j', topic);
  }

  /** The subject of one key of a bucket, as the KV client publishes to it. */
  key(bucket: string, key: string): string {
    return `$KV.${bucket}.${key}`;
  }

  get presenceBucket(): string {
    return this.store('presence');
  }

  get directoryBucket(): string {
    return this.store('directory');
  }

  get leaseBucket(): string {
    return this.store('leases');
  }

  get mailStream(): string {
    return this.store('mail');
  }

  get recordStream(): string {
    return this.store('records');
  }

  get objectStream(): string {
    return this.store('objects');
  }
}
