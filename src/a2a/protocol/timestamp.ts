import { type Place, refuse } from './reading.js';

/** RFC 3339, as ProtoJSON has it: a date, a time, and `Z` or an offset. */
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/;

let lastMs = 0;
let lastText = new Date(lastMs).toISOString();

/** A time as it is sent: UTC with milliseconds and `Z`. Many are of the same moment, and writing one is not cheap. */
export function writeTimestamp(ms: number): string {
  if (ms !== lastMs) {
    lastText = new Date(ms).toISOString();
    lastMs = ms;
  }
  return lastText;
}

/** Takes any RFC 3339 time, and gives the same instant as it is sent by us. */
export function readTimestamp(value: unknown, place: Place): string {
  const ms = typeof value === 'string' && TIMESTAMP.test(value) ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(ms)) refuse(place, 'must be an RFC 3339 time, such as 2026-01-31T08:00:00.000Z');
  return writeTimestamp(ms);
}

export function readOptionalTimestamp(value: unknown, place: Place): string | undefined {
  return value === undefined || value === null || value === '' ? undefined : readTimestamp(value, place);
}
