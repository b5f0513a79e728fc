import type { Runtime } from '../runtime/runtime.js';
import { cutText } from '../runtime/text.js';
import { neutralText } from './neutral-text.js';

/** Tags that models, or the programs around them, give a meaning. */
const WRAPPERS =
  /<(?=\/?(?:system|assistant|user|human|tool|function|invoke|instructions?|context|reminder|command|channel|message|important|admin|developer|antml|mesh)(?![a-z]))/giu;
/** Words that some models read as the beginning of a turn. */
const TURNS = /^(\s*)(system|assistant|user|human|developer|tool)(\s*:)/gimu;
const TOKENS = /<\|/g;
/** Servers may turn these into the tokens that begin and end turns, wherever they are. */
const SPECIAL_TOKENS = /<\|(?=[\w.-]{1,40}\|>)/g;

/** Another agent's text in a fence that it cannot forge: `mark` must be unpredictable. */
export function quoted(body: string, mark: string): string {
  return `<<${mark}\n${harmless(body)}\n${mark}>>`;
}

/** As `quoted`, for text that must come back unchanged, such as a file: only special tokens of models are replaced. */
export function quotedVerbatim(body: string, mark: string): string {
  return `<<${mark}\n${body.replace(SPECIAL_TOKENS, '‹|')}\n${mark}>>`;
}

/** A peer's summary or title as one line. */
export function oneLine(text: string, most: number): string {
  const line = harmless(text).replace(/\s+/gu, ' ').trim();
  return line.length <= most ? line : `${cutText(line, most - 1)}…`;
}

/** Text without hidden characters, tags, special tokens or turn markers. */
export function harmless(text: string): string {
  return neutralText(text).replace(WRAPPERS, '‹').replace(TOKENS, '‹|').replace(TURNS, '$1$2\u2236');
}

/**
 * The longest answer that every client passes to its model uncut. Measured: Gemini CLI cuts above 40,000 characters,
 * Codex above some 48,000 bytes, opencode above 2,000 lines; Claude Code passes a file instead.
 */
export const ANSWER_BYTES = 24_000;
/** Each line end counts as this many bytes, because opencode limits lines. */
const LINE_BYTES = 16;

/** The longest part of a text from `from` on that fits; it ends at a line end where that loses less than half. */
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

/** The text, or its beginning with a note that it was cut. */
export function cutToAnswer(text: string, room = ANSWER_BYTES): string {
  const part = partOf(text, 0, Math.min(room, ANSWER_BYTES));
  return part.to === text.length ? text : `${part.text}\n… (cut: ${part.to} of ${text.length} characters)`;
}

/** The cost of a text, counted as `partOf` does. */
export function roomFor(text: string): number {
  return Buffer.byteLength(text) + (text.split('\n').length - 1) * (LINE_BYTES - 1);
}

/** A mark for a fence. */
export function fenceMark(runtime: Pick<Runtime, 'bytes'>): string {
  return Buffer.from(runtime.bytes(6)).toString('hex');
}
