import { describe, expect, it } from 'vitest';
import { lastAgentText, projectState, projectTask, textOf } from './simple.js';
import { endsStream, settlesSend } from './task-rules.js';
import type { Message, Task } from './types.js';
import { TASK_STATES } from './types.js';

const user: Message = { messageId: 'u', role: 'ROLE_USER', parts: [{ text: 'question' }] };
const agent: Message = { messageId: 'a', role: 'ROLE_AGENT', parts: [{ text: 'one' }, { data: { two: 2 } }] };

describe('the simple view', () => {
  it('has four states', () => {
    expect(
      Object.fromEntries(TASK_STATES.map((state) => [state.replace('TASK_STATE_', ''), projectState(state)])),
    ).toEqual({
      UNSPECIFIED: 'submitted',
      SUBMITTED: 'submitted',
      WORKING: 'working',
      COMPLETED: 'completed',
      FAILED: 'failed',
      CANCELED: 'failed',
      INPUT_REQUIRED: 'working',
      REJECTED: 'failed',
      AUTH_REQUIRED: 'working',
    });
  });

  it('shows a task with its messages, the message of its status, and its artifacts', () => {
    const task: Task = {
      id: 't',
      contextId: 'c',
      status: { state: 'TASK_STATE_COMPLETED', message: agent, timestamp: '2026-01-01T00:00:01.000Z' },
      history: [user],
      artifacts: [{ artifactId: 'r', parts: [{ text: 'result' }] }],
    };
    const simple = projectTask(task, { sessionId: 's', createdAt: '2026-01-01T00:00:00.000Z' });
    expect(simple).toEqual({
      id: 't',
      state: 'completed',
      messages: [
        { role: 'user', parts: [{ type: 'text', text: 'question' }] },
        {
          role: 'agent',
          parts: [
            { type: 'text', text: 'one' },
            { type: 'text', text: '{"two":2}' },
          ],
        },
        { role: 'agent', parts: [{ type: 'text', text: 'result' }] },
      ],
      sessionId: 's',
      createdAt: '2026-01-01T00:00:00.000Z',
      updatedAt: '2026-01-01T00:00:01.000Z',
    });
    expect(lastAgentText(simple.messages)).toBe('result');
    expect(lastAgentText(simple.messages.slice(0, 2))).toBe('one\n{"two":2}');
    expect(lastAgentText(simple.messages.slice(0, 1))).toBeUndefined();
  });

  it('does not show a message twice that stands in history and status', () => {
    const task: Task = {
      id: 't',
      contextId: 'c',
      status: { state: 'TASK_STATE_WORKING', message: agent },
      history: [user, agent],
    };
    expect(projectTask(task, { sessionId: null, createdAt: 'then' }).messages).toHaveLength(2);
  });

  it('has words for parts that are not text', () => {
    expect(
      textOf([{ text: 'a' }, { data: null }, { url: 'https://a.example' }, { raw: 'AA', filename: 'f.bin' }]),
    ).toBe('a\nnull\nhttps://a.example\n[f.bin]');
  });
});

describe('a task that waits for its caller', () => {
  it('lets a blocking send return, as one that ended does [A2A-1.9.4]', () => {
    expect(TASK_STATES.filter(settlesSend).map((state) => state.replace('TASK_STATE_', ''))).toEqual([
      'COMPLETED',
      'FAILED',
      'CANCELED',
      'INPUT_REQUIRED',
      'REJECTED',
      'AUTH_REQUIRED',
    ]);
  });

  it('keeps its streams open, unlike one that ended [A2A-1.9.7]', () => {
    expect(TASK_STATES.filter((state) => settlesSend(state) && !endsStream(state))).toEqual([
      'TASK_STATE_INPUT_REQUIRED',
      'TASK_STATE_AUTH_REQUIRED',
    ]);
  });
});
