import type { RecordLog, SharedLogTail } from '../../store/shared/record-log.js';
import type { Emit, MessageOf, RaftMessage, RaftWrite } from './swarm-messages.js';
import type { SwarmRecord } from './swarm-records.js';

/** What a log at the broker answered. */
export type SharedLogEvent =
  | { readonly type: 'appended'; readonly sequence: number | undefined }
  | { readonly type: 'read'; readonly tail: SharedLogTail }
  /** The operation failed; an append may have been done. */
  | { readonly type: 'unanswered' }
  | { readonly type: 'grown' };

/** An event that concerns the log. Each implementation takes its own kinds, and ignores the others. */
export type LogEvent =
  | SharedLogEvent
  | { readonly type: 'message'; readonly from: string; readonly message: RaftMessage }
  /** This seat's own log is on its disk up to `n`. */
  | { readonly type: 'kept'; readonly term: number; readonly n: number };

/** A record log as a part of the swarm's machine: time comes in with the calls, and nothing happens between them. */
export interface SeatLog extends RecordLog<SwarmRecord> {
  /** Leads the log in its first epoch: only the creator does so, and only before any other seat knows the swarm. */
  create(now: number): void;
  take(event: LogEvent, now: number): void;
  /** The leader, by what it says, has sent a sign of life. */
  heard(from: string, beat: Pick<MessageOf<'beat'>, 'epoch' | 'settled'>, now: number): void;
  tick(now: number): void;
  /** Begins to settle the records that were appended. */
  flush(): void;
}

/** What the implementations have done outside, in this order. */
export interface LogEffects {
  send(to: string, message: RaftMessage): void;
  keep(write: RaftWrite): void;
  /** At the broker. The answer is an event. */
  append(expectedLast: number, value: unknown): void;
  read(above: number): void;
}

export function logEffects(emit: Emit): LogEffects {
  return {
    send: (to, message) => emit({ type: 'send', to, message }),
    keep: (keep) => emit({ type: 'keep', keep }),
    append: (expectedLast, value) => emit({ type: 'append', expectedLast, value }),
    read: (above) => emit({ type: 'read', above }),
  };
}
