import type { AnsweredQuestion } from '../a2a/protocol/task-machine.js';
import type { Message as A2AMessage, Artifact, Metadata, Part } from '../a2a/protocol/types.js';
import type { WireError } from '../mesh/codec.js';
import type { Usage } from './usage.js';

/** The messages between the caller of a task and the agent that works on it. */

/** The key of a payload that belongs to a task. */
export const TASK = 'ecliptic/task';

/** The payload of a task's first envelope. */
export interface TaskOpening {
  readonly id: string;
  readonly contextId: string;
  readonly message: A2AMessage;
  readonly skill?: string;
  /** Of a proposal or a sub-task: the capabilities that it asks for. */
  readonly capabilities?: readonly string[];
  /** The agent that wants the work done, where that is not the sender: the creator of a swarm. */
  readonly asker?: string;
  /** Was it begun before a restart? */
  readonly resumed?: boolean;
  /** Of a resumed task: the questions that were answered before, the oldest first. */
  readonly answers?: readonly AnsweredQuestion[];
  readonly metadata?: Metadata;
  /** Can the caller not be asked, as the proposer of work? */
  readonly unasked?: boolean;
}

/** What the caller sends to the agent at work. */
export type TaskNews =
  /** With `receipt`, the agent reports when the handler has the message. */
  | { readonly id: string; readonly input: A2AMessage; readonly receipt?: boolean }
  | { readonly id: string; readonly cancel: true };

/** The session of a coding agent that does the work. */
export interface TaskSession {
  /** The agent's own id. */
  readonly id: string;
  readonly state: string;
  /** Why an earlier session is not used. */
  readonly reason?: string;
}

/** What the agent at work sends to the caller. */
export type TaskReport =
  | { readonly report: 'accepted'; readonly resumable: boolean }
  | {
      readonly report: 'working';
      readonly parts?: readonly Part[];
      /** What the work cost since the last such report. */
      readonly usage?: Usage;
      readonly session?: TaskSession;
      /** How many decisions of the agent's owner the work waits for; its time limits pause meanwhile. */
      readonly waiting?: number;
    }
  /** The handler has the caller's message of that id. */
  | { readonly report: 'took'; readonly messageId: string }
  | { readonly report: 'artifact'; readonly artifact: Artifact; readonly append: boolean; readonly lastChunk: boolean }
  | { readonly report: 'input-required' | 'auth-required'; readonly parts: readonly Part[] }
  | { readonly report: 'rejected'; readonly parts: readonly Part[]; readonly error?: WireError }
  | { readonly report: 'message'; readonly parts: readonly Part[] };

/** The part of a payload that belongs to a task, if there is one. */
export function taskIn<T>(payload: unknown): T | undefined {
  if (typeof payload !== 'object' || payload === null || !(TASK in payload)) return undefined;
  return (payload as Record<typeof TASK, T>)[TASK];
}
