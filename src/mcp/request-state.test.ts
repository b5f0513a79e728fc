import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arbJson } from '../../test/generators.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import type { Ask } from './call.js';
import { RequestState } from './request-state.js';

const HOUR_MS = 60 * 60_000;
const ASK: Ask = { kind: 'tool', name: 'deploy', arguments: { target: 'login', force: false } };

describe('sealed request state', () => {
  it('is returned unchanged', () => {
    const { state } = start();
    fc.assert(
      fc.property(arbJson(), (value) => {
        expect(state.open(state.seal(value, 'alice', ASK), 'alice', ASK)).toEqual(value);
      }),
    );
  });

  it('is accepted whatever the order of the arguments', () => {
    const { state } = start();
    const same: Ask = { arguments: { force: false, target: 'login' }, name: 'deploy', kind: 'tool' };
    expect(state.open(state.seal(1, 'alice', ASK), 'alice', same)).toBe(1);
  });

  it('is refused when any of it was changed, removed or added', () => {
    const { state } = start();
    const sealed = state.seal({ approved: false }, 'alice', ASK);
    for (let at = 0; at < sealed.length; at++) {
      for (const other of ['A', 'B', '.', '', `${sealed[at]}=`, '\u0000']) {
        if (other === sealed[at]) continue;
        refuses(() => state.open(sealed.slice(0, at) + other + sealed.slice(at + 1), 'alice', ASK));
      }
    }
    for (const more of ['', '.', '.x', ' ', '=', '\n', sealed, `.${sealed}`]) {
      if (more) refuses(() => state.open(sealed + more, 'alice', ASK));
    }
    for (const made of ['', '.', '..', 'a.b', 'e30.', sealed.split('.')[0]!]) {
      refuses(() => state.open(made, 'alice', ASK));
    }
  });

  it('is accepted from its caller only', () => {
    const { state } = start();
    refuses(() => state.open(state.seal(1, 'alice', ASK), 'bob', ASK));
  });

  it.each<[string, Ask]>([
    ['other arguments', { ...ASK, arguments: { target: 'billing', force: false } }],
    ['an argument more', { ...ASK, arguments: { ...ASK.arguments, loud: true } }],
    ['another tool', { ...ASK, name: 'destroy' }],
    ['a prompt of the same name', { kind: 'prompt', name: 'deploy', arguments: {} }],
  ])('is refused with %s', (_, other) => {
    const { state } = start();
    refuses(() => state.open(state.seal(1, 'alice', ASK), 'alice', other));
  });

  it('is accepted by the agent that sealed it only', () => {
    const { state } = start();
    const sealed = state.of('mars').seal(1, 'alice', ASK);
    expect(state.of('mars').open(sealed, 'alice', ASK)).toBe(1);
    refuses(() => state.of('venus').open(sealed, 'alice', ASK));
    refuses(() => state.open(sealed, 'alice', ASK));
  });

  it('is valid for an hour', async () => {
    const { state, runtime } = start();
    const sealed = state.seal(1, 'alice', ASK);
    await runtime.advance(HOUR_MS);
    expect(state.open(sealed, 'alice', ASK)).toBe(1);
    await runtime.advance(1);
    refuses(() => state.open(sealed, 'alice', ASK), 'it is too old');
  });

  it('is refused by another node', () => {
    refuses(() => start(2).state.open(start(1).state.seal(1, 'alice', ASK), 'alice', ASK));
  });
});

function start(seed = 1) {
  const runtime = new SimulatedRuntime({ seed });
  return { runtime, state: new RequestState(runtime) };
}

function refuses(act: () => unknown, reason = 'it was not made here'): void {
  expect(act).toThrow(expect.objectContaining({ code: 'INVALID_REQUEST_STATE', details: { reason } }));
}
