import { A2AClient, type Outgoing } from '../../a2a/client/a2a-client.js';
import { CardSource } from '../../a2a/client/card-source.js';
import type { CredentialsOf } from '../../a2a/client/credentials.js';
import { mayHaveArrived, type Reach } from '../../a2a/client/remote-endpoint.js';
import { type DelegationChain, extendDelegation, withDelegation } from '../../a2a/protocol/delegation.js';
import { ExternalServiceError } from '../../a2a/protocol/errors.js';
import type { Metadata, Part } from '../../a2a/protocol/types.js';
import { untilAborted } from '../../runtime/async.js';
import type { ErrorCode } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Redactor } from '../../system/secrets/redactor.js';
import type { ExecuteTerms } from '../adapter/provider-adapter.js';
import { NormalizedProviderError, normalizeError } from '../adapter/provider-errors.js';
import { redactedError } from '../adapter/redacted-error.js';
import { RemoteAnswer } from './a2a-answer.js';
import type { A2ADelegation } from './a2a-types.js';

/** The terms of one delegation. */
export interface DelegationTerms extends ExecuteTerms {
  /** Who hands it on, as delegation chains name it. */
  readonly self: string | undefined;
  readonly signal: AbortSignal;
  /** For all of it; without one, it ends after an hour without news. */
  readonly timeoutMs: number | undefined;
}

/** A way to one remote agent. */
export interface EndpointWay {
  /** Asks the agent itself, as real work would; rejects when it could take none. Gives what it says that it can. */
  probe(signal: AbortSignal): Promise<readonly string[]>;
  delegate(delegation: A2ADelegation, correlationId: string, terms: DelegationTerms): Promise<unknown>;
  close(): void;
}

export interface HttpWayInit extends Reach {
  readonly url: string;
  /** Asked for each request, so that a new credential is used as soon as there is one, also by work under way. */
  readonly credentials?: CredentialsOf | undefined;
  /** Keeps them out of errors: an agent may say what it was shown. */
  readonly redactor?: Redactor | undefined;
}

/** A task that no agent has: whoever answers that there is none is there, and lets us in. */
const PROBE_TASK = 'ecliptic-health-probe';
const PROBE_MS = 4_000;

/** Answers to the probe that say that no work would be taken. */
const DOWN: ReadonlySet<ErrorCode> = new Set(['TOKEN_REQUIRED', 'REMOTE_BUSY', 'RATE_LIMITED']);

/** A connection that calls share. One that is not wanted any more ends with the last call that uses it. */
interface SharedClient {
  readonly client: Promise<A2AClient>;
  uses: number;
  retired: boolean;
}

/** A remote agent over HTTP, in the best way that its card offers. */
export class HttpWay implements EndpointWay {
  readonly #runtime: Runtime;
  readonly #init: HttpWayInit;
  #cards: CardSource;
  #shared: SharedClient | undefined;

  constructor(runtime: Runtime, init: HttpWayInit) {
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
      // It may come back as somebody else.
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

/** Without a connection nothing was handed on, whatever request of the connection's own failed. */
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
      const message = `the remote agent asks: ${question.text}; nobody is there to answer`;
      throw new NormalizedProviderError('PROVIDER_INVALID_INPUT', message, 'a2a', { correlationId });
    }
    outgoing = { message: await onQuestion(question), taskId, metadata };
  }
}

/** What is to be done, and what there is to know for it. */
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
