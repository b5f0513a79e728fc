import { Callbacks } from '../runtime/callbacks.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import {
  type ChannelEffect,
  type ChannelEvent,
  type ChannelRules,
  type ChannelState,
  type ChannelStatus,
  CONNECTING,
  stepChannel,
} from './channel-machine.js';
import { checkEnvelope, type ValidEnvelope } from './envelope.js';
import { type A2AObservability, callbackReport } from './observability.js';
import type { ChannelTransport } from './ports.js';
import type { A2AEnvelope } from './schemas.js';

interface Outgoing {
  readonly envelope: ValidEnvelope;
  /** Is the outcome of an attempt unknown? */
  uncertain: boolean;
  readonly onDelivered: () => void;
  readonly resolve: () => void;
  readonly reject: (error: EclipticError) => void;
}

export interface ChannelComponents {
  runtime: Runtime;
  observability: A2AObservability;
  transport: ChannelTransport;
  /** Checks an envelope: throws the refusal, or returns the function to call once it is delivered. */
  admit: (envelope: ValidEnvelope) => () => void;
}

export interface ChannelInit {
  id: string;
  localAgentId: string;
  remoteAgentId: string;
  rules: ChannelRules;
  /** How long `reconnecting` may last before the channel closes. */
  reconnectMs: number;
}

/**
 * One agent's end of a channel to another agent: its envelopes are delivered in order, one at a time, retried while the
 * channel is open, and either arrive or fail with a typed error.
 */
export class A2AChannel {
  readonly id: string;
  readonly localAgentId: string;
  readonly remoteAgentId: string;
  readonly #components: ChannelComponents;
  readonly #rules: ChannelRules;
  readonly #reconnectMs: number;
  readonly #outgoing: Outgoing[] = [];
  readonly #handlers: Callbacks<[envelope: A2AEnvelope]>;
  readonly #watchers: Callbacks<[status: ChannelStatus]>;
  #state: ChannelState = CONNECTING;
  #lastError: unknown;
  #retryTimer: Timer | undefined;
  #reconnectTimer: Timer | undefined;
  /** Identifies the present attempt, so that the late outcome of an earlier one is ignored. */
  #attempts = 0;

  constructor(components: ChannelComponents, init: ChannelInit) {
    this.#components = components;
    this.id = init.id;
    this.localAgentId = init.localAgentId;
    this.remoteAgentId = init.remoteAgentId;
    this.#rules = init.rules;
    this.#reconnectMs = init.reconnectMs;
    const failed = callbackReport(components.runtime, components.observability);
    this.#handlers = new Callbacks(`channel ${init.id}: onMessage of ${init.localAgentId}`, failed);
    this.#watchers = new Callbacks(`channel ${init.id}: onStatus of ${init.localAgentId}`, failed);
    this.#emitStatus('connecting');
  }

  get status(): ChannelStatus {
    return this.#state.status;
  }

  get transport(): ChannelTransport['kind'] {
    return this.#components.transport.kind;
  }

  /** Sends one envelope from this end to the other. Resolves when delivered; rejects with a typed error. */
  async send(envelope: A2AEnvelope): Promise<void> {
    const valid = checkEnvelope(envelope);
    if (valid.sender !== this.localAgentId || valid.recipient !== this.remoteAgentId) {
      throw new EclipticError(
        'SENDER_REFUSED',
        `this end of the channel carries envelopes from ${this.localAgentId} to ${this.remoteAgentId} only`,
        { sender: valid.sender, recipient: valid.recipient },
      );
    }
    if (this.#state.status === 'closed') throw this.#refusal('CHANNEL_CLOSED', { type: 'sent' });
    if (this.#outgoing.length >= this.#rules.queueCapacity) throw this.#refusal('QUEUE_FULL', { type: 'sent' });
    const onDelivered = this.#components.admit(valid);
    return new Promise((resolve, reject) => {
      this.#outgoing.push({ envelope: valid, uncertain: false, onDelivered, resolve, reject });
      const refused = this.#step({ type: 'sent' });
      if (refused) {
        this.#outgoing.pop();
        reject(refused);
      }
    });
  }

  onMessage(handler: (envelope: A2AEnvelope) => void): () => void {
    return this.#handlers.add(handler);
  }

  onStatus(watcher: (status: ChannelStatus) => void): () => void {
    return this.#watchers.add(watcher);
  }

  /** Closes this end and, through the transport, the other. Queued envelopes fail with `CHANNEL_CLOSED`. */
  async close(): Promise<void> {
    if (this.#state.status === 'closed') return;
    this.#lastError = undefined;
    this.#step({ type: 'closed' });
    await this.#components.transport.close();
  }

  /** @internal Opens a channel whose other side has answered. Throws `CHANNEL_CLOSED` if it was refused. */
  async acknowledge(refusal: string | undefined): Promise<this> {
    if (refusal === undefined && this.status === 'connecting') {
      this.report({ type: 'acknowledged' });
      return this;
    }
    await this.close();
    const reason = refusal ?? 'it was closed while opening';
    const text = `the channel to ${this.remoteAgentId} was not opened: ${reason}`;
    throw new EclipticError('CHANNEL_CLOSED', text, { channelId: this.id, reason });
  }

  /** @internal Reports an event of the transport. `cause` is the failure that closed it. */
  report(
    event: Extract<ChannelEvent, { type: 'acknowledged' | 'disconnected' | 'reconnected' | 'closed' }>,
    cause?: EclipticError,
  ): void {
    if (event.type === 'closed') this.#lastError = cause;
    const refused = this.#step(event);
    if (refused) throw refused;
  }

  /** @internal Delivers an envelope from the other end to the handlers of this end; throws if there are none. */
  accept(envelope: ValidEnvelope): void {
    if (this.#handlers.size === 0) {
      throw new EclipticError('AGENT_UNAVAILABLE', `${this.localAgentId} does not listen on channel ${this.id}`);
    }
    this.#handlers.call(envelope);
  }

  #step(event: ChannelEvent): EclipticError | undefined {
    const step = stepChannel(this.#state, event, this.#rules);
    if (!step.ok) return this.#refusal(step.code, event);
    this.#state = step.state;
    for (const effect of step.effects) this.#perform(effect);
    return undefined;
  }

  #perform(effect: ChannelEffect): void {
    switch (effect.type) {
      case 'attempt-first':
        void this.#attempt();
        return;
      case 'retry-after':
        this.#retryTimer = this.#components.runtime.setTimer(() => this.#step({ type: 'retry-due' }), effect.ms);
        return;
      case 'settle-first':
        this.#settle(this.#outgoing.shift()!, effect.delivered);
        return;
      case 'settle-all':
        for (const outgoing of this.#outgoing.splice(0)) this.#settle(outgoing, false);
        return;
      case 'status':
        this.#enter(effect.status);
        return;
    }
  }

  async #attempt(): Promise<void> {
    const first = this.#outgoing[0];
    // A watcher may have closed the channel while the effects of a step were performed.
    if (!first || this.#state.first !== 'in-flight') return;
    const attempt = ++this.#attempts;
    const outcome = await this.#deliver(first);
    if (attempt !== this.#attempts) return;
    this.#step({ type: outcome });
  }

  async #deliver(outgoing: Outgoing): Promise<'delivered' | 'failed' | 'dropped'> {
    const { envelope } = outgoing;
    const ttl = envelope.metadata?.ttlMs;
    if (ttl !== undefined && envelope.timestamp + ttl < this.#components.runtime.now()) {
      this.#lastError = new EclipticError('EXPIRED', 'its time to live ran out while it waited');
      return 'dropped';
    }
    try {
      outgoing.uncertain = true;
      await this.#components.transport.deliver(envelope);
      return 'delivered';
    } catch (error) {
      outgoing.uncertain = false;
      this.#lastError = error;
      return 'failed';
    }
  }

  #settle(outgoing: Outgoing, delivered: boolean): void {
    if (delivered) {
      outgoing.onDelivered();
      outgoing.resolve();
      return;
    }
    const code = this.#failureCode();
    const reason = code === 'CHANNEL_CLOSED' ? 'the channel was closed' : describeError(this.#lastError);
    const { id: envelopeId, correlationId, sender, recipient, type: messageType } = outgoing.envelope;
    const { runtime, observability } = this.#components;
    const about = { envelopeId, correlationId, sender, recipient, messageType, channelId: this.id };
    observability.emit({ type: 'delivery-failure', ...about, code, reason, timestamp: runtime.now() });
    outgoing.reject(
      new EclipticError(code, `${envelopeId} was not delivered to ${recipient}: ${reason}`, {
        envelopeId,
        channelId: this.id,
        outcome: outgoing.uncertain ? 'unknown' : 'not-delivered',
      }),
    );
  }

  #failureCode(): 'CHANNEL_CLOSED' | 'DELIVERY_FAILED' | 'EXPIRED' {
    if (this.#lastError instanceof EclipticError && this.#lastError.code === 'EXPIRED') return 'EXPIRED';
    return this.#state.status === 'closed' && this.#lastError === undefined ? 'CHANNEL_CLOSED' : 'DELIVERY_FAILED';
  }

  #enter(status: ChannelStatus): void {
    this.#reconnectTimer?.cancel();
    if (status === 'reconnecting') {
      this.#attempts++;
      this.#lastError = new EclipticError('AGENT_UNAVAILABLE', 'the transport is disconnected');
      const giveUp = () => {
        this.#step({ type: 'closed' });
        void this.#components.transport.close();
      };
      this.#reconnectTimer = this.#components.runtime.setTimer(giveUp, this.#reconnectMs);
    } else if (status === 'closed') {
      this.#attempts++;
      this.#retryTimer?.cancel();
    }
    this.#emitStatus(status);
    this.#watchers.call(status);
  }

  #emitStatus(status: ChannelStatus): void {
    const { runtime, observability } = this.#components;
    const ends = { sender: this.localAgentId, recipient: this.remoteAgentId };
    const timestamp = runtime.now();
    observability.emit({ type: 'channel-status', ...ends, channelId: this.id, channelStatus: status, timestamp });
  }

  #refusal(code: 'INVALID_TRANSITION' | 'CHANNEL_CLOSED' | 'QUEUE_FULL', event: ChannelEvent): EclipticError {
    const message = {
      INVALID_TRANSITION: `a channel that is ${this.status} cannot become ${event.type}`,
      CHANNEL_CLOSED: `channel ${this.id} is closed`,
      QUEUE_FULL: `${this.#rules.queueCapacity} envelopes wait on channel ${this.id}`,
    }[code];
    return new EclipticError(code, message, { channelId: this.id, status: this.status });
  }
}
