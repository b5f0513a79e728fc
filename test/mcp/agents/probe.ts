import { setTimeout as delay } from 'node:timers/promises';
import type { Agent } from '../../../src/index.js';

export const WATCHED = 'probe://watched';

/** An agent that records the stages of a call. */
export function setup(agent: Agent): void {
  let begun = 0;
  let cancelled = 0;

  agent.tool('probe_wait', { description: 'Waits until it is cancelled' }, async (_, call) => {
    begun++;
    call.progress(1, 2, 'waiting');
    await delay(60_000, undefined, { signal: call.signal, ref: false }).catch(() => {});
    cancelled++;
    return 'cancelled';
  });
  agent.tool('probe_state', { description: 'Says how many waits began, and how many were cancelled' }, () => ({
    begun,
    cancelled,
  }));
  agent.tool('probe_nonsense', { description: 'Tells what cannot be told' }, (_, call) => {
    call.progress(Number.NaN);
    return 'told';
  });
  agent.tool('probe_large', { description: 'Returns a long text' }, () => 'x'.repeat(2_000_000));
  agent.tool('probe_meta', { description: 'Returns what came with the call' }, (_, { caller, meta }) => ({
    caller,
    meta,
  }));
  agent.resource({ uri: WATCHED, name: 'Watched', mimeType: 'text/plain' }, () => 'content');
  agent.tool('probe_update', { description: 'Says that the watched resource has changed' }, () => {
    agent.resourceUpdated(WATCHED);
    return 'told';
  });
}
