import type { TaskActivity } from '../../agent/task-activity.js';
import type { Usage } from '../../agent/usage.js';
import { LIMITS } from '../../mesh/limits.js';
import { EclipticError } from '../../runtime/errors.js';
import type { ActionRuling } from '../../system/approvals/action-gate.js';
import type { Approval } from '../../system/approvals/approval-queue.js';
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

/**
 * The session of a turn: a new one, that of the turn before, one that the agent loaded again, or a new one that begins with
 * a summary, because the agent could not load the one before.
 */
export type SessionState = 'new' | 'continued' | 'loaded' | 'summarised';

export interface SessionNote {
  /** The agent's own id. */
  readonly id: string;
  readonly state: SessionState;
  readonly reason?: string;
}

/** One prompt to an agent, and its answer as it comes. */
export class Turn {
  readonly correlationId: string | undefined;
  readonly #terms: TurnTerms;
  readonly #abort = new AbortController();
  /** By tool call id: later updates leave the title out. */
  readonly #titles = new Map<string, string>();
  #text = '';
  /** Decisions of the operator that the work waits for. */
  #waiting = 0;

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

  /** The turn begins in this session. */
  inSession(session: SessionNote): void {
    this.#terms.onUpdate?.({ kind: 'session', text: sessionText(session), data: session });
  }

  /** What the turn cost. */
  used(usage: Usage): void {
    this.#terms.onUpdate?.({ kind: 'usage', text: '', data: usage });
  }

  /** Asks for a ruling. While that waits for the operator, the deadline of the work is suspended, and the caller told. */
  async decided(ask: (onWaiting: (approval: Approval) => void) => Promise<ActionRuling>): Promise<ActionRuling> {
    let release: (() => void) | undefined;
    let asked: Approval | undefined;
    const onWaiting = (approval: Approval) => {
      asked = approval;
      release = this.#terms.activity?.hold();
      this.#waits(1, `waits for its owner’s approval: ${approval.summary} (${approval.id})`, approval);
    };
    try {
      const ruling = await ask(onWaiting);
      if (asked) this.#waits(-1, `${asked.summary}: ${ruling.reason}`, asked);
      return ruling;
    } catch (error) {
      if (asked) this.#waits(-1, `${asked.summary}: the question was withdrawn`, asked);
      throw error;
    } finally {
      release?.();
    }
  }

  #waits(more: 1 | -1, text: string, { id }: Approval): void {
    this.#waiting += more;
    const activity: TaskActivity = { kind: 'approval', id, open: more > 0 };
    if (!this.signal.aborted) this.#terms.onUpdate?.({ kind: 'waiting', text, data: this.#waiting, activity });
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

/** Empty where there is nothing to say. */
function sessionText({ state, reason }: SessionNote): string {
  if (state === 'loaded') return 'the agent has loaded the session of this conversation';
  if (state !== 'summarised') return '';
  return `the session of this conversation is not available (${reason}); a new one begins with a summary of it`;
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
      if (update.sessionUpdate === 'agent_message_chunk') return { kind: 'text', text, data: update };
      return { kind: 'progress', text, data: update, activity: { kind: 'thought' } };
    }
    case 'plan': {
      const lines = update.entries.map(({ content, status }) => `[${MARKS[status] ?? ' '}] ${content}`);
      const activity: TaskActivity = { kind: 'plan', entries: update.entries };
      return { kind: 'plan', text: lines.join('\n'), data: update, activity };
    }
    case 'tool_call':
    case 'tool_call_update': {
      const { toolCallId, kind, status } = update;
      const title = update.title || titles.get(toolCallId) || kind || 'tool call';
      if (titles.has(toolCallId) || titles.size < MAX_TITLES) titles.set(toolCallId, title);
      const text = status ? `${title}: ${status}` : title;
      const about = { ...(kind && { purpose: kind }), ...(status && { status }) };
      return {
        kind: 'tool-call',
        text,
        data: update,
        activity: { kind: 'tool-call', id: toolCallId, title, ...about },
      };
    }
    default:
      return undefined;
  }
}
