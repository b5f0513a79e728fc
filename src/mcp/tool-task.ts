import type { InputRequest } from '@modelcontextprotocol/server';
import { EclipticError } from '../runtime/errors.js';
import type { Ask, CallOptions, NeedsInput } from './call.js';
import type { Entry } from './catalogue.js';
import type { ToolDefinition } from './definitions.js';
import { callFailure, errorCode, failureData, protocolCode } from './failure.js';
import type { ToolTaskRow } from './tables.js';

/** The extension of MCP 2026-07-28 by which a client says that it can follow tasks. */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks';

/** Default duration of a call of a tool that supports tasks. */
export const TASK_TIMEOUT_MS = 60 * 60_000;

export type TaskStatus = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled';

export const isOver = (status: string): boolean => status !== 'working' && status !== 'input_required';

/** The tool's own result, or the JSON-RPC error of a call that had none. */
export type TaskEnd = { readonly result: object } | { readonly error: object };

/** A question that a tool asked its caller, and what the tool needs to go on. */
export interface Waiting {
  /** Counts the questions: each has keys of its own, so that an answer is never taken for a later question. */
  readonly round: number;
  /** Open questions, by the key that the caller sees. */
  readonly requests: Readonly<Record<string, InputRequest>>;
  readonly answers: Readonly<Record<string, unknown>>;
  readonly state?: string | undefined;
  /** Undefined where arguments are secret: they are not stored, so the task ends with the process. */
  readonly ask?: Ask;
  readonly capabilities?: CallOptions['capabilities'];
}

/** A task as its owner sees it. */
export interface TaskView {
  readonly row: ToolTaskRow;
  readonly requests?: Waiting['requests'] | undefined;
  readonly end?: TaskEnd | undefined;
}

/** The question of one round, under keys that no other round has. */
export function questionOf(asked: NeedsInput, round: number, rest: Pick<Waiting, 'ask' | 'capabilities'>): Waiting {
  const requests = Object.entries(asked.inputRequests ?? {}).map(([key, request]) => [`${round}:${key}`, request]);
  return { round, requests: Object.fromEntries(requests), answers: {}, state: asked.requestState, ...rest };
}

/** What remains to be answered. Answers that belong to no open question are ignored. */
export function answered(waiting: Waiting, given: Readonly<Record<string, unknown>>): Waiting {
  const requests = { ...waiting.requests };
  const answers: Record<string, unknown> = { ...waiting.answers };
  for (const [key, answer] of Object.entries(given)) {
    if (!Object.hasOwn(requests, key) || typeof answer !== 'object' || answer === null) continue;
    delete requests[key];
    answers[key.slice(key.indexOf(':') + 1)] = answer;
  }
  return { ...waiting, requests, answers };
}

/**
 * A tool that ran and failed has a result that says so. A call that broke off, or that could not be made, has an error.
 */
export function endOfFailure(error: EclipticError): TaskEnd {
  const brokeOff = error.details.outcome !== undefined || error.code === 'INVALID_RESULT' || error.code === 'CANCELLED';
  if (!brokeOff && protocolCode(error) === undefined) return { result: callFailure(error) };
  return { error: { code: errorCode(error), message: error.message, data: failureData(error) } };
}

/** How a tool may be called: as a task, not as one, or only as one. */
export function taskSupport(entry: Entry): NonNullable<ToolDefinition['execution']>['taskSupport'] | undefined {
  return (entry.definition as ToolDefinition).execution?.taskSupport;
}

/** A tool that asks first is called directly until it has its answers: the work that follows is the task. */
export function beginsTask(entry: Entry, options: Pick<CallOptions, 'answers' | 'state'>): boolean {
  const { asksFirst } = (entry.definition as ToolDefinition).execution ?? {};
  return !asksFirst || options.state !== undefined || Object.keys(options.answers ?? {}).length > 0;
}

export function needsTasks({ fullName }: Entry): EclipticError {
  return new EclipticError('CAPABILITY_REQUIRED', `${fullName} is called as a task: this needs a client with tasks`, {
    required: { extensions: { [TASKS_EXTENSION]: {} } },
  });
}
