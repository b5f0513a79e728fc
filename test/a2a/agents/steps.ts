import { setTimeout as delay } from 'node:timers/promises';
import type { Agent } from '../../../src/index.js';

/** Works on a task in steps, and says something at each. One whose text says so can go on after a restart. */
export function setup(agent: Agent): void {
  const resumable = agent.id === 'stubborn';
  agent.onTask(
    async (task) => {
      for (let step = 1; step <= 5; step++) {
        task.progress(`step ${step}`);
        await delay(Math.random() * 20, undefined, { signal: task.signal });
        task.artifact(`piece ${step}`, { id: 'pieces', append: step > 1, lastChunk: step === 5 });
      }
      return `done with ${task.text}`;
    },
    { resumable },
  );
}
