import { describe, expect, expectTypeOf, it } from 'vitest';
import { API, checkParams, type EventOf, type Method, type ParamsOf, type ResultOf } from './api.js';
import type { ControlClient } from './client.js';
import { completeId } from './context.js';
import { operationMethods } from './operation-methods.js';
import type { AgentRow, SwarmEvent } from './rows.js';

const refused = (method: Method, params: object) => {
  try {
    checkParams(method, params);
  } catch (error) {
    return error;
  }
  return undefined;
};

const ALONE = { emit: () => {}, drained: async () => {}, signal: new AbortController().signal };

describe('the parameters of an operation', () => {
  it.each<[Method, object, string, string]>([
    ['send', { to: 'mars', payload: 1 }, 'as', '"as" must be a non-empty string'],
    ['send', { as: '', to: 'mars', payload: 1 }, 'as', '"as" must be a non-empty string'],
    ['send', { as: 'sun', to: 'mars' }, 'payload', '"payload" must be given'],
    ['send', { as: 'sun', to: 'mars', payload: 1, type: 'gossip' }, 'type', '"type" must be one of '],
    ['send', { as: 'sun', to: 'mars', payload: 1, ttlMs: '5s' }, 'ttlMs', '"ttlMs" must be a number'],
    ['send', { as: 'sun', to: 'mars', payload: 1, durable: 'yes' }, 'durable', '"durable" must be a boolean'],
    ['runs', { limit: 1.5 }, 'limit', '"limit" must be a whole number'],
    ['runs', { limit: -1 }, 'limit', '"limit" must be a whole number'],
    ['tasks', { state: 'asleep' }, 'state', '"state" must be one of '],
    ['call', { tool: 'a.b', arguments: [] }, 'arguments', '"arguments" must be a JSON object'],
    ['prompt', { name: 'a.b', arguments: { n: 1 } }, 'arguments', '"arguments" must be an object of strings'],
    ['invite', { tiers: [4] }, 'tiers', '"tiers" must be a list of tiers, each 0, 1, 2 or 3'],
    ['invite', { tiers: [] }, 'tiers', '"tiers" must be a list of tiers'],
    ['owner.done', { ids: ['a', ''] }, 'ids', '"ids" must be a list of texts'],
    ['approvals.decide', { verdict: 'maybe' }, 'verdict', '"verdict" must be one of allow-once, allow-always, deny'],
  ])('of %s with %j name the wrong one', (method, params, parameter, message) => {
    expect(refused(method, params)).toMatchObject({
      code: 'USAGE',
      message: expect.stringContaining(message),
      details: { parameter },
    });
  });

  it('keep a payload as it is, null included, and drop what the operation does not know', () => {
    const payload = { deep: [{ a: null }] };
    expect(checkParams('send', { as: 'sun', to: 'mars', payload, more: 1 })).toEqual({
      as: 'sun',
      to: 'mars',
      payload,
    });
    expect(checkParams('broadcast', { as: 'sun', payload: null })).toEqual({ as: 'sun', payload: null });
  });

  it('take the state of a task in its short and in its long form', () => {
    for (const state of ['input-required', 'INPUT_REQUIRED', 'TASK_STATE_INPUT_REQUIRED']) {
      expect(checkParams('tasks', { state })).toEqual({ state: 'TASK_STATE_INPUT_REQUIRED' });
    }
  });
});

describe('the types of the client', () => {
  it('come from the table', () => {
    expectTypeOf<ResultOf<'agents'>>().toEqualTypeOf<AgentRow[]>();
    expectTypeOf<EventOf<'swarm.follow'>>().toEqualTypeOf<SwarmEvent>();
    expectTypeOf<ParamsOf<'card'>>().toEqualTypeOf<{ id: string }>();
    expectTypeOf<ControlClient['call']>().toBeCallableWith('peers');
    expect(Object.keys(API).length).toBeGreaterThan(90);
  });
});

describe('a shortened id', () => {
  it('is completed, stays as it is where nothing begins with it, and is refused where several do', () => {
    expect(completeId('01JA', ['01JAB', '01JC'])).toBe('01JAB');
    expect(completeId('01JX', ['01JAB', '01JC'])).toBe('01JX');
    expect(completeId('01J', ['01J', '01JC'])).toBe('01J');
    expect(() => completeId('01', ['01JAB', '01JC'])).toThrowError(expect.objectContaining({ code: 'AMBIGUOUS_ID' }));
  });

  it('names an approval request', () => {
    const decided: string[] = [];
    const items = [{ id: '01JAB' }, { id: '01JC' }];
    const approvals = {
      items,
      waiting: items,
      decide: (_: string, __: string, ...ids: string[]) => decided.push(...ids),
    };
    const context = { node: { providers: {} }, approvals } as unknown as Parameters<typeof operationMethods>[0];
    operationMethods(context)['approvals.decide']({ verdict: 'deny', ids: ['01JA'] }, ALONE);
    expect(decided).toEqual(['01JAB']);
  });
});
