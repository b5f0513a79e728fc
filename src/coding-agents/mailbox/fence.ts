import { neutralText } from '../../mcp/neutral-text.js';
import { cutText } from '../../runtime/text.js';

/** Who wrote something, as this node knows it: nothing of this is the writer's own word. */
export interface Provenance {
  readonly id: string;
  readonly from: string;
  /** The beginning of the key that proved it. */
  readonly key: string;
  readonly relation: 'same-node' | 'same-owner' | 'paired';
  readonly origin: 'agent' | 'human';
  readonly needs: string;
  readonly hops: number;
  readonly redelivered: boolean;
}

/** Tags that mean something to models or to the programs around them. */
const WRAPPERS =
  /<(?=\/?(?:system|assistant|user|human|tool|function|invoke|instructions?|context|reminder|command|channel|message|important|admin|developer|antml|mesh)(?![a-z]))/giu;
/** Words that some models read as the beginning of somebody's turn. */
const TURNS = /^(\s*)(system|assistant|user|human|developer|tool)(\s*:)/gimu;
/** Special tokens of several models. */
const TOKENS = /<\|/g;

/** A peer's words with a header that only this node can have written, in a fence that the words cannot know. */
export function fenced(about: Provenance, body: string, mark: string): string {
  const { id, from, key, relation, origin, needs, hops, redelivered } = about;
  const flags = [
    `key ${key}`,
    relation,
    `origin: ${origin}`,
    ...(needs === 'none' ? [] : [`needs ${needs}`]),
    ...(hops === 0 ? [] : [`hop ${hops}`]),
    ...(redelivered ? ['shown before'] : []),
  ];
  return `${id} from ${from} (${flags.join(', ')})\n${quoted(body, mark)}`;
}

/** Words between two marks that they cannot know. */
export function quoted(body: string, mark: string): string {
  return `<<${mark}\n${harmless(body)}\n${mark}>>`;
}

/** One line of a peer's words, such as a summary or a title. */
export function oneLine(text: string, most: number): string {
  const line = harmless(text).replace(/\s+/gu, ' ').trim();
  return line.length <= most ? line : `${cutText(line, most - 1)}…`;
}

/** Words that can neither hide nor pretend to be anything but words. */
export function harmless(text: string): string {
  return neutralText(text).replace(WRAPPERS, '‹').replace(TOKENS, '‹|').replace(TURNS, '$1$2\u2236');
}

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
