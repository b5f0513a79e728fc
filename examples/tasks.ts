/** A task from outside, as any A2A client gives it: progress, a question, an artifact, and its end. */
import assert from 'node:assert/strict';
import { createNode } from 'ecliptic';

const node = await createNode();
const mars = node.agent({ id: 'mars' });
mars.onTask(async (task) => {
  task.progress('reading');
  const { parts } = await task.ask('Which branch?');
  task.artifact(`# Report on ${parts[0]?.text}`, { name: 'report.md' });
  return `reviewed ${task.text}`;
});
const { url } = await node.serve({ port: 0, open: true });

const card = (await (await fetch(`${url}/.well-known/agent-card.json`)).json()) as { name: string };
assert.equal(card.name, 'Ecliptic');

const asked = await send({ parts: [{ text: 'the login page' }] });
assert.equal(asked.status.state, 'TASK_STATE_INPUT_REQUIRED');
assert.equal(asked.status.message?.parts[0]?.text, 'Which branch?');

const done = await send({ parts: [{ text: 'main' }], taskId: asked.id });
assert.equal(done.status.state, 'TASK_STATE_COMPLETED');
assert.deepEqual(
  done.artifacts.map(({ parts }) => parts[0]?.text),
  ['# Report on main', 'reviewed the login page'],
);

console.log(`the task ended with ${done.artifacts.length} artifacts`);
await node.stop();

interface Words {
  parts: { text: string }[];
}

interface Task {
  id: string;
  status: { state: string; message?: Words };
  artifacts: Words[];
}

async function send(message: object): Promise<Task> {
  const params = { message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', ...message } };
  const response = await fetch(`${url}/a2a/rpc`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'A2A-Version': '1.0' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params }),
  });
  const { result } = (await response.json()) as { result: { task: Task } };
  return result.task;
}
