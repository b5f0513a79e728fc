import { EclipticError, type ErrorCode } from '../runtime/errors.js';
import type { ValidEnvelope } from './envelope.js';
import { failureOf, type MessageChecks } from './message-checks.js';
import type { CarryOutcome } from './ports.js';
import type { RegistryEntry } from './registry-index.js';
import type { RoutingReporter } from './routing-reporter.js';
import type { RoutingResult } from './schemas.js';

/** How a sender learns that another node did not get its message: by the result, by a rejection, or by a call of `fail`. */
export type OnRefusal = 'resolve' | 'reject' | RefusalListener;

export interface RefusalListener {
  fail(error: EclipticError): void;
  /** The recipient has it. True if the message counts as its load until the listener takes it off, with the answer. */
  holds?(target: RegistryEntry): boolean;
}

/** Returned for a message to another node whose sender has a `RefusalListener`. Never settles. */
export const TOLD_LATER: Promise<RoutingResult> = new Promise(() => {});

/**
 * A message on its way to another node. It is one object, with at most one promise: promises and closures in every layer
 * made so much garbage that collecting it took half of the sender's CPU time.
 */
export class RemoteDelivery implements CarryOutcome {
  readonly checks: MessageChecks;
  readonly reporter: RoutingReporter;
  readonly envelope: ValidEnvelope;
  readonly source: RegistryEntry;
  readonly target: RegistryEntry;
  readonly started: number;
  readonly listener: RefusalListener | undefined;
  resolve: ((result: RoutingResult) => void) | undefined;
  reject: ((error: EclipticError) => void) | undefined;

  constructor(
    checks: MessageChecks,
    reporter: RoutingReporter,
    envelope: ValidEnvelope,
    source: RegistryEntry,
    target: RegistryEntry,
    started: number,
    listener: RefusalListener | undefined,
  ) {
    this.checks = checks;
    this.reporter = reporter;
    this.envelope = envelope;
    this.source = source;
    this.target = target;
    this.started = started;
    this.listener = listener;
    this.resolve = undefined;
    this.reject = undefined;
    target.sending++;
  }

  /** A promise of the result, which may reject if the message is refused. */
  promise(rejects: boolean): Promise<RoutingResult> {
    const promise = new Promise(capture);
    this.resolve = captured.resolve;
    this.reject = rejects ? captured.reject : undefined;
    return promise;
  }

  taken(): void {
    if (!this.listener?.holds?.(this.target)) this.target.sending--;
    const result = this.reporter.routed(this.envelope, this.source, this.target, this.started);
    this.resolve?.(result);
  }

  refused(error: EclipticError): void {
    const { checks, reporter, envelope, source, target, started } = this;
    target.sending--;
    const failure = failureOf(error);
    checks.retract(envelope, source);
    if (failure.code === 'DELIVERY_FAILED') reporter.about('delivery-failure', envelope, target.address, failure);
    const result = reporter.refused(envelope, target.address, failure, started);
    if (this.listener) this.listener.fail(undelivered(result));
    else if (this.reject) this.reject(undelivered(result));
    else this.resolve?.(result);
  }
}

/** Keeps the functions of the latest promise: with a closure for each, a message takes another 150 bytes. */
const captured: {
  resolve: ((result: RoutingResult) => void) | undefined;
  reject: ((error: EclipticError) => void) | undefined;
} = { resolve: undefined, reject: undefined };

function capture(resolve: (result: RoutingResult) => void, reject: (error: EclipticError) => void): void {
  captured.resolve = resolve;
  captured.reject = reject;
}

/** The typed error of a refusal. */
export function undelivered(result: RoutingResult): EclipticError {
  const { error, reason, targetAgentId: recipient, candidates, outcome } = result;
  const details = { recipient, ...(candidates && { candidates }), ...(outcome && { outcome }) };
  return new EclipticError(error as ErrorCode, reason ?? 'the message was not delivered', details);
}
