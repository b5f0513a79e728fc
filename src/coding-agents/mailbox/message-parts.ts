/**
 * What every client passes on to its model whole. Measured: Gemini CLI cuts above 40,000 characters, Codex above some
 * 48,000 bytes, opencode above 2,000 lines, Claude Code hands a file over instead.
 */
export const ANSWER_BYTES = 24_000;
/** A line counts as at least so many bytes, so that few enough of them fit. */
const LINE_BYTES = 16;

/** The part of a text, from a place on, that has room; it ends after a whole line where it can. */
export function partOf(text: string, from: number, room: number): { readonly text: string; readonly to: number } {
  let cost = 0;
  let end = from;
  let lineEnd = from;
  while (end < text.length) {
    const point = text.codePointAt(end)!;
    const next = end + (point > 0xffff ? 2 : 1);
    cost += point === 0x0a ? LINE_BYTES : point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    if (cost > room) break;
    end = next;
    if (point === 0x0a) lineEnd = end;
  }
  const to = end < text.length && lineEnd - from > (end - from) / 2 ? lineEnd : end;
  return { text: text.slice(from, to), to };
}

/** A text that has room in one answer, or its beginning, marked as such. */
export function cutToAnswer(text: string): string {
  const part = partOf(text, 0, ANSWER_BYTES);
  return part.to === text.length ? text : `${part.text}\n… (cut: ${part.to} of ${text.length} characters)`;
}

/** What a text takes of the room. */
export function roomFor(text: string): number {
  return Buffer.byteLength(text) + (text.split('\n').length - 1) * (LINE_BYTES - 1);
}
