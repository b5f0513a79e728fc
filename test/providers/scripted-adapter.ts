import type {
  ExecuteTerms,
  ProviderAdapter,
  ProviderCrash,
  ProviderHealthStatus,
} from '../../src/providers/adapter/adapter.js';
import { NormalizedProviderError, normalizeAbort } from '../../src/providers/adapter/errors.js';
import type { Runtime } from '../../src/runtime/runtime.js';

interface Held {
  readonly correlationId: string;
  finish(output?: unknown): void;
  fail(error: unknown): void;
}

/** A provider within the process that is as well, as quick and as broken as a test says. */
export class ScriptedAdapter implements ProviderAdapter {
  /** The outcome of `init` and `health`. */
  ready: 'yes' | 'no' | 'never' = 'yes';
  well: 'yes' | 'no' | 'silent' | 'degraded' = 'yes';
  /** Is work held until the test lets it go? */
  holds = false;
  inits = 0;
  checks = 0;
  terminations = 0;
  /** Checks in progress, and their maximum so far. */
  checking = 0;
  mostChecking = 0;
  /** Correlation ids of the work that came, in order. */
  readonly came: string[] = [];
  readonly held: Held[] = [];
  readonly #runtime: Runtime;
  readonly #crashes = new Set<(crash: ProviderCrash) => void>();
  readonly #returns = new Set<() => void>();
  #answers: (() => void)[] = [];

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  async init(): Promise<void> {
    this.inits++;
    if (this.ready === 'never') await new Promise(() => {});
    if (this.ready === 'no') throw { exitCode: 1 };
  }

  async health(): Promise<ProviderHealthStatus> {
    this.checks++;
    this.mostChecking = Math.max(this.mostChecking, ++this.checking);
    if (this.well === 'silent') await new Promise<void>((resolve) => this.#answers.push(resolve));
    this.checking--;
    if (this.well === 'no') throw { code: 'ECONNREFUSED' };
    const lastCheck = new Date(this.#runtime.now());
    return { state: this.well === 'degraded' ? 'degraded' : 'healthy', lastCheck, failureCount: 0 };
  }

  async execute(input: unknown, correlationId: string, terms: ExecuteTerms = {}): Promise<unknown> {
    this.came.push(correlationId);
    if (!this.holds) return input;
    return new Promise((resolve, reject) => {
      const { signal } = terms;
      signal?.addEventListener('abort', () => reject(normalizeAbort(signal, 'command', correlationId)));
      this.held.push({ correlationId, finish: (output = input) => resolve(output), fail: reject });
    });
  }

  async terminate(): Promise<void> {
    this.terminations++;
    const ended = new NormalizedProviderError('PROVIDER_TERMINATED', 'it was ended', 'command');
    for (const { fail } of this.held.splice(0)) fail(ended);
  }

  onCrash(listener: (crash: ProviderCrash) => void): () => void {
    this.#crashes.add(listener);
    return () => this.#crashes.delete(listener);
  }

  onReady(listener: () => void): () => void {
    this.#returns.add(listener);
    return () => this.#returns.delete(listener);
  }

  get listeners(): number {
    return this.#crashes.size + this.#returns.size;
  }

  crash(looping = false): void {
    const error = new NormalizedProviderError('PROVIDER_CRASHED', 'it was ended by SIGKILL', 'command');
    for (const { fail } of this.held.splice(0)) fail(error);
    for (const listener of this.#crashes) listener({ error, looping });
  }

  comeBack(): void {
    for (const listener of this.#returns) listener();
  }

  /** Answers every check that was left without an answer. */
  answer(): void {
    for (const resolve of this.#answers.splice(0)) resolve();
  }
}
