import { LIMITS } from '../../mesh/limits.js';
import { EclipticError } from '../../runtime/errors.js';
import type { ExecuteTerms, ProviderUpdate } from '../adapter/adapter.js';
import type { Activity } from '../host/pending-work.js';
import type { SessionUpdate, StopReason } from './sdk.js';

export interface TurnTerms {
  readonly correlationId?: string | undefined;
  readonly onUpdate?: ExecuteTerms['onUpdate'];
  readonly activity?: Activity | undefined;
}

export interface AcpAnswer {
  readonly text: string;
  readonly stopReason: StopReason;
}

/** One prompt to an agent, and its answer as it comes. */
export class Turn {
  readonly correlationId: string | undefined;
  readonly #terms: TurnTerms;
  readonly #abort = new AbortController();
  /** By tool call id: later updates leave the title out. */
  readonly #titles = new Map<string, string>();
  #text = '';

  constructor(terms: TurnTerms) {
    this.#terms = terms;
    this.correlationId = terms.correlationId;
  }

  /** Aborted, with the reason, when the answer is no longer wanted. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get text(): string {
    return this.#text;
  }

  cancel(reason = new EclipticError('CANCELLED', 'the agent’s answer is no longer wanted')): void {
    this.#abort.abort(reason);
  }

  /** Waits for the operator's decision; the deadline of the work is suspended meanwhile. */
  async decided<T>(decision: Promise<T>): Promise<T> {
    const release = this.#terms.activity?.hold();
    try {
      return await decision;
    } finally {
      release?.();
    }
  }

  take(raw: SessionUpdate): void {
    this.#terms.activity?.touch();
    const update = readUpdate(raw, this.#titles);
    if (!update || this.signal.aborted) return;
    if (update.kind === 'text') {
      this.#text += update.text;
      if (this.#text.length > LIMITS.payloadBytes) {
        const message = `the agent’s answer is longer than ${LIMITS.payloadBytes} characters`;
        this.cancel(new EclipticError('PAYLOAD_TOO_LARGE', message));
        return;
      }
    }
    this.#terms.onUpdate?.(update);
  }

  /** The complete answer. Throws where the turn was cancelled or refused. */
  end(stopReason: StopReason): AcpAnswer {
    this.signal.throwIfAborted();
    if (stopReason === 'cancelled') throw new EclipticError('CANCELLED', 'the agent broke its work off');
    if (stopReason === 'refusal') {
      throw new EclipticError('PROVIDER_EXECUTE_FAILED', 'the agent refused to go on', { stopReason });
    }
    return { text: this.#text, stopReason };
  }
}

const MARKS = { pending: ' ', in_progress: '…', completed: '✓' } as const;

/** Tool calls of one turn whose titles are kept. */
const MAX_TITLES = 1_000;

/** Undefined for an update that concerns the session only. */
function readUpdate(update: SessionUpdate, titles: Map<string, string>): ProviderUpdate | undefined {
  switch (update.sessionUpdate) {
    case 'agent_message_chunk':
    case 'agent_thought_chunk': {
      const text = update.content.type === 'text' ? update.content.text : '';
      return { kind: update.sessionUpdate === 'agent_message_chunk' ? 'text' : 'progress', text, data: update };
    }
    case 'plan': {
      const lines = update.entries.map(({ content, status }) => `[${MARKS[status] ?? ' '}] ${content}`);
      return { kind: 'plan', text: lines.join('\n'), data: update };
    }
    case 'tool_call':
    case 'tool_call_update': {
      const { toolCallId, kind, status } = update;
      const title = update.title || titles.get(toolCallId) || kind || 'tool call';
      if (titles.has(toolCallId) || titles.size < MAX_TITLES) titles.set(toolCallId, title);
      const text = status ? `${title}: ${status}` : title;
      return { kind: 'tool-call', text, data: update };
    }
    default:
      return undefined;
  }
}
