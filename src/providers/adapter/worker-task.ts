import type { Part } from '../../a2a/protocol/types.js';
import type { Knowledge } from '../../collections/collections.js';

/** A task or request for an agent, as the provider behind the agent gets it. */
export interface WorkerTask {
  /** The assignment in words. Never empty. */
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
  /** Rules and notes of the mesh for this task. */
  readonly knowledge?: Knowledge | undefined;
}
