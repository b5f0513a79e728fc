import { backoffMs } from '../../runtime/backoff.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { CallLimits } from '../client/call-limits.js';
import type { StreamedEvent, Terms, Transport } from '../client/transports.js';
import { writeCursor } from '../protocol/headers.js';
import { takeStreamResponse } from '../protocol/read-responses.js';
import type { EventStream } from '../server/event-stream.js';
import type { Outcome } from '../server/operations.js';
import type { MeshBinding } from './mesh-binding.js';
import type { MeshMethod, MeshTarget } from './mesh-protocol.js';

/** How long a request waits for a node that is away. */
const AWAY_MS = 60_000;
/** For requests that need no work of the agent. */
const QUICK_MS = 30_000;
const FIRST_PAUSE_MS = 100;
const MAX_PAUSES = 5;

export interface MeshTransportInit {
  readonly target: MeshTarget;
  /** The agent of this node that asks. */
  readonly caller: string;
  /** How long a request waits for a node that is away. Default 60 s. */
  readonly awayMs?: number | undefined;
  /** Service parameters of every request. */
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Requests to an agent over the mesh. A request that a lost link or the end of a process interrupts waits for the node and
 * goes on: a stream after its last event, a send as the same send, which the node recognizes by its message id.
 */
export class MeshTransport implements Transport {
  readonly #runtime: Runtime;
  readonly #binding: MeshBinding;
  readonly #init: MeshTransportInit;

  constructor(runtime: Runtime, binding: MeshBinding, init: MeshTransportInit) {
    this.#runtime = runtime;
    this.#binding = binding;
    this.#init = init;
  }

  offers(): boolean {
    return true;
  }

  async call(method: MeshMethod, params: object, terms: Terms): Promise<unknown> {
    const trial = this.#trial(terms.limits);
    for (;;) {
      try {
        const outcome = await this.#ask(method, params, terms, terms.slow ? undefined : QUICK_MS);
        if ('result' in outcome) return outcome.result;
        void outcome.stream.events.return?.();
        throw malformed('a stream for an answer');
      } catch (error) {
        if (!isAway(error) || !mayRepeat(method, params, error)) throw error;
        await trial.pause(error);
      }
    }
  }

  async *stream(method: MeshMethod, params: object, terms: Terms): AsyncGenerator<StreamedEvent> {
    const trial = this.#trial(terms.limits);
    const seen = new SeenEvents();
    let request: Request = { method, params, headers: terms.headers };
    for (;;) {
      try {
        const outcome = await this.#ask(
          request.method,
          request.params,
          { ...terms, headers: request.headers },
          undefined,
        );
        if ('result' in outcome) throw malformed('an answer for a stream');
        seen.taskId ??= outcome.stream.taskId;
        for await (const event of this.#eventsOf(outcome.stream, terms.limits)) {
          trial.succeeded();
          const next = seen.add(event);
          if (next) yield next;
        }
        return;
      } catch (error) {
        const goOn = isAway(error) ? seen.continued(request, error) : undefined;
        if (!goOn) throw error;
        request = goOn;
        await trial.pause(error);
      }
    }
  }

  async #ask(method: MeshMethod, params: object, terms: Terms, answerMs: number | undefined): Promise<Outcome> {
    const { target, caller, headers } = this.#init;
    const { limits } = terms;
    const all = Object.entries({ ...headers, ...terms.headers });
    const service = Object.fromEntries(all.map(([name, value]) => [name.toLowerCase(), value]));
    const addressed = target.agent === undefined ? params : { tenant: target.agent, ...params };
    if (limits.reason) throw limits.reason;
    const onGone = (callback: () => void) => {
      limits.signal.addEventListener('abort', callback, { once: true });
      return () => limits.signal.removeEventListener('abort', callback);
    };
    return limits.during(
      this.#binding.ask(target.node, { method, params: addressed, caller, service }, { answerMs, onGone }),
    );
  }

  /** The events until the end of the stream or of the call. */
  async *#eventsOf({ events }: EventStream, limits: CallLimits): AsyncGenerator<Numbered> {
    const leave = () => void events.return?.();
    limits.signal.addEventListener('abort', leave);
    try {
      for (;;) {
        const next = await events.next();
        if (limits.reason) throw limits.reason;
        if (next.done) return;
        yield next.value;
      }
    } finally {
      limits.signal.removeEventListener('abort', leave);
      leave();
    }
  }

  #trial(limits: CallLimits): Trial {
    const { target, awayMs = AWAY_MS } = this.#init;
    const onAvailable = (callback: () => void) => this.#binding.onAvailable(target.node, callback);
    return new Trial(this.#runtime, limits, onAvailable, awayMs);
  }
}

type Numbered = Parameters<SeenEvents['add']>[0];

interface Request {
  readonly method: MeshMethod;
  readonly params: object;
  readonly headers: Readonly<Record<string, string>> | undefined;
}

/** Which events of a stream the reader has: none comes twice, and a resumed stream goes on after the last one. */
class SeenEvents {
  taskId: string | undefined;
  #last: number | undefined;

  /** Undefined for an event that the reader has. */
  add({ sequence, event }: { readonly sequence?: number; readonly event: unknown }): StreamedEvent | undefined {
    if (sequence === undefined) return { event: takeStreamResponse(event), id: '' };
    if (!Number.isSafeInteger(sequence)) throw malformed('an event without a number');
    if (this.#last !== undefined && sequence <= this.#last) return undefined;
    this.#last = sequence;
    return {
      event: takeStreamResponse(event),
      id: this.taskId === undefined ? '' : writeCursor(this.taskId, sequence),
    };
  }

  /** The request with which an interrupted stream goes on. */
  continued(request: Request, error: unknown): Request | undefined {
    const { taskId } = this;
    if (taskId === undefined) return mayRepeat(request.method, request.params, error) ? request : undefined;
    const { method, params } = request;
    // Every event of a new task is of this stream; a message to a task that goes on begins with the task as it is.
    const isNew = method === 'SendStreamingMessage' && !isFurther(params);
    const last = this.#last ?? (isNew ? 0 : undefined);
    const headers: Record<string, string> = { ...request.headers };
    if (last !== undefined) headers['last-event-id'] = writeCursor(taskId, last);
    return { method: 'SubscribeToTask', params: { id: taskId }, headers };
  }
}

/** Attempts to reach a node. They pause until it is there again, and end after some time without success. */
class Trial {
  readonly #runtime: Runtime;
  readonly #limits: CallLimits;
  readonly #onAvailable: (callback: () => void) => () => void;
  readonly #mostMs: number;
  #failures = 0;
  #since = 0;

  constructor(runtime: Runtime, limits: CallLimits, onAvailable: (callback: () => void) => () => void, mostMs: number) {
    this.#runtime = runtime;
    this.#limits = limits;
    this.#onAvailable = onAvailable;
    this.#mostMs = mostMs;
  }

  succeeded(): void {
    this.#failures = 0;
  }

  /** Throws the error if the node has been away for too long. */
  async pause(error: unknown): Promise<void> {
    const now = this.#runtime.stopwatch();
    if (this.#failures++ === 0) this.#since = now;
    if (now - this.#since >= this.#mostMs) throw error;
    const woken = new AbortController();
    const stop = this.#onAvailable(() => woken.abort());
    const hold = this.#runtime.hold();
    // A node may be there and not serve yet, so the wait ends by time, too.
    const ms = backoffMs(Math.min(this.#failures - 1, MAX_PAUSES), FIRST_PAUSE_MS);
    await this.#wait(ms, woken);
    stop();
    hold.cancel();
    if (this.#limits.reason) throw this.#limits.reason;
  }

  #wait(ms: number, woken: AbortController): Promise<void> {
    return new Promise((resolve) => {
      const { signal } = this.#limits;
      const end = () => {
        timer.cancel();
        signal.removeEventListener('abort', end);
        resolve();
      };
      const timer = this.#runtime.setTimer(end, ms);
      woken.signal.addEventListener('abort', end, { once: true });
      if (signal.aborted) end();
      else signal.addEventListener('abort', end, { once: true });
    });
  }
}

/** The node is away, or does not serve at present. */
function isAway(error: unknown): boolean {
  return error instanceof EclipticError && error.code === 'PEER_UNREACHABLE';
}

/** A request that may have arrived is repeated only if it creates nothing, or the node recognizes the repetition. */
function mayRepeat(method: MeshMethod, params: object, error: unknown): boolean {
  const { details } = error as EclipticError;
  if (details.outcome === 'not-delivered') return true;
  if (method === 'CreateTaskPushNotificationConfig') return false;
  // A new task is known by its message id; a further message of a task is not.
  return !isFurther(params);
}

function isFurther(params: object): boolean {
  const { message } = params as { message?: { taskId?: string } };
  return message?.taskId !== undefined && message.taskId !== '';
}

function malformed(what: string): EclipticError {
  return new EclipticError('INVALID_AGENT_RESPONSE', `the node gave ${what}`);
}
