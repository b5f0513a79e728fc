import { describeError, EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { systemRuntime } from '../runtime/system-runtime.js';
import { joinAddress } from './address.js';
import { A2AChannel, type ChannelInit } from './channel.js';
import { EnvelopeFactory, type ValidEnvelope } from './envelope.js';
import { A2AObservability } from './observability.js';
import type { ChannelCarrier, ChannelTransport } from './ports.js';
import type { AgentRegistry } from './registry.js';
import { RemoteChannels } from './remote-channels.js';
import type { A2ARouter } from './router.js';

export type ChannelAcceptor = (channel: A2AChannel) => boolean | Promise<boolean>;

export interface ChannelManagerComponents {
  registry: AgentRegistry;
  router: A2ARouter;
  runtime?: Runtime;
  factory?: EnvelopeFactory;
  observability?: A2AObservability;
  carrier?: ChannelCarrier;
}

export interface ChannelManagerInit {
  /** Envelopes that may wait on one end. Default 1,000. */
  queueCapacity?: number;
  /** Attempts after the first. Default 3. */
  retries?: number;
  /** The delay before the first retry; each further delay is twice as long. Default 100 ms. */
  retryDelayMs?: number;
  /** How long the other side may take to acknowledge. Default 10 s. */
  acknowledgeMs?: number;
  /** How long a disconnected channel tries to come back. Default 60 s. */
  reconnectMs?: number;
}

/** Opens and holds the channels of this node's agents, with each other and with agents of other nodes. */
export class ChannelManager {
  /** The channels to other nodes, if there is a carrier. */
  readonly remote: RemoteChannels | undefined;
  readonly #components: Required<Omit<ChannelManagerComponents, 'carrier'>>;
  readonly #init: Required<ChannelManagerInit>;
  readonly #channels = new Map<string, { opener: A2AChannel; acceptor: A2AChannel }>();
  readonly #acceptors = new Map<string, ChannelAcceptor>();

  constructor(components: ChannelManagerComponents, init: ChannelManagerInit = {}) {
    const { registry, router, carrier, runtime = systemRuntime() } = components;
    const { factory = new EnvelopeFactory(runtime), observability = new A2AObservability() } = components;
    this.#components = { registry, router, runtime, factory, observability };
    this.#init = {
      queueCapacity: init.queueCapacity ?? 1_000,
      retries: init.retries ?? 3,
      retryDelayMs: init.retryDelayMs ?? 100,
      acknowledgeMs: init.acknowledgeMs ?? 10_000,
      reconnectMs: init.reconnectMs ?? 60_000,
    };
    if (!carrier) return;
    this.remote = new RemoteChannels({
      ...this.#components,
      carrier,
      acknowledgeMs: this.#init.acknowledgeMs,
      makeEnd: (id, local, remote, transport) => this.#end(id, local, remote, transport),
      ask: (channel) => this.#acknowledge(channel),
    });
  }

  /** Sets the acceptor of a local agent. An agent without one accepts no channels. */
  onChannel(agentId: string, acceptor: ChannelAcceptor): () => void {
    const own = this.#own(agentId);
    this.#acceptors.set(own, acceptor);
    return () => {
      if (this.#acceptors.get(own) === acceptor) this.#acceptors.delete(own);
    };
  }

  /** Opens a channel. Resolves once both sides have acknowledged it; otherwise rejects with `CHANNEL_CLOSED`. */
  async openChannel(localAgentId: string, remoteAgentId: string): Promise<A2AChannel> {
    const { router, runtime, factory } = this.#components;
    const local = this.#own(localAgentId);
    const card = this.#components.registry.getById(remoteAgentId);
    // The router decides what the opener may learn about a missing agent.
    if (!card)
      router.admit(factory.create({ sender: local, recipient: remoteAgentId, type: 'notification', payload: null }));
    if (card?.node !== undefined && this.remote) return this.remote.open(local, joinAddress(card.id, card.node));
    const remote = this.#own(remoteAgentId);
    // An agent that may not send to the other side may not open a channel to it either.
    router.admit(factory.create({ sender: local, recipient: remote, type: 'notification', payload: null }));
    const id = runtime.id();
    const toAcceptor = between(() => acceptor);
    const toOpener = between(() => opener);
    const opener = this.#end(id, local, remote, toAcceptor);
    const acceptor = this.#end(id, remote, local, toOpener);
    this.#channels.set(id, { opener, acceptor });
    opener.onStatus((status) => {
      if (status === 'closed') this.#channels.delete(id);
    });
    const refusal = await this.#acknowledge(acceptor);
    if (refusal === undefined && acceptor.status === 'connecting') acceptor.report({ type: 'acknowledged' });
    return opener.acknowledge(refusal);
  }

  getChannel(channelId: string): A2AChannel | undefined {
    return this.listChannels().find(({ id }) => id === channelId);
  }

  listChannels(): A2AChannel[] {
    return [...[...this.#channels.values()].map(({ opener }) => opener), ...(this.remote?.channels ?? [])];
  }

  async closeAll(): Promise<void> {
    await Promise.all(this.listChannels().map((channel) => channel.close()));
  }

  /** Closes the channels of an agent that leaves, and removes its acceptor. */
  leave(agentId: string): void {
    this.#acceptors.delete(agentId);
    for (const channel of this.listChannels()) {
      if (channel.localAgentId === agentId || channel.remoteAgentId === agentId) void channel.close();
    }
  }

  #own(agentId: string): string {
    const card = this.#components.registry.requireById(agentId);
    if (card.origin === 'local') return card.id;
    throw new EclipticError('AGENT_UNAVAILABLE', `there is no link to the node of ${agentId}`, { agentId });
  }

  #end(id: string, localAgentId: string, remoteAgentId: string, transport: ChannelTransport): A2AChannel {
    const { runtime, observability, router } = this.#components;
    const admit = (envelope: ValidEnvelope) => router.admit(envelope);
    const { queueCapacity, retries, retryDelayMs, reconnectMs } = this.#init;
    const rules = { queueCapacity, retries, retryDelayMs };
    const init: ChannelInit = { id, localAgentId, remoteAgentId, rules, reconnectMs };
    return new A2AChannel({ runtime, observability, admit, transport }, init);
  }

  /** Asks the acceptor; resolves with the reason of a refusal, or undefined. */
  #acknowledge(channel: A2AChannel): Promise<string | undefined> {
    const acceptor = this.#acceptors.get(channel.localAgentId);
    if (!acceptor) return Promise.resolve(`${channel.localAgentId} takes no channels`);
    return new Promise((resolve) => {
      const { acknowledgeMs } = this.#init;
      const giveUp = () => resolve(`no acknowledgement within ${acknowledgeMs} ms`);
      const timer = this.#components.runtime.setTimer(giveUp, acknowledgeMs);
      const finish = (refusal: string | undefined) => {
        timer.cancel();
        resolve(refusal);
      };
      channel.onStatus(() => finish('it was closed while opening'));
      Promise.resolve()
        .then(() => acceptor(channel))
        .then(
          (taken) => finish(taken ? undefined : `${channel.localAgentId} refused it`),
          (error: unknown) => finish(`${channel.localAgentId} failed: ${describeError(error)}`),
        );
    });
  }
}

/** The transport between two agents of one node: a direct call. */
function between(other: () => A2AChannel): ChannelTransport {
  return {
    kind: 'local',
    deliver: (envelope) => other().accept(envelope),
    close: () => {
      if (other().status !== 'closed') other().report({ type: 'closed' });
    },
  };
}
