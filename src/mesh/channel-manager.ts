import { describeError, EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { joinAddress } from './address.js';
import { A2AChannel, type ChannelInit } from './channel.js';
import type { EnvelopeFactory, ValidEnvelope } from './envelope.js';
import type { A2AObservability } from './observability.js';
import type { ChannelCarrier, ChannelTransport } from './ports.js';
import type { AgentRegistry } from './registry.js';
import { RemoteChannels } from './remote-channels.js';
import type { A2ARouter } from './router.js';

/** Decides whether an agent takes a channel that another opens to it. */
export type ChannelAcceptor = (channel: A2AChannel) => boolean | Promise<boolean>;

export interface ChannelManagerComponents {
  runtime: Runtime;
  factory: EnvelopeFactory;
  registry: AgentRegistry;
  router: A2ARouter;
  observability: A2AObservability;
  /** How channels reach other nodes. */
  carrier?: ChannelCarrier;
}

export interface ChannelManagerInit {
  /** Envelopes that may wait on one end. Default 1,000. */
  queueCapacity?: number;
  /** Tries after the first. Default 3. */
  retries?: number;
  /** Wait before the first retry; each further wait is twice as long. Default 100 ms. */
  retryDelayMs?: number;
  /** How long the other side may take to acknowledge. Default 10 s. */
  acknowledgeMs?: number;
  /** How long a disconnected channel tries to come back. Default 60 s. */
  reconnectMs?: number;
}

/** Opens and keeps the channels of this node's agents, with each other and with agents of other nodes. */
export class ChannelManager {
  /** The ends of channels to other nodes; none while there is no way to other nodes. */
  readonly remote: RemoteChannels | undefined;
  readonly #components: ChannelManagerComponents;
  readonly #init: Required<ChannelManagerInit>;
  readonly #channels = new Map<string, { opener: A2AChannel; acceptor: A2AChannel }>();
  readonly #acceptors = new Map<string, ChannelAcceptor>();

  constructor(components: ChannelManagerComponents, init: ChannelManagerInit = {}) {
    this.#components = components;
    this.#init = {
      queueCapacity: init.queueCapacity ?? 1_000,
      retries: init.retries ?? 3,
      retryDelayMs: init.retryDelayMs ?? 100,
      acknowledgeMs: init.acknowledgeMs ?? 10_000,
      reconnectMs: init.reconnectMs ?? 60_000,
    };
    const { carrier } = components;
    if (!carrier) return;
    this.remote = new RemoteChannels({
      ...components,
      carrier,
      acknowledgeMs: this.#init.acknowledgeMs,
      makeEnd: (id, local, remote, transport) => this.#end(id, local, remote, transport),
      ask: (channel) => this.#acknowledge(channel),
    });
  }

  /** Lets a local agent answer channel requests. Without an acceptor an agent takes no channels. */
  onChannel(agentId: string, acceptor: ChannelAcceptor): () => void {
    const own = this.#own(agentId);
    this.#acceptors.set(own, acceptor);
    return () => {
      if (this.#acceptors.get(own) === acceptor) this.#acceptors.delete(own);
    };
  }

  /** Opens a channel. Resolves once both sides have acknowledged it; rejects with `CHANNEL_CLOSED` otherwise. */
  async openChannel(localAgentId: string, remoteAgentId: string): Promise<A2AChannel> {
    const { router, runtime, factory } = this.#components;
    const local = this.#own(localAgentId);
    const card = this.#components.registry.getById(remoteAgentId);
    // The router knows what the opener may learn of an agent that is not there.
    if (!card)
      router.admit(factory.create({ sender: local, recipient: remoteAgentId, type: 'notification', payload: null }));
    if (card?.node !== undefined && this.remote) return this.remote.open(local, joinAddress(card.id, card.node));
    const remote = this.#own(remoteAgentId);
    // Whoever may not say a word to the other side may not open a channel to it either.
    router.admit(factory.create({ sender: local, recipient: remote, type: 'notification', payload: null }));
    const id = runtime.id();
    const opener = this.#end(
      id,
      local,
      remote,
      between(() => acceptor),
    );
    const acceptor = this.#end(
      id,
      remote,
      local,
      between(() => opener),
    );
    this.#channels.set(id, { opener, acceptor });
    opener.onStatus((status) => {
      if (status === 'closed') this.#channels.delete(id);
    });
    const refusal = await this.#acknowledge(acceptor);
    if (refusal === undefined) {
      if (acceptor.status === 'connecting') acceptor.report({ type: 'acknowledged' });
      if (opener.status === 'connecting') {
        opener.report({ type: 'acknowledged' });
        return opener;
      }
    }
    await opener.close();
    const reason = refusal ?? 'it was closed while opening';
    throw new EclipticError('CHANNEL_CLOSED', `the channel to ${remote} was not opened: ${reason}`, {
      channelId: id,
      reason,
    });
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

  /** Forgets an agent that leaves: its channels close, and it answers no more requests for one. */
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

  /** Asks the other side; returns why it did not acknowledge, or undefined when it did. */
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

/** What is between two agents of one node: nothing. */
function between(other: () => A2AChannel): ChannelTransport {
  return {
    kind: 'local',
    deliver: (envelope) => other().accept(envelope),
    close: () => {
      if (other().status !== 'closed') other().report({ type: 'closed' });
    },
  };
}
