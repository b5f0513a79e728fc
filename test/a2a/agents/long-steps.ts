import { setTimeout as delay } from 'node:timers/promises';
import type { Agent } from '../../../src/index.js';

const STEPS = 30;

/** Works long enough to be interrupted, and says something at each step. It goes on after a restart. */
export function setup(agent: Agent): void {
  agent.onTask(
    async (task) => {
      for (let step = 1; step <= STEPS; step++) {
        await delay(60, undefined, { signal: task.signal });
        task.artifact(`${step} `, {
          id: `steps${task.resumed ? ' again' : ''}`,
          append: step > 1,
          lastChunk: step === STEPS,
        });
      }
    },
    { resumable: true },
  );
}
