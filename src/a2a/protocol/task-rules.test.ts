import { describe, expect, it } from 'vitest';
import {
  requireExtendedCard,
  requireInputModes,
  requireOutputModes,
  requirePush,
  requireStreaming,
} from '../server/offer.js';
import { takeAgentCard } from '../v03/card.js';
import { contextOf, requireContinuable, requireOwn, requireSubscribable } from './task-rules.js';
import type { Message, Task } from './types.js';

const message: Message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'x' }] };
const working: Task = { id: 't', contextId: 'c', status: { state: 'TASK_STATE_WORKING' } };
const ended: Task = { ...working, status: { state: 'TASK_STATE_REJECTED' } };
const code = (name: string) => expect.objectContaining({ code: name });

describe('a task', () => {
  it('of another caller is not found, like one that never was [A2A-1.9.14]', () => {
    const mine = { owner: 'alice' };
    expect(requireOwn(mine, 'alice', 't')).toBe(mine);
    const errors = [mine, undefined].map((found) => {
      try {
        return requireOwn(found, 'bob', 't');
      } catch (error) {
        return JSON.stringify(error);
      }
    });
    expect(errors[0]).toBe(errors[1]);
    expect(errors[0]).toContain('TASK_NOT_FOUND');
  });

  it('is continued by a message that names it and does not contradict it [A2A-1.9.17]', () => {
    expect(requireContinuable(message, undefined)).toBeUndefined();
    expect(requireContinuable({ ...message, taskId: 't' }, working)).toBe(working);
    expect(requireContinuable({ ...message, taskId: 't', contextId: 'c' }, working)).toBe(working);
    expect(() => requireContinuable({ ...message, taskId: 'made up' }, undefined)).toThrow(code('TASK_NOT_FOUND'));
    expect(() => requireContinuable({ ...message, taskId: 't', contextId: 'd' }, working)).toThrow(
      code('INVALID_PARAMS'),
    );
    expect(() => requireContinuable({ ...message, taskId: 't' }, ended)).toThrow(code('OPERATION_NOT_SUPPORTED'));
  });

  it('is in the context that its caller names, or in a new one [A2A-1.9.17]', () => {
    expect(contextOf({ ...message, contextId: 'mine' }, () => 'new')).toBe('mine');
    expect(contextOf(message, () => 'new')).toBe('new');
  });

  it('that ended has no subscribers', () => {
    expect(() => requireSubscribable(working)).not.toThrow();
    expect(() => requireSubscribable(ended)).toThrow(code('OPERATION_NOT_SUPPORTED'));
  });
});

describe('a capability that the card does not declare', () => {
  const plain = takeAgentCard({ name: 'x', version: '1' });
  const able = takeAgentCard({
    name: 'x',
    version: '1',
    capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: true },
  });

  it('is refused by the name that the protocol has for it', () => {
    expect(() => requireStreaming(plain)).toThrow(code('OPERATION_NOT_SUPPORTED'));
    expect(() => requirePush(plain)).toThrow(code('PUSH_NOT_SUPPORTED'));
    expect(() => requireExtendedCard(plain, able)).toThrow(code('OPERATION_NOT_SUPPORTED'));
    expect(() => requireExtendedCard(able, undefined)).toThrow(code('EXTENDED_CARD_NOT_CONFIGURED'));
    expect(requireExtendedCard(able, plain)).toBe(plain);
    expect(() => [requireStreaming(able), requirePush(able)]).not.toThrow();
  });

  it('includes types of content', () => {
    const parts = [{ text: 'a' }, { raw: 'AA', mediaType: 'Image/PNG; q=1' }];
    expect(() => requireInputModes(parts, ['image/*'])).not.toThrow();
    expect(() => requireInputModes(parts, ['*/*'])).not.toThrow();
    expect(() => requireInputModes(parts, ['text/plain'])).toThrow(code('CONTENT_TYPE_NOT_SUPPORTED'));
    expect(() => requireOutputModes(['text/*'], ['text/plain'])).not.toThrow();
    expect(() => requireOutputModes(undefined, ['text/plain'])).not.toThrow();
    expect(() => requireOutputModes(['image/png'], ['text/plain'])).toThrow(code('CONTENT_TYPE_NOT_SUPPORTED'));
  });
});
