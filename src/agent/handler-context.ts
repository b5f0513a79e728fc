import type { ValidEnvelope } from '../mesh/envelope.js';
import type { ThreadTable } from '../mesh/thread-table.js';
import type { EclipticError } from '../runtime/errors.js';
import { boundLog, type Log, type Runtime } from '../runtime/runtime.js';

interface ContextComponents {
  runtime: Runtime;
  threads: ThreadTable;
}

/** What the handlers of one agent get besides the message. All of it is made when a handler asks for it. */
export class HandlerContext {
  readonly #agentId: string;
  readonly #components: ContextComponents;
  #leaving: AbortController | undefined;
  #left: EclipticError | undefined;

  constructor(agentId: string, components: ContextComponents) {
    this.#agentId = agentId;
    this.#components = components;
  }

  logOf({ correlationId: thread }: ValidEnvelope): Log {
    const about = { agent: this.#agentId, ...(thread !== undefined && { thread }) };
    return boundLog(this.#components.runtime.logger, about);
  }

  /** Aborted when the sender stops waiting for the answer, as far as this node knows, or the agent leaves. */
  signalOf({ type, correlationId, sender }: ValidEnvelope): AbortSignal {
    this.#leaving ??= new AbortController();
    if (this.#left) this.#leaving.abort(this.#left);
    const thread =
      type === 'request' && correlationId !== undefined ? this.#components.threads.find(correlationId) : undefined;
    return thread ? AbortSignal.any([this.#leaving.signal, thread.signalOf(sender)]) : this.#leaving.signal;
  }

  /** The agent leaves. */
  end(error: EclipticError): void {
    this.#left = error;
    this.#leaving?.abort(error);
  }
}
