/** The first `max` UTF-16 units of a text, one fewer where that would split a surrogate pair. */
export function cutText(text: string, max: number): string {
  if (text.length <= max) return text;
  return text.slice(0, isHighSurrogate(text.charCodeAt(max - 1)) ? max - 1 : max);
}

/** The last `max` UTF-16 units of a text, one fewer where that would split a surrogate pair. */
export function endOfText(text: string, max: number): string {
  if (text.length <= max) return text;
  const start = text.length - max;
  return text.slice(isHighSurrogate(text.charCodeAt(start - 1)) ? start + 1 : start);
}

// Both methods are in Node 20, but not yet in the language level.
/** Is the text free of lone surrogates, so that UTF-8 can represent it? */
export function isWellFormed(text: string): boolean {
  return (text as string & { isWellFormed(): boolean }).isWellFormed();
}

/** The text with a replacement character for each lone surrogate. */
export function wellFormed(text: string): string {
  return (text as string & { toWellFormed(): string }).toWellFormed();
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
