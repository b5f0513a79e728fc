import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Approval, advance, EMPTY, isDecided, nextDue, type Queue, type QueueEvent } from './approval-queue.js';

const item = (id: string, more: Partial<Approval> = {}): Approval => ({
  id,
  kind: 'write',
  subject: 'notes.txt',
  summary: 'may it write?',
  details: {},
  createdAt: 0,
  ...more,
});

const queueAfter = (...events: readonly QueueEvent[]): Queue =>
  events.reduce((queue, event) => advance(queue, event).next, EMPTY);
const requested = (...items: Approval[]): QueueEvent => ({ type: 'requested', items });
const decided = (id: string, verdict: 'allow-once' | 'allow-always' | 'deny', at = 1): QueueEvent => ({
  type: 'decided',
  ids: [id],
  verdict,
  by: 'operator',
  at,
});

describe('the approval queue [UP9]', () => {
  it('keeps a question until it is decided, once', () => {
    const queue = queueAfter(requested(item('a')), decided('a', 'deny'), decided('a', 'allow-once', 2));
    expect(queue.items).toEqual([item('a', { decision: { verdict: 'deny', by: 'operator', at: 1 } })]);
  });

  it('decides a question that is always allowed, and no other', () => {
    const before = queueAfter(requested(item('a')), decided('a', 'allow-always'));
    const { decided: found } = advance(before, requested(item('b'), item('c', { subject: 'other.txt' })));
    expect(found).toEqual([item('b', { decision: { verdict: 'allow-always', by: 'standing', at: 0 } })]);
    expect(queueAfter(requested(item('a')), decided('a', 'allow-once')).standing).toEqual([]);
  });

  it('denies a question without a decision in time', () => {
    const queue = queueAfter(requested(item('a', { expiresAt: 10 }), item('b', { expiresAt: 20 }), item('c')));
    expect(nextDue(queue)).toBe(10);
    expect(advance(queue, { type: 'due', at: 9 }).next).toBe(queue);
    const { next, decided: late } = advance(queue, { type: 'due', at: 10 });
    expect(late.map(({ id, decision }) => [id, decision])).toEqual([['a', { verdict: 'deny', by: 'timeout', at: 10 }]]);
    expect(nextDue(next)).toBe(20);
  });

  it('forgets withdrawn questions, but no decision', () => {
    const queue = queueAfter(requested(item('a'), item('b')), decided('a', 'deny'), {
      type: 'withdrawn',
      ids: ['a', 'b'],
    });
    expect(queue.items.map(({ id }) => id)).toEqual(['a']);
  });

  it('never changes a decision, loses a question or decides twice, whatever happens', () => {
    const id = fc.constantFrom('a', 'b', 'c', 'd');
    const event = fc.oneof(
      fc.record({ type: fc.constant('due' as const), at: fc.nat(50) }),
      fc.record({ type: fc.constant('withdrawn' as const), ids: fc.array(id) }),
      fc.record({
        type: fc.constant('decided' as const),
        ids: fc.array(id),
        verdict: fc.constantFrom('allow-once' as const, 'allow-always' as const, 'deny' as const),
        by: fc.constant('operator'),
        at: fc.nat(50),
      }),
    );
    fc.assert(
      fc.property(fc.array(event), (events) => {
        let queue = queueAfter(requested(item('a'), item('b', { subject: 'b' }), item('c', { expiresAt: 25 })));
        for (const one of events) {
          const { next, decided: found } = advance(queue, one);
          for (const before of queue.items) {
            const now = next.items.find((later) => later.id === before.id);
            if (isDecided(before)) expect(now).toBe(before);
            else if (!now) expect(one.type).toBe('withdrawn');
          }
          expect(
            found.every((some) => isDecided(some) && !isDecided(queue.items.find((old) => old.id === some.id)!)),
          ).toBe(true);
          queue = next;
        }
      }),
    );
  });
});
