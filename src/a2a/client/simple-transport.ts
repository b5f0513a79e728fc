import { EclipticError } from '../../runtime/errors.js';
import { A2A_LIMITS } from '../protocol/limits.js';
import type { Method } from '../protocol/methods.js';
import { answer } from '../protocol/read-responses.js';
import { SIMPLE_TIMEOUT } from '../protocol/read-simple.js';
import { readId, readList, readObject, readOptionalText, refuse } from '../protocol/reading.js';
import { textOf } from '../protocol/simple.js';
import type { A2ATaskSendRequest, A2ATaskState } from '../protocol/simple-types.js';
import type { Message, SendMessageRequest, Task, TaskState } from '../protocol/types.js';
import type { RemoteEndpoint } from './remote-endpoint.js';
import type { StreamedEvent, Terms, Transport } from './transport.js';

const STATES: Readonly<Record<A2ATaskState, TaskState>> = {
  submitted: 'TASK_STATE_SUBMITTED',
  working: 'TASK_STATE_WORKING',
  completed: 'TASK_STATE_COMPLETED',
  failed: 'TASK_STATE_FAILED',
};

/** The simple routes: a task is sent as text, and asked about until it is done. */
export class SimpleTransport implements Transport {
  readonly #endpoint: RemoteEndpoint;

  constructor(endpoint: RemoteEndpoint) {
    this.#endpoint = endpoint;
  }

  offers(method: Method): boolean {
    return method === 'SendMessage' || method === 'GetTask';
  }

  async call(method: Method, params: object, terms: Terms): Promise<unknown> {
    if (method === 'SendMessage') return { task: await this.#send(params as SendMessageRequest, terms) };
    if (method !== 'GetTask') throw notOffered(method);
    const path = `/a2a/tasks/${encodeURIComponent((params as { id: string }).id)}`;
    return takeSimpleTask(await this.#endpoint.ask({ verb: 'GET', path, headers: terms.headers }, terms.limits));
  }

  // biome-ignore lint/correctness/useYield: there is no stream here
  async *stream(method: Method): AsyncGenerator<StreamedEvent> {
    throw notOffered(method);
  }

  async #send({ message, metadata }: SendMessageRequest, terms: Terms): Promise<Task> {
    if (message.taskId !== undefined) throw notOffered('a second message of a task');
    const { skill, timeoutMs } = { ...message.metadata, ...metadata };
    const body: A2ATaskSendRequest = {
      method: 'tasks/send',
      params: {
        message: textOf(message.parts),
        ...(typeof skill === 'string' && { skill }),
        ...(typeof timeoutMs === 'number' && { timeoutMs: within(timeoutMs) }),
      },
    };
    const headers = { 'content-type': 'application/json', ...terms.headers };
    const request = { verb: 'POST', path: '/a2a/tasks/send', headers, body: JSON.stringify(body), fresh: true };
    return takeSimpleTask(await this.#endpoint.ask(request, terms.limits));
  }
}

/** A simple task in the protocol's own shape; its ids of messages are made up. */
const takeSimpleTask = answer((value): Task => {
  const from = readObject(value, 'task');
  const id = readId(from, 'id', 'task');
  const { state } = from;
  if (typeof state !== 'string' || !Object.hasOwn(STATES, state)) {
    refuse('task.state', `must be one of ${Object.keys(STATES).join(', ')}`);
  }
  const messages = readList(from.messages ?? [], 'task.messages', A2A_LIMITS.historyMessages);
  const history = messages.map((message, index) => readSimpleMessage(message, index, id));
  return { id, contextId: '', status: { state: STATES[state as A2ATaskState] }, history };
});

function readSimpleMessage(value: unknown, index: number, taskId: string): Message {
  const place = `task.messages[${index}]`;
  const { role, parts } = readObject(value, place);
  if (role !== 'user' && role !== 'agent') refuse(`${place}.role`, 'must be user or agent');
  const list = readList(parts, `${place}.parts`, A2A_LIMITS.parts);
  return {
    messageId: `${taskId}-${index}`,
    role: role === 'user' ? 'ROLE_USER' : 'ROLE_AGENT',
    parts: list.map((part, at) => {
      const from = readObject(part, [`${place}.parts`, at]);
      return { text: readOptionalText(from, 'text', `${place}.parts`, A2A_LIMITS.contentChars) ?? '' };
    }),
  };
}

function within(timeoutMs: number): number {
  return Math.round(Math.min(Math.max(timeoutMs, SIMPLE_TIMEOUT.smallest), SIMPLE_TIMEOUT.largest));
}

function notOffered(what: string): EclipticError {
  return new EclipticError('OPERATION_NOT_SUPPORTED', `the agent has the simple routes only, without ${what}`);
}
