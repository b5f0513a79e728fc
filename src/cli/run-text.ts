import type { Usage } from '../agent/usage.js';
import type { Phase } from '../plans/loop-state.js';

/** `2 done, 1 failed`. */
export function countsText(counts: Readonly<Partial<Record<Phase, number>>>): string {
  return Object.entries(counts)
    .map(([phase, count]) => `${count} ${phase}`)
    .join(', ');
}

export function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

export function usageText({ inputTokens, outputTokens, modelCalls, costUsd }: Usage): string {
  const tokens = `${grouped(inputTokens)} input and ${grouped(outputTokens)} output tokens`;
  const cost = costUsd === undefined ? '' : `, $${costUsd.toFixed(costUsd < 1 ? 4 : 2)}`;
  return `${tokens}, ${grouped(modelCalls)} model ${modelCalls === 1 ? 'call' : 'calls'}${cost}`;
}

function grouped(amount: number): string {
  return String(Math.round(amount)).replaceAll(/\B(?=(\d{3})+$)/g, ',');
}
