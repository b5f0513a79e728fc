import { A2AClient } from '../../a2a/client/a2a-client.js';
import { CardSource } from '../../a2a/client/card-source.js';
import type { Outgoing } from '../../a2a/client/client-init.js';
import type { CredentialsOf } from '../../a2a/client/credentials.js';
import { mayHaveArrived, type Reach } from '../../a2a/client/remote-endpoint.js';
import { AnswerText, TaskView } from '../../a2a/client/task-follower.js';
import { type DelegationChain, extendDelegation, withDelegation } from '../../a2a/protocol/delegation.js';
import { ExternalServiceError } from '../../a2a/protocol/errors.js';
import { textOf } from '../../a2a/protocol/simple.js';
import type { Message, Metadata, Part, StreamResponse, Task } from '../../a2a/protocol/types.js';
import { untilAborted } from '../../runtime/async.js';
import type { ErrorCode } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Redactor } from '../../system/secrets/secret.js';
import type { ExecuteTerms, ProviderUpdate } from '../adapter/adapter.js';
import { NormalizedProviderError, normalizeError, redactedError } from '../adapter/errors.js';
import type { A2ADelegation } from './a2a-types.js';

export interface DelegationTerms extends ExecuteTerms {
  /** This agent's name in delegation chains. */
  readonly self: string | undefined;
  readonly signal: AbortSignal;
  /** Limit for the whole delegation. Default: it ends after an hour without news. */
  readonly timeoutMs: number | undefined;
}

/** The connection to one remote agent. */
export interface EndpointTransport {
  /** Asks the agent over the path of real work; resolves with its skills, rejects when it could take no work. */
  probe(signal: AbortSignal): Promise<readonly string[]>;
  delegate(delegation: A2ADelegation, correlationId: string, terms: DelegationTerms): Promise<unknown>;
  close(): void;
}

interface HttpTransportInit extends Reach {
  readonly url: string;
  /** Called for each request, so that work in flight uses a new credential too. */
  readonly credentials?: CredentialsOf | undefined;
  /** Removes them from errors: an agent may echo them. */
  readonly redactor?: Redactor | undefined;
}

/** A task id that no agent has: the answer "not found" shows that the agent is up and accepts our credentials. */
const PROBE_TASK = 'ecliptic-health-probe';
const PROBE_MS = 4_000;

/** Answers to the probe that mean that the agent takes no work. */
const DOWN: ReadonlySet<ErrorCode> = new Set(['TOKEN_REQUIRED', 'REMOTE_BUSY', 'RATE_LIMITED']);

/** A client shared by calls. A retired client is closed after the last call that uses it. */
interface SharedClient {
  readonly client: Promise<A2AClient>;
  uses: number;
  retired: boolean;
}

/** A remote agent over HTTP, with the best binding that its card offers. */
export class HttpTransport implements EndpointTransport {
  readonly #runtime: Runtime;
  readonly #init: HttpTransportInit;
  #cards: CardSource;
  #shared: SharedClient | undefined;

  constructor(runtime: Runtime, init: HttpTransportInit) {
    this.#runtime = runtime;
    this.#init = init;
    this.#cards = new CardSource(runtime);
  }

  async probe(signal: AbortSignal): Promise<readonly string[]> {
    try {
      return await this.#use(signal, async (client) => {
        await client.getTask(PROBE_TASK, { signal, timeoutMs: PROBE_MS }).catch((error) => {
          if (!(error instanceof ExternalServiceError)) throw error;
          if (DOWN.has(error.code) || (error.status ?? 0) >= 500) throw error;
        });
        return client.card.skills.flatMap(({ id, tags = [] }) => [id, ...tags]);
      });
    } catch (error) {
      // The agent may come back with another card.
      this.close();
      throw error;
    }
  }

  delegate(delegation: A2ADelegation, correlationId: string, terms: DelegationTerms): Promise<unknown> {
    return this.#use(terms.signal, (client) => delegateOver(client, delegation, correlationId, terms));
  }

  close(): void {
    const shared = this.#shared;
    this.#shared = undefined;
    this.#cards = new CardSource(this.#runtime);
    if (!shared) return;
    shared.retired = true;
    closeUnused(shared);
  }

  async #use<T>(signal: AbortSignal, work: (client: A2AClient) => Promise<T>): Promise<T> {
    const shared = this.#connect();
    shared.uses++;
    let connected = false;
    try {
      const client = await untilAborted(shared.client, signal);
      connected = true;
      return await work(client);
    } catch (error) {
      throw this.#redacted(connected ? error : unsent(error));
    } finally {
      shared.uses--;
      if (shared.retired) closeUnused(shared);
    }
  }

  #redacted(error: unknown): unknown {
    const { redactor } = this.#init;
    return redactor ? redactedError(normalizeError(error, 'a2a'), redactor) : error;
  }

  #connect(): SharedClient {
    if (this.#shared) return this.#shared;
    const components = { runtime: this.#runtime, cards: this.#cards };
    const client = A2AClient.connect(components, this.#init, { timeoutMs: PROBE_MS });
    const shared = { client, uses: 0, retired: false };
    this.#shared = shared;
    client.catch(() => {
      if (this.#shared === shared) this.#shared = undefined;
    });
    return shared;
  }
}

/** Without a connection nothing was delegated, whichever request of the connection itself failed. */
function unsent(error: unknown): NormalizedProviderError {
  const { code, message, details } = normalizeError(error, 'a2a');
  const about = { details: { ...details, sent: false }, originalError: error };
  return new NormalizedProviderError(
    code === 'PROVIDER_CRASHED' ? 'PROVIDER_UNAVAILABLE' : code,
    message,
    'a2a',
    about,
  );
}

function closeUnused({ client, uses }: SharedClient): void {
  if (uses > 0) return;
  void client.then(
    (one) => one.close(),
    () => {},
  );
}

async function delegateOver(
  client: A2AClient,
  delegation: A2ADelegation,
  correlationId: string,
  { signal, timeoutMs, onUpdate, onQuestion, self, chain }: DelegationTerms,
): Promise<unknown> {
  const metadata = metadataOf(correlationId, self, chain);
  const answer = new RemoteAnswer();
  let outgoing: Outgoing = { message: partsOf(delegation), metadata };
  for (;;) {
    try {
      for await (const event of client.stream(outgoing, { timeoutMs, signal })) {
        for (const update of answer.add(event)) onUpdate?.(update);
      }
    } catch (error) {
      throw answer.taskId === undefined ? error : mayHaveArrived(error);
    }
    const { question, taskId } = answer;
    if (!question) return answer.result();
    if (!onQuestion || taskId === undefined) {
      if (taskId !== undefined) await client.cancelTask(taskId, { timeoutMs: PROBE_MS }).catch(() => {});
      const message = `the remote agent asks: ${question.text}; its caller answers no questions`;
      throw new NormalizedProviderError('PROVIDER_INVALID_INPUT', message, 'a2a', { correlationId });
    }
    outgoing = { message: await onQuestion(question), taskId, metadata };
  }
}

export function partsOf({ taskDescription, context }: A2ADelegation): Part[] {
  return [{ text: taskDescription }, ...(Object.keys(context).length > 0 ? [{ data: context }] : [])];
}

export function metadataOf(
  correlationId: string,
  self: string | undefined,
  chain: DelegationChain | undefined,
): Metadata {
  const handed = self === undefined ? chain : extendDelegation(chain ?? [], self);
  return handed?.length ? withDelegation({ correlationId }, handed) : { correlationId };
}

/** Reads the events of one remote task: the updates in each, and the final result. */
export class RemoteAnswer {
  readonly #view = new TaskView();
  readonly #text = new AnswerText();
  #status: string | undefined;

  get taskId(): string | undefined {
    return this.#view.id;
  }

  get question(): ProviderUpdate | undefined {
    const status = this.#view.task?.status;
    if (status?.state !== 'TASK_STATE_INPUT_REQUIRED') return undefined;
    return { kind: 'question', text: textOf(status.message?.parts ?? []), data: status.message };
  }

  /** Returns the updates that the event adds. */
  add(event: StreamResponse): ProviderUpdate[] {
    this.#view.add(event);
    const updates: ProviderUpdate[] = [];
    const text = this.#text.add(event);
    if (text !== '') updates.push({ kind: 'text', text, data: event });
    const said = statusMessage(event);
    const key = said?.messageId;
    if (said && key !== this.#status) {
      this.#status = key;
      updates.push({ kind: 'progress', text: textOf(said.parts), data: said });
    }
    return updates;
  }

  /** The result of a completed task; throws where the task failed. */
  result(): unknown {
    const { task, message } = this.#view;
    // An agent that answers with a message makes no task.
    if (!task || message) return contentOf(message?.parts ?? []);
    const { state } = task.status;
    if (state === 'TASK_STATE_COMPLETED') return resultOf(task);
    const code = state === 'TASK_STATE_AUTH_REQUIRED' ? 'PROVIDER_CREDENTIAL_MISSING' : 'PROVIDER_EXECUTE_FAILED';
    const said = textOf(task.status.message?.parts ?? []);
    const failure = `the remote agent’s task ended as ${nameOf(state)}${said === '' ? '' : `: ${said}`}`;
    throw new NormalizedProviderError(code, failure, 'a2a', { details: { taskId: task.id, state } });
  }
}

function statusMessage(event: StreamResponse): Message | undefined {
  const status = 'statusUpdate' in event ? event.statusUpdate.status : 'task' in event ? event.task.status : undefined;
  return status?.state === 'TASK_STATE_WORKING' ? status.message : undefined;
}

/** The artifacts; without any, the last message of the agent. */
function resultOf({ artifacts = [], status }: Task): unknown {
  const made = artifacts.flatMap(({ parts }) => parts);
  return contentOf(made.length > 0 ? made : (status.message?.parts ?? []));
}

/** Text parts as one text, a single data part as its data, anything else as parts. */
function contentOf(parts: readonly Part[]): unknown {
  const [only, ...others] = parts;
  if (only && others.length === 0 && only.data !== undefined) return only.data;
  return parts.every(({ text }) => text !== undefined) ? parts.map(({ text }) => text).join('') : parts;
}

function nameOf(state: string): string {
  return state.replace('TASK_STATE_', '').toLowerCase().replaceAll('_', ' ');
}
