import { A2A_LIMITS } from './limits.js';
import { compact, readInteger, readObject, readOptionalText, readText } from './reading.js';
import type { Message, Part, Task, TaskState } from './types.js';

/** The simple task interface of the specification: four states, text parts, ISO times. */

export type A2ATaskState = 'submitted' | 'working' | 'completed' | 'failed';

export interface A2AMessage {
  readonly role: 'user' | 'agent';
  readonly parts: readonly { readonly type: 'text'; readonly text: string }[];
}

export interface A2ATask {
  readonly id: string;
  readonly state: A2ATaskState;
  readonly messages: readonly A2AMessage[];
  readonly sessionId: string | null;
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** The body of `tasks/send`; the members of `params` are also accepted at the top level. */
export interface A2ATaskSendRequest {
  readonly method: 'tasks/send';
  readonly params: A2ATaskSendParams;
}

export interface A2ATaskSendParams {
  readonly message: string;
  readonly skill?: string;
  readonly timeoutMs?: number;
}

export interface RemoteInvocationResult {
  readonly success: boolean;
  readonly taskId: string;
  readonly responseText?: string;
  readonly error?: string;
}

export interface A2AAgentSkill {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly inputModes: readonly string[];
  readonly outputModes: readonly string[];
}

export interface A2AProtocolExtension {
  readonly protocol: string;
  readonly description: string;
  readonly endpoint?: string;
}

export interface A2AAgentCard {
  readonly name: string;
  readonly description: string;
  readonly url: string;
  readonly provider?: { readonly organization: string; readonly url: string };
  readonly version: string;
  readonly documentationUrl?: string;
  readonly capabilities: {
    readonly streaming?: boolean;
    readonly pushNotifications?: boolean;
    readonly stateTransitionHistory?: boolean;
  };
  readonly authentication: { readonly schemes: readonly string[]; readonly credentials?: string };
  readonly defaultInputModes: readonly string[];
  readonly defaultOutputModes: readonly string[];
  readonly skills: readonly A2AAgentSkill[];
  readonly supportedProtocols?: readonly A2AProtocolExtension[];
}

/** Each state of the protocol maps to one of four, so that no transition goes backwards. */
const PROJECTION: Readonly<Record<TaskState, A2ATaskState>> = {
  TASK_STATE_UNSPECIFIED: 'submitted',
  TASK_STATE_SUBMITTED: 'submitted',
  TASK_STATE_WORKING: 'working',
  TASK_STATE_INPUT_REQUIRED: 'working',
  TASK_STATE_AUTH_REQUIRED: 'working',
  TASK_STATE_COMPLETED: 'completed',
  TASK_STATE_FAILED: 'failed',
  TASK_STATE_CANCELED: 'failed',
  TASK_STATE_REJECTED: 'failed',
};

export function projectState(state: TaskState): A2ATaskState {
  return PROJECTION[state];
}

export interface SimpleFacts {
  readonly sessionId: string | null;
  readonly createdAt: string;
}

/** A task in the shape of the simple interface. Artifacts become agent messages after the other messages. */
export function projectTask(task: Task, { sessionId, createdAt }: SimpleFacts): A2ATask {
  const results = (task.artifacts ?? []).map((artifact) => toSimpleMessage('agent', artifact.parts));
  return {
    id: task.id,
    state: projectState(task.status.state),
    messages: [...messagesOf(task).map(({ role, parts }) => toSimpleMessage(simpleRole(role), parts)), ...results],
    sessionId,
    createdAt,
    updatedAt: task.status.timestamp ?? createdAt,
  };
}

/** All messages of a task in order, including the one that is still in its status. */
export function messagesOf(task: Task): readonly Message[] {
  const { history = [], status } = task;
  // A message without an id cannot be found in the history.
  const { messageId: latest } = status.message ?? {};
  if (!status.message || (latest && history.some(({ messageId }) => messageId === latest))) return history;
  return [...history, status.message];
}

/** The text of the agent's last message. */
export function lastAgentText(messages: readonly A2AMessage[]): string | undefined {
  const last = messages.findLast(({ role }) => role === 'agent');
  return last?.parts.map(({ text }) => text).join('\n');
}

/** Text as it is, data as JSON, files by name or URL. */
export function textOf(parts: readonly Part[]): string {
  return parts.map(textOfPart).join('\n');
}

function textOfPart(part: Part): string {
  if (part.text !== undefined) return part.text;
  if (part.data !== undefined) return JSON.stringify(part.data);
  return part.url ?? `[${part.filename ?? part.mediaType ?? 'file'}]`;
}

function toSimpleMessage(role: A2AMessage['role'], parts: readonly Part[]): A2AMessage {
  return { role, parts: parts.map((part) => ({ type: 'text', text: textOfPart(part) })) };
}

function simpleRole(role: Message['role']): A2AMessage['role'] {
  return role === 'ROLE_USER' ? 'user' : 'agent';
}

/** Milliseconds. */
export const SIMPLE_TIMEOUT = { smallest: 1_000, usual: 300_000, largest: 600_000 } as const;

export function readTaskSend(body: unknown): A2ATaskSendParams {
  const above = readObject(body, 'body');
  const nested = above.params !== undefined;
  const place = nested ? 'params' : '';
  const from = nested ? readObject(above.params, place) : above;
  return compact<A2ATaskSendParams>({
    message: readText(from, 'message', place, A2A_LIMITS.contentChars),
    skill: readOptionalText(from, 'skill', place, A2A_LIMITS.nameChars),
    timeoutMs: readInteger(from, 'timeoutMs', place, SIMPLE_TIMEOUT.smallest, SIMPLE_TIMEOUT.largest),
  });
}
