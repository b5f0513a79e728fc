import type { Connection, ConnectionSupervisor, SupervisedProgram } from '../../mcp/upstream/connection.js';
import { describeError, type EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { RESTART_POLICY, type SupervisedState } from '../../system/process/supervision.js';
import { type HostComponents, type HostStatus, IsolatedProviderHost } from '../host/isolated-provider-host.js';
import type { Lane, LaneMember } from '../host/lanes.js';
import type { HostLimits, ProcessSession } from '../host/watched-process.js';

export interface MCPProcessInit {
  readonly provider: string;
  readonly lane: Lane;
  readonly limits?: Partial<Pick<HostLimits, 'memoryMb' | 'startMs'>> | undefined;
}

/** The program of an MCP server, kept running in its lane until the lane is closed. */
export class MCPProcess implements ConnectionSupervisor {
  readonly #make: () => IsolatedProviderHost<Session>;
  readonly #runtime: Runtime;
  /** Processes that start, or finish their calls, while another one is used. */
  readonly #others = new Set<IsolatedProviderHost<Session>>();
  #host: IsolatedProviderHost<Session>;
  #closed = false;
  #renewing: Promise<void> = Promise.resolve();

  constructor(components: HostComponents, { provider, lane, limits }: MCPProcessInit, kept: SupervisedProgram) {
    const { connect, restart, onState, ...rest } = kept;
    this.#runtime = components.runtime;
    this.#make = () => {
      const host = new IsolatedProviderHost<Session>(components, {
        ...rest,
        provider,
        lane: lane.id,
        connect: async (child, signal) => new Session(await connect(child, signal)),
        limits: { startMs: restart.startMs ?? RESTART_POLICY.startMs, ...limits },
        restart,
        onState: (state) => {
          if (this.#host === host) onState(state);
        },
      });
      return host;
    };
    this.#host = this.#make();
    lane.bind(this.#member());
  }

  get state(): SupervisedState {
    return this.#host.state;
  }

  get subject(): Connection | undefined {
    return this.state.kind === 'running' ? this.#host.session.connection : undefined;
  }

  start(): void {
    if (!this.#closed) this.#host.keep();
  }

  restart(): void {
    if (!this.#closed) this.#host.restart();
  }

  renew(): void {
    this.#renewing = this.#renewing
      .then(() => this.#replace())
      .catch((error) => {
        const { provider } = this.#host;
        this.#runtime.logger.warn({ provider, error: describeError(error) }, 'provider kept: its replacement failed');
      });
  }

  async stop(): Promise<void> {
    await Promise.all([this.#host, ...this.#others].map((host) => host.stop()));
  }

  async #replace(): Promise<void> {
    const old = this.#host;
    if (this.#closed || old.state.kind !== 'running') return;
    const host = this.#make();
    this.#others.add(host);
    try {
      await host.start({ patient: true });
    } finally {
      this.#others.delete(host);
    }
    if (this.#closed || old.state.kind !== 'running') return host.stop();
    this.#host = host;
    this.#others.add(old);
    void old.session.connection
      .drained()
      .then(() => old.stop())
      .finally(() => this.#others.delete(old));
  }

  #member(): LaneMember {
    const status = (): HostStatus => ({ ...this.#host.status, inFlight: this.subject?.inFlight ?? 0 });
    return {
      get status() {
        return status();
      },
      stop: () => {
        this.#closed = true;
        return this.stop();
      },
    };
  }
}

/**
 * A session over MCP. It is not pinged: a server may be busy with a call for any time, and many answer nothing else
 * meanwhile. Health checks show whether it answers.
 */
class Session implements ProcessSession {
  readonly connection: Connection;
  readonly broken: Promise<EclipticError>;

  constructor(connection: Connection) {
    this.connection = connection;
    this.broken = connection.exited.then(() => connection.failure());
  }

  failure(): EclipticError | undefined {
    return this.connection.isOver ? this.connection.failure() : undefined;
  }

  end(reason: EclipticError): void {
    this.connection.end(reason);
    void this.connection.client.close().catch(() => {});
  }
}
