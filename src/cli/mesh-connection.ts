import type { Relay, RpcMessage } from '../coding-agents/relay.js';
import type { Backend, Evidence } from '../coding-agents/stdio-server.js';
import type { ParamsOf } from '../node/control/api.js';
import type { ControlClient } from '../node/control/client.js';
import { wait, within } from '../runtime/async.js';
import { Backoff } from '../runtime/backoff.js';
import { EclipticError, toEclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';

type MemberInit = Omit<ParamsOf<'onramp.attach'>, 'session' | 'shown'>;

export interface MeshConnectionInit {
  readonly connect: () => Promise<ControlClient>;
  /** The new member; or the id of the agent of this node that the process speaks for. */
  readonly about: MemberInit | string;
  /** Messages that were shown to the client without proof that it read them. */
  readonly shown: () => readonly string[];
  /** Called with the member's name after each join. */
  readonly onName: (name: string) => void;
  /** Relays the tools of other agents, if the client wants them. */
  readonly relay?: Relay | undefined;
}

interface Joined {
  readonly client: ControlClient;
  readonly session: string;
}

const FIRST_RETRY_MS = 200;
const LONGEST_RETRY_MS = 5_000;
/** How long a call waits for the node. */
const PATIENCE_MS = 20_000;

/** The membership of this process; it rejoins whenever the node comes back, until it is closed. */
export class MeshConnection implements Backend {
  readonly #runtime: Runtime;
  readonly #init: MeshConnectionInit;
  #joined: Promise<Joined> | undefined;
  #closed = false;
  readonly #backoff = new Backoff(FIRST_RETRY_MS, LONGEST_RETRY_MS);

  constructor(runtime: Runtime, init: MeshConnectionInit) {
    this.#runtime = runtime;
    this.#init = init;
    this.#keepJoined();
  }

  async call(tool: string, args: unknown, call: Parameters<Backend['call']>[2]) {
    const { client, session } = await this.#soon();
    const { number, seen, thread, signal } = call;
    const cancel = () => void client.call('onramp.cancel', { session, number }).catch(() => {});
    signal.addEventListener('abort', cancel);
    const told = { ...(seen.length > 0 && { seen }), ...(thread !== undefined && { thread }) };
    const params = { session, tool, arguments: args, number, ...told };
    return client.call('onramp.call', params);
  }

  async heard({ seen, thread }: Evidence): Promise<void> {
    if (typeof this.#init.about === 'string') return;
    const { client, session } = await this.#soon();
    await client.call('onramp.heard', { session, seen, ...(thread !== undefined && { thread }) });
  }

  close(): void {
    this.#closed = true;
    this.#joined?.then(({ client }) => client.close()).catch(() => {});
  }

  /** Joins, and rejoins after each disconnection, with back-off while joining fails. */
  #keepJoined(delay = Promise.resolve()): void {
    const joining = delay.then(() => this.#join());
    this.#joined = joining;
    joining.then(
      ({ client }) => {
        this.#backoff.reset();
        void client.closed.then(() => {
          this.#init.relay?.lost();
          this.#again();
        });
      },
      (error: unknown) => {
        if (isHopeless(error)) this.#init.relay?.failed(toEclipticError(error, 'NO_NODE'));
        this.#again();
      },
    );
  }

  #again(): void {
    if (this.#closed) return;
    this.#keepJoined(wait(this.#runtime, this.#backoff.next()));
  }

  async #join(): Promise<Joined> {
    const client = await this.#init.connect();
    const session = this.#runtime.id();
    const { about, relay } = this.#init;
    try {
      const name = typeof about === 'string' ? about : await this.#attach(client, session, about);
      if (relay) this.#converse(client, name, relay);
      return { client, session };
    } catch (error) {
      client.close();
      throw error;
    }
  }

  /** Becomes a member; resolves with its name. */
  #attach(client: ControlClient, session: string, about: MemberInit): Promise<string> {
    const shown = this.#init.shown();
    const params = { session, ...about, ...(shown.length > 0 && { shown }) };
    return new Promise((resolve, reject) => {
      const onEvent = ({ name }: { readonly name: string }) => {
        this.#init.onName(name);
        resolve(name);
      };
      client.call('onramp.attach', params, onEvent).catch(reject);
    });
  }

  /** Opens the MCP conversation with the tools of all agents, in that agent's name. */
  #converse(client: ControlClient, as: string, relay: Relay): void {
    const session = this.#runtime.id();
    const send = (message: RpcMessage) => {
      const sent = { jsonrpc: '2.0', ...message };
      client.call('mcp.send', { session, message: sent }).catch(() => {});
    };
    const onEvent = (event: unknown) => (event === null ? relay.open(send) : relay.hear(event as RpcMessage));
    client.call('mcp.open', { session, as }, onEvent).catch((error: unknown) => {
      if (isHopeless(error)) relay.failed(toEclipticError(error, 'NO_NODE'));
    });
  }

  /** Waits for the membership until the deadline. */
  async #soon(): Promise<Joined> {
    const deadline = this.#runtime.now() + PATIENCE_MS;
    for (;;) {
      const attempt = this.#joined!;
      try {
        return await this.#within(attempt, deadline - this.#runtime.now());
      } catch (error) {
        if (isHopeless(error) || isStopped(error) || this.#joined === attempt || this.#closed) throw error;
      }
    }
  }

  #within(joined: Promise<Joined>, ms: number): Promise<Joined> {
    return within(this.#runtime, joined, ms, () => {
      throw new EclipticError('NO_NODE', 'the mesh cannot be reached at present; nothing was done; try again later');
    });
  }
}

/** The owner stopped the node: calls fail at once, while the connection waits for a new start. */
function isStopped(error: unknown): boolean {
  return error instanceof EclipticError && error.details.stoppedByOwner === true;
}

/** Would a retry fail in the same way? */
function isHopeless(error: unknown): boolean {
  return !(error instanceof EclipticError && error.retryable);
}
