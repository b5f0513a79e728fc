import type { A2AMessageType, RoutingResult } from './schemas.js';

export interface VoiceOptions {
  /** The conversation it belongs to. */
  thread?: string;
  /** Why this goes over the recipient's rank. */
  justification?: string;
  /** Not handled within this time, it is dropped. */
  ttlMs?: number;
  /** Kept on disk until the recipient is done with it. */
  durable?: boolean;
  /** Refused at once if policy would not let the answer back. */
  needsAnswer?: boolean;
}

/** What coordination says goes out under one agent's name. */
export interface Voice {
  /** The agent's id on this node. */
  readonly agentId: string;
  /** `id@node`. */
  readonly address: string;
  /** Resolves when the recipient has it; rejects with the typed error when it was refused. */
  send(to: string, type: A2AMessageType, payload: unknown, options?: VoiceOptions): Promise<RoutingResult>;
  /** As `send`, but a refusal is a result, which is there at once unless the recipient is on another node. */
  post(
    to: string,
    type: A2AMessageType,
    payload: unknown,
    options?: VoiceOptions,
  ): RoutingResult | Promise<RoutingResult>;
}
