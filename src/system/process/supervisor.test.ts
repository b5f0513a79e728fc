import { describe, expect, it } from 'vitest';
import { EclipticError } from '../../runtime/errors.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import { Children } from './children.js';
import type { RestartPolicy } from './supervision.js';
import { type Running, Supervisor } from './supervisor.js';

/** Something that runs until it is told to crash or stop, and takes its time to go. */
class Fake implements Running {
  readonly exited: Promise<void>;
  crash = () => {};
  readonly #runtime: SimulatedRuntime;
  readonly #stopMs: number;
  #gone: Promise<void> | undefined;

  constructor(runtime: SimulatedRuntime, stopMs = 0) {
    this.#runtime = runtime;
    this.#stopMs = stopMs;
    this.exited = new Promise((resolve) => {
      this.crash = resolve;
    });
  }

  failure(): EclipticError {
    return new EclipticError('PROCESS_ENDED', 'it crashed');
  }

  stop(): Promise<void> {
    this.crash();
    this.#gone ??= new Promise((resolve) => this.#runtime.setTimer(resolve, this.#stopMs));
    return this.#gone;
  }
}

function setUp(init: { restart?: Partial<RestartPolicy>; stopMs?: number; seed?: number } = {}) {
  const runtime = new SimulatedRuntime({ seed: init.seed ?? 1 });
  const states: string[] = [];
  const fakes: Fake[] = [];
  let start = async (_signal: AbortSignal): Promise<Fake> => new Fake(runtime, init.stopMs);
  const supervisor = new Supervisor<Fake>(runtime, {
    name: 'fake',
    start: async (signal) => {
      const fake = await start(signal);
      fakes.push(fake);
      return fake;
    },
    onState: (state) => states.push(state.kind),
    restart: init.restart ?? {},
  });
  return {
    ...{ runtime, states, fakes, supervisor },
    startWith: (other: typeof start) => {
      start = other;
    },
  };
}

describe('a supervisor', () => {
  it('starts and stops its subject', async () => {
    const { supervisor, runtime, states, fakes } = setUp();
    expect(supervisor.subject).toBeUndefined();
    supervisor.start();
    supervisor.start();
    await runtime.advance(0);
    expect(supervisor.subject).toBe(fakes[0]);
    const stopped = Promise.all([supervisor.stop(), supervisor.stop()]);
    await runtime.advance(0);
    await stopped;
    expect(states).toEqual(['starting', 'running', 'stopping', 'idle']);
    expect(supervisor.subject).toBeUndefined();
    expect(fakes).toHaveLength(1);
    expect(runtime.pending).toBe(0);
  });

  it('restarts after a crash, when the old subject is gone and the delay is over', async () => {
    const { supervisor, runtime, states, fakes } = setUp({ stopMs: 5_000 });
    supervisor.start();
    await runtime.advance(0);
    fakes[0]!.crash();
    await runtime.advance(0);
    expect(supervisor.state).toMatchObject({ kind: 'backing-off', reason: { code: 'PROCESS_ENDED' } });
    await runtime.advance(4_999);
    expect(supervisor.state.kind).toBe('starting');
    expect(fakes).toHaveLength(1);
    await runtime.advance(1);
    expect(supervisor.subject).toBe(fakes[1]);
    expect(states).toEqual(['starting', 'running', 'backing-off', 'starting', 'running']);
  });

  it('gives up after repeated crashes, and starts again on request', async () => {
    const { supervisor, runtime, startWith } = setUp();
    let starts = 0;
    startWith(() => {
      starts++;
      return Promise.reject(new EclipticError('PROCESS_START_FAILED', 'cannot start fake'));
    });
    supervisor.start();
    await runtime.advance(3_600_000);
    expect(supervisor.state).toMatchObject({ kind: 'failed', reason: { code: 'PROCESS_START_FAILED' } });
    expect(starts).toBe(5);
    startWith(async () => new Fake(runtime));
    supervisor.restart();
    await runtime.advance(0);
    expect(supervisor.state.kind).toBe('running');
  });

  it('uses different delays in different runs', async () => {
    const delays = new Set<number>();
    for (let seed = 1; seed <= 10; seed++) {
      const { supervisor, runtime, startWith } = setUp({ seed });
      startWith(() => Promise.reject(new EclipticError('PROCESS_START_FAILED', 'no')));
      supervisor.start();
      await runtime.advance(0);
      if (supervisor.state.kind === 'backing-off') delays.add(supervisor.state.delayMs);
    }
    expect(delays.size).toBe(10);
  });

  it('restarts at once on request while it backs off', async () => {
    const { supervisor, runtime, fakes } = setUp();
    supervisor.start();
    await runtime.advance(0);
    fakes[0]!.crash();
    await runtime.advance(0);
    supervisor.restart();
    await runtime.advance(0);
    expect(supervisor.subject).toBe(fakes[1]);
    expect(runtime.pending).toBe(0);
  });

  it('replaces the running subject on restart', async () => {
    const { supervisor, runtime, states, fakes } = setUp({ stopMs: 100 });
    supervisor.start();
    await runtime.advance(0);
    supervisor.restart();
    await runtime.advance(99);
    expect(fakes).toHaveLength(1);
    await runtime.advance(1);
    expect(supervisor.subject).toBe(fakes[1]);
    expect(states).toEqual(['starting', 'running', 'stopping', 'starting', 'running']);
  });

  it('aborts a start that is no longer wanted, and waits for its end', async () => {
    const { supervisor, runtime, states, startWith } = setUp();
    startWith((signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))));
    supervisor.start();
    await runtime.advance(0);
    await supervisor.stop();
    expect(states).toEqual(['starting', 'stopping', 'idle']);
    expect(runtime.pending).toBe(0);
  });

  it('stops a subject that starts after the stop', async () => {
    const { supervisor, runtime, fakes, startWith } = setUp();
    startWith(() => new Promise((resolve) => runtime.setTimer(() => resolve(new Fake(runtime, 10)), 1_000)));
    supervisor.start();
    await runtime.advance(0);
    const stopped = supervisor.stop();
    await runtime.advance(1_010);
    await stopped;
    expect(fakes).toHaveLength(1);
    expect(supervisor.state.kind).toBe('idle');
  });

  it('counts a slow start as a crash, even if it succeeds later', async () => {
    for (const heeds of [true, false]) {
      const { supervisor, runtime, startWith } = setUp({ restart: { startMs: 100, maxCrashes: 1 } });
      startWith(
        (signal) =>
          new Promise((resolve, reject) => {
            if (heeds) signal.addEventListener('abort', () => reject(new Error('aborted')));
            else runtime.setTimer(() => resolve(new Fake(runtime)), 200);
          }),
      );
      supervisor.start();
      await runtime.advance(300);
      expect(supervisor.state).toMatchObject({ kind: 'failed', reason: { code: 'REQUEST_TIMEOUT' } });
    }
  });

  it('waits for the end of a crashed subject when it is stopped', async () => {
    const { supervisor, runtime, fakes } = setUp({ stopMs: 1_000 });
    supervisor.start();
    await runtime.advance(0);
    fakes[0]!.crash();
    await runtime.advance(0);
    let stopped = false;
    void supervisor.stop().then(() => {
      stopped = true;
    });
    await runtime.advance(999);
    expect([supervisor.state.kind, stopped]).toEqual(['idle', false]);
    await runtime.advance(1);
    expect(stopped).toBe(true);
  });

  it('continues when a state listener fails', async () => {
    const runtime = new SimulatedRuntime();
    const supervisor = new Supervisor(runtime, {
      name: 'fake',
      start: async () => new Fake(runtime),
      onState: () => {
        throw new Error('no');
      },
    });
    supervisor.start();
    await runtime.advance(0);
    expect(supervisor.state.kind).toBe('running');
  });

  it('keeps a real process running', async () => {
    const children = await Children.open(systemRuntime());
    const supervisor = new Supervisor(systemRuntime(), {
      name: 'real',
      start: () => children.start({ command: process.execPath, args: ['-e', 'process.stdin.resume()'] }),
      restart: { firstDelayMs: 10 },
    });
    const pids = new Set<number>();
    try {
      supervisor.start();
      while (pids.size < 4) {
        const pid = supervisor.subject?.pid;
        if (pid !== undefined && !pids.has(pid)) {
          pids.add(pid);
          process.kill(pid, 'SIGKILL');
        }
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    } finally {
      await supervisor.stop();
      await children.close();
    }
    expect(children.size).toBe(0);
  });
});
