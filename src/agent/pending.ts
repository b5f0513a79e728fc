import { fromWireError } from '../mesh/codec.js';
import type { ValidEnvelope } from '../mesh/envelope.js';
import type { Recipient } from '../mesh/message-sender.js';
import type { A2AMessageType } from '../mesh/schemas.js';
import type { Thread, Waiter } from '../mesh/thread.js';
import { Deadline } from '../runtime/deadlines.js';
import { EclipticError } from '../runtime/errors.js';

/** Whose request it is. */
export interface Requester {
  readonly agentId: string;
  /** Why the recipient gives no answer, as far as its card says. */
  whySilent(to: Recipient): string | undefined;
  /** Called once, before the request's promise settles. */
  settled(request: PendingRequest): void;
}

/** A request that waits for its answer. */
export class PendingRequest extends Deadline implements Waiter {
  readonly requester: Requester;
  readonly thread: string;
  /** Whom the request was addressed to. */
  readonly to: Recipient;
  readonly timeoutMs: number;
  /** @internal The agent's requests that wait are a list through these. */
  before: PendingRequest | undefined;
  /** @internal */
  after: PendingRequest | undefined;
  /** @internal Lets go of what the wait held on to. */
  release: (() => void) | undefined;
  /** @internal The thread it waits in. */
  conversation: Thread | undefined;
  /** Is an answer still wanted? */
  open: boolean;
  /** Did the agent that was asked say anything? */
  answered: boolean;
  readonly resolve: (payload: unknown) => void;
  readonly reject: (error: EclipticError) => void;

  constructor(
    requester: Requester,
    thread: string,
    to: Recipient,
    timeoutMs: number,
    resolve: (payload: unknown) => void,
    reject: (error: EclipticError) => void,
  ) {
    super();
    this.requester = requester;
    this.thread = thread;
    this.to = to;
    this.timeoutMs = timeoutMs;
    this.before = undefined;
    this.after = undefined;
    this.release = undefined;
    this.conversation = undefined;
    this.open = true;
    this.answered = false;
    this.resolve = resolve;
    this.reject = reject;
  }

  get agentId(): string {
    return this.requester.agentId;
  }

  /** Is a message of this type an answer to a request? */
  takes(type: A2AMessageType): boolean {
    return type === 'response' || type === 'error' || type === 'stream-start';
  }

  answer(envelope: ValidEnvelope): void {
    this.answered = true;
    if (envelope.type === 'response') {
      this.#close();
      this.resolve(envelope.payload);
    } else if (envelope.type === 'error') {
      this.fail(fromWireError(envelope.payload, envelope.sender));
    } else {
      this.fail(new EclipticError('STREAM_ANSWER', `${envelope.sender} answers with a stream; use stream()`));
    }
  }

  fail(error: EclipticError): void {
    if (!this.open) return;
    this.#close();
    this.reject(error);
  }

  override expire(): void {
    const why = this.requester.whySilent(this.to);
    const message = `no answer within ${this.timeoutMs} ms${why === undefined ? '' : `; ${why}`}`;
    this.fail(new EclipticError('REQUEST_TIMEOUT', message, { thread: this.thread }));
  }

  #close(): void {
    this.open = false;
    this.release?.();
    this.requester.settled(this);
  }
}
