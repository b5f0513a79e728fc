import { A2A_LIMITS } from './limits.js';
import { compact, readInteger, readObject, readOptionalText, readText } from './reading.js';
import type { Message, Part, Task, TaskState } from './types.js';

/** The simple task interface: four states, text parts, ISO times. */

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

/** What `tasks/send` gets; the members of `params` are also taken at the top level. */
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

/** A2A's states seen as the four of the simple interface; each is one, and none ever goes back. */
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

/** What of a task the simple interface adds to the protocol's own. */
export interface SimpleFacts {
  readonly sessionId: string | null;
  readonly createdAt: string;
}

/** A task as the simple interface shows it. Artifacts are the agent's words too, and come after its messages. */
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

/** Every message of a task in order; the latest may stand in its status only. */
export function messagesOf(task: Task): readonly Message[] {
  const { history = [], status } = task;
  // A message without an id cannot be recognized in the history.
  const { messageId: latest } = status.message ?? {};
  if (!status.message || (latest && history.some(({ messageId }) => messageId === latest))) return history;
  return [...history, status.message];
}

/** The text that a simple task ends with: that of the last message from the agent, all its parts. */
export function lastAgentText(messages: readonly A2AMessage[]): string | undefined {
  const last = messages.findLast(({ role }) => role === 'agent');
  return last?.parts.map(({ text }) => text).join('\n');
}

/** What of parts can be read as text: text as it is, data as its JSON, files by their name or URL. */
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

/** How long a simple task may take, in milliseconds. */
export const SIMPLE_TIMEOUT = { smallest: 1_000, usual: 300_000, largest: 600_000 } as const;

/** The body of `POST /a2a/tasks/send`: the parameters under `params`, or at the top level. */
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
