/** LangGraph: a compiled graph does tasks of the mesh, with a tool of the mesh, and interrupts itself to ask. */
import assert from 'node:assert/strict';
import { AIMessage } from '@langchain/core/messages';
import { FakeListChatModel } from '@langchain/core/utils/testing';
import { END, interrupt, MemorySaver, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { ToolNode } from '@langchain/langgraph/prebuilt';
import { createNode } from 'ecliptic';
import { meshTools, taskHandler } from 'ecliptic/langgraph';
import { caller } from './caller.mjs';

const node = await createNode();
const mars = node.agent({ id: 'mars' });
const inputSchema = { type: 'object', properties: { parts: { type: 'number' } }, required: ['parts'] };
node.agent({ id: 'stock' }).tool('reserve', { description: 'Reserves parts.', inputSchema }, ({ parts }, call) => {
  call.progress(1, 2, 'looking');
  return { reserved: parts };
});

const tools = await meshTools(mars);
const model = new FakeListChatModel({ responses: ['All parts are reserved.'] });
const graph = new StateGraph(MessagesAnnotation)
  .addNode('plan', () => {
    const parts = Number(interrupt('How many parts?'));
    const call = { id: 'call-1', name: 'stock__reserve', args: { parts } };
    return { messages: [new AIMessage({ content: '', tool_calls: [call] })] };
  })
  .addNode('tools', new ToolNode(tools))
  .addNode('answer', async ({ messages }, config) => ({ messages: [await model.invoke(messages, config)] }))
  .addEdge(START, 'plan')
  .addEdge('plan', 'tools')
  .addEdge('tools', 'answer')
  .addEdge('answer', END)
  .compile({ checkpointer: new MemorySaver() });
mars.onTask(taskHandler(graph));

// A caller over A2A: the graph asks, uses the tool with the answer, and streams its last words.
const send = await caller(node);
const asked = await send({ parts: [{ text: 'Reserve parts.' }] });
assert.equal(asked.state, 'TASK_STATE_INPUT_REQUIRED');
assert.equal(asked.said[0].text, 'How many parts?');
const done = await send({ taskId: asked.taskId, parts: [{ text: '3' }] });
assert.equal(done.state, 'TASK_STATE_COMPLETED');
assert.ok(done.chunks.length > 1, 'the answer came in chunks');
assert.equal(done.text, 'All parts are reserved.');
const { messages } = (await graph.getState({ configurable: { thread_id: await threadOf() } })).values;
assert.equal(messages.find((message) => message.getType() === 'tool').content, '{"reserved":3}');

console.log(`the graph asked, used ${tools[0].name}, and said: ${done.text}`);
await node.stop();

/** The thread of the only conversation. */
async function threadOf() {
  for await (const { config } of graph.checkpointer.list({})) return config.configurable.thread_id;
}
