import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { tries } from '../../../test/evidence.js';
import { messagesOf, projectState, textOf } from './simple.js';
import { createTask, stepTask, type TaskEvent, type TaskInput, type TaskModel, type TaskStep } from './task-machine.js';
import { isTerminal } from './task-rules.js';
import type { Artifact, Message, StreamResponse, Task, TaskState } from './types.js';
import { TASK_STATES } from './types.js';

const RUNS = process.env.ECLIPTIC_SOAK === '1' ? 5_000 : 200;
const LIMITS = { historyMessages: 5, artifacts: 3, artifactParts: 8 };

const question: Message = { messageId: 'q', role: 'ROLE_USER', parts: [{ text: 'question' }] };
const words = (text: string): Message => ({ messageId: text, role: 'ROLE_AGENT', parts: [{ text }] });
const birth = () => createTask({ id: 't', contextId: 'c', message: question, at: 1_000 });

/** Runs inputs one after the other, each a millisecond later. */
function run(...inputs: readonly Unstamped[]): { model: TaskModel; steps: TaskStep[]; events: StreamResponse[] } {
  let { model, events: first } = birth();
  const steps: TaskStep[] = [];
  const events = first.map(({ event }) => event);
  for (const [index, input] of inputs.entries()) {
    const step = stepTask(model, { at: 1_001 + index, ...input } as TaskInput);
    steps.push(step);
    model = step.model;
    if (step.outcome === 'applied') events.push(...step.events.map(({ event }) => event));
  }
  return { model, steps, events };
}

type Unstamped = TaskInput extends infer I ? (I extends TaskInput ? Omit<I, 'at'> : never) : never;

const stateOf = (...inputs: readonly Unstamped[]) => run(...inputs).model.task.status.state.replace('TASK_STATE_', '');
const statesOf = (events: readonly StreamResponse[]) =>
  events.flatMap((event) =>
    'statusUpdate' in event ? [event.statusUpdate.status.state.replace('TASK_STATE_', '')] : [],
  );

describe('a task', () => {
  it('begins as itself, before any update', () => {
    const { model, events } = birth();
    expect(events).toEqual([{ sequence: 1, event: { task: model.task } }]);
    expect(model.task).toEqual({
      id: 't',
      contextId: 'c',
      status: { state: 'TASK_STATE_SUBMITTED', timestamp: '1970-01-01T00:00:01.000Z' },
      history: [{ ...question, taskId: 't', contextId: 'c' }],
    });
  });

  it('is submitted, works, and is completed when its agent ends well', () => {
    const { model, events } = run(
      { type: 'started' },
      { type: 'agent-message', message: words('hi') },
      { type: 'exit', code: 0 },
    );
    expect(statesOf(events)).toEqual(['WORKING', 'WORKING', 'COMPLETED']);
    expect(messagesOf(model.task).map(({ parts }) => textOf(parts))).toEqual(['question', 'hi']);
    expect(model.task.status.timestamp).toBe('1970-01-01T00:00:01.003Z');
  });

  it('works before it is completed, whatever its agent leaves out', () => {
    expect(statesOf(run({ type: 'exit', code: 0 }).events)).toEqual(['WORKING', 'COMPLETED']);
    expect(statesOf(run({ type: 'status', state: 'TASK_STATE_INPUT_REQUIRED' }).events)).toEqual([
      'WORKING',
      'INPUT_REQUIRED',
    ]);
  });

  it('fails when its agent crashes, is killed or ends with a code, and says why', () => {
    const last = (input: Unstamped) => {
      const { status } = run({ type: 'started' }, input).model.task;
      return [status.state, textOf(status.message!.parts)];
    };
    expect(last({ type: 'crash', reason: 'out of memory' })).toEqual(['TASK_STATE_FAILED', 'out of memory']);
    expect(last({ type: 'exit', code: 3 })).toEqual(['TASK_STATE_FAILED', 'The agent ended with code 3']);
    expect(last({ type: 'exit', code: null, signal: 'SIGKILL' })).toEqual([
      'TASK_STATE_FAILED',
      'The agent ended by SIGKILL',
    ]);
  });

  it('fails when its time is up, and its agent is stopped', () => {
    const { model, steps } = run({ type: 'started' }, { type: 'timeout' }, { type: 'exit', code: 0 });
    expect(steps[1]).toMatchObject({ outcome: 'applied', effects: ['stop-agent'] });
    expect(steps[2]).toMatchObject({ outcome: 'ignored' });
    expect(model.task.status).toMatchObject({
      state: 'TASK_STATE_FAILED',
      message: { role: 'ROLE_AGENT', parts: [{ text: 'Task timed out' }], taskId: 't', contextId: 'c' },
    });
  });

  it('is canceled once, and again without a fault; one that ended otherwise is not cancelable [A2A-1.9.16]', () => {
    const { steps } = run({ type: 'started' }, { type: 'cancel' }, { type: 'cancel' });
    expect(steps[1]).toMatchObject({ outcome: 'applied', effects: ['stop-agent'] });
    expect(steps[2]).toMatchObject({
      outcome: 'ignored',
      model: { task: { status: { state: 'TASK_STATE_CANCELED' } } },
    });
    for (const state of ['TASK_STATE_COMPLETED', 'TASK_STATE_FAILED', 'TASK_STATE_REJECTED'] as const) {
      expect(run({ type: 'status', state }, { type: 'cancel' }).steps[1]).toMatchObject({
        outcome: 'refused',
        code: 'TASK_NOT_CANCELABLE',
      });
    }
  });

  it('waits for input or authorization, and goes on with either', () => {
    const asked = { type: 'input-required', message: words('which?') } as const;
    const answer = { type: 'user-message', message: { ...question, messageId: 'a' } } as const;
    expect(stateOf(asked)).toBe('INPUT_REQUIRED');
    expect(stateOf(asked, answer)).toBe('WORKING');
    expect(stateOf(asked, { type: 'exit', code: 0 })).toBe('INPUT_REQUIRED');
    expect(stateOf(asked, { type: 'exit', code: 1 })).toBe('FAILED');
    expect(
      stateOf({ type: 'auth-required', message: words('log in') }, { type: 'status', state: 'TASK_STATE_WORKING' }),
    ).toBe('WORKING');
    expect(run(asked, answer).model.task.history!.map(({ messageId }) => messageId)).toEqual(['q', 'which?', 'a']);
  });

  it('takes a message while it works, and none after its end', () => {
    const { steps } = run({ type: 'started' }, { type: 'user-message', message: question }, { type: 'exit', code: 0 });
    expect(steps[1]).toMatchObject({ outcome: 'applied', events: [] });
    expect(run({ type: 'exit', code: 0 }, { type: 'user-message', message: question }).steps[1]).toMatchObject({
      outcome: 'refused',
      code: 'OPERATION_NOT_SUPPORTED',
    });
  });

  it('never takes a step back', () => {
    expect(run({ type: 'started' }, { type: 'status', state: 'TASK_STATE_SUBMITTED' }).steps[1]!.outcome).toBe(
      'ignored',
    );
    expect(run({ type: 'started' }, { type: 'started' }).steps[1]!.outcome).toBe('ignored');
    expect(run({ type: 'started' }, { type: 'status', state: 'TASK_STATE_WORKING' }).steps[1]!.outcome).toBe('ignored');
  });

  it('has a time that never goes back, whatever the clock does', () => {
    const { model } = birth();
    const step = stepTask(model, { type: 'started', at: 5 });
    expect(step.model.task.status.timestamp).toBe('1970-01-01T00:00:01.000Z');
  });

  it('does the same thing once when it comes twice', () => {
    const chunk = { type: 'artifact', artifact: artifact('a', 'x'), append: true, key: 'chunk-1' } as const;
    const { model, steps } = run(chunk, chunk);
    expect(steps.map(({ outcome }) => outcome)).toEqual(['applied', 'ignored']);
    expect(model.task.artifacts).toEqual([artifact('a', 'x')]);
  });
});

describe('an artifact', () => {
  it('is begun, appended to, replaced and closed', () => {
    const put = (text: string, flags: { append?: boolean; lastChunk?: boolean } = {}) =>
      ({ type: 'artifact', artifact: artifact('a', text), ...flags }) as const;
    const { model, steps, events } = run(
      put('one', { append: true }),
      put('two', { append: true, lastChunk: true }),
      put('late', { append: true }),
      put('anew'),
    );
    expect(steps.map(({ outcome }) => outcome)).toEqual(['applied', 'applied', 'ignored', 'applied']);
    expect(events.slice(2)).toMatchObject([
      { artifactUpdate: { append: false, lastChunk: false } },
      { artifactUpdate: { append: true, lastChunk: true, artifact: artifact('a', 'two') } },
      { artifactUpdate: { append: false, lastChunk: false } },
    ]);
    expect(steps[1]!.model.task.artifacts).toEqual([artifact('a', 'onetwo')]);
    expect(model.task.artifacts).toEqual([artifact('a', 'anew')]);
  });

  it('keeps parts apart that are more than text', () => {
    const marked: Artifact = { artifactId: 'a', parts: [{ text: 'x', mediaType: 'text/html' }] };
    const { model } = run(
      { type: 'artifact', artifact: marked },
      { type: 'artifact', artifact: marked, append: true },
      { type: 'artifact', artifact: artifact('a', 'y'), append: true },
    );
    expect(model.task.artifacts![0]!.parts).toHaveLength(3);
  });

  it('is one of a bounded number, of a bounded size', () => {
    let { model } = birth();
    for (let n = 0; n < 5; n++) {
      const step = stepTask(model, { type: 'artifact', artifact: artifact(`a${n}`, 'x'), at: 1 }, LIMITS);
      if (n >= 3) expect(step).toMatchObject({ outcome: 'refused', code: 'PAYLOAD_TOO_LARGE' });
      model = step.model;
    }
    const large: Artifact = { artifactId: 'a0', parts: Array(9).fill({ data: 1 }) };
    expect(stepTask(model, { type: 'artifact', artifact: large, at: 1 }, LIMITS)).toMatchObject({ outcome: 'refused' });
  });
});

describe('a task in any storm of events', () => {
  const arbMessage = fc.nat(99).map((n) => words(`m${n}`));
  const key = fc.option(fc.constantFrom('k1', 'k2', 'k3'), { nil: undefined });
  const at = fc.nat(5_000);
  const arbInput: fc.Arbitrary<TaskInput> = fc.oneof(
    fc.record({ type: fc.constant('started' as const), at, key }),
    fc.record({
      type: fc.constant('status' as const),
      state: fc.constantFrom<TaskState>(...TASK_STATES),
      message: fc.option(arbMessage, { nil: undefined }),
      at,
      key,
    }) as fc.Arbitrary<TaskInput>,
    fc.record({
      type: fc.constant('artifact' as const),
      artifact: fc
        .tuple(fc.constantFrom('a', 'b', 'c', 'd'), fc.string({ maxLength: 3 }))
        .map(([id, text]) => artifact(id, text)),
      append: fc.boolean(),
      lastChunk: fc.boolean(),
      at,
      key,
    }),
    fc.record({
      type: fc.constantFrom(
        'agent-message' as const,
        'input-required' as const,
        'auth-required' as const,
        'user-message' as const,
      ),
      message: arbMessage,
      at,
      key,
    }),
    fc.record({ type: fc.constantFrom('cancel' as const, 'timeout' as const), at, key }),
    fc.record({ type: fc.constant('crash' as const), reason: fc.constant('it crashed'), at, key }),
    fc.record({ type: fc.constant('exit' as const), code: fc.constantFrom(0, 1, null), at, key }),
  );
  // Endings are rare, so that there is something to end.
  const storm = fc.array(
    fc.oneof({ weight: 1, arbitrary: arbInput }, { weight: 2, arbitrary: arbInput.filter(goesOn) }),
    {
      maxLength: 40,
    },
  );
  const RANK = { submitted: 0, working: 1, completed: 2, failed: 2 };

  it('goes forward only, ends at most once, and its events add up to its state', () => {
    let ended = 0;
    fc.assert(
      fc.property(storm, (inputs) => {
        let { model, events } = birth();
        const log: TaskEvent[] = [...events];
        let replayed: Task = model.task;
        for (const input of inputs) {
          const before = model;
          const step = stepTask(before, input, LIMITS);
          model = step.model;
          if (step.outcome !== 'applied') {
            expect(model).toBe(before);
            continue;
          }
          // Nothing is applied after the end.
          expect(isTerminal(before.task.status.state)).toBe(false);
          expect(RANK[projectState(model.task.status.state)]).toBeGreaterThanOrEqual(
            RANK[projectState(before.task.status.state)],
          );
          expect(model.at).toBeGreaterThanOrEqual(before.at);
          const stops = input.type === 'cancel' || input.type === 'timeout';
          expect(step.effects).toEqual(stops ? ['stop-agent'] : []);
          if (input.type === 'crash' || (input.type === 'exit' && input.code !== 0)) {
            expect(model.task.status.state).toBe('TASK_STATE_FAILED');
          }
          for (const event of step.events) {
            log.push(event);
            replayed = replay(replayed, event.event);
          }
        }
        // Events are numbered without gaps, and nothing follows the one that ends the task.
        expect(log.map(({ sequence }) => sequence)).toEqual(log.map((_, index) => index + 1));
        expect(model.sequence).toBe(log.length);
        const ends = log.filter(({ event }) => 'statusUpdate' in event && isTerminal(event.statusUpdate.status.state));
        expect(ends.length).toBe(isTerminal(model.task.status.state) ? 1 : 0);
        if (ends.length === 1) expect(log.at(-1)).toBe(ends[0]);
        ended += ends.length;
        // A reader of the stream has the same status and artifacts as a reader of the task.
        expect(replayed.status).toEqual(model.task.status);
        expect(contents(replayed)).toEqual(contents(model.task));
        expect(model.task.history!.length).toBeLessThanOrEqual(LIMITS.historyMessages);
        expect((model.task.artifacts ?? []).length).toBeLessThanOrEqual(LIMITS.artifacts);
      }),
      { numRuns: tries(RUNS, 'random histories') },
    );
    expect(ended).toBeGreaterThan(RUNS / 10);
  });

  it('ends the same from any prefix that was kept: a model is all that there is to know', () => {
    fc.assert(
      fc.property(storm, fc.nat(40), (inputs, cut) => {
        const through = (model: TaskModel, rest: readonly TaskInput[]) =>
          rest.reduce((now, input) => stepTask(now, input, LIMITS).model, model);
        const kept = through(birth().model, inputs.slice(0, cut));
        const thawed = JSON.parse(JSON.stringify(kept)) as TaskModel;
        expect(through(thawed, inputs.slice(cut))).toEqual(through(birth().model, inputs));
      }),
      { numRuns: tries(RUNS, 'random histories') },
    );
  });
});

/** Does an input leave the task to go on? */
function goesOn(input: TaskInput): boolean {
  if (input.type === 'status') return !isTerminal(input.state);
  return !['cancel', 'timeout', 'crash', 'exit'].includes(input.type);
}

function artifact(artifactId: string, text: string): Artifact {
  return { artifactId, parts: [{ text }] };
}

/** A client's own account of the task, from nothing but its stream. */
function replay(task: Task, event: StreamResponse): Task {
  if ('statusUpdate' in event) return { ...task, status: event.statusUpdate.status };
  if (!('artifactUpdate' in event)) return task;
  const { artifact: chunk, append } = event.artifactUpdate;
  const artifacts = [...(task.artifacts ?? [])];
  const index = artifacts.findIndex(({ artifactId }) => artifactId === chunk.artifactId);
  if (index < 0) artifacts.push(chunk);
  else if (append) artifacts[index] = { ...chunk, parts: [...artifacts[index]!.parts, ...chunk.parts] };
  else artifacts[index] = chunk;
  return { ...task, artifacts };
}

/** Texts only, because a task may join the pieces that its stream brought. */
function contents(task: Task): Record<string, string> {
  return Object.fromEntries(
    (task.artifacts ?? []).map(({ artifactId, parts }) => [artifactId, parts.map(({ text }) => text).join('')]),
  );
}
