export type SpanKind = 'internal' | 'server' | 'client' | 'producer' | 'consumer';

export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** One step of work, from its start until `end`. */
export interface Span {
  /** Its W3C trace context, for steps that follow from it here or on another node. */
  readonly traceparent: string;
  /** The first call counts. An error marks the step as failed. */
  end(error?: unknown, attributes?: SpanAttributes): void;
}

export interface SpanStart {
  readonly kind?: SpanKind;
  readonly attributes?: SpanAttributes;
  /** The W3C trace context of the step that it follows from. Default: the active span; null for none. */
  readonly parent?: string | null | undefined;
}

/** Records the steps of work as spans. A runtime without one records nothing, at no cost. */
export interface Tracer {
  start(name: string, init?: SpanStart): Span;
  /** Runs a function with the span active: spans that it starts, also later, follow from it. */
  run<T>(span: Span, task: () => T): T;
  /** Are attributes of the experimental conventions for generative AI wanted? */
  readonly genAi: boolean;
}

/** What the conventions for generative AI call the steps of agents. */
type AgentOperation = 'create_agent' | 'invoke_agent' | 'execute_tool' | 'invoke_workflow';

const SUBJECT = { create_agent: 'agent', invoke_agent: 'agent', execute_tool: 'tool', invoke_workflow: 'workflow' };

/** A span's name and attributes by the conventions for generative AI where they are wanted, and its plain name elsewhere. */
export function namedSpan(
  tracer: Tracer,
  plain: string,
  operation: AgentOperation,
  subject: string,
): { readonly name: string; readonly attributes: SpanAttributes } {
  if (!tracer.genAi) return { name: plain, attributes: {} };
  const attributes = {
    'gen_ai.operation.name': operation,
    [`gen_ai.${SUBJECT[operation]}.name`]: subject,
    ...(operation.endsWith('agent') && { 'gen_ai.provider.name': 'ecliptic' }),
  };
  return { name: `${operation} ${subject}`, attributes };
}

/** Begins work with a result to wait for, as one span, which ends when that has settled. */
export function spanUntilResult<T extends { readonly result: Promise<unknown> }>(
  tracer: Tracer | undefined,
  name: string,
  attributes: SpanAttributes,
  begin: () => T,
): T {
  if (!tracer) return begin();
  const span = tracer.start(name, { attributes });
  try {
    const work = tracer.run(span, begin);
    work.result.then(
      () => span.end(),
      (error: unknown) => span.end(error),
    );
    return work;
  } catch (error) {
    span.end(error);
    throw error;
  }
}

/** Runs work as one span, which ends when the work has settled. */
export function inSpan<T>(tracer: Tracer | undefined, name: string, init: SpanStart, work: () => T): T {
  if (!tracer) return work();
  const span = tracer.start(name, init);
  try {
    const result = tracer.run(span, work);
    if (!(result instanceof Promise)) {
      span.end();
      return result;
    }
    result.then(
      () => span.end(),
      (error: unknown) => span.end(error),
    );
    return result;
  } catch (error) {
    span.end(error);
    throw error;
  }
}
