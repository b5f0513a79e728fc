import { setTimeout as delay } from 'node:timers/promises';
import type { Agent } from '../../../src/index.js';

/** An agent that needs a while for each sub-task, and returns its own name. */
export function setup(agent: Agent): void {
  agent.onTask(async (task) => {
    const { subTask, results } = task.message.parts[1]!.data as { subTask: string; results: Record<string, unknown> };
    task.progress(`at ${subTask}`);
    await delay(100 + Math.random() * 300);
    return { subTask, by: agent.id, pid: process.pid, after: Object.keys(results) };
  });
}
