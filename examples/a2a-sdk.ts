/** The client of the official A2A SDK streams a task from an agent of another node, over the mesh. */
import assert from 'node:assert/strict';
import { SendMessageRequest, StreamResponse } from '@a2a-js/sdk';
import { ClientFactory } from '@a2a-js/sdk/client';
import { createNode } from 'ecliptic';
import { MeshTransportFactory } from 'ecliptic/a2a-sdk';

const device = (name: string) => createNode({ network: { name, listen: { host: '127.0.0.1', port: 0 }, dht: false } });
const laptop = await device('laptop');
const desktop = await device('desktop');
laptop.agent({ id: 'sun', tier: 3 });
desktop.agent({ id: 'mars', capabilities: ['backend.api'] }).onTask(async function* ({ text }) {
  for (const word of text.split(' ')) yield `${word.toUpperCase()} `;
});
// The node of the agent keeps its tasks; nothing reaches this port here.
await desktop.serve({ port: 0 });

const met = new Promise<void>((resolve) => {
  laptop.registry.onCard(({ id }) => id.startsWith('mars') && resolve());
});
await laptop.network!.join((await desktop.network!.invite()).code);
await met;

const mesh = new MeshTransportFactory(laptop, { as: 'sun' });
const card = await mesh.card('mars@desktop');
assert.equal(card.supportedInterfaces[0]!.url, `ecliptic:${desktop.key}`);
const client = await new ClientFactory({ transports: [mesh] }).createFromAgentCard(card);

let text = '';
let state = '';
const parts = [{ text: 'build the page' }];
const request = { message: { messageId: 'one', role: 'ROLE_USER', parts } };
for await (const event of client.sendMessageStream(SendMessageRequest.fromJSON(request))) {
  const { artifactUpdate, statusUpdate } = StreamResponse.toJSON(event) as Wire;
  text += artifactUpdate?.artifact.parts[0]?.text ?? '';
  state = statusUpdate?.status.state ?? state;
}
assert.equal(text, 'BUILD THE PAGE ');
assert.equal(state, 'TASK_STATE_COMPLETED');

await laptop.stop();
await desktop.stop();
console.log('the official client streamed a task over the mesh');

interface Wire {
  artifactUpdate?: { artifact: { parts: { text?: string }[] } };
  statusUpdate?: { status: { state: string } };
}
