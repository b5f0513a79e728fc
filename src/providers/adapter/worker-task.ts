import type { Part } from '../../a2a/protocol/types.js';

/** A task or request for an agent, as the provider behind the agent gets it. */
export interface WorkerTask {
  /** What is asked for, in words. Never empty. */
  readonly text: string;
  /** Further facts: the other fields of a request's payload, or the data of a task. */
  readonly context: Readonly<Record<string, unknown>>;
  readonly files?: readonly Part[];
  /** The original payload: a request's payload, or a task's text or data. */
  readonly payload: unknown;
  /** Equal for the tasks of one conversation, so that a worker with sessions can continue one. Requests have none. */
  readonly conversation?: string;
  /** The address of the agent that asks. */
  readonly from: string;
  /** The JSON Schema that the answer must match. */
  readonly outputSchema?: Readonly<Record<string, unknown>>;
}

/** The JSON value of an answer in words, also in a code fence; undefined where there is none. */
export function jsonIn(text: string): unknown {
  const [, fenced] = /```(?:json)?\s*\n([\s\S]*?)\n\s*```/.exec(text) ?? [];
  for (const candidate of [text, fenced]) {
    if (candidate === undefined) continue;
    try {
      return JSON.parse(candidate);
    } catch {
      // The other form may fit.
    }
  }
  return undefined;
}
