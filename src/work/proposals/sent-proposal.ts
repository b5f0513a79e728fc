import { isPromise } from '../../mesh/message-sender.js';
import type { RoutingResult } from '../../mesh/schemas.js';
import { toWireError, type WireError } from '../../mesh/wire-error.js';
import { Deferred } from '../../runtime/async.js';
import { backoffMs } from '../../runtime/backoff.js';
import { Callbacks } from '../../runtime/callbacks.js';
import { Deadline } from '../../runtime/deadlines.js';
import { EclipticError, ERRORS, type ErrorCode } from '../../runtime/errors.js';
import type { ProposalRow } from '../../store/tables.js';
import { newProposer, type ProposerEffect, type ProposerInput, type ProposerState, proposerStep } from './machine.js';
import { FIRST_CHECK_MS, LONGEST_CHECK_MS, type NegotiationContext, type Side } from './negotiation-context.js';
import type { Negotiation, TaskProposal } from './proposal.js';
import { PROPOSAL, type ProposalPayload } from './proposal-wire.js';
import { proposalRow, shownProposal } from './shown-proposal.js';

/** What is proposed to one addressee. */
export interface SentTerms {
  readonly payload: ProposalPayload;
  /** The address of the addressee. */
  readonly to: string;
  readonly thread: string;
  readonly justification?: string;
  /** Of a proposal to several: what they have in common. */
  readonly group?: string;
}

/** What the disk has of it. */
interface Kept {
  readonly terms: SentTerms;
  readonly state: ProposerState;
  readonly deadlineAt: number;
}

/** A write that failed is tried again after this long, where nobody else would. */
const WRITE_AGAIN_MS = 1_000;

/** A proposal at its proposer: performs what the machine decides, and asks again for what was not heard. */
export class SentProposal extends Deadline implements Negotiation, Side {
  readonly terms: SentTerms;
  readonly #context: NegotiationContext;
  /** What was decided, and what of that is on disk, where it must be before anybody hears of it. */
  #state: ProposerState;
  #shown: ProposerState;
  #deadlineAt: number;
  #sent: Deferred<void> | undefined;
  #answered: Deferred<TaskProposal> | undefined;
  #result: Deferred<unknown> | undefined;
  #listeners: Callbacks<[value: unknown]> | undefined;
  #failure: EclipticError | undefined;
  #isSent = false;
  #nextCheck = 0;
  #checks = 0;
  #silentSince: number | undefined;
  weight = 0;
  /** @internal Nothing more happens to it. */
  over = false;
  /** Called with every change of what the addressee says. */
  onTurn: (() => void) | undefined;

  constructor(context: NegotiationContext, terms: SentTerms, kept?: Kept) {
    super();
    this.#context = context;
    this.terms = terms;
    this.#state = kept?.state ?? newProposer(terms.group !== undefined);
    this.#shown = this.#state;
    this.#deadlineAt = kept?.deadlineAt ?? context.runtime.now() + terms.payload.deadlineMs;
    this.#isSent = kept !== undefined;
    this.onTurn = undefined;
  }

  static restore(context: NegotiationContext, row: ProposalRow): SentProposal {
    const kept = JSON.parse(row.document) as Kept;
    const sent = new SentProposal(context, kept.terms, kept);
    if (sent.open) sent.#arm();
    else sent.#settle();
    return sent;
  }

  get side(): 'sent' {
    return 'sent';
  }

  get id(): string {
    return this.terms.payload.proposalId;
  }

  get peer(): string {
    return this.terms.to;
  }

  get to(): string {
    return this.terms.to;
  }

  get thread(): string {
    return this.terms.thread;
  }

  get durable(): boolean {
    return this.terms.payload.durable === true;
  }

  get state(): ProposerState {
    return this.#shown;
  }

  /** Is there anything yet to be heard? */
  get open(): boolean {
    return this.#state.status === 'pending' || this.#state.work === 'open';
  }

  get input(): unknown {
    return this.terms.payload.input;
  }

  get proposal(): TaskProposal {
    const { payload, thread } = this.terms;
    return shownProposal(payload, this.#shown, { proposer: this.#context.agentId, addressee: this.terms.to, thread });
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
    this.#listeners ??= new Callbacks(`onProgress of proposal ${this.id}`, this.#context.callbackFailed);
    return this.#listeners.add(handler);
  }

  withdraw(reason = 'withdrawn'): void {
    this.step({ type: 'withdraw', reason });
  }

  get row(): ProposalRow {
    const document: Kept = { terms: this.terms, state: this.#state, deadlineAt: this.#deadlineAt };
    return proposalRow(this.#context, this, this.#state.status, document);
  }

  /** Puts the proposal on its way; a durable one when it is on disk. */
  start(): void {
    this.#arm();
    if (!this.durable) {
      this.#propose();
      return;
    }
    this.#context.keep(
      this,
      () => {
        this.#markSent();
        this.#propose();
      },
      (error) => this.#giveUp(toWireError(error)),
    );
  }

  step(input: ProposerInput): void {
    const before = this.#state;
    const { state, effects } = proposerStep(before, input);
    if (effects.length === 0) return;
    this.#state = state;
    if (!this.durable || effects[0]!.type === 'progress') {
      this.#perform(state, effects);
      return;
    }
    this.#context.keep(
      this,
      () => this.#perform(state, effects),
      (error) => {
        this.#context.runtime.logger.error({ proposal: this.id, err: error }, 'a step of a proposal was not kept');
        if (this.#state !== state) return;
        this.#state = before;
        if (before.status === 'pending') this.#context.deadlines.add(this, WRITE_AGAIN_MS);
      },
    );
  }

  override expire(): void {
    this.step({ type: 'deadline' });
  }

  check(now: number): void {
    if (now < this.#nextCheck || !this.open) return;
    this.#nextCheck = now + backoffMs(this.#checks++, FIRST_CHECK_MS, LONGEST_CHECK_MS);
    const { status, offer, work } = this.#shown;
    if (status === 'pending' && !offer && this.durable) this.#propose();
    if (work !== 'open') return;
    if (!this.durable && this.#silentSince !== undefined && now - this.#silentSince > this.#context.graceMs) {
      const message = `nothing is heard of ${this.peer}, which was at work`;
      const error: WireError = { code: 'DELIVERY_FAILED', message, details: { outcome: 'unknown' } };
      this.step({ type: 'lost', error });
      return;
    }
    this.#confirm();
  }

  /** Fails without a trace on disk: it never was there. */
  #giveUp(error: WireError): void {
    const { state, effects } = proposerStep(this.#state, { type: 'lost', error });
    this.#state = state;
    this.#perform(state, effects);
  }

  #arm(): void {
    const { runtime, deadlines } = this.#context;
    const now = runtime.now();
    this.#nextCheck = now;
    if (this.#state.status === 'pending') deadlines.add(this, Math.max(0, this.#deadlineAt - now));
  }

  #perform(state: ProposerState, effects: readonly ProposerEffect[]): void {
    this.#shown = state;
    for (const effect of effects) this.#do(effect);
  }

  #do(effect: ProposerEffect): void {
    const context = this.#context;
    switch (effect.type) {
      case 'confirm':
        this.#confirm();
        break;
      case 'acknowledge':
        if (this.durable) this.#notify('received');
        context.released(context.agentId, this.peer, this.thread);
        break;
      case 'refuse':
        context.post(this, 'error', { [PROPOSAL]: this.id, ...effect.error });
        break;
      case 'bid':
        this.onTurn?.();
        break;
      case 'answered':
        context.deadlines.remove(this);
        context.changed(this, this.#shown.status);
        if (this.#shown.status !== 'accepted') context.closed(this);
        this.#settle();
        this.onTurn?.();
        break;
      case 'finished':
        context.closed(this);
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

  #propose(): void {
    const { payload, thread, justification } = this.terms;
    const options = { thread, needsAnswer: true, ...(justification !== undefined && { justification }) };
    const result = this.#context.post(this, 'task-proposal', payload, options);
    if (isPromise(result)) void result.then((routed) => this.#proposed(routed));
    else this.#proposed(result);
  }

  #proposed(result: RoutingResult): void {
    if (result.delivered || result.outcome === 'unknown') {
      this.#markSent();
      return;
    }
    const code = result.error as ErrorCode;
    this.#checks = 0;
    if (this.durable && (ERRORS[code].retryable || (AWAY.has(code) && this.#context.knows(this.peer)))) return;
    const details = result.candidates ? { candidates: result.candidates } : {};
    this.step({ type: 'lost', error: { code, message: result.reason ?? 'the proposal was not delivered', details } });
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
    this.#silentSince ??= this.#context.runtime.now();
    this.#checks = 0;
    if (this.durable || this.#context.isRemote(this.peer)) return;
    const error: WireError = { code: result.error as ErrorCode, message: result.reason ?? 'it has left', details: {} };
    this.step({ type: 'lost', error });
  }

  #notify(notice: 'confirm' | 'received'): RoutingResult | Promise<RoutingResult> {
    return this.#context.post(this, 'notification', { [PROPOSAL]: this.id, notice });
  }

  /** Tells whoever waits, as far as there is something to tell. */
  #settle(): void {
    const { status, work, result } = this.#shown;
    const unmade = status === 'rejected' && this.#shown.error !== undefined;
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
    const { status, error, reason, alternative } = this.#shown;
    const about = { proposalId: this.id, to: this.peer };
    if (error) return new EclipticError(error.code, error.message, { ...error.details, ...about });
    if (status === 'timed-out') {
      const { deadlineMs } = this.terms.payload;
      return new EclipticError('PROPOSAL_TIMEOUT', `${this.peer} did not answer within ${deadlineMs} ms`, about);
    }
    const details = { ...about, reason, ...(alternative !== undefined && { alternative }) };
    return new EclipticError('PROPOSAL_REJECTED', `the proposal to ${this.peer} was rejected: ${reason}`, details);
  }
}

/** Refusals that may pass, though not because of anything here: the other node is away, or has not heard of us yet. */
const AWAY: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['AGENT_NOT_FOUND', 'SENDER_REFUSED', 'NODE_STOPPED']);
