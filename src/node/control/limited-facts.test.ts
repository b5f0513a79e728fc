import { describe, expect, it } from 'vitest';
import type { Story, WaitingItem } from '../../http/dashboard/facts.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import { limitedItems, limitedStory, ownOf } from './limited-facts.js';

const registry = {
  nodeKey: 'k',
  ownEntry: (id: string) => (id === 'rat' || id === 'mouse' ? { sandboxId: 'lab' } : { sandboxId: undefined }),
} as unknown as AgentRegistry;
const caller = (address: string, sandboxId?: string) => ({ address, node: undefined, tier: 3, sandboxId }) as const;

function story(kind: Story['kind'], parties: readonly string[]): Story {
  const events = parties.slice(1).map((to) => ({ from: parties[0], to, text: `to ${to}` }));
  const waits = { for: 'sun', since: 1, until: null, reason: 'the plan of sun' };
  const payload = { text: 'secret', chars: 6, cut: false, json: false };
  return {
    id: '01A',
    kind,
    title: 'a plan',
    parties,
    events,
    waits,
    payload,
    related: [],
    left: 4,
  } as unknown as Story;
}

describe('what concerns a caller who is not the owner', () => {
  it('is itself and the agents of its sandbox [FC.25]', () => {
    const lab = ownOf(caller('visitor', 'lab'), registry);
    expect(['visitor', 'visitor@k', 'rat', 'sun', 'rat@other', null].map(lab)).toEqual([
      ...[true, true, true],
      ...[false, false, false],
    ]);
    expect(ownOf(caller('bob'), registry)('sun')).toBe(false);
  });

  it('is a message, if it is an end of it, and only its own part of a conversation of many [FC.25]', () => {
    const bob = ownOf(caller('bob'), registry);
    expect(limitedStory(story('message', ['sun', 'bob']), bob)).toMatchObject({
      payload: { text: 'secret' },
      again: null,
    });
    expect(() => limitedStory(story('message', ['sun', 'mars']), bob)).toThrow('nothing with the id');
    const part = limitedStory(story('thread', ['sun', 'mars', 'bob']), bob);
    expect(part.events.map(({ to }) => to)).toEqual(['bob']);
    expect(part).toMatchObject({ title: 'thread', parties: ['sun', 'bob'], payload: null, waits: null, left: 0 });
    expect(limitedStory(story('message', ['sun', 'mars', 'bob']), bob).payload).toBeNull();
  });

  it('is the owner’s decision that it waits for, without held mail and changed tools [FC.25]', () => {
    const items = [
      { kind: 'approval', from: 'bob' },
      { kind: 'approval', from: 'mars' },
      { kind: 'held', from: 'bob' },
      { kind: 'tool', from: 'bob' },
    ] as WaitingItem[];
    expect(limitedItems(items, ownOf(caller('bob'), registry))).toEqual([items[0]]);
  });
});
