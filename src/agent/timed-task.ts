import type { A2AObservability, TaskKind } from '../mesh/observability.js';
import type { Runtime } from '../runtime/runtime.js';
import { namedSpan, type Span } from '../runtime/tracing.js';

interface TimedTaskComponents {
  readonly runtime: Runtime;
  readonly observability: A2AObservability;
}

/** An agent's work on one task: counted, timed and recorded as a span. */
export class TimedTask {
  readonly #components: TimedTaskComponents;
  readonly #kind: TaskKind;
  readonly #started: number;
  readonly #span: Span | undefined;
  #over = false;

  constructor(components: TimedTaskComponents, kind: TaskKind, about: { readonly agent: string; readonly id: string }) {
    const { runtime } = components;
    this.#components = components;
    this.#kind = kind;
    this.#started = runtime.stopwatch();
    const { tracer } = runtime;
    if (!tracer) return;
    const { name, attributes } = namedSpan(tracer, kind, 'invoke_agent', about.agent);
    const own = { 'ecliptic.agent': about.agent, 'ecliptic.task': about.id };
    this.#span = tracer.start(name, {
      attributes: { ...own, ...attributes, ...(tracer.genAi && { 'gen_ai.agent.id': about.agent }) },
    });
  }

  /** Runs the work's first step, which other steps may follow. */
  run<T>(begin: () => T): T {
    const { tracer } = this.#components.runtime;
    return tracer && this.#span ? tracer.run(this.#span, begin) : begin();
  }

  /** Runs the whole work: it ends when its promise settles. */
  during<T>(work: () => T): T {
    try {
      const result = this.run(work);
      if (result instanceof Promise) {
        result.then(
          () => this.end(),
          (error: unknown) => this.end(error),
        );
      } else this.end();
      return result;
    } catch (error) {
      this.end(error);
      throw error;
    }
  }

  /** The first call counts. */
  readonly end = (error?: unknown): void => {
    if (this.#over) return;
    this.#over = true;
    const { runtime, observability } = this.#components;
    observability.taskEnded(this.#kind, runtime.stopwatch() - this.#started, error !== undefined);
    this.#span?.end(error);
  };
}
