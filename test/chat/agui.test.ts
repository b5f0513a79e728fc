import { type BaseEvent, HttpAgent, type RunAgentParameters, type RunFinishedEvent } from '@ag-ui/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { activityParts } from '../../src/agent/task-activity.js';
import { TaskNode } from '../a2a/task-node.js';

let served: TaskNode;

beforeAll(async () => {
  served = await TaskNode.start();
  served.node.agent({ id: 'busy' }).onTask((task) => {
    task.progress('thinking');
    const entries = [{ content: 'look', status: 'pending' as const }];
    task.progress(activityParts('[ ] look', { kind: 'plan', entries }));
    task.progress(activityParts('open: pending', { kind: 'tool-call', id: '1', title: 'open' }));
    task.progress(activityParts('open: done', { kind: 'tool-call', id: '1', title: 'open', status: 'completed' }));
    const id = task.artifact('one ', { lastChunk: false });
    task.artifact('two', { id, append: true });
  });
});

afterAll(() => served.stop());

let threads = 0;

/** The official client, which checks the order and the form of the events. */
function agentAt(id: string, token = served.owner): HttpAgent {
  const headers = { Authorization: `Bearer ${token}` };
  return new HttpAgent({ url: `${served.url}/agui/${id}`, headers, threadId: `thread-${++threads}` });
}

async function run(
  agent: HttpAgent,
  text: string | undefined,
  parameters: RunAgentParameters = {},
): Promise<BaseEvent[]> {
  if (text !== undefined) agent.addMessage({ id: `m-${agent.messages.length}`, role: 'user', content: text });
  const events: BaseEvent[] = [];
  await agent.runAgent(parameters, { onEvent: ({ event }) => void events.push(event) });
  return events;
}

const outcomeOf = (events: readonly BaseEvent[]) => (events.at(-1) as RunFinishedEvent).outcome;

describe('the official AG-UI client', () => {
  it('runs an agent and shows text, reasoning, plan and tool calls, in an order that its checks take [AU.1]', async () => {
    const agent = agentAt('busy');
    const events = await run(agent, 'go');
    expect(events.map(({ type }) => type)).toEqual([
      'RUN_STARTED',
      'REASONING_START',
      'REASONING_MESSAGE_START',
      'REASONING_MESSAGE_CONTENT',
      'REASONING_MESSAGE_END',
      'REASONING_END',
      'ACTIVITY_SNAPSHOT',
      'TOOL_CALL_START',
      'TOOL_CALL_END',
      'TOOL_CALL_RESULT',
      'TEXT_MESSAGE_START',
      'TEXT_MESSAGE_CONTENT',
      'TEXT_MESSAGE_CONTENT',
      'TEXT_MESSAGE_END',
      'RUN_FINISHED',
    ]);
    expect(outcomeOf(events)).toEqual({ type: 'success' });
    expect(agent.messages.at(-1)).toMatchObject({ role: 'assistant', content: 'one two' });
    const quick = agentAt('quick');
    await run(quick, 'you');
    expect(quick.messages.at(-1)).toMatchObject({ role: 'assistant', content: 'hi you' });
  });

  it('gets a question as an interrupt, and resumes or abandons it [AU.2]', async () => {
    const agent = agentAt('asker');
    const outcome = outcomeOf(await run(agent, 'go'));
    expect(outcome).toMatchObject({
      type: 'interrupt',
      interrupts: [{ reason: 'input_required', message: 'which one?' }],
    });
    const { id: interruptId } = (outcome as { interrupts: { id: string }[] }).interrupts[0]!;
    const resume = [{ interruptId, status: 'resolved' as const, payload: { answer: 'that one' } }];
    expect(outcomeOf(await run(agent, undefined, { resume }))).toEqual({ type: 'success' });
    expect(agent.messages.at(-1)).toMatchObject({ content: 'ok: that one' });
    const other = agentAt('asker');
    const asked = outcomeOf(await run(other, 'go')) as { interrupts: { id: string }[] };
    const { id } = asked.interrupts[0]!;
    const given = await run(other, undefined, { resume: [{ interruptId: id, status: 'cancelled' }] });
    expect(outcomeOf(given)).toEqual({ type: 'cancelled' });
    await served.inState(id, 'TASK_STATE_CANCELED');
    // The question of another caller is not there to answer.
    const third = outcomeOf(await run(agentAt('asker'), 'go')) as { interrupts: { id: string }[] };
    const stranger = agentAt('asker', served.token('mallory'));
    const stolen = run(stranger, undefined, { resume: [{ ...resume[0]!, interruptId: third.interrupts[0]!.id }] });
    await expect(stolen).rejects.toThrow('404');
  });

  it('gets failures and refusals as errors of the run, and ends the task of a run that it aborts [AU.3]', async () => {
    for (const [id, reason] of [
      ['broken', 'no disk'],
      ['choosy', 'not for me'],
    ] as const) {
      const seen: unknown[] = [];
      const agent = agentAt(id);
      agent.addMessage({ id: 'm', role: 'user', content: 'x' });
      await agent.runAgent({}, { onRunErrorEvent: ({ event }) => void seen.push(event.message) }).catch(() => {});
      expect(seen).toEqual([reason]);
    }
    await expect(run(agentAt('nobody'), 'x')).rejects.toThrow('404');
    const agent = agentAt('slow');
    const aborted = run(agent, 'aborted run').catch(() => {});
    const { task } = await served.begun('aborted run');
    const stopped = new Promise<void>((resolve) => task.signal.addEventListener('abort', () => resolve()));
    agent.abortRun();
    await Promise.all([aborted, stopped]);
  });
});
