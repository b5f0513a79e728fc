import { describe, expect, it } from 'vitest';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { IdleExit } from './idle-exit.js';

function world(idleMs = 60_000) {
  const runtime = new SimulatedRuntime();
  const state = { busy: true, exits: 0 };
  const idle = new IdleExit(runtime, { idleMs, isBusy: async () => state.busy, exit: () => void state.exits++ });
  return { runtime, state, idle };
}

describe('a node in the background', () => {
  it('exits once, when it was not used for the whole time [BG.2]', async () => {
    const { runtime, state } = world();
    await runtime.advance(600_000);
    expect(state.exits).toBe(0);
    state.busy = false;
    await runtime.advance(50_000);
    expect(state.exits).toBe(0);
    state.busy = true;
    await runtime.advance(10_000);
    state.busy = false;
    await runtime.advance(50_000);
    expect(state.exits).toBe(0);
    await runtime.advance(20_000);
    expect(state.exits).toBe(1);
    await runtime.advance(600_000);
    expect(state.exits).toBe(1);
  });

  it('does not exit after it was stopped [BG.2]', async () => {
    const { runtime, state, idle } = world();
    state.busy = false;
    idle.stop();
    await runtime.advance(600_000);
    expect(state.exits).toBe(0);
  });
});
