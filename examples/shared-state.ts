import assert from 'node:assert/strict';
import { createNode } from 'ecliptic';

/** Two agents write one document at the same time; both end up with everything. */
const node = await createNode();
const mars = node.agent({ id: 'mars' }).state('plan');
const venus = node.agent({ id: 'venus' }).state('plan');

mars.map('tasks').set('login', { by: 'mars' });
venus.map('tasks').set('design', { by: 'venus' });
venus.text('notes').insert(0, 'Keep it simple.');
await mars.synced();
await venus.synced();

assert.deepEqual(mars.map('tasks').keys().sort(), ['design', 'login']);
assert.deepEqual(venus.toJSON(), mars.toJSON());
assert.equal(mars.text('notes').toString(), 'Keep it simple.');
console.log(JSON.stringify(mars));

await node.stop();
