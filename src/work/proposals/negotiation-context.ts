import type { RouteOptions } from '../../mesh/message-sender.js';
import type { A2AMessageType, RoutingResult } from '../../mesh/schemas.js';
import type { CallbackFailed } from '../../runtime/callbacks.js';
import type { DeadlineQueue } from '../../runtime/deadlines.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { ProposalRow } from '../../store/tables.js';
import type { WorkState } from './machine.js';
import type { ProposalStatus, RefusedAnswer, TaskProposal } from './proposal.js';

/** Which proposal something is about. */
export type About = Pick<Side, 'id' | 'peer' | 'thread'>;

/** One side of a proposal, as the negotiator keeps it. */
export interface Side {
  readonly side: 'sent' | 'received';
  readonly id: string;
  readonly peer: string;
  readonly thread: string;
  readonly durable: boolean;
  readonly proposal: TaskProposal;
  readonly input: unknown;
  /** What is known of the work, where there is any. */
  readonly state: { readonly work: WorkState };
  /** Approximate bytes of what it holds. */
  readonly weight: number;
  readonly row: ProposalRow;
  /** Does what is due: asks again, or gives up. */
  check(now: number): void;
}

/** What one side of a proposal needs of the negotiator that it belongs to. */
export interface NegotiationContext {
  readonly runtime: Runtime;
  readonly callbackFailed: CallbackFailed;
  readonly deadlines: DeadlineQueue;
  readonly agentId: string;
  /** `id@node`. */
  readonly address: string;
  /** Work that the agent has accepted and not finished; it grows and shrinks by `burden`. */
  readonly load: number;
  burden(change: 1 | -1): void;
  /** How long nothing may be heard of the other side, of a proposal that is not durable. */
  readonly graceMs: number;
  post(
    side: Pick<Side, 'peer' | 'thread'>,
    type: A2AMessageType,
    payload: unknown,
    options?: RouteOptions,
  ): RoutingResult | Promise<RoutingResult>;
  /** Calls `written` when the side as it is now is on disk. */
  keep(side: Side, written: () => void, failed: (error: unknown) => void): void;
  /** Nothing more happens to it, but that the other side may ask again. */
  closed(side: Side): void;
  /** The other side's word counts no more: whoever waited in the thread waits no longer. */
  released(opener: string, responder: string, thread: string): void;
  /** An agent's name as every node understands it. */
  inFull(agent: string): string;
  /** An agent's name as this node understands it. */
  localName(address: string): string;
  /** Is the agent at the other side another node's? */
  isRemote(peer: string): boolean;
  /** Was there ever an agent of that address? */
  knows(peer: string): boolean;
  changed(about: About, status: ProposalStatus): void;
  refused(about: About, kind: RefusedAnswer, from: string): void;
}

/** Waits between two times of asking: the first, and as it doubles, the longest. */
export const FIRST_CHECK_MS = 1_000;
export const LONGEST_CHECK_MS = 8_000;
