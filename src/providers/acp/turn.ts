import { LIMITS } from '../../mesh/limits.js';
import { EclipticError } from '../../runtime/errors.js';
import type { SessionUpdate, StopReason } from './sdk.js';

export interface TurnTerms {
  readonly correlationId?: string | undefined;
  readonly onUpdate?: ((update: AcpUpdate) => void) | undefined;
  /** Told when the agent does something for this prompt, and while it waits for a person. */
  readonly activity?: { touch(): void; hold(): () => void } | undefined;
}

/** What came of a prompt. */
export interface AcpAnswer {
  readonly text: string;
  readonly stopReason: StopReason;
}

/** One prompt and everything that is said until its end. */
export class Turn {
  readonly correlationId: string | undefined;
  readonly #onUpdate: ((update: AcpUpdate) => void) | undefined;
  readonly #activity: TurnTerms['activity'];
  readonly #abort = new AbortController();
  /** By the id of the tool call: later updates leave the title out. */
  readonly #titles = new Map<string, string>();
  #text = '';

  constructor({ correlationId, onUpdate, activity }: TurnTerms) {
    this.#activity = activity;
    this.correlationId = correlationId;
    this.#onUpdate = onUpdate;
  }

  /** Aborted when nobody waits for the answer any more, with the reason. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** The answer so far. */
  get text(): string {
    return this.#text;
  }

  cancel(reason = new EclipticError('CANCELLED', 'nobody waits for the agent’s answer any more')): void {
    this.#abort.abort(reason);
  }

  /** Waits for the operator's decision; the deadline of the work does not run meanwhile. */
  async decided<T>(decision: Promise<T>): Promise<T> {
    const release = this.#activity?.hold();
    try {
      return await decision;
    } finally {
      release?.();
    }
  }

  take(raw: SessionUpdate): void {
    this.#activity?.touch();
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
    this.#onUpdate?.(update);
  }

  /** The answer, when the agent has said that it is done. */
  end(stopReason: StopReason): AcpAnswer {
    this.signal.throwIfAborted();
    if (stopReason === 'cancelled') throw new EclipticError('CANCELLED', 'the agent broke its work off');
    if (stopReason === 'refusal') {
      throw new EclipticError('PROVIDER_EXECUTE_FAILED', 'the agent refused to go on', { stopReason });
    }
    return { text: this.#text, stopReason };
  }
}

/** What an agent tells while it works: part of its answer, a thought, its plan, what it does with a tool. */
interface AcpUpdate {
  readonly kind: 'text' | 'progress' | 'plan' | 'tool-call';
  /** For people. */
  readonly text: string;
  /** As the protocol has it. */
  readonly data: SessionUpdate;
}

const MARKS = { pending: ' ', in_progress: '…', completed: '✓' } as const;

/** Tool calls of one turn whose titles are kept. */
const MAX_TITLES = 1_000;

/** What an update means to whoever waits for the work; nothing, where it is about the session alone. */
function readUpdate(update: SessionUpdate, titles: Map<string, string>): AcpUpdate | undefined {
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
