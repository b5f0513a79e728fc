/** The OpenAI Agents SDK: an agent of it does tasks of the mesh, with tools of the mesh, and asks before it uses one. */
import assert from 'node:assert/strict';
import { Agent, setTracingDisabled, Usage } from '@openai/agents';
import { createNode } from 'ecliptic';
import { meshTools, taskHandler } from 'ecliptic/openai-agents';
import { caller } from './caller.mjs';

setTracingDisabled(true);
const node = await createNode();
const mars = node.agent({ id: 'mars' });
const inputSchema = { type: 'object', properties: { parts: { type: 'number' } }, required: ['parts'] };
node
  .agent({ id: 'stock' })
  .tool('reserve', { description: 'Reserves parts.', inputSchema }, ({ parts }) => ({ reserved: parts }));

// A model from a script, in place of `model: 'gpt-…'`.
const inputs = [];
const model = {
  async getResponse() {
    throw new Error('the runs of this example are streamed');
  },
  async *getStreamedResponse({ input, tools }) {
    inputs.push(input);
    assert.deepEqual(
      tools.map(({ name }) => name),
      ['stock__reserve'],
    );
    const last = input.at(-1);
    const text = `Reserved ${JSON.stringify(last.output)}`;
    const wish = {
      type: 'function_call',
      name: 'stock__reserve',
      callId: `call-${inputs.length}`,
      arguments: '{"parts":3}',
      status: 'completed',
    };
    const isAnswer = last.type === 'function_call_result';
    const content = [{ type: 'output_text', text }];
    yield { type: 'response_started' };
    if (isAnswer) for (const delta of [text.slice(0, 9), text.slice(9)]) yield { type: 'output_text_delta', delta };
    const said = { type: 'message', role: 'assistant', id: 'm', status: 'completed', content };
    const usage = new Usage({ requests: 1, inputTokens: 10, outputTokens: 5, totalTokens: 15 });
    yield { type: 'response_done', response: { id: `r-${inputs.length}`, usage, output: [isAnswer ? said : wish] } };
  },
};

const tools = await meshTools(mars, { needsApproval: (tool) => tool === 'stock__reserve' });
mars.onTask(taskHandler(new Agent({ name: 'Mars', instructions: 'Be brief.', model, tools })));

// A caller over A2A: the task asks before it uses the tool, and streams its answer.
const send = await caller(node);
const asked = await send({ parts: [{ text: 'Reserve three parts.' }] });
assert.equal(asked.state, 'TASK_STATE_INPUT_REQUIRED');
assert.match(asked.said[0].text, /May the tool "stock__reserve" run .*parts.*3.*\?/);
const done = await send({ taskId: asked.taskId, parts: [{ text: 'yes' }] });
assert.equal(done.state, 'TASK_STATE_COMPLETED');
assert.ok(done.chunks.length > 1, 'the answer came in chunks');
assert.match(done.text, /^Reserved .*reserved.*3/);

// A no reaches the model with its reason.
const again = await send({ parts: [{ text: 'Reserve three more.' }] });
const denied = await send({ taskId: again.taskId, parts: [{ data: { approved: false, reason: 'too many' } }] });
assert.equal(denied.state, 'TASK_STATE_COMPLETED');
assert.match(denied.text, /too many/);

console.log(`the agent asked twice, and used ${tools[0].name} once: ${done.text}`);
await node.stop();
