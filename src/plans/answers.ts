const FENCE = /^[ \t]*(`{3,}|~{3,})[^\n`]*\n([\s\S]*?)^[ \t]*\1[ \t]*$/m;

/** The text in the first code fence of an answer; without a fence, the answer. */
export function unfenced(said: string): string {
  return (FENCE.exec(said)?.[2] ?? said).trim();
}

/**
 * The value of an answer that is JSON as text, or one code fence with JSON, as agents without structured output give it;
 * else the answer. With `anywhere`, the fence may have text around it; not for verdicts, because that text may quote a
 * fence of the agent that is judged.
 */
export function valueIn(said: unknown, { anywhere = false } = {}): unknown {
  if (typeof said !== 'string') return said;
  const whole = said.trim();
  const inner = anywhere || FENCE.exec(whole)?.[0] === whole ? unfenced(whole) : whole;
  for (const text of [whole, inner]) {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      // Plain text.
    }
  }
  return said;
}

/** A value for people and models: text as it is, anything else as JSON. */
export function describeValue(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? null, null, 2);
}
