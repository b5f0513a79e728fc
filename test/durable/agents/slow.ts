import { setTimeout as delay } from 'node:timers/promises';
import type { Agent } from '../../../src/index.js';

/** An agent that needs a while to get ready, and a while for each answer. */
export async function setup(agent: Agent): Promise<void> {
  await delay(500);
  agent.onRequest(async ({ payload, redelivered }) => {
    if (!redelivered) await delay(60_000);
    return { answer: payload, redelivered };
  });
}
