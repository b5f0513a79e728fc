import { toWireError, type WireError } from '../../mesh/codec.js';
import { isPromise } from '../../mesh/message-sender.js';
import type { RoutingResult } from '../../mesh/schemas.js';
import { Deferred } from '../../runtime/async.js';
import { Callbacks } from '../../runtime/callbacks.js';
import { EclipticError, ERRORS, type ErrorCode } from '../../runtime/errors.js';
import { newProposer, type ProposerEffect, type ProposerInput, type ProposerState, proposerStep } from './machine.js';
import type { NegotiationContext } from './negotiation-context.js';
import type { Negotiation, ProposalInit, TaskProposal } from './proposal.js';
import { ProposalSide } from './proposal-side.js';
import { faultOfTerms, PROPOSAL, type ProposalPayload } from './proposal-wire.js';
import type { ProposalRow } from './tables.js';

/** The terms of a proposal to one addressee. */
export interface SentTerms {
  readonly payload: ProposalPayload;
  /** The address of the addressee. */
  readonly to: string;
  readonly thread: string;
  readonly justification?: string;
  /** Names a proposal to several agents. */
  readonly group?: string;
}

interface Stored {
  readonly terms: SentTerms;
  readonly state: ProposerState;
  readonly deadlineAt: number;
}

const DEFAULT_DEADLINE_MS = 30_000;
/** The pause after a failed write of a step that no message would trigger again. */
const WRITE_AGAIN_MS = 1_000;
/** Refusals that may pass: the other node is away, or does not know this node's agent yet. */
const AWAY: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['AGENT_NOT_FOUND', 'SENDER_REFUSED', 'NODE_STOPPED']);

/** A proposal at its proposer. */
export class SentProposal extends ProposalSide<ProposerState, ProposerInput, ProposerEffect> implements Negotiation {
  readonly side = 'sent';
  readonly terms: SentTerms;
  readonly #deadlineAt: number;
  #sent: Deferred<void> | undefined;
  #answered: Deferred<TaskProposal> | undefined;
  #result: Deferred<unknown> | undefined;
  #listeners: Callbacks<[value: unknown]> | undefined;
  #failure: EclipticError | undefined;
  #isSent = false;
  #silentSince: number | undefined;
  /** Called when the addressee bids, answers or finishes. */
  onTurn: (() => void) | undefined;

  constructor(
    context: NegotiationContext,
    terms: SentTerms,
    onClosed: (side: ProposalSide) => void,
    stored?: Omit<Stored, 'terms'>,
  ) {
    const { payload, to: peer, thread, group } = terms;
    super(context, { payload, peer, thread }, stored?.state ?? newProposer(group !== undefined), onClosed);
    this.terms = terms;
    this.#deadlineAt = stored?.deadlineAt ?? context.runtime.now() + payload.deadlineMs;
    this.#isSent = stored !== undefined;
    this.onTurn = undefined;
  }

  static restore(context: NegotiationContext, row: ProposalRow, onClosed: (side: ProposalSide) => void): SentProposal {
    const { terms, ...stored } = JSON.parse(row.document) as Stored;
    const sent = new SentProposal(context, terms, onClosed, stored);
    sent.changedAt = row.at;
    if (sent.open) sent.#arm();
    else sent.#settle();
    return sent;
  }

  get to(): string {
    return this.peer;
  }

  get open(): boolean {
    return this.decided.status === 'pending' || this.decided.work === 'open';
  }

  get sent(): Promise<void> {
    this.#sent ??= new Deferred();
    this.#settle();
    return this.#sent.promise;
  }

  get answered(): Promise<TaskProposal> {
    this.#answered ??= new Deferred();
    this.#settle();
    return this.#answered.promise;
  }

  get result(): Promise<unknown> {
    this.#result ??= new Deferred();
    this.#settle();
    return this.#result.promise;
  }

  onProgress(handler: (value: unknown) => void): () => void {
    this.#listeners ??= new Callbacks(`onProgress of proposal ${this.id}`, this.context.callbackFailed);
    return this.#listeners.add(handler);
  }

  withdraw(reason = 'withdrawn'): void {
    this.step({ type: 'withdraw', reason });
  }

  /** Sends the proposal; a durable one once it is on disk. */
  start(): void {
    this.#arm();
    if (!this.durable) return void this.#propose();
    this.context.store(
      this.row,
      () => {
        this.#markSent();
        this.#propose();
      },
      (error) => this.#giveUp(toWireError(error)),
    );
  }

  step(input: ProposerInput): void {
    this.take(input);
  }

  override expire(): void {
    this.take({ type: 'deadline' });
  }

  check(now: number): void {
    if (!this.open || !this.isDue(now)) return;
    const { status, offer, work } = this.state;
    if (status === 'pending' && !offer && this.durable) this.#propose();
    if (work !== 'open') return;
    if (this.durable || this.#silentSince === undefined || now - this.#silentSince <= this.context.graceMs) {
      return void this.#confirm();
    }
    const message = `nothing is heard of ${this.peer}, which was at work`;
    this.take({ type: 'lost', error: { code: 'DELIVERY_FAILED', message, details: { outcome: 'unknown' } } });
  }

  protected get document(): Stored {
    return { terms: this.terms, state: this.decided, deadlineAt: this.#deadlineAt };
  }

  protected decide(state: ProposerState, input: ProposerInput) {
    return proposerStep(state, input);
  }

  protected notStored(_input: ProposerInput, _error: unknown, takenBack: boolean): void {
    const { deadlines } = this.context;
    if (takenBack && this.decided.status === 'pending') deadlines.add(this, WRITE_AGAIN_MS);
  }

  protected perform(effect: ProposerEffect): void {
    const { context } = this;
    switch (effect.type) {
      case 'confirm':
        this.#confirm();
        break;
      case 'acknowledge':
        if (this.durable) this.#notify('received');
        context.release(context.agentId, this.peer, this.thread);
        break;
      case 'refuse':
        context.post(this, 'error', { [PROPOSAL]: this.id, ...effect.error });
        break;
      case 'bid':
        this.onTurn?.();
        break;
      case 'answered':
        context.deadlines.remove(this);
        context.changed(this, this.state.status);
        if (this.state.status !== 'accepted') this.#end();
        this.#settle();
        this.onTurn?.();
        break;
      case 'finished':
        this.#end();
        this.#settle();
        this.onTurn?.();
        break;
      case 'progress':
        this.#listeners?.call(effect.value);
        break;
      case 'count':
        context.refused(this, effect.kind, this.peer);
        break;
    }
  }

  /** The addressee may be gone, and never end the conversation from its side. */
  #end(): void {
    this.close();
    this.context.release(this.context.agentId, this.peer, this.thread);
  }

  /** Fails a proposal that never was on disk, without storing its end. */
  #giveUp(error: WireError): void {
    const { state, effects } = proposerStep(this.decided, { type: 'lost', error });
    this.decided = state;
    this.publish(state, effects);
  }

  #arm(): void {
    const { runtime, deadlines } = this.context;
    const now = runtime.now();
    this.nextCheck = now;
    if (this.decided.status === 'pending') deadlines.add(this, Math.max(0, this.#deadlineAt - now));
  }

  #propose(): void {
    const { payload, thread, justification } = this.terms;
    const options = { thread, needsAnswer: true, ...(justification !== undefined && { justification }) };
    const result = this.context.post(this, 'task-proposal', payload, options);
    if (isPromise(result)) void result.then((routed) => this.#proposed(routed));
    else this.#proposed(result);
  }

  #proposed(result: RoutingResult): void {
    if (result.delivered || result.outcome === 'unknown') return void this.#markSent();
    const code = result.error as ErrorCode;
    this.checks = 0;
    if (this.durable && (ERRORS[code].retryable || (AWAY.has(code) && this.context.knows(this.peer)))) return;
    const details = result.candidates ? { candidates: result.candidates } : {};
    this.take({ type: 'lost', error: { code, message: result.reason ?? 'the proposal was not delivered', details } });
  }

  #markSent(): void {
    this.#isSent = true;
    if (this.#sent) this.#settle();
  }

  #confirm(): void {
    const result = this.#notify('confirm');
    if (isPromise(result)) void result.then((routed) => this.#confirmed(routed));
    else this.#confirmed(result);
  }

  #confirmed(result: RoutingResult): void {
    if (result.delivered) {
      this.#silentSince = undefined;
      return;
    }
    this.#silentSince ??= this.context.runtime.now();
    this.checks = 0;
    if (this.durable || this.context.isRemote(this.peer)) return;
    const error: WireError = { code: result.error as ErrorCode, message: result.reason ?? 'it has left', details: {} };
    this.take({ type: 'lost', error });
  }

  #notify(notice: 'confirm' | 'received'): RoutingResult | Promise<RoutingResult> {
    return this.context.post(this, 'notification', { [PROPOSAL]: this.id, notice });
  }

  /** Settles the promises that were asked for, as far as the state allows. */
  #settle(): void {
    const { status, work, result } = this.state;
    const unmade = status === 'rejected' && this.state.error !== undefined;
    if (this.#sent) {
      if (unmade && !this.#isSent) this.#sent.reject(this.#error());
      else if (this.#isSent || status !== 'pending') this.#sent.resolve();
    }
    if (this.#answered && status !== 'pending') {
      if (unmade) this.#answered.reject(this.#error());
      else this.#answered.resolve(this.proposal);
    }
    if (!this.#result) return;
    if (work === 'done') this.#result.resolve(result);
    else if (work === 'failed' || status === 'rejected' || status === 'timed-out') this.#result.reject(this.#error());
  }

  #error(): EclipticError {
    this.#failure ??= this.#makeError();
    return this.#failure;
  }

  #makeError(): EclipticError {
    const { status, error, reason, alternative } = this.state;
    const about = { proposalId: this.id, to: this.peer };
    if (error) return new EclipticError(error.code, error.message, { ...error.details, ...about });
    if (status === 'timed-out') {
      const { deadlineMs } = this.payload;
      return new EclipticError('PROPOSAL_TIMEOUT', `${this.peer} did not answer within ${deadlineMs} ms`, about);
    }
    const details = { ...about, reason, ...(alternative !== undefined && { alternative }) };
    return new EclipticError('PROPOSAL_REJECTED', `the proposal to ${this.peer} was rejected: ${reason}`, details);
  }
}

/** The terms of a proposal to one addressee; throws if they are not valid. */
export function termsOf(init: ProposalInit, proposalId: string, to: string, group?: string): SentTerms {
  const { taskDescription, input, justification, durable, thread = proposalId } = init;
  const payload: ProposalPayload = {
    proposalId,
    taskDescription,
    requiredCapabilities: init.requiredCapabilities ?? [],
    estimatedComplexity: init.estimatedComplexity ?? 'medium',
    deadlineMs: init.deadlineMs ?? DEFAULT_DEADLINE_MS,
    ...(input !== undefined && { input }),
    ...(durable && { durable }),
  };
  const fault = faultOfTerms(payload);
  if (fault) throw new EclipticError('INVALID_ENVELOPE', fault, { faults: [fault] });
  const more = { ...(justification !== undefined && { justification }), ...(group !== undefined && { group }) };
  return { payload, to, thread, ...more };
}
