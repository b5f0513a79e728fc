import type { JetStreamClient, JetStreamManager } from '@nats-io/jetstream';
import type { Kvm } from '@nats-io/kv';
import type { NatsConnection as CoreConnection, ServerInfo, Status } from '@nats-io/transport-node';
import { Deferred, wait, within } from '../runtime/async.js';
import { Backoff } from '../runtime/backoff.js';
import { Callbacks, logCallback } from '../runtime/callbacks.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { BrokerNames } from './names.js';
import { BrokerKey } from './nkey.js';
import { brokerGaps } from './server-version.js';

export type { CoreConnection };

export interface NatsSettings {
  /** `nats://host:port` or `tls://host:port`, with `user:password@` or `token@` where the server asks for it. */
  readonly servers: readonly string[];
  /** The mesh's name on the broker. Default `main`. */
  readonly mesh?: string | undefined;
}

export interface NatsConnectionComponents {
  runtime: Runtime;
  /** The node whose seed the login key is derived from. */
  identity: { readonly key: string; readonly seed: string };
}

const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 5_000;
/** Mean time between attempts once there was a connection; the client asks for it more than once an attempt. */
const RECONNECT_MS = 500;
/** Longest time between attempts at servers that refuse this node. */
const REFUSED_MS = 10_000;
/** Time for one attempt to connect. */
const CONNECT_MS = 5_000;
/** A broker that does not answer two pings is taken for gone, also when the connection was not closed. */
const PING_MS = 2_000;
const PINGS_MISSED = 2;
const STOP_MS = 1_000;
/** For an answer of JetStream. Requests are lost while a cluster elects a leader, which takes four to nine seconds. */
const API_MS = 2_000;
const REFUSAL = /authorization|authentication/i;
const PACKAGES = ['@nats-io/transport-node', '@nats-io/jetstream', '@nats-io/kv'];

/**
 * This node's one connection to the broker. It is made in the background and made again whenever it is lost; subscriptions
 * of the core connection survive that, messages under way do not.
 */
export class NatsConnection {
  readonly names: BrokerNames;
  readonly key: BrokerKey;
  readonly node: string;
  readonly #runtime: Runtime;
  readonly #settings: NatsSettings;
  readonly #connected: Callbacks<[]>;
  readonly #disconnected: Callbacks<[reason: string]>;
  readonly #backoff = new Backoff(FIRST_WAIT_MS, LONGEST_WAIT_MS);
  readonly #stopping = new AbortController();
  #core: CoreConnection | undefined;
  #isConnected = false;
  #failure = 'not connected yet';
  /** Reasons logged since the last connection; a repeated reason is logged at debug level. */
  readonly #logged = new Set<string>();
  /** The server that was left because it did not answer: it is tried last. */
  #left: string | undefined;
  /** How often servers have refused this node since it was connected. */
  #refusals = 0;
  #running: Promise<void> | undefined;
  #clients: { core: CoreConnection; made: Promise<BrokerClients> } | undefined;

  constructor(components: NatsConnectionComponents, settings: NatsSettings) {
    this.#runtime = components.runtime;
    this.#settings = settings;
    this.node = components.identity.key;
    this.key = new BrokerKey(components.identity.seed);
    this.names = new BrokerNames(settings.mesh);
    this.#connected = new Callbacks('nats connected', logCallback(components.runtime.logger));
    this.#disconnected = new Callbacks('nats disconnected', logCallback(components.runtime.logger));
  }

  /** Loads the client and begins to connect, without waiting for the broker. Rejects if the client is not installed. */
  async start(): Promise<void> {
    if (this.#running) return;
    const { connect } = await load(() => import('@nats-io/transport-node'));
    this.#running = this.#run(connect);
  }

  /** Called at each connection to the broker, also after a loss, and at once if there is one. Returns what unsubscribes. */
  onConnected(listener: () => void): () => void {
    const remove = this.#connected.add(listener);
    if (this.#isConnected) listener();
    return remove;
  }

  onDisconnected(listener: (reason: string) => void): () => void {
    return this.#disconnected.add(listener);
  }

  get isConnected(): boolean {
    return this.#isConnected;
  }

  /** Why there is no connection. */
  get failure(): string | undefined {
    return this.#isConnected ? undefined : this.#failure;
  }

  /** Do the servers refuse this node's login? */
  get isRefused(): boolean {
    return !this.#isConnected && REFUSAL.test(this.#failure);
  }

  /** Does this node log in with what its configuration says, and not with its own key? */
  get hasPassword(): boolean {
    return this.#settings.servers.some((server) => new URL(server).username !== '');
  }

  get servers(): readonly string[] {
    return this.#settings.servers.map(withoutSecret);
  }

  /** The server that this node is connected to. */
  get info(): ServerInfo | undefined {
    return this.#isConnected ? this.#core?.info : undefined;
  }

  /** What the connected server cannot do that this package would use. */
  get gaps(): readonly string[] {
    return this.info ? brokerGaps(this.info) : [];
  }

  /** The connection for publish and subscribe. Throws `BROKER_UNREACHABLE` while there is none. */
  get core(): CoreConnection {
    if (!this.#core || !this.#isConnected) throw this.#unreachable();
    return this.#core;
  }

  /** Waits before another attempt at something that the broker could not do. */
  async pause(ms: number): Promise<void> {
    await wait(this.#runtime, ms, this.#stopping.signal);
  }

  /** Resolves with the connection once there is one; rejects with `BROKER_UNREACHABLE` after `ms`. */
  async ready(ms: number): Promise<CoreConnection> {
    if (this.#isConnected) return this.core;
    const connected = new Deferred<void>();
    const remove = this.onConnected(() => connected.resolve());
    try {
      await within(this.#runtime, connected.promise, ms, () => {
        throw this.#unreachable();
      });
    } finally {
      remove();
    }
    return this.core;
  }

  async jetstream(): Promise<JetStreamClient> {
    return (await this.#made()).jetstream;
  }

  async manager(): Promise<JetStreamManager> {
    return (await this.#made()).manager;
  }

  async kvm(): Promise<Kvm> {
    return (await this.#made()).kvm;
  }

  /** Goes to another server of the cluster, because this one is of no use. Without another, it stays. */
  leaveServer(reason: string): void {
    if (this.#isConnected && this.#settings.servers.length > 1) this.#abandon(this.core, reason);
  }

  async stop(): Promise<void> {
    if (this.#stopping.signal.aborted) return this.#running;
    this.#stopping.abort();
    const core = this.#core;
    if (core && !core.isClosed()) {
      // Bytes that were published reach the broker before the connection closes, if it takes them in time.
      if (this.#isConnected)
        await within(
          this.#runtime,
          core.flush().catch(() => {}),
          STOP_MS,
          () => undefined,
        );
      await core.close();
    }
    await this.#running;
    this.#lost('this node closed it');
    this.#connected.clear();
    this.#disconnected.clear();
  }

  async #run(connect: typeof import('@nats-io/transport-node').connect): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        const core = await connect(this.#options());
        if (signal.aborted) return await core.close();
        this.#core = core;
        this.#gained();
        await this.#follow(core);
      } catch (error) {
        const reason = describeError(error);
        this.#failure = reason;
        const isNews = !this.#logged.has(reason);
        this.#logged.add(reason);
        if (isNews) this.#runtime.logger.warn({ servers: this.servers, reason }, 'NATS connection failed');
        else this.#runtime.logger.debug({ servers: this.servers, err: error }, 'NATS connection failed');
      }
      if (!signal.aborted) await wait(this.#runtime, this.#backoff.next() * (0.5 + this.#runtime.random()), signal);
    }
  }

  /** Until the client gives the connection up. It reconnects by itself, and resubscribes. */
  async #follow(core: CoreConnection): Promise<void> {
    for await (const status of core.status()) this.#note(core, status);
    const error = await core.closed();
    this.#lost(error ? describeError(error) : 'the connection was closed');
  }

  #note(core: CoreConnection, status: Status): void {
    if (status.type === 'reconnect' && core === this.#core) this.#gained();
    else if (status.type === 'disconnect') this.#lost(`the connection to ${status.server} was lost`);
    else if (status.type === 'staleConnection') this.#abandon(core, 'the broker no longer answers');
    else if (status.type === 'error') {
      const { message } = status.error;
      const isKnown = !this.#isConnected && this.#failure === message;
      if (REFUSAL.test(message)) this.#refusals++;
      this.#failure = message;
      this.#runtime.logger[isKnown ? 'debug' : 'warn']({ err: status.error }, 'NATS broker reported an error');
    }
  }

  /** The client would first send what waits, which a server that is gone without a word never takes. */
  #abandon(core: CoreConnection, reason: string): void {
    this.#left = core.getServer();
    this.#lost(reason);
    void core.close();
  }

  #gained(): void {
    if (this.#isConnected || this.#stopping.signal.aborted) return;
    this.#isConnected = true;
    this.#refusals = 0;
    this.#logged.clear();
    this.#backoff.reset();
    this.#runtime.logger.info(
      { server: this.#core!.getServer(), version: this.#core!.info?.version },
      'NATS connected',
    );
    this.#connected.call();
  }

  #lost(reason: string): void {
    if (!this.#isConnected) return;
    this.#isConnected = false;
    this.#failure = reason;
    if (!this.#stopping.signal.aborted) this.#runtime.logger.warn({ reason }, 'NATS disconnected');
    this.#disconnected.call(reason);
  }

  #options() {
    const { servers } = this.#settings;
    const urls = servers.map((server) => new URL(server));
    const hosts = urls.map(({ host }) => host);
    return {
      servers: [...hosts.filter((host) => host !== this.#left), ...hosts.filter((host) => host === this.#left)],
      noRandomize: this.#left !== undefined,
      name: `ecliptic ${this.node.slice(0, 8)}`,
      authenticator: (nonce?: string) => this.#login(urls, nonce),
      inboxPrefix: this.names.inbox(this.node),
      noEcho: true,
      timeout: CONNECT_MS,
      pingInterval: PING_MS,
      maxPingOut: PINGS_MISSED,
      maxReconnectAttempts: -1,
      reconnectDelayHandler: () => this.#reconnectMs * (0.5 + this.#runtime.random()),
      // Servers that others announce would be tried without a pause until one admits this node. They are often not reachable.
      ignoreClusterUpdates: true,
      // The owner may be about to add this node to the server's configuration.
      ignoreAuthErrorAbort: true,
      ...(urls.some(({ protocol }) => protocol === 'tls:') && { tls: {} }),
    };
  }

  /** A node that was removed from the servers' configuration asks less and less often. */
  get #reconnectMs(): number {
    return Math.min(RECONNECT_MS * 2 ** Math.min(this.#refusals, 10), REFUSED_MS);
  }

  #login(urls: readonly URL[], nonce: string | undefined) {
    const named = urls.find(({ username }) => username !== '');
    const [user, pass] = [decodeURIComponent(named?.username ?? ''), decodeURIComponent(named?.password ?? '')];
    if (named) return pass === '' ? { auth_token: user } : { user, pass };
    return { nkey: this.key.text, sig: nonce === undefined ? '' : this.key.sign(nonce) };
  }

  async #made(): Promise<BrokerClients> {
    const core = this.core;
    if (this.#clients?.core !== core) this.#clients = { core, made: makeClients(core) };
    const { made } = this.#clients;
    return made.catch((error: unknown) => {
      // Asked while the broker had no leader yet, or went away: the next caller asks again.
      if (this.#clients?.made === made) this.#clients = undefined;
      throw brokerError(error);
    });
  }

  #unreachable(): EclipticError {
    const message = `NATS at ${this.servers.join(', ')} cannot be reached: ${this.#failure}`;
    return new EclipticError('BROKER_UNREACHABLE', message, { servers: this.servers });
  }
}

interface BrokerClients {
  readonly jetstream: JetStreamClient;
  readonly manager: JetStreamManager;
  readonly kvm: Kvm;
}

async function makeClients(core: CoreConnection): Promise<BrokerClients> {
  const [{ jetstream, jetstreamManager }, { Kvm }] = await Promise.all([
    load(() => import('@nats-io/jetstream')),
    load(() => import('@nats-io/kv')),
  ]);
  const client = jetstream(core, { timeout: API_MS });
  // Without this the client first asks for the account's figures, which pinned permissions do not let it see.
  const manager = await jetstreamManager(core, { checkAPI: false, timeout: API_MS });
  return { jetstream: client, manager, kvm: new Kvm(client) };
}

/** An error of the NATS client as one of the catalogue. */
export function brokerError(error: unknown): EclipticError {
  if (error instanceof EclipticError) return error;
  return new EclipticError('BROKER_UNREACHABLE', `NATS did not answer: ${describeError(error)}`, {}, error);
}

async function load<T>(module: () => Promise<T>): Promise<T> {
  try {
    return await module();
  } catch (error) {
    const message = `NATS needs packages that are not installed: npm install ${PACKAGES.join(' ')}`;
    throw new EclipticError('PACKAGE_REQUIRED', message, { packages: PACKAGES }, error);
  }
}

/** A server's address without the password in it, for logs and reports. */
function withoutSecret(server: string): string {
  const url = new URL(server);
  return `${url.protocol}//${url.host}`;
}
