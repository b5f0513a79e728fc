import { appendFileSync, existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { Agent } from '../../../src/index.js';
import type { TaskInput } from '../../../src/plans/dispatcher.js';

/** What a test wants of the worker. */
interface Wish {
  readonly result?: unknown;
  /** Work until this file is in the node's folder. */
  readonly until?: string;
  readonly fails?: string;
  readonly usage?: object;
}

/** Gives the results that a plan asks for in its inputs, and writes down every attempt that it begins. */
export function setup(agent: Agent): void {
  agent.onTask(async (task) => {
    const given = task.message.parts.find((part) => part.data !== undefined)!.data as TaskInput;
    const { result, until, fails, usage } = (given.input ?? {}) as Wish;
    appendFileSync('begun.log', `${given.task}.${given.attempt}\n`);
    if (usage) task.progress({ data: { 'ecliptic/usage': usage } });
    while (until !== undefined && !existsSync(until)) await delay(20);
    if (fails !== undefined) throw new Error(fails);
    return result ?? `# ${given.task}\n\nAttempt ${given.attempt}.`;
  });
}
