import assert from 'node:assert/strict';
import { createNode, EclipticError } from 'ecliptic';

const node = await createNode({ sandbox: { enforced: true, allow: { lab: ['mercury'] } } });
for (const id of ['sun', 'mercury', 'mars']) node.agent({ id }).onNotification(() => {});
const probe = node.agent({ id: 'probe', sandbox: 'lab' });
const code = (error: unknown) => (error instanceof EclipticError ? error.code : error);

// A sandboxed agent reaches only its own sandbox and the agents on its allow list.
assert.equal((await probe.send('mercury', 'hello')).delivered, true);
assert.equal(await probe.send('mars', 'hello').catch(code), 'SANDBOX_VIOLATION');

// L1 does not open conversations with L2; a proposal to a higher tier needs a justification.
assert.equal(await node.agentById('mercury').send('mars', 'hello').catch(code), 'TIER_VIOLATION');
const mars = node.agentById('mars');
assert.equal(await mars.send('sun', 'help', { type: 'task-proposal' }).catch(code), 'ESCALATION_REQUIRED');
await mars.send('sun', 'help', { type: 'task-proposal', justification: 'the schema is missing' }).catch(code);

// Every refusal left one security event.
const refusals = node.observability.getRecentEvents().filter((event) => event.type === 'security');
assert.deepEqual(
  refusals.map((event) => event.code),
  ['SANDBOX_VIOLATION', 'TIER_VIOLATION', 'ESCALATION_REQUIRED'],
);

await node.stop();
console.log('the rules hold');
