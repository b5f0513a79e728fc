import { MAX_FRAME_CHARS } from './protocol.js';

/** Part of a frame: a text within a text may need twice the room, and more stands around it. */
const PAGE_CHARS = MAX_FRAME_CHARS / 4;

/** As many of these, from the first on, as one answer may hold; one at least. */
export function fitting<T>(rows: readonly T[], sizeOf: (row: T) => number): T[] {
  let chars = 0;
  const end = rows.findIndex((row, index) => {
    chars += sizeOf(row);
    return index > 0 && chars > PAGE_CHARS;
  });
  return end < 0 ? [...rows] : rows.slice(0, end);
}
