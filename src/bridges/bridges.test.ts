import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createNode } from '../index.js';
import { type AiSdkAgent, taskHandler } from './ai-sdk.js';
import { toolsFor } from './mesh-tool.js';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function start() {
  const node = await createNode({ sandbox: { enforced: true } });
  cleanups.push(() => node.stop());
  const [mars, venus] = ['mars', 'venus'].map((id) => node.agent({ id }));
  return { node, mars: mars!, venus: venus! };
}

describe('tools of the mesh for a framework', () => {
  it('are those that the agent may use, under names for models, with structured results and typed failures [BR.1]', async () => {
    const { node, mars, venus } = await start();
    venus.tool('add.up', { inputSchema: z.object({ a: z.number() }) }, ({ a }) => ({ sum: a + 1 }));
    venus.tool('say', {}, () => 'hello');
    venus.tool('describe', {}, () => 'venus');
    mars.tool('own', {}, () => 1);
    node.agent({ id: 'inmate', sandbox: 'lab' }).tool('inside', {}, () => 2);
    const tools = toolsFor(mars);
    expect(tools.map(({ name }) => name)).toEqual(['inmate__inside', 'venus__add_up', 'venus__say']);
    expect(toolsFor(node.agents.at(-1)!).map(({ name }) => name)).toEqual([]);
    expect(toolsFor(mars, { pick: ({ agent }) => agent === 'mars' }).map(({ name }) => name)).toEqual(['mars__own']);
    const [, add, say] = tools;
    expect(await add!.call({ a: 1 })).toEqual({ sum: 2 });
    expect(await say!.call({})).toBe('hello');
    await expect(add!.call({ a: 'x' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENTS' });
    const gone = new AbortController();
    gone.abort();
    await expect(say!.call({}, { signal: gone.signal })).rejects.toMatchObject({ code: 'CANCELLED' });
  });
});

/** An agent of the AI SDK as far as the bridge can tell: each round of its script is one stream. */
function scripted(rounds: readonly (readonly object[])[]) {
  const asked: unknown[][] = [];
  const agent: AiSdkAgent = {
    stream: async ({ messages }) => {
      const parts = rounds[asked.length]!;
      asked.push(messages);
      return {
        fullStream: (async function* () {
          yield* parts;
        })(),
        response: Promise.resolve({ messages: [{ role: 'assistant', content: `round ${asked.length}` }] }),
        totalUsage: Promise.resolve({ inputTokens: 2, outputTokens: 1 }),
        output: Promise.resolve('streamed'),
      };
    },
  };
  return { agent, asked };
}

const wish = { type: 'tool-approval-request', approvalId: 'w', toolCall: { toolName: 'rm', input: { path: '/' } } };
const words = (...texts: string[]) => texts.map((text) => ({ type: 'text-delta', text }));

describe('an agent of a framework as a worker', () => {
  it('has its wish denied where the caller cannot be asked, and its failures as those of the task [BR.2]', async () => {
    const { mars, venus } = await start();
    const { agent, asked } = scripted([[wish], words('do', 'ne'), [{ type: 'error', error: new Error('no fuel') }]]);
    mars.onTask(taskHandler(agent));
    // The work of a proposal has no questions.
    const negotiation = venus.propose({ to: 'mars', taskDescription: 'clean up' });
    await negotiation.result;
    expect(asked[1]!.at(-1)).toEqual({
      role: 'tool',
      content: [
        {
          type: 'tool-approval-response',
          approvalId: 'w',
          approved: false,
          reason: 'the caller of the task cannot be asked',
        },
      ],
    });
    await expect(venus.propose({ to: 'mars', taskDescription: 'again' }).result).rejects.toMatchObject({
      message: expect.stringContaining('no fuel'),
    });
  });
});
