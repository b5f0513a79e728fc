import type { RaftWrite } from './raft-log.js';
import type { SwarmEscalation, SwarmOpening } from './swarm-records.js';
import type { Finding, SwarmMessage, Work } from './swarm-wire.js';

/** What a member's machine wants done, in this order: what is to be kept is on disk before anything behind it leaves. */
export type SwarmEffect =
  | { readonly type: 'send'; readonly to: string; readonly message: SwarmMessage }
  | { readonly type: 'keep'; readonly keep: RaftWrite }
  | { readonly type: 'keep-opening'; readonly swarm: SwarmOpening }
  | { readonly type: 'keep-finding'; readonly lease: number; readonly subTask: string; readonly finding: Finding }
  | { readonly type: 'drop-finding'; readonly lease: number }
  | { readonly type: 'run'; readonly lease: number; readonly work: Work }
  | { readonly type: 'stop'; readonly lease: number; readonly reason: string }
  /** Settled records changed these sub-tasks, or with none of them something else on the board. */
  | { readonly type: 'changed'; readonly subTasks: readonly string[] }
  | { readonly type: 'escalated'; readonly escalation: SwarmEscalation }
  /** A majority has been out of reach for too long. */
  | { readonly type: 'stalled'; readonly reason: string }
  | { readonly type: 'resumed' }
  | { readonly type: 'ended' };

/** Where a part of the machine says what it wants done. */
export type Emit = (effect: SwarmEffect) => void;
