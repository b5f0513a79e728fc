import { z } from 'zod';

/** What work cost: tokens of models, calls to them, and money where the price is known. */
export interface Usage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly modelCalls: number;
  /** In US dollars. Undefined where the configuration names no price. */
  readonly costUsd?: number;
}

const count = z.number().nonnegative();

export const UsageSchema: z.ZodType<Usage> = z.object({
  inputTokens: count,
  outputTokens: count,
  modelCalls: count,
  costUsd: z.exactOptional(count),
});

/** The key of a progress report that carries usage. */
export const USAGE = 'ecliptic/usage';

export const NO_USAGE: Usage = { inputTokens: 0, outputTokens: 0, modelCalls: 0 };

export function addUsage(a: Usage, b: Usage): Usage {
  const cost = a.costUsd === undefined && b.costUsd === undefined ? undefined : (a.costUsd ?? 0) + (b.costUsd ?? 0);
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    modelCalls: a.modelCalls + b.modelCalls,
    ...(cost !== undefined && { costUsd: cost }),
  };
}

/** The usage in a progress report, if it carries one. Only well-formed numbers count: the report comes from another agent. */
export function usageIn(report: unknown): Usage | undefined {
  if (typeof report !== 'object' || report === null || !(USAGE in report)) return undefined;
  const { inputTokens, outputTokens, modelCalls, costUsd } = ((report as Record<string, unknown>)[USAGE] ??
    {}) as Record<string, unknown>;
  return {
    inputTokens: amount(inputTokens),
    outputTokens: amount(outputTokens),
    modelCalls: amount(modelCalls),
    ...(typeof costUsd === 'number' && { costUsd: amount(costUsd) }),
  };
}

/** In words, for people: "1200 tokens in, 80 out, 2 model calls, $0.0031". */
export function describeUsage({ inputTokens, outputTokens, modelCalls, costUsd }: Usage): string {
  // Coding agents do not tell how often they ask their model.
  const calls = modelCalls === 0 ? '' : `, ${modelCalls} model call${modelCalls === 1 ? '' : 's'}`;
  const cost = costUsd === undefined ? '' : `, $${Number(costUsd.toPrecision(4))}`;
  return `${inputTokens} tokens in, ${outputTokens} out${calls}${cost}`;
}

function amount(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0;
}
