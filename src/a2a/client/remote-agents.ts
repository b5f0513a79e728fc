import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { type AllowPrivate, isLoopback, parseTarget, placesOf } from '../../system/fetch/target.js';
import { toSimpleCard } from '../protocol/card.js';
import type { DelegationChain } from '../protocol/delegation.js';
import { ExternalServiceError } from '../protocol/errors.js';
import {
  type A2AAgentCard,
  type A2AProtocolExtension,
  type RemoteInvocationResult,
  SIMPLE_TIMEOUT,
  textOf,
} from '../protocol/simple.js';
import { A2AClient } from './a2a-client.js';
import { CallLimits } from './call-limits.js';
import { CardSource, type FetchedCard } from './card-source.js';
import type { A2AClientInit } from './client-init.js';
import type { Reach } from './remote-endpoint.js';
import { finalText, TaskView } from './task-follower.js';

/** The functions of the task gateway's specification: one card cache per process, results instead of errors. */

/**
 * `allowPrivate` defaults to the base URL itself if it is on loopback. Pass `false` for a URL from an untrusted source.
 */
export interface RemoteAgentOptions extends Reach {
  readonly runtime?: Runtime;
}

export interface InvokeOptions extends RemoteAgentOptions {
  readonly skill?: string;
  /** Default 5 minutes. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly agent?: string;
  readonly chain?: DelegationChain;
}

const ours = systemRuntime();
/** One per runtime. */
let sources = new WeakMap<Runtime, CardSource>();
const simpleCards = new WeakMap<FetchedCard, A2AAgentCard>();

/**
 * The card at `/.well-known/agent-card.json`, from the cache if it was fetched within five minutes. Throws
 * `ExternalServiceError` for a status that is not 2xx, `ValidationError` for a card without name or version.
 */
export async function fetchAgentCard(baseUrl: string, options: RemoteAgentOptions = {}): Promise<A2AAgentCard> {
  const allowPrivate = options.allowPrivate ?? ownMachine(baseUrl);
  const fetched = await sourceOf(options).fetch(baseUrl, { ...options, allowPrivate });
  let card = simpleCards.get(fetched);
  if (!card) {
    card = simpleCard(fetched, baseUrl);
    simpleCards.set(fetched, card);
  }
  return card;
}

/** The card, or null if it cannot be fetched. */
export async function discoverAgent(baseUrl: string, options: RemoteAgentOptions = {}): Promise<A2AAgentCard | null> {
  try {
    return await fetchAgentCard(baseUrl, options);
  } catch {
    return null;
  }
}

export function clearAgentCardCache(): void {
  sources = new WeakMap();
}

/** Gives a remote agent a task and waits for its end. Failures are part of the result. */
export async function invokeRemoteAgent(
  baseUrl: string,
  message: string,
  options: InvokeOptions = {},
): Promise<RemoteInvocationResult> {
  const runtime = options.runtime ?? ours;
  const { timeoutMs, skill, signal, agent, chain } = options;
  const { token: bearer, headers, allowPrivate = ownMachine(baseUrl), ca, resolve } = options;
  const credentials = { bearer, headers };
  const init: A2AClientInit = { url: baseUrl, credentials, agent, chain, allowPrivate, ca, resolve };
  const view = new TaskView();
  const limits = new CallLimits(runtime, { timeoutMs, signal }, { silenceMs: SIMPLE_TIMEOUT.usual });
  let client: A2AClient | undefined;
  try {
    client = await connect(runtime, sourceOf(options), init, limits.signal);
    // Only the simple routes have a parameter for the time limit.
    const metadata = client.chosen.binding === 'simple' ? { timeoutMs: timeoutMs ?? SIMPLE_TIMEOUT.usual } : undefined;
    const call = { timeoutMs: Number.POSITIVE_INFINITY, signal: limits.signal };
    for await (const event of client.stream({ message, skill, metadata }, call)) {
      view.add(event);
      limits.heard();
    }
    return resultOf(view);
  } catch (error) {
    return failure(limits.reason ?? error, view);
  } finally {
    limits.release();
    client?.close();
  }
}

/** A URL on this machine is allowed, because the program itself names it. */
function ownMachine(url: string): AllowPrivate {
  try {
    return isLoopback(parseTarget(url).host) ? placesOf(url) : false;
  } catch {
    return false;
  }
}

/** An agent without a readable card may still have the simple routes. */
async function connect(
  runtime: Runtime,
  cards: CardSource,
  init: A2AClientInit,
  signal: AbortSignal,
): Promise<A2AClient> {
  try {
    return await A2AClient.connect({ runtime, cards }, init, { signal });
  } catch (error) {
    if (!(error instanceof ExternalServiceError) && !isInvalidCard(error)) throw error;
    return A2AClient.simple(runtime, init);
  }
}

function isInvalidCard(error: unknown): boolean {
  return error instanceof EclipticError && error.code === 'INVALID_CARD';
}

function resultOf(view: TaskView): RemoteInvocationResult {
  const { task, message } = view;
  if (!task) return { success: true, taskId: message?.taskId ?? '', responseText: textOf(message?.parts ?? []) };
  const taskId = task.id;
  const responseText = finalText(task);
  switch (task.status.state) {
    case 'TASK_STATE_COMPLETED':
      return { success: true, taskId, responseText: responseText ?? '' };
    case 'TASK_STATE_INPUT_REQUIRED':
      return { success: false, taskId, error: `Input required: ${textOf(task.status.message?.parts ?? [])}` };
    default:
      return { success: false, taskId, error: responseText || 'Task failed' };
  }
}

function failure(error: unknown, { id = '' }: TaskView): RemoteInvocationResult {
  if (id === '' && error instanceof ExternalServiceError) {
    const { status, message } = error;
    return { success: false, taskId: id, error: `Submit failed: ${status === undefined ? message : `HTTP ${status}`}` };
  }
  return { success: false, taskId: id, error: describeError(error) };
}

function sourceOf({ runtime = ours }: RemoteAgentOptions): CardSource {
  let source = sources.get(runtime);
  if (!source) {
    source = new CardSource(runtime);
    sources.set(runtime, source);
  }
  return source;
}

/** The card in the simple shape: fields of that shape in the document win over those derived from the protocol's. */
function simpleCard({ card, document }: FetchedCard, baseUrl: string): A2AAgentCard {
  const { url, authentication, supportedProtocols, capabilities } = document;
  const simple = toSimpleCard(card, typeof url === 'string' ? url : baseUrl, protocolsOf(supportedProtocols));
  const { stateTransitionHistory } = (capabilities ?? {}) as { stateTransitionHistory?: unknown };
  const schemes = (authentication as { schemes?: unknown } | null | undefined)?.schemes;
  return {
    ...simple,
    ...(isTexts(schemes) && { authentication: { schemes } }),
    capabilities: {
      ...simple.capabilities,
      ...(typeof stateTransitionHistory === 'boolean' && { stateTransitionHistory }),
    },
  };
}

function protocolsOf(value: unknown): A2AProtocolExtension[] | undefined {
  if (!Array.isArray(value)) return undefined;
  return value.filter((one): one is A2AProtocolExtension => {
    const { protocol, description, endpoint } = (one ?? {}) as Record<string, unknown>;
    const endpointFine = endpoint === undefined || typeof endpoint === 'string';
    return typeof protocol === 'string' && typeof description === 'string' && endpointFine;
  });
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'string');
}
