import { jsonIn } from '../runtime/json-text.js';

/** The value of an answer that is JSON in words, as agents without structured output give it; else the answer. */
export function valueIn(said: unknown, options?: Parameters<typeof jsonIn>[1]): unknown {
  return typeof said === 'string' ? (jsonIn(said, options) ?? said) : said;
}

/** A value for people and models: text as it is, anything else as JSON. */
export function describeValue(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? null, null, 2);
}
