import type { Agent } from '../../agent/agent.js';
import type { Mail } from '../../mail/mail.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Leases } from '../leases/leases.js';
import type { LetterLog } from './letter-log.js';
import type { LoopGuard } from './loop-guard.js';
import type { MemberMail, OpenLetter } from './member-mail.js';
import type { MemberTasks } from './member-tasks.js';
import type { PeerNames } from './peer-names.js';

/** How an agent gets to see its mail. */
export type SeesMail = 'wakes' | 'next_turn' | 'polls';

/** What the tools of one member work with. */
export interface MemberContext {
  readonly name: string;
  readonly agent: Agent;
  readonly box: MemberMail;
  readonly runtime: Runtime;
  readonly registry: AgentRegistry;
  readonly mail: Mail;
  readonly names: PeerNames;
  readonly log: LetterLog;
  readonly loops: LoopGuard;
  readonly tasks: MemberTasks;
  readonly leases: Leases;
  readonly seesMail: SeesMail;
  /**
   * Messages as their reader sees them, as far as they fit into one answer. From then on those that are in it to their
   * last character count as shown by that call.
   */
  present(letters: readonly OpenLetter[], call: number): Promise<Presented>;
  /** What begins and ends a peer's words: another each time. */
  mark(): string;
  /** Whoever this member writes to may write back. */
  acquaint(address: string): Promise<void>;
  /** What others read about this member. */
  describe(summary: string): void;
}

export interface Presented {
  readonly texts: readonly string[];
  /** The ids of those that are shown whole, or to their end. */
  readonly shown: readonly string[];
}

/** One call of a tool. */
export interface MeshCall {
  /** Later calls of the same session have higher numbers. */
  readonly number: number;
  /** Aborts when the caller gives up. */
  readonly signal: AbortSignal;
}

/**
 * What a model reads. It is text alone: where a result also has structured data, several clients show their model
 * nothing else.
 */
export interface Answer {
  readonly text: string;
  /** Did the tool of another agent fail? */
  readonly isError?: boolean;
  /** Messages that it shows. */
  readonly shown?: readonly string[];
}

export type MeshTool = (member: MemberContext, args: unknown, call: MeshCall) => Promise<Answer>;
