import { ValidEnvelope } from './envelope.js';
import type { Party } from './policy.js';
import type { RegistryEntry } from './registry-index.js';
import type { A2ALogEvent, AgentTier, BroadcastCounts } from './schemas.js';

/** A measured latency, which several sends may report. */
export interface LatencySample {
  readonly ms: number;
  readonly of: string;
}

/** Larger envelopes are remembered without their payload. */
export const REMEMBERED_BYTES = 1_024;

/** The compact record of one send, which expands into up to four events: sent, routed, received, cross-tier audit. */
export class RoutingRecord {
  readonly envelope: ValidEnvelope;
  readonly source: Party;
  readonly target: Party;
  /** Both tiers at the time of the send: a card may change before the record is expanded. */
  readonly tiers: number;
  readonly latency: LatencySample;

  constructor(
    envelope: ValidEnvelope,
    source: Party,
    target: Party,
    latency: LatencySample,
    tiers = source.tier * 4 + target.tier,
  ) {
    this.envelope = ValidEnvelope.weightOf(envelope) > REMEMBERED_BYTES ? envelope.withoutPayload() : envelope;
    this.source = source;
    this.target = target;
    this.tiers = tiers;
    this.latency = latency;
  }

  /** Undefined if it was too large to be remembered. */
  get payload(): unknown {
    return ValidEnvelope.weightOf(this.envelope) === 0 ? undefined : this.envelope.payload;
  }

  get sent(): boolean {
    return this.source.node === undefined;
  }

  get received(): boolean {
    return this.target.node === undefined;
  }

  get crossesTiers(): boolean {
    return this.tiers >> 2 !== (this.tiers & 3);
  }

  get path(): 'local' | 'remote' {
    return this.sent && this.received ? 'local' : 'remote';
  }

  expand(): A2ALogEvent[] {
    const { id: envelopeId, correlationId, sender, type: messageType, timestamp } = this.envelope;
    const about = { envelopeId, correlationId, sender, recipient: this.target.address, messageType, timestamp };
    const traceparent = this.envelope.metadata?.traceparent;
    const sampled = this.latency.of === envelopeId ? {} : { sampled: true };
    const decision = { routingPath: this.path, duration: this.latency.ms, ...sampled, success: true, traceparent };
    const sourceTier = (this.tiers >> 2) as AgentTier;
    const targetTier = (this.tiers & 3) as AgentTier;
    const events: A2ALogEvent[] = [];
    if (this.sent) events.push({ type: 'message-sent', ...about });
    events.push({ type: 'routing-decision', ...about, ...decision });
    if (sourceTier !== targetTier) events.push({ type: 'tier-audit', ...about, sourceTier, targetTier });
    if (this.received) events.push({ type: 'message-received', ...about });
    return events;
  }
}

export class BroadcastRecord {
  readonly envelope: ValidEnvelope;
  readonly sourceTier: AgentTier;
  readonly reached: readonly RegistryEntry[];
  readonly tiers: Uint8Array;
  readonly counts: BroadcastCounts;
  readonly latency: LatencySample;

  constructor(
    envelope: ValidEnvelope,
    source: RegistryEntry,
    reached: readonly RegistryEntry[],
    counts: BroadcastCounts,
    latency: LatencySample,
  ) {
    this.envelope = envelope.withoutPayload();
    this.sourceTier = source.tier;
    this.reached = reached;
    this.tiers = Uint8Array.from(reached, (entry) => entry.tier);
    this.counts = counts;
    this.latency = latency;
  }

  expand(): A2ALogEvent[] {
    const { id: envelopeId, correlationId, sender, type: messageType, timestamp } = this.envelope;
    const about = { envelopeId, correlationId, sender, messageType, timestamp };
    const traceparent = this.envelope.metadata?.traceparent;
    const whole = { ...about, recipient: '*', routingPath: 'broadcast', broadcast: this.counts, traceparent } as const;
    const events: A2ALogEvent[] = [
      { type: 'message-sent', ...about, recipient: '*' },
      { type: 'routing-decision', ...whole, duration: this.latency.ms, success: true },
    ];
    const { sourceTier } = this;
    this.reached.forEach(({ address: recipient, node }, index) => {
      const targetTier = this.tiers[index] as AgentTier;
      if (sourceTier !== targetTier) events.push({ type: 'tier-audit', ...about, recipient, sourceTier, targetTier });
      if (node === undefined) events.push({ type: 'message-received', ...about, recipient });
    });
    return events;
  }
}
