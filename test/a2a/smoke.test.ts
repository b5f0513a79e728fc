import { afterAll, beforeAll, expect, it } from 'vitest';
import { EdgeNodes } from './edge-nodes.js';
import { collect } from './task-node.js';
const nodes = new EdgeNodes();
afterAll(() => nodes.stopAll());
it('smoke', async () => {
  const b = await nodes.add();
  const a = await nodes.add({ invite: {}, agents: false });
  a.node.agent({ id: 'sun', tier: 3 });
  const client = await a.node.a2a(`echo@${b.key}`, { as: 'sun' });
  console.log(JSON.stringify(await client.send({ message: 'hello' })));
  const w = await a.node.a2a(`writer@${b.key}`, { as: 'sun' });
  console.log(JSON.stringify(await collect(w.stream({ message: 'hello' }))));
  console.log(JSON.stringify(await client.listTasks()));
  console.log(await client.getTask('nobody').catch((e) => [e.name, e.code, e.message, e.details]));
  console.log(b.node.agents.map(({id})=>id));
});
