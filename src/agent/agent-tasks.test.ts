import { describe, expect, it } from 'vitest';
import type { Message as A2AMessage } from '../a2a/protocol/types.js';
import { EclipticError } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import {
  type AgentTask,
  AgentTasks,
  plainPayload,
  type TaskHandler,
  type TaskOptions,
  toParts,
} from './agent-tasks.js';
import type { Message } from './message.js';
import { TASK, taskIn } from './task-messages.js';

const said = (text: string): A2AMessage => ({ messageId: text, role: 'ROLE_USER', parts: [{ text }] });
const opening = { id: 't', contextId: 'c', message: said('hello') };
const from = { from: 'sun' } as Message;

function tasks(handler: TaskHandler, options: TaskOptions = {}): AgentTasks {
  return new AgentTasks(new SimulatedRuntime(), 'mars@here', handler, options);
}

async function allOf(given: unknown): Promise<unknown[]> {
  const items: unknown[] = [];
  for await (const item of given as AsyncIterable<unknown>) items.push(item);
  return items;
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('a task that an agent works on', () => {
  it('is answered with one thing, where that is all there is', async () => {
    expect(await tasks(({ text }) => `got ${text}`).run(from, opening)).toBe('got hello');
    expect(await tasks(async ({ text }) => ({ text })).run(from, opening)).toEqual({ text: 'hello' });
    const replied = await tasks((task) => task.reply('hi')).run(from, opening);
    expect(replied).toEqual({ [TASK]: { report: 'message', parts: [{ text: 'hi' }] } });
  });

  it('is a stream of everything else, in order', async () => {
    const given = await tasks((task) => {
      task.progress('one');
      task.artifact('two', { id: 'a', name: 'n', lastChunk: false });
      return 'three';
    }).run(from, opening);
    expect(await allOf(given)).toEqual([
      { [TASK]: { report: 'working', parts: [{ text: 'one' }] } },
      {
        [TASK]: {
          report: 'artifact',
          artifact: { artifactId: 'a', name: 'n', parts: [{ text: 'two' }] },
          append: false,
          lastChunk: false,
        },
      },
      'three',
    ]);
    expect(await allOf(await tasks(() => {}).run(from, opening))).toEqual([]);
    const resumable = await tasks(() => 'done', { resumable: true }).run(from, opening);
    expect(await allOf(resumable)).toEqual([{ [TASK]: { report: 'accepted', resumable: true } }, 'done']);
  });

  it.each([new Error('no'), 'no', 0, '', false, null, undefined])(
    'fails with the error of its handler: %j',
    async (thrown) => {
      const given = await tasks(() => {
        throw thrown;
      }).run(from, opening);
      const failure = await allOf(given).then(
        () => 'nothing',
        (error) => ({ error }),
      );
      expect(failure).toEqual({ error: thrown ?? expect.objectContaining({ code: 'HANDLER_FAILED' }) });
    },
  );

  it('asks, and gets its answers in the order of its questions', async () => {
    const agent = tasks(async (task) => {
      const [one, two] = await Promise.all([task.ask('1?'), task.askAuth('2?')]);
      return [one, two].map(({ parts }) => parts[0]!.text).join();
    });
    const given = allOf(await agent.run(from, opening));
    expect(agent.take('mars', { id: 't', input: said('of another') })).toBe(false);
    expect(agent.take('sun', { id: 't', input: said('a') })).toBe(true);
    expect(agent.take('sun', { id: 't', input: said('b') })).toBe(true);
    agent.take('sun', { id: 't', input: said('too many') });
    expect((await given).at(-1)).toBe('a,b');
    expect(agent.take('sun', { id: 't', input: said('late') })).toBe(false);
  });

  it('is aborted when its caller cancels, when its caller stops reading, and when the agent leaves', async () => {
    const stops: ((agent: AgentTasks, stream: AsyncGenerator) => unknown)[] = [
      (agent) => agent.take('sun', { id: 't', cancel: true }),
      (agent) => agent.end(new EclipticError('NODE_STOPPED', 'left')),
      // A step that waits keeps a generator from being left; one that was given does not.
      (_, stream) => stream.return(undefined),
    ];
    for (const stop of stops) {
      let seen: AgentTask | undefined;
      const agent = tasks((task) => {
        seen = task;
        task.progress('on it');
        return new Promise(() => {});
      });
      const stream = (await agent.run(from, opening)) as AsyncGenerator;
      await stream.next();
      const { signal } = seen!;
      expect(signal.aborted).toBe(false);
      await stop(agent, stream);
      expect([signal.aborted, seen!.signal.reason]).toEqual([true, expect.any(EclipticError)]);
      await expect(seen!.ask('still?')).rejects.toBe(signal.reason);
    }
  });

  it('is not aborted because it is done, and says nothing after that', async () => {
    let seen: AgentTask | undefined;
    const agent = tasks((task) => {
      seen = task;
      task.progress('on it');
      return 'done';
    });
    const items = await allOf(await agent.run(from, opening));
    seen!.progress('late');
    await turn();
    expect([items.length, seen!.signal.aborted]).toEqual([2, false]);
  });

  it('has a signal that is aborted already if it is asked for after the cancellation', async () => {
    let seen: AgentTask | undefined;
    const agent = tasks((task) => {
      seen = task;
      return new Promise(() => {});
    });
    await agent.run(from, opening);
    agent.take('sun', { id: 't', cancel: true });
    expect(seen!.signal.aborted).toBe(true);
  });
});

describe('the content of a task', () => {
  it('is text, a part, or parts', () => {
    expect(toParts('a')).toEqual([{ text: 'a' }]);
    expect(toParts({ data: 1 })).toEqual([{ data: 1 }]);
    expect(toParts([{ text: 'a' }, { data: 1 }])).toHaveLength(2);
  });

  it('is, for an agent that only answers requests, its text, its data, or the message', () => {
    const payload = (parts: A2AMessage['parts']) => plainPayload({ ...opening, message: { ...said(''), parts } });
    expect(payload([{ text: 'a' }, { text: 'b' }])).toBe('a\nb');
    expect(payload([{ data: { a: 1 } }])).toEqual({ a: 1 });
    expect(payload([{ data: null }])).toBe(null);
    expect(payload([{ text: 'a' }, { url: 'http://a.example/' }])).toHaveProperty('messageId');
  });

  it('is found in a payload that has it', () => {
    expect([taskIn({ [TASK]: 1 }), taskIn({}), taskIn(null), taskIn('x')]).toEqual([
      1,
      undefined,
      undefined,
      undefined,
    ]);
  });
});
