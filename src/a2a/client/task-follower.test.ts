import { describe, expect, it } from 'vitest';
import { EclipticError } from '../../runtime/errors.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import type { Task } from '../protocol/types.js';
import { CallLimits } from './call-limits.js';
import { TaskFollower } from './task-follower.js';
import type { StreamedEvent, Transport } from './transports.js';

const working: Task = { id: 't1', contextId: 'c1', status: { state: 'TASK_STATE_WORKING' } };
const SILENCE_MS = 300_000;
const gone = () => new EclipticError('FETCH_FAILED', 'connect ECONNREFUSED', { sent: false });

/** Follows a task of an agent that answers once and then does what `after` says. */
function follow(after: (ms: number) => Promise<unknown>, streams: boolean, timeoutMs?: number) {
  const runtime = new SimulatedRuntime();
  const began = runtime.stopwatch();
  const limits = new CallLimits(runtime, { timeoutMs }, { silenceMs: SILENCE_MS });
  const transport: Transport = {
    offers: () => true,
    call: () => after(runtime.stopwatch() - began),
    async *stream(): AsyncGenerator<StreamedEvent> {
      yield { event: { task: (await after(runtime.stopwatch() - began)) as Task }, id: '' };
    },
  };
  async function* first(): AsyncGenerator<StreamedEvent> {
    yield { event: { task: working }, id: '1' };
    throw gone();
  }
  const follower = new TaskFollower({
    transport,
    terms: { limits },
    streams,
    resumes: true,
    role: 'new',
    pollsUntilTimeout: false,
  });
  const states: string[] = [];
  const outcome = (async () => {
    for await (const event of follower.follow(first())) if ('task' in event) states.push(event.task.status.state);
    return 'over';
  })().catch((error: EclipticError) => error);
  return { runtime, outcome, states };
}

describe('a task of a remote agent', () => {
  it.each([true, false])('fails soon after its agent has died, with streams: %s [T-E4]', async (streams) => {
    const { runtime, outcome } = follow(async () => {
      throw gone();
    }, streams);
    let error: unknown;
    void outcome.then((result) => {
      error = result;
    });
    await runtime.advance(60_000);
    expect(error).toMatchObject({ code: 'FETCH_FAILED', details: { sent: true, outcome: 'unknown' } });
    expect((error as EclipticError).message).toContain('task t1');
  });

  it('goes on when its agent is back in time', async () => {
    let calls = 0;
    const { runtime, outcome, states } = follow(async () => {
      if (++calls < 8) throw gone();
      return { ...working, status: { state: 'TASK_STATE_COMPLETED' } };
    }, false);
    await runtime.advance(60_000);
    expect(await outcome).toBe('over');
    expect(states).toEqual(['TASK_STATE_WORKING', 'TASK_STATE_COMPLETED']);
  });

  /** Says something new every four minutes, and is done after an hour. */
  const slowly = async (ms: number): Promise<Task> => {
    const parts = [{ text: `step ${Math.floor(ms / 240_000)}` }];
    const message = { messageId: parts[0]!.text, role: 'ROLE_AGENT' as const, parts };
    return { ...working, status: { state: ms < 3_600_000 ? 'TASK_STATE_WORKING' : 'TASK_STATE_COMPLETED', message } };
  };

  it('is waited for as long as there is news of it, and no longer than its caller says [T-D5]', async () => {
    const [unlimited, limited] = [follow(slowly, false), follow(slowly, false, 600_000)];
    await unlimited.runtime.advance(3_700_000);
    expect(await unlimited.outcome).toBe('over');
    await limited.runtime.advance(600_000);
    expect(await limited.outcome).toMatchObject({ code: 'REQUEST_TIMEOUT', details: { timeoutMs: 600_000 } });
  });

  it('ends when its agent says nothing new for too long, though it answers [T-D5]', async () => {
    const { runtime, outcome } = follow(async () => working, false);
    let ended: unknown;
    void outcome.then((result) => {
      ended = result;
    });
    await runtime.advance(SILENCE_MS - 1_000);
    expect(ended).toBeUndefined();
    await runtime.advance(2_000);
    expect(ended).toMatchObject({ code: 'REQUEST_TIMEOUT', details: { silenceMs: SILENCE_MS } });
  });
});
