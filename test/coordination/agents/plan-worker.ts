import { appendFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { Agent } from '../../../src/index.js';

interface Given {
  readonly task: string;
  readonly attempt: number;
  readonly input?: { failures?: number; takesMs?: number };
  readonly results: Readonly<Record<string, { of: string }>>;
}

/** Works on a plan's tasks for a moment each, and writes down every attempt that it begins, in the node's folder. */
export function setup(agent: Agent): void {
  agent.onTask(async (task) => {
    const data = task.message.parts.find((part) => part.data !== undefined)!.data as Given & { subTask?: string };
    // A sub-task of a swarm contains the input of the whole task.
    const given = data.subTask === undefined ? data : (data.input as unknown as Given);
    appendFileSync('begun.log', `${JSON.stringify([data.subTask ?? given.task, given.attempt])}\n`);
    task.progress(`at ${given.task}`);
    await delay(given.input?.takesMs ?? 10 + Math.random() * 50);
    if (given.attempt <= (given.input?.failures ?? 0)) throw new Error(`${given.task} is hard`);
    return { of: data.subTask ?? given.task, from: Object.values(data.results).map(({ of }) => of) };
  });
  agent.onRequest(() => ({ verdict: 'approved' }));
}
