/** The AI SDK: an agent of it does tasks of the mesh, with tools of the mesh, and asks before it uses one. Node 22. */
import assert from 'node:assert/strict';
import { ToolLoopAgent } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { createNode } from 'ecliptic';
import { meshTools, taskHandler } from 'ecliptic/ai-sdk';
import { caller } from './caller.mjs';

const node = await createNode();
const mars = node.agent({ id: 'mars' });
const stock = node.agent({ id: 'stock' });
stock.tool(
  'reserve',
  {
    description: 'Reserves parts.',
    inputSchema: { type: 'object', properties: { parts: { type: 'number' } }, required: ['parts'] },
  },
  ({ parts }, call) => {
    call.progress(1, 2, 'looking');
    return { reserved: parts };
  },
);

// A model from a script, in place of `openai('…')`.
const usage = { inputTokens: { total: 10 }, outputTokens: { total: 5 } };
const prompts = [];
const model = new MockLanguageModelV4({
  doStream: async ({ prompt, tools }) => {
    prompts.push(prompt);
    const last = prompt.at(-1);
    const isTool = last.role === 'tool';
    const wish = {
      type: 'tool-call',
      toolCallId: `call-${prompts.length}`,
      toolName: 'stock__reserve',
      input: '{"parts":3}',
    };
    const words = ['Reserved ', JSON.stringify(last.content.at(-1).output ?? 'nothing')];
    assert.deepEqual(
      tools.map(({ name }) => name),
      ['stock__reserve'],
    );
    return {
      stream: new ReadableStream({
        start(stream) {
          stream.enqueue({ type: 'stream-start', warnings: [] });
          if (isTool) {
            stream.enqueue({ type: 'text-start', id: 't' });
            for (const delta of words) stream.enqueue({ type: 'text-delta', id: 't', delta });
            stream.enqueue({ type: 'text-end', id: 't' });
          } else stream.enqueue(wish);
          const finishReason = { unified: isTool ? 'stop' : 'tool-calls', raw: undefined };
          stream.enqueue({ type: 'finish', finishReason, usage });
          stream.close();
        },
      }),
    };
  },
});

const tools = await meshTools(mars);
const agent = new ToolLoopAgent({ model, tools, toolApproval: { stock__reserve: 'user-approval' } });
mars.onTask(taskHandler(agent));

// A tool of the mesh reports its progress as preliminary results.
const seen = [];
for await (const part of tools.stock__reserve.execute({ parts: 1 }, {})) seen.push(part);
assert.deepEqual(seen, [{ progress: 1, total: 2, message: 'looking' }, { reserved: 1 }]);

// A caller over A2A: the task asks before it uses the tool, and streams its answer.
const send = await caller(node);
const asked = await send({ parts: [{ text: 'Reserve three parts.' }] });
assert.equal(asked.state, 'TASK_STATE_INPUT_REQUIRED');
assert.match(asked.said[0].text, /May the tool "stock__reserve" run .*"parts":3.*\?/);
const done = await send({ taskId: asked.taskId, parts: [{ text: 'yes' }] });
assert.equal(done.state, 'TASK_STATE_COMPLETED');
assert.ok(done.chunks.length > 1, 'the answer came in chunks');
assert.match(done.text, /^Reserved .*"reserved":3/);

// A no reaches the model with its reason.
const again = await send({ parts: [{ text: 'Reserve three more.' }] });
const denied = await send({ taskId: again.taskId, parts: [{ data: { approved: false, reason: 'too many' } }] });
assert.equal(denied.state, 'TASK_STATE_COMPLETED');
assert.match(denied.text, /too many/);

console.log(`the agent asked twice, and used ${Object.keys(tools)} once: ${done.text}`);
await node.stop();
