import type { Client } from '@modelcontextprotocol/client';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Child } from '../../system/process/child.js';
import type { Children, Program } from '../../system/process/children.js';
import type { RestartPolicy, SupervisedState } from '../../system/process/supervision.js';
import type { Running } from '../../system/process/supervisor.js';
import type { CredentialOwner } from '../../system/secrets/credential-source.js';
import type { Redactor } from '../../system/secrets/secret.js';
import type { CallTerms } from '../call.js';
import { type ClientSdk, isLost } from './client-sdk.js';
import type { Dialogue } from './dialogue.js';
import type { Login } from './login.js';

/** One configured server, for those who connect to it. */
export interface ServerContext {
  readonly server: string;
  readonly runtime: Runtime;
  readonly children: Children;
  readonly redactor: Redactor;
  /** The owner of the credentials that the server's settings refer to. */
  readonly owner: CredentialOwner;
  /** Set where the server may require a login. */
  readonly login: Login | undefined;
}

interface ConnectionInit {
  readonly sdk: ClientSdk;
  readonly server: string;
  readonly client: Client;
  /** Ends the underlying transport or process; resolves when it is gone. */
  readonly close: () => Promise<unknown>;
  /** Translates a failure into our errors, without secrets. */
  readonly explain: (error: unknown) => EclipticError;
  /** Problems of a server that works. */
  readonly complaints: () => readonly string[];
}

/** A server that never answers must not use up the calls of all others. */
const MAX_CALLS = 500;

/** A connected, initialised server. */
export class Connection implements Running {
  readonly sdk: ClientSdk;
  readonly client: Client;
  readonly exited: Promise<void>;
  /** Calls whose server waits for the caller's answer. */
  readonly dialogues = new Map<string, Dialogue>();
  readonly #init: ConnectionInit;
  readonly #calls = new Map<(error: EclipticError) => void, CallTerms | undefined>();
  #failure: EclipticError | undefined;
  #over!: () => void;
  readonly #idle: (() => void)[] = [];

  constructor(init: ConnectionInit) {
    this.#init = init;
    this.sdk = init.sdk;
    this.client = init.client;
    this.exited = new Promise((resolve) => {
      this.#over = resolve;
    });
  }

  get isModern(): boolean {
    return this.client.getProtocolEra() === 'modern';
  }

  get isOver(): boolean {
    return this.#failure !== undefined;
  }

  get inFlight(): number {
    return this.#calls.size;
  }

  get complaints(): readonly string[] {
    return this.#init.complaints();
  }

  /** The only open call, if there is exactly one: the server's log entries must belong to it. */
  get onlyCall(): CallTerms | undefined {
    const [terms, ...others] = [...this.#calls.values()].filter((one) => one !== undefined);
    return others.length === 0 ? terms : undefined;
  }

  failure(): EclipticError {
    return this.#failure ?? new EclipticError('AGENT_UNAVAILABLE', `MCP server "${this.#init.server}" is gone`);
  }

  /** Ends the connection. Open calls fail with an unknown outcome. */
  end(reason: EclipticError): void {
    if (this.#failure) return;
    this.#failure = reason;
    const message = `MCP server "${this.#init.server}" was lost before it answered: ${reason.message}`;
    const lost = new EclipticError('AGENT_UNAVAILABLE', message, { server: this.#init.server, outcome: 'unknown' });
    for (const reject of this.#calls.keys()) reject(lost);
    for (const resolve of this.#idle.splice(0)) resolve();
    this.#over();
  }

  /** Asks once. A failure that means that the server is gone ends the connection. */
  ask<T>(send: (client: Client) => Promise<T>, terms?: CallTerms): Promise<T> {
    const { sdk, server, explain } = this.#init;
    if (this.#failure) return Promise.reject(this.#failure);
    if (this.#calls.size >= MAX_CALLS) {
      const message = `${MAX_CALLS} calls of MCP server "${server}" are under way already`;
      return Promise.reject(new EclipticError('QUEUE_FULL', message, { server }));
    }
    return new Promise<T>((resolve, reject) => {
      this.#calls.set(reject, terms);
      const settled = () => {
        this.#calls.delete(reject);
        if (this.#calls.size === 0 && this.#idle.length > 0) for (const resolve of this.#idle.splice(0)) resolve();
      };
      send(this.client).then(
        (result) => {
          settled();
          resolve(result);
        },
        (error) => {
          settled();
          const failure = explain(error);
          reject(failure);
          if (isLost(sdk, error)) this.end(failure);
        },
      );
    });
  }

  /** Resolves when no call is in progress. */
  async drained(): Promise<void> {
    while (this.#calls.size > 0 && !this.#failure) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  async stop(): Promise<void> {
    this.end(new EclipticError('AGENT_UNAVAILABLE', `MCP server "${this.#init.server}" is being stopped`));
    await this.#init.close();
  }
}

/** Keeps a server connected: connects, and reconnects when the connection ends. */
export interface ConnectionSupervisor {
  readonly state: SupervisedState;
  readonly subject: Connection | undefined;
  start(): void;
  /** Ends the present connection, and reconnects without delay. */
  restart(): void;
  /**
   * Starts another process with the present credentials; new calls go there, and the old process ends after its calls.
   */
  renew?(): void;
  stop(): Promise<void>;
}

/** A server program, for the provider that runs it. */
export interface SupervisedProgram {
  /** Called for each start. */
  readonly program: () => Promise<Program>;
  /** Connects to a started child; rejects when the child ends or the signal aborts. */
  readonly connect: (child: Child, signal: AbortSignal) => Promise<Connection>;
  readonly restart: Partial<RestartPolicy>;
  /** Failures after which the program is not started again automatically. */
  readonly isFinal: (reason: EclipticError) => boolean;
  readonly onState: (state: SupervisedState) => void;
}

export type SuperviseProgram = (kept: SupervisedProgram) => ConnectionSupervisor;
