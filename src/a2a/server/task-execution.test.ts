import { describe, expect, it } from 'vitest';
import type { AgentTask } from '../../agent/agent-tasks.js';
import { TaskCall } from '../../agent/task-call.js';
import { createNode } from '../../node/compose.js';
import { DeadlineQueue } from '../../runtime/deadlines.js';
import type { Amount } from '../../runtime/fair-shares.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { MemoryTaskRecords } from './task-records.js';
import { TaskService } from './task-service.js';
import type { TaskTimeLimits } from './task-terms.js';

const MINUTE = 60_000;

/** A task service on a simulated clock, and the task that the agent `mars` was given last. */
async function start(limits?: TaskTimeLimits, underWay?: Amount, records = new MemoryTaskRecords(), nodeKey?: string) {
  const runtime = new SimulatedRuntime();
  const node = await createNode({ runtime });
  const caller = node.agent({ id: 'sun', tier: 0 }).onMessage(() => {});
  const given: AgentTask[] = [];
  node.agent({ id: 'mars' }).onTask((task) => {
    given.push(task);
    return new Promise(() => {});
  });
  const tasks = new TaskService({
    nodeKey,
    runtime,
    deadlines: new DeadlineQueue(runtime),
    records,
    startCall: ({ agent }, opening, listener) => new TaskCall(runtime, caller, agent, opening, listener),
    chooseAgent: () => 'mars',
    onTask: () => {},
    limits,
    underWay,
  });
  const send = async (timeoutMs?: number, owner = 'sun', text = 'go') => {
    const message = { messageId: runtime.id(), role: 'ROLE_USER' as const, parts: [{ text }] };
    const sent = tasks.send(owner, { message, configuration: { returnImmediately: true } }, { timeoutMs });
    await runtime.advance(1_000);
    const taken = await sent;
    if ('message' in taken) throw new Error('there is no task');
    return taken.stored;
  };
  return { runtime, send, given, tasks };
}

describe('a task', () => {
  it('names its node in its id, and is found without the node if an earlier release made it [EG.1]', async () => {
    const key = 'ab'.repeat(32);
    const records = new MemoryTaskRecords();
    const { id: old } = await (await start({}, undefined, records)).send();
    expect(old).toMatch(/^[0-9A-Z]{26}$/);
    const { tasks, send, runtime } = await start({}, undefined, records, key);
    await runtime.advance(5_000);
    const { id } = await send();
    expect(id).toMatch(new RegExp(`^[0-9A-Z]{26}\\.${key}$`));
    for (const name of [old, `${old}.${key}`]) expect((await tasks.get('sun', name)).model.task.id).toBe(old);
    // Every node finds a task by the id that a list shows.
    const { tasks: listed } = await tasks.list('sun', {});
    expect(listed.map((task) => task.id).sort()).toEqual([`${old}.${key}`, id].sort());
    for (const name of [`${old}.${'cd'.repeat(32)}`, id.slice(0, 26), `${id}.${key}`]) {
      await expect(tasks.get('sun', name)).rejects.toMatchObject({ code: 'TASK_NOT_FOUND' });
    }
    expect((await tasks.cancel('sun', `${old}.${key}`)).status.state).toBe('TASK_STATE_CANCELED');
  });

  it('lives as long as its agent makes progress, and fails when it makes none for five minutes [T-D5]', async () => {
    const { runtime, send, given } = await start();
    const stored = await send();
    for (let round = 0; round < 20; round++) {
      await runtime.advance(4 * MINUTE);
      if (round % 3 === 0) given[0]!.usage({ modelCalls: 1 });
      else if (round % 2 === 0) given[0]!.progress(`${round}`);
      else given[0]!.artifact(`${round}`);
    }
    await runtime.advance(4 * MINUTE);
    expect(stored.state).toBe('TASK_STATE_WORKING');
    await runtime.advance(2 * MINUTE);
    expect(stored.state).toBe('TASK_STATE_FAILED');
    expect(stored.task.status.message?.parts).toEqual([{ text: 'Task timed out' }]);
    expect(given[0]!.signal.aborted).toBe(true);
  });

  it('may be without progress, and wait for an answer, as long as the limits say [T-D5]', async () => {
    const { runtime, send, given } = await start({ idleMs: 30 * MINUTE, questionMs: 10 * MINUTE });
    const silent = await send();
    await runtime.advance(29 * MINUTE);
    expect(silent.state).toBe('TASK_STATE_WORKING');
    await runtime.advance(2 * MINUTE);
    expect(silent.state).toBe('TASK_STATE_FAILED');
    const asking = await send();
    given[1]!.ask('Which?').catch(() => {});
    await runtime.advance(9 * MINUTE);
    expect(asking.state).toBe('TASK_STATE_INPUT_REQUIRED');
    await runtime.advance(2 * MINUTE);
    expect(asking.state).toBe('TASK_STATE_FAILED');
  });

  it('ends in the time that its caller sets, progress or not [T-D5 GI6]', async () => {
    const { runtime, send, given } = await start();
    const stored = await send(2 * MINUTE);
    for (let round = 0; round < 5; round++) {
      await runtime.advance(MINUTE / 2);
      given[0]!.progress(`${round}`);
    }
    expect(stored.state).toBe('TASK_STATE_FAILED');
  });
});

describe('a caller that fills the tasks under way', () => {
  it('shuts out no other caller [T-F3]', async () => {
    const { send } = await start({}, { items: 10, bytes: 1_000_000 });
    for (let sent = 0; sent < 10; sent++) await send(undefined, 'greedy');
    await expect(send(undefined, 'greedy')).rejects.toMatchObject({ code: 'QUEUE_FULL' });
    for (let sent = 0; sent < 5; sent++) await send(undefined, 'honest');
    await expect(send(undefined, 'honest')).rejects.toMatchObject({ code: 'QUEUE_FULL' });
    await expect(send(undefined, 'third')).resolves.toBeDefined();
  });

  it('with large messages is limited by their bytes, under way and in a minute [T-F4]', async () => {
    const { send } = await start({}, { items: 1_000, bytes: 3_000_000 });
    const large = 'x'.repeat(1_000_000);
    for (let sent = 0; sent < 3; sent++) await send(undefined, 'greedy', large);
    await expect(send(undefined, 'greedy', large)).rejects.toMatchObject({ code: 'QUEUE_FULL' });
    await expect(send(undefined, 'honest', large)).resolves.toBeDefined();
    const wide = await start();
    const fill = () => {
      for (let sent = 0; sent < 100; sent++) {
        const message = { messageId: `m${sent}`, role: 'ROLE_USER' as const, parts: [{ text: large }] };
        void Promise.resolve(wide.tasks.send('greedy', { message, configuration: { returnImmediately: true } }));
      }
    };
    expect(fill).toThrow(expect.objectContaining({ code: 'RATE_LIMITED' }));
    await expect(wide.send(undefined, 'honest', large)).resolves.toBeDefined();
    await wide.runtime.advance(MINUTE);
    await expect(wide.send(undefined, 'greedy', large)).resolves.toBeDefined();
  });

  it('does not end for its time limit while its agent waits for a decision of its owner [AP.3]', async () => {
    const { runtime, send, given } = await start({ idleMs: 5 * MINUTE });
    const stored = await send();
    given[0]!.waiting(1, 'waits for its owner’s approval');
    await runtime.advance(60 * MINUTE);
    expect(stored.task.status).toMatchObject({
      state: 'TASK_STATE_WORKING',
      message: { parts: [{ text: 'waits for its owner’s approval' }] },
    });
    given[0]!.waiting(0, 'allowed');
    await runtime.advance(4 * MINUTE);
    expect(stored.state).toBe('TASK_STATE_WORKING');
    await runtime.advance(2 * MINUTE);
    expect(stored.state).toBe('TASK_STATE_FAILED');
  });

  it('with a limit of its caller has as much time after such a decision as it had before [AP.3]', async () => {
    const { runtime, send, given } = await start();
    const stored = await send(10 * MINUTE);
    await runtime.advance(6 * MINUTE);
    given[0]!.waiting(1);
    await runtime.advance(60 * MINUTE);
    given[0]!.waiting(0);
    await runtime.advance(3 * MINUTE);
    expect(stored.state).toBe('TASK_STATE_WORKING');
    await runtime.advance(2 * MINUTE);
    expect(stored.state).toBe('TASK_STATE_FAILED');
  });
});
