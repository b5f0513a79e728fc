import type { Directory } from '../network/directory/directory.js';
import type { Discovery, DiscoveryStatus, Seeker } from '../network/discovery/discovery.js';
import type { Identity } from '../network/membership/identity.js';
import type { Membership } from '../network/membership/membership.js';
import type { Runtime } from '../runtime/runtime.js';
import type { SharedLogs } from '../store/shared/record-log.js';
import type { Registers } from '../store/shared/registers.js';
import { brokerStatus } from './broker-status.js';
import { NatsConnection, type NatsSettings } from './connection.js';
import { KnownUsers } from './known-users.js';
import { NatsDirectory } from './nats-directory.js';
import { NatsDiscovery } from './nats-discovery.js';
import { NatsMail } from './nats-mail.js';
import { NatsObjects } from './nats-objects.js';
import { type LogSecret, NatsRecordLogs } from './nats-record-log.js';
import { NatsRegisters } from './nats-registers.js';
import { Presence } from './presence.js';
import type { ServerConfigUser } from './server-config.js';

/** The mesh's name at the broker, and the nodes whose login keys there are known. */
export interface BrokerUsers {
  readonly mesh: string;
  readonly users: readonly ServerConfigUser[];
}

/** Who may log in at the broker, as far as this node knows. */
export interface BrokerAccess {
  /** This node, and those that were seen there. */
  users(): BrokerUsers;
  /** Nodes that are to join. */
  allowed(): readonly ServerConfigUser[];
  /** Lets a node that is to join log in for a day. */
  allow(user: ServerConfigUser): void;
}

interface BrokerComponents {
  runtime: Runtime;
  identity: Identity;
  /** Keeps the login keys of other nodes. */
  folder?: string | undefined;
}

/** A node's part of a broker: the connection, and who else is there. Links, the directory and mail are built on it. */
export class Broker implements BrokerAccess {
  readonly connection: NatsConnection;
  readonly presence: Presence;
  readonly #components: BrokerComponents;
  readonly #users: KnownUsers;

  constructor(components: BrokerComponents, settings: NatsSettings) {
    this.#components = components;
    this.connection = new NatsConnection(components, settings);
    this.presence = new Presence({ ...components, connection: this.connection });
    this.#users = new KnownUsers(components.folder);
    this.presence.onPresent(({ node, nkey }) => this.#users.add(node, nkey));
  }

  /** Does not wait for the broker. Rejects with `PACKAGE_REQUIRED` if the client is not installed. */
  async start(): Promise<void> {
    await this.connection.start();
    this.presence.start();
  }

  async stop(): Promise<void> {
    await this.presence.stop();
    await this.connection.stop();
  }

  /** `key` encrypts the entries: 32 bytes that all full members know. */
  directory(key: () => Uint8Array | undefined): Directory {
    const { connection, presence } = this;
    const onPublished = (stored: boolean) => {
      if (!stored && key()) this.#components.runtime.logger.warn({}, 'directory entry is too large for NATS');
    };
    return new NatsDirectory({ ...this.#components, connection, presence, key, onPublished });
  }

  /** State that the members of a mesh change together. `shared`: whose it is, and the key that encrypts it. */
  registers(shared: () => { readonly scope: string; readonly key: Uint8Array | undefined }): Registers {
    const init = { scope: () => shared().scope, secret: () => shared().key };
    return new NatsRegisters({ ...this.#components, connection: this.connection }, init);
  }

  /** Logs that the members of a mesh write together. */
  logs(shared: LogSecret): SharedLogs {
    return new NatsRecordLogs({ ...this.#components, connection: this.connection }, shared);
  }

  /** For `doctor`, while this node is in no mesh. */
  status(): DiscoveryStatus {
    return brokerStatus(this);
  }

  discovery(seeker: Seeker): Discovery {
    const { connection, presence } = this;
    return new NatsDiscovery({ ...this.#components, connection, presence, seeker });
  }

  /** Keeps mail for absent nodes. */
  mail(membership: Membership): NatsMail {
    const mesh = () => (membership.joined ? membership.mesh : undefined);
    return new NatsMail({ ...this.#components, connection: this.connection, mesh });
  }

  /** Keeps sealed copies of objects for readers while their node is away. */
  objects(): NatsObjects {
    return new NatsObjects(this.#components.runtime, this.connection);
  }

  users(): BrokerUsers {
    const { names, node, key } = this.connection;
    return { mesh: names.mesh, users: [{ node, nkey: key.text }, ...this.#users.all] };
  }

  allowed(): readonly ServerConfigUser[] {
    return this.#users.allowed(this.#components.runtime.now());
  }

  allow({ node, nkey }: ServerConfigUser): void {
    this.#users.allow(node, nkey, this.#components.runtime.now());
  }
}
