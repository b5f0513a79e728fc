import type { A2AObservability } from '../../mesh/observability.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Approvals } from '../../system/approvals/approvals.js';
import type { Children } from '../../system/process/children.js';
import type { RestartPolicy, SupervisedState } from '../../system/process/supervision.js';
import { Supervisor } from '../../system/process/supervisor.js';
import { type CredentialOwner, credentialsIn, DEFAULT_WORKSPACE } from '../../system/secrets/credential-source.js';
import type { CredentialEvent, Credentials } from '../../system/secrets/credentials.js';
import { Redactor } from '../../system/secrets/secret.js';
import type { Offer } from '../catalogue.js';
import { type Kind, keyOf, type ToolDefinition } from '../definitions.js';
import type { McpService } from '../service.js';
import { type ChildEndpoint, connectChild, greetChild, programOf } from './connect-child.js';
import { connectHttp, type HttpEndpoint } from './connect-http.js';
import type { Connection, ConnectionSupervisor, SuperviseProgram } from './connection.js';
import { answerQuestions } from './dialogue.js';
import { askAnything, type Listing, readLists } from './lists.js';
import { Login } from './login.js';
import type { Logins, Waiting } from './logins.js';
import { approvalRequest, DEFINITION_APPROVAL, type Listed, type Pins, type Suspect, sortOut } from './pins.js';
import { type CallRoute, ServerOffers } from './relay.js';
import { Watch } from './watch.js';

export type Endpoint = ChildEndpoint | HttpEndpoint;

export interface UpstreamComponents {
  runtime: Runtime;
  service: McpService;
  observability: A2AObservability;
  children: Children;
  pins: Pins;
  approvals: Approvals;
  logins: Logins;
  credentials: Pick<Credentials, 'resolve' | 'onChange'>;
}

export interface UpstreamInit {
  readonly name: string;
  /** The agent of this node that owns the offers. */
  readonly agent: string;
  readonly endpoint: Endpoint;
  /** Values to redact in logs and errors. */
  readonly secrets?: readonly string[];
  readonly timeoutMs?: number | undefined;
  readonly restart?: Partial<RestartPolicy>;
  /** Supervises the program. Default: a plain supervisor. */
  readonly supervise?: SuperviseProgram;
  /** Routes calls. Default: straight to the server. */
  readonly route?: CallRoute;
}

/** The status of a server for people. */
export interface UpstreamStatus {
  readonly name: string;
  readonly agent: string;
  readonly transport: Endpoint['kind'] | null;
  readonly state: 'disabled' | 'idle' | 'starting' | 'running' | 'backing-off' | 'stopping' | 'failed' | 'needs-login';
  readonly reason: string | null;
  readonly protocol: string | null;
  readonly offered: Readonly<Record<Kind, number>>;
  readonly quarantined: number;
  readonly problems: readonly string[];
}

export type UpstreamNews =
  | { readonly type: 'state'; readonly state: SupervisedState }
  | { readonly type: 'tools'; readonly tools: readonly string[] };

/** A server is reconnected without limit: it may only be restarting. */
const RESTART: Partial<RestartPolicy> = { maxCrashes: Number.POSITIVE_INFINITY };

const NOTHING: Listing = { listed: [], problems: [] };

/**
 * One upstream MCP server: keeps it connected, checks its definitions against the pins, and offers them under its
 * agent's name. While it is disconnected its tools stay listed, and calls fail at once.
 */
export class Upstream {
  readonly name: string;
  readonly #components: UpstreamComponents;
  readonly #init: UpstreamInit;
  readonly #redactor: Redactor;
  #supervisor: ConnectionSupervisor;
  readonly #login: Login | undefined;
  readonly #watchers = new Set<(news: UpstreamNews) => void>();
  readonly #offers: ServerOffers;
  #listing = NOTHING;
  #suspects: readonly Suspect[] = [];

  constructor(components: UpstreamComponents, init: UpstreamInit) {
    this.name = init.name;
    this.#components = components;
    this.#init = init;
    this.#redactor = new Redactor(init.secrets ?? []);
    this.#login = this.#loginTo(init.endpoint);
    this.#supervisor = this.#supervise(init);
    this.#offers = new ServerOffers(components, { ...init, server: init.name, connection: () => this.#connection() });
  }

  get status(): UpstreamStatus {
    const { state, subject } = this.#supervisor;
    return {
      name: this.name,
      agent: this.#init.agent,
      transport: this.#init.endpoint.kind,
      state: state.kind === 'failed' && needsLogin(state.reason) ? 'needs-login' : state.kind,
      reason: 'reason' in state ? state.reason.message : null,
      protocol: subject?.client.getNegotiatedProtocolVersion() ?? null,
      offered: this.#offers.counts,
      quarantined: this.#suspects.length,
      problems: [...this.#listing.problems, ...this.#offers.conflicts, ...(subject?.complaints ?? [])],
    };
  }

  get suspects(): readonly Suspect[] {
    return this.#suspects;
  }

  get state(): SupervisedState {
    return this.#supervisor.state;
  }

  /** Returns a function that stops the watcher. */
  watch(watcher: (news: UpstreamNews) => void): () => void {
    this.#watchers.add(watcher);
    return () => {
      this.#watchers.delete(watcher);
    };
  }

  /** The usable tools, each with the direct call. */
  get tools(): Offer<ToolDefinition>[] {
    return this.#offers.tools;
  }

  /** Names of the owner's secrets that calls use. */
  get credentials(): readonly string[] {
    const { endpoint, secrets = [] } = this.#init;
    return [
      ...new Set(credentialsIn(endpoint.kind === 'stdio' ? endpoint.env : endpoint.headers)),
      ...(secrets.length > 0 ? ['secrets of its configuration'] : []),
      ...(this.#login?.isKnown ? ['login'] : []),
    ];
  }

  /** The error for calls while the server is not connected. */
  get absence(): EclipticError | undefined {
    const { subject, state } = this.#supervisor;
    if (subject && !subject.isOver) return undefined;
    if ('reason' in state && (needsLogin(state.reason) || needsCredential(state.reason))) return state.reason;
    const reason = 'reason' in state ? `: ${state.reason.message}` : '';
    const message = `MCP server "${this.name}" is not connected (${state.kind}${reason})`;
    return new EclipticError('AGENT_UNAVAILABLE', message, { server: this.name, outcome: 'not-delivered' });
  }

  /** Sends the server a cheap request. */
  async ask(signal: AbortSignal): Promise<void> {
    await askAnything(this.#connection(), signal);
  }

  start(): void {
    this.#supervisor.start();
  }

  async stop(): Promise<void> {
    await this.#supervisor.stop();
  }

  /** Starts the program under a new supervisor, after the old one was closed. */
  async revive(): Promise<void> {
    await this.#supervisor.stop();
    this.#supervisor = this.#supervise(this.#init);
    this.#supervisor.start();
  }

  /** Begins a login; connects the server when the user has returned. */
  async login(): Promise<Waiting> {
    const { url, done } = await this.#components.logins.begin(this.name, this.#requireLogin());
    const connected = done.then(() => {
      // A running connection uses the new token from now on.
      if (this.#supervisor.state.kind !== 'running') this.#supervisor.restart();
    });
    connected.catch(() => {});
    return { url, done: connected };
  }

  /** Deletes the login and reconnects without it. */
  logout(): void {
    this.#requireLogin().forget();
    this.#components.logins.cancel(this.name, 'the login was deleted');
    this.#supervisor.restart();
  }

  /**
   * A rotated credential is sent with the next HTTP request, and a program is replaced by one that has it. A revoked or
   * replaced credential ends the program that uses it.
   */
  credentialChanged({ provider, workspace, name, ended }: CredentialEvent): void {
    if (provider !== this.name || workspace !== DEFAULT_WORKSPACE) return;
    const { endpoint } = this.#init;
    if (!credentialsIn(endpoint.kind === 'stdio' ? endpoint.env : endpoint.headers).includes(name)) return;
    if (ended || this.#supervisor.state.kind !== 'running') this.#supervisor.restart();
    else if (endpoint.kind === 'stdio') this.#supervisor.renew?.();
  }

  /** Checks the last listing again, after new pins. */
  reconsider(): void {
    this.#applyListing(this.#listing);
  }

  #supervise({ name, endpoint, supervise, restart }: UpstreamInit): ConnectionSupervisor {
    const common = {
      restart: { ...RESTART, ...restart },
      isFinal: (reason: EclipticError) => needsLogin(reason) || needsCredential(reason),
      onState: (state: SupervisedState) => this.#tell({ type: 'state', state }),
    };
    const { runtime, children } = this.#components;
    const context = {
      server: name,
      runtime,
      children,
      redactor: this.#redactor,
      owner: this.#owner(),
      login: this.#login,
    };
    if (endpoint.kind === 'stdio' && supervise) {
      return supervise({
        ...common,
        program: () => programOf(context, endpoint),
        connect: async (child, signal) => this.#initialised(await greetChild(context, child, signal), signal),
      });
    }
    const connect = (signal: AbortSignal) =>
      endpoint.kind === 'stdio' ? connectChild(context, endpoint, signal) : connectHttp(context, endpoint, signal);
    return new Supervisor(runtime, {
      ...common,
      name: `MCP server "${name}"`,
      start: async (signal) => this.#initialised(await connect(signal), signal),
    });
  }

  /** Reads the lists of a new connection, which is ready for calls then. */
  async #initialised(connection: Connection, signal: AbortSignal): Promise<Connection> {
    const { runtime, service } = this.#components;
    answerQuestions(connection, connection.client);
    try {
      const listing = await readLists(runtime, connection, signal);
      signal.throwIfAborted();
      this.#applyListing(listing);
      const watch = new Watch(runtime, connection, {
        refresh: async () => {
          this.#applyListing(await readLists(runtime, connection));
          return this.#resources();
        },
        onResource: (uri) => service.resourceUpdated(this.#init.agent, uri),
      });
      void watch.follow(this.#resources());
      return connection;
    } catch (error) {
      await connection.stop();
      throw error;
    }
  }

  /** A configured Authorization header replaces the login. */
  #loginTo(endpoint: Endpoint): Login | undefined {
    if (endpoint.kind === 'stdio') return undefined;
    const { url, headers, oauth = {} } = endpoint;
    if (Object.keys(headers).some((name) => name.toLowerCase() === 'authorization')) return undefined;
    const { runtime, logins } = this.#components;
    const init = { server: this.name, url, settings: oauth, redirectUrl: logins.redirectUrl };
    return new Login({ runtime, store: logins.store, redactor: this.#redactor, owner: this.#owner() }, init);
  }

  #owner(): CredentialOwner {
    const { credentials: source } = this.#components;
    return { source, provider: this.#init.name, workspace: DEFAULT_WORKSPACE, redactor: this.#redactor };
  }

  #requireLogin(): Login {
    if (this.#login) return this.#login;
    const message = `MCP server "${this.name}" has no login: it does not use HTTP, or has an Authorization header`;
    throw new EclipticError('SERVER_NOT_FOUND', message, { server: this.name });
  }

  #resources(): string[] {
    return this.#listing.listed.filter(isResource).map(({ definition }) => keyOf(definition));
  }

  #applyListing(listing: Listing): void {
    const { pins, runtime } = this.#components;
    this.#listing = listing;
    if (listing === NOTHING) return;
    if (!pins.knows(this.name)) {
      const pinnable = listing.listed.filter((one) => !isResource(one));
      pins.pin(this.name, pinnable, runtime.now());
    }
    const { trusted, suspects } = sortOut(this.name, listing.listed, pins);
    // Withdraw untrusted offers before telling the operator, so that they cannot be called meanwhile.
    this.#offers.set(trusted);
    this.#suspects = suspects;
    this.#report(suspects);
    this.#tell({ type: 'tools', tools: this.tools.map(({ definition }) => definition.name) });
  }

  #tell(news: UpstreamNews): void {
    for (const watcher of this.#watchers) watcher(news);
  }

  #connection(): Connection {
    const { subject } = this.#supervisor;
    if (subject && !subject.isOver) return subject;
    throw this.absence;
  }

  /** Requests approval of new suspects once, and withdraws requests that are no longer needed. */
  #report(suspects: readonly Suspect[]): void {
    const { approvals, observability, runtime } = this.#components;
    const own = approvals.items.filter(
      ({ kind, details }) => kind === DEFINITION_APPROVAL && details.server === this.name,
    );
    const open = own.filter(({ decision }) => decision === undefined || decision.verdict === 'deny');
    const told = new Set(open.map(({ details }) => `${details.hash} ${details.slot}`));
    const now = new Set(suspects.map(({ hash, slot }) => `${hash} ${slot}`));
    const answered = open.filter(
      ({ decision, details }) => decision === undefined && !now.has(`${details.hash} ${details.slot}`),
    );
    approvals.withdraw(...answered.map(({ id }) => id));
    const fresh = suspects.filter(({ hash, slot }) => !told.has(`${hash} ${slot}`));
    if (fresh.length === 0) return;
    approvals.request(...fresh.map((suspect) => approvalRequest(this.name, suspect)));
    for (const { definition, summary } of fresh) {
      const key = keyOf(definition);
      observability.emit({
        type: 'security',
        sender: this.#init.agent,
        toolName: `${this.#init.agent}.${key}`,
        code: 'INVALID_TOOL',
        reason: `${summary}; it cannot be used before: ecliptic tools approve ${this.name}.${key}`,
        timestamp: runtime.now(),
      });
    }
  }
}

function needsLogin({ code }: EclipticError): boolean {
  return code === 'LOGIN_REQUIRED';
}

function needsCredential({ code }: EclipticError): boolean {
  return code === 'CREDENTIAL_MISSING' || code === 'CREDENTIAL_DENIED';
}

function isResource({ definition }: Listed): boolean {
  return definition.kind === 'resource';
}
