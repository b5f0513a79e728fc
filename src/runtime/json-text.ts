const FENCE = /^[ \t]*(`{3,}|~{3,})[^\n`]*\n([\s\S]*?)^[ \t]*\1[ \t]*$/m;

/** The text in the first code fence of an answer; without a fence, the answer. */
export function unfenced(said: string): string {
  return (FENCE.exec(said)?.[2] ?? said).trim();
}

/**
 * The JSON value of an answer in words: the whole answer is JSON, or one code fence with JSON. Undefined where it is
 * neither. With `anywhere`, the fence may have text around it; not for verdicts, because that text may quote a fence of the
 * agent that is judged.
 */
export function jsonIn(said: string, { anywhere = false } = {}): unknown {
  const whole = said.trim();
  const inner = anywhere || FENCE.exec(whole)?.[0] === whole ? unfenced(whole) : whole;
  for (const text of [whole, inner]) {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      // The other form may fit.
    }
  }
  return undefined;
}
