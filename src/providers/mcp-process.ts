import type { Connection } from '../mcp/upstream/connection.js';
import type { Keeper, KeptProgram } from '../mcp/upstream/keeper.js';
import { RESTART_POLICY, type SupervisedState } from '../process/supervision.js';
import type { EclipticError } from '../runtime/errors.js';
import type { HostedSession } from './host/hosted.js';
import { type HostComponents, type HostStatus, IsolatedProviderHost } from './host/isolated-provider-host.js';
import type { HostLimits } from './host/limits.js';
import type { Lane, LaneMember } from './lanes.js';

export interface MCPProcessInit {
  readonly provider: string;
  readonly lane: Lane;
  readonly limits?: Partial<Pick<HostLimits, 'memoryMb' | 'startMs'>> | undefined;
}

/** The program of an MCP server, kept running in its lane. Once that is closed, nothing starts it any more. */
export class MCPProcess implements Keeper {
  readonly #host: IsolatedProviderHost<Session>;
  #closed = false;

  constructor(components: HostComponents, { provider, lane, limits }: MCPProcessInit, kept: KeptProgram) {
    const { connect, restart, ...rest } = kept;
    this.#host = new IsolatedProviderHost(components, {
      ...rest,
      provider,
      lane: lane.id,
      connect: async (child, signal) => new Session(await connect(child, signal)),
      limits: { startMs: restart.startMs ?? RESTART_POLICY.startMs, ...limits },
      restart,
    });
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

  stop(): Promise<void> {
    return this.#host.stop();
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
 * A conversation over MCP. It is asked for no sign of life: a server may be busy for as long as it likes with a call, and
 * many answer nothing else then. Whether it can be asked at all, the health checks say.
 */
class Session implements HostedSession {
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
