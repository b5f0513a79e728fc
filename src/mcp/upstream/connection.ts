import type { Client } from '@modelcontextprotocol/client';
import { EclipticError } from '../../runtime/errors.js';
import type { Child } from '../../system/process/child.js';
import type { Program } from '../../system/process/children.js';
import type { RestartPolicy, SupervisedState } from '../../system/process/supervision.js';
import type { Running } from '../../system/process/supervisor.js';
import type { CallTerms } from '../call.js';
import { type ClientSdk, isLost } from './client-sdk.js';
import type { Dialogue } from './dialogue.js';

export interface ConnectionInit {
  readonly sdk: ClientSdk;
  readonly server: string;
  readonly client: Client;
  /** Ends what is behind it; resolves when nothing of it is left. */
  readonly close: () => Promise<unknown>;
  /** What a failure is in our terms, with nothing secret in it. */
  readonly explain: (error: unknown) => EclipticError;
  /** What is not as it should be, though it works. */
  readonly complaints: () => readonly string[];
}

/** Calls that one server may have under way: one that never answers must not use up everybody's. */
const MAX_CALLS = 500;

/** A server that has introduced itself, for as long as it can be asked. */
export class Connection implements Running {
  readonly sdk: ClientSdk;
  readonly client: Client;
  readonly exited: Promise<void>;
  /** Calls whose server waits for an answer of their caller. */
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

  /** Calls under way. */
  get inFlight(): number {
    return this.#calls.size;
  }

  get complaints(): readonly string[] {
    return this.#init.complaints();
  }

  /** The one call under way, if there is exactly one: what the server logs can be about no other. */
  get onlyCall(): CallTerms | undefined {
    const [terms, ...others] = [...this.#calls.values()].filter((one) => one !== undefined);
    return others.length === 0 ? terms : undefined;
  }

  failure(): EclipticError {
    return this.#failure ?? new EclipticError('AGENT_UNAVAILABLE', `MCP server "${this.#init.server}" is gone`);
  }

  /** Nothing more can be expected of it. Whoever waits is told that nobody knows what became of the call. */
  end(reason: EclipticError): void {
    if (this.#failure) return;
    this.#failure = reason;
    const message = `MCP server "${this.#init.server}" was lost before it answered: ${reason.message}`;
    const lost = new EclipticError('AGENT_UNAVAILABLE', message, { server: this.#init.server, outcome: 'unknown' });
    for (const reject of this.#calls.keys()) reject(lost);
    for (const resolve of this.#idle.splice(0)) resolve();
    this.#over();
  }

  /** Asks once. A failure that says that the way to the server is gone ends the connection. */
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

  /** Resolves when no call is under way. */
  async drained(): Promise<void> {
    while (this.#calls.size > 0 && !this.#failure) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  async stop(): Promise<void> {
    this.end(new EclipticError('AGENT_UNAVAILABLE', `MCP server "${this.#init.server}" is being stopped`));
    await this.#init.close();
  }
}

/** What keeps a server connected: connects it, and again when the connection ends by itself. */
export interface ConnectionSupervisor {
  readonly state: SupervisedState;
  /** The connection, while there is one. */
  readonly subject: Connection | undefined;
  start(): void;
  /** Ends what there is, and begins without delay. */
  restart(): void;
  /** Starts another with the credentials of now; calls go there, and the old one ends when its calls are over. */
  renew?(): void;
  /** Resolves when nothing of it is left. */
  stop(): Promise<void>;
}

/** A server that is a program, for whoever keeps it running. */
export interface SupervisedProgram {
  /** What to start; asked for each start. */
  readonly program: () => Promise<Program>;
  /** Makes a connection of a child that was started; rejects when that ends, or when the signal aborts. */
  readonly connect: (child: Child, signal: AbortSignal) => Promise<Connection>;
  readonly restart: Partial<RestartPolicy>;
  /** After what it makes no sense to start again, until somebody says so. */
  readonly isFinal: (reason: EclipticError) => boolean;
  readonly onState: (state: SupervisedState) => void;
}

export type SuperviseProgram = (kept: SupervisedProgram) => ConnectionSupervisor;
