import { refuse } from './reading.js';

/**
 * Where a reader is in the events of a task. Each event has a number of its own, without gaps, that outlives the
 * process; as an SSE id it names its task too, so that a cursor cannot be used for another.
 */
export function writeCursor(taskId: string, sequence: number): string {
  return `${taskId}:${sequence}`;
}

/** The number after which to go on, from a `Last-Event-ID` header; undefined where the reader begins anew. */
export function readCursor(lastEventId: string | undefined, taskId: string): number | undefined {
  const said = lastEventId?.trim();
  if (said === undefined || said === '') return undefined;
  const colon = said.lastIndexOf(':');
  const digits = said.slice(colon + 1);
  if (said.slice(0, Math.max(colon, 0)) !== taskId || !/^(0|[1-9]\d{0,14})$/.test(digits)) {
    refuse('Last-Event-ID', 'is not the id of an event of this task');
  }
  return Number(digits);
}
