import assert from 'node:assert/strict';
import { createNode } from 'ecliptic';

const node = await createNode();
const sun = node.agent({ id: 'sun' });

// An answer can be a stream: yield each part when it is ready.
node.agent({ id: 'mars' }).onRequest(async function* () {
  for (const step of ['design', 'build', 'test']) yield { step };
});

const steps: unknown[] = [];
for await (const chunk of sun.stream('mars', { page: 'login' })) steps.push(chunk);
assert.deepEqual(steps, [{ step: 'design' }, { step: 'build' }, { step: 'test' }]);

await node.stop();
console.log('3 steps arrived in order');
