import { join } from 'node:path';
import { z } from 'zod';
import { Callbacks, logCallback } from '../../runtime/callbacks.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { JsonFile } from '../files/private-file.js';
import {
  type Approval,
  ApprovalSchema,
  advance,
  EMPTY,
  isDecided,
  nextDue,
  type Queue,
  type QueueEvent,
  StandingSchema,
  type Verdict,
} from './approval-queue.js';

interface ApprovalsInit {
  /** The data folder. Without one, the queue is in memory only. */
  folder?: string;
}

export interface ApprovalRequest extends Pick<Approval, 'kind' | 'subject' | 'summary'> {
  readonly details?: Readonly<Record<string, unknown>>;
  /** Denied without a decision within this time. Default: no limit. */
  readonly timeoutMs?: number;
}

const FileSchema = z.strictObject({
  version: z.literal(1),
  items: z.array(ApprovalSchema),
  standing: z.array(StandingSchema),
});

const MAX_WAITING = 20_000;
/** Each is compared with every question. */
const MAX_STANDING = 10_000;
const MIN_PAUSE_MS = 20;

/** The operator's approval queue, kept across restarts. */
export class Approvals {
  readonly #runtime: Runtime;
  readonly #file: JsonFile<z.infer<typeof FileSchema>> | undefined;
  readonly #listeners: Callbacks<[Approval]>;
  readonly #asked: Callbacks<[Approval]>;
  #queue: Queue;
  #timer: Timer | undefined;

  constructor(runtime: Runtime, { folder }: ApprovalsInit = {}) {
    this.#runtime = runtime;
    this.#listeners = new Callbacks('Approvals.onDecision', logCallback(runtime.logger));
    this.#asked = new Callbacks('Approvals.onRequest', logCallback(runtime.logger));
    this.#file = folder === undefined ? undefined : new JsonFile(join(folder, 'approvals.json'), FileSchema);
    const { items, standing } = this.#file?.load() ?? EMPTY;
    this.#queue = { items, standing };
    this.#expire();
  }

  /** Open and recently decided questions, oldest first. */
  get items(): readonly Approval[] {
    return this.#queue.items;
  }

  get waiting(): readonly Approval[] {
    return this.items.filter((item) => !isDecided(item));
  }

  /** Calls back with each decision, once it is on disk. */
  onDecision(listener: (approval: Approval) => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Calls back with each question that waits for the operator, once it is on disk. */
  onRequest(listener: (approval: Approval) => void): () => void {
    return this.#asked.add(listener);
  }

  /** Adds questions, all or none. Those that are always allowed come back decided. */
  request(...requests: readonly ApprovalRequest[]): Approval[] {
    if (this.waiting.length + requests.length > MAX_WAITING) {
      throw new EclipticError('QUEUE_FULL', `${this.waiting.length} questions wait for the operator already`);
    }
    const now = this.#runtime.now();
    const items = requests.map(({ timeoutMs, details = {}, ...rest }): Approval => {
      const expires = timeoutMs === undefined ? {} : { expiresAt: now + timeoutMs };
      return { id: this.#runtime.id(), ...rest, details, createdAt: now, ...expires };
    });
    const ids = new Set(items.map(({ id }) => id));
    this.#handle({ type: 'requested', items });
    const asked = this.items.filter(({ id }) => ids.has(id));
    for (const approval of asked) if (!isDecided(approval)) this.#asked.call(approval);
    return asked;
  }

  /** Asks, and waits for the verdict. Aborting the signal withdraws the question. */
  async ask(request: ApprovalRequest, signal?: AbortSignal): Promise<Verdict> {
    return (await this.settle(request, signal)).decision!.verdict;
  }

  /** As `ask`, with the whole decision. Calls back when the question waits for a person. */
  async settle(
    request: ApprovalRequest,
    signal?: AbortSignal,
    onWaiting: (approval: Approval) => void = () => {},
  ): Promise<Approval> {
    const cancelled = () => new EclipticError('CANCELLED', `"${request.summary}" was withdrawn`);
    if (signal?.aborted) throw cancelled();
    const asked = this.request(request)[0]!;
    if (asked.decision) return asked;
    return new Promise((resolve, reject) => {
      const finish = () => {
        stop();
        signal?.removeEventListener('abort', withdraw);
      };
      const stop = this.onDecision((approval) => {
        if (approval.id !== asked.id) return;
        finish();
        resolve(approval);
      });
      const withdraw = () => {
        finish();
        this.withdraw(asked.id);
        reject(cancelled());
      };
      signal?.addEventListener('abort', withdraw);
      try {
        onWaiting(asked);
      } catch (error) {
        finish();
        this.withdraw(asked.id);
        reject(error);
      }
    });
  }

  /** Decides questions, all or, where one is not open, none. */
  decide(verdict: Verdict, by: string, ...ids: readonly string[]): readonly Approval[] {
    const waiting = new Set(this.waiting.map(({ id }) => id));
    const unknown = ids.find((id) => !waiting.has(id));
    if (unknown !== undefined) {
      const message = `nothing with the id "${unknown}" waits for a decision`;
      throw new EclipticError('APPROVAL_NOT_FOUND', message, { id: unknown });
    }
    if (verdict === 'allow-always' && this.#queue.standing.length + ids.length > MAX_STANDING) {
      const message = `${this.#queue.standing.length} actions are always allowed already; allow it once, or write a rule`;
      throw new EclipticError('QUEUE_FULL', message, { limit: MAX_STANDING });
    }
    return this.#handle({ type: 'decided', ids, verdict, by, at: this.#runtime.now() });
  }

  withdraw(...ids: readonly string[]): void {
    if (ids.length > 0) this.#handle({ type: 'withdrawn', ids });
  }

  /** Ends standing permissions: the next request for such a subject is asked about again. */
  revoke(kind: string, isMeant: (subject: string) => boolean): void {
    const standing = this.#queue.standing.filter((one) => one.kind === kind && isMeant(one.subject));
    if (standing.length > 0)
      this.#handle({ type: 'revoked', kind, subjects: new Set(standing.map(({ subject }) => subject)) });
  }

  close(): void {
    this.#timer?.cancel();
    this.#listeners.clear();
    this.#asked.clear();
  }

  #handle(event: QueueEvent): readonly Approval[] {
    const { next, decided } = advance(this.#queue, event);
    if (next === this.#queue) return decided;
    this.#file?.save({ version: 1, items: [...next.items], standing: [...next.standing] });
    this.#queue = next;
    this.#setTimer();
    for (const approval of decided) this.#listeners.call(approval);
    return decided;
  }

  #setTimer(): void {
    this.#timer?.cancel();
    const due = nextDue(this.#queue);
    if (due === undefined) return;
    // A failing disk must not cause a busy loop.
    this.#timer = this.#runtime.setTimer(() => this.#expire(), Math.max(MIN_PAUSE_MS, due - this.#runtime.now()));
  }

  #expire(): void {
    try {
      this.#handle({ type: 'due', at: this.#runtime.now() });
    } catch (error) {
      this.#runtime.logger.error({ error: describeError(error) }, 'approval expiry could not be saved');
    }
    this.#setTimer();
  }
}
