/** A caller over A2A, for the examples beside this file: sends a message, and follows the task until it asks or ends. */
export async function caller(node) {
  const { url } = await node.serve({ port: 0, open: true });
  return async function send(message) {
    const params = { message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', ...message } };
    const response = await fetch(`${url}/a2a/rpc`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'A2A-Version': '1.0' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendStreamingMessage', params }),
    });
    const chunks = [];
    let taskId = message.taskId;
    for await (const { task, statusUpdate, artifactUpdate } of results(response)) {
      if (task) taskId = task.id;
      if (artifactUpdate) chunks.push(...artifactUpdate.artifact.parts);
      const { state, message: said } = statusUpdate?.status ?? {};
      if (state === undefined || state === 'TASK_STATE_WORKING' || state === 'TASK_STATE_SUBMITTED') continue;
      return { taskId, state, chunks, text: chunks.map(({ text = '' }) => text).join(''), said: said?.parts ?? [] };
    }
    throw new Error('the stream ended before the task did');
  };
}

async function* results({ body }) {
  let text = '';
  for await (const bytes of body.pipeThrough(new TextDecoderStream())) {
    const lines = (text + bytes).split('\n');
    text = lines.pop();
    for (const line of lines) if (line.startsWith('data:')) yield JSON.parse(line.slice(5)).result;
  }
}
