import type { Usage } from '../../src/work/usage.js';

/** Texts that several views share. */
export const PARTS_TEXT = {
  yes: (action: string) => `Yes, ${action.toLowerCase()}`,
  no: 'No',
  reading: 'Reading it from the node.',
  unreadable: (reason: string) => `The node could not read it: ${reason}`,
  back: (place: string) => `All ${place.toLowerCase()}`,
  more: 'Show more',
  earlier: 'Earlier',
  latest: 'Latest',
  first: 'First page',
  raw: 'Raw JSON',
  none: 'none',
  json: 'JSON',
  fields: 'Other fields',
  noPayload: 'The payload is not kept here.',
  story: 'Story',
  filter: 'Filter',
  all: 'all',
  usage: ({ inputTokens, outputTokens, modelCalls, costUsd }: Usage) =>
    [
      `${inputTokens} tokens in, ${outputTokens} out, ${modelCalls} model call${modelCalls === 1 ? '' : 's'}`,
      ...(costUsd === undefined ? [] : [`$${Number(costUsd.toPrecision(4))}`]),
    ].join(', '),
  bytes: (bytes: number) => {
    if (bytes < 1_000) return `${bytes} B`;
    return bytes < 1_000_000 ? `${Math.round(bytes / 1_000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
  },
  ms: (ms: number) => (ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`),
} as const;
