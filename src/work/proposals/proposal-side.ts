import { backoffMs } from '../../runtime/backoff.js';
import { Deadline } from '../../runtime/deadlines.js';
import type { Step } from '../../runtime/machine.js';
import type { Standing } from './machine.js';
import type { NegotiationContext } from './negotiation-context.js';
import type { TaskProposal } from './proposal.js';
import type { ProposalPayload } from './proposal-wire.js';
import type { ProposalRow } from './tables.js';

/** Pauses before sending again: the first, and, as they double, the longest. */
const FIRST_CHECK_MS = 1_000;
const LONGEST_CHECK_MS = 8_000;

/**
 * One side of a proposal: the shell around its machine. It lets the machine decide, stores a durable decision before
 * anything follows from it, publishes it, and performs its effects.
 */
export abstract class ProposalSide<
  State extends Standing = Standing,
  Input extends object = object,
  Effect extends { readonly type: string } = { readonly type: string },
> extends Deadline {
  abstract readonly side: 'sent' | 'received';
  readonly payload: ProposalPayload;
  /** The address of the agent at the other side. */
  readonly peer: string;
  readonly thread: string;
  /** The published state. */
  state: State;
  /** When its state changed, or progress was heard of, by this node's clock. */
  changedAt: number;
  /** Approximate bytes that it holds in memory. */
  weight = 0;
  /** @internal Closed: nothing more happens to it. */
  over = false;
  protected readonly context: NegotiationContext;
  /** The state that was decided; ahead of the published one while it is being written to disk. */
  protected decided: State;
  protected nextCheck = 0;
  protected checks = 0;
  readonly #onClosed: (side: ProposalSide) => void;

  constructor(
    context: NegotiationContext,
    { payload, peer, thread }: { payload: ProposalPayload; peer: string; thread: string },
    state: State,
    onClosed: (side: ProposalSide) => void,
  ) {
    super();
    this.context = context;
    this.payload = payload;
    this.peer = peer;
    this.thread = thread;
    this.state = state;
    this.decided = state;
    this.changedAt = context.runtime.now();
    this.#onClosed = onClosed;
  }

  /** Is there anything yet to be said, or to be heard? */
  abstract get open(): boolean;
  /** Sends again what was not answered, or gives up. */
  abstract check(now: number): void;
  protected abstract get document(): object;
  protected abstract decide(state: State, input: Input): Step<State, Effect>;
  protected abstract perform(effect: Effect): void;
  /** A step could not be stored. It was taken back, unless a later one was decided meanwhile. */
  protected abstract notStored(input: Input, error: unknown, takenBack: boolean): void;

  get id(): string {
    return this.payload.proposalId;
  }

  get durable(): boolean {
    return this.payload.durable === true;
  }

  get input(): unknown {
    return this.payload.input;
  }

  /** The proposal as its two agents see it at present. */
  get proposal(): TaskProposal {
    const { proposalId, taskDescription, requiredCapabilities, estimatedComplexity, deadlineMs } = this.payload;
    const { status, reason, alternative } = this.state;
    const { agentId } = this.context;
    const isSent = this.side === 'sent';
    return {
      proposalId,
      taskDescription,
      requiredCapabilities: [...requiredCapabilities],
      estimatedComplexity,
      deadlineMs,
      proposerAgentId: isSent ? agentId : this.peer,
      status,
      ...(status === 'accepted' && { acceptedBy: isSent ? this.peer : agentId }),
      ...(reason !== undefined && { rejectionReason: reason }),
      ...(alternative !== undefined && { alternativeSuggestion: alternative }),
      correlationId: this.thread,
    };
  }

  get row(): ProposalRow {
    const { side, peer, id } = this;
    return {
      agent: this.context.agentId,
      side,
      peer,
      id,
      status: this.decided.status,
      open: this.open ? 1 : 0,
      at: this.context.runtime.now(),
      document: JSON.stringify(this.document),
    };
  }

  protected take(input: Input, done?: () => void, failed?: (error: unknown) => void): void {
    const before = this.decided;
    const { state, effects } = this.decide(before, input);
    if (effects.length === 0) return void done?.();
    this.decided = state;
    // Progress changes no state. Everything else waits for the disk, even if this step changed nothing: the state that it
    // relies on may still be on its way there.
    if (!this.durable || effects[0]!.type === 'progress') {
      this.publish(state, effects);
      return void done?.();
    }
    this.context.store(
      this.row,
      () => {
        this.publish(state, effects);
        done?.();
      },
      (error) => {
        this.context.runtime.logger.error({ proposal: this.id, err: error }, 'proposal step not stored');
        const isLatest = this.decided === state;
        if (isLatest) this.decided = before;
        this.notStored(input, error, isLatest);
        failed?.(error);
      },
    );
  }

  protected publish(state: State, effects: readonly Effect[]): void {
    if (state !== this.state || effects[0]?.type === 'progress') this.changedAt = this.context.runtime.now();
    this.state = state;
    for (const effect of effects) this.perform(effect);
  }

  /** Is it time to send again? */
  protected isDue(now: number): boolean {
    if (now < this.nextCheck) return false;
    this.nextCheck = now + backoffMs(this.checks++, FIRST_CHECK_MS, LONGEST_CHECK_MS);
    return true;
  }

  /** Nothing more happens to it, except that the other side may ask again. */
  protected close(): void {
    this.#onClosed(this);
  }
}
