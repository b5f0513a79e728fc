/** Work is proposed, accepted and confirmed, and everything of it is in one thread. */
import assert from 'node:assert/strict';
import { createNode } from 'ecliptic';

const node = await createNode();
const sun = node.agent({ id: 'sun' });
const mars = node.agent({ id: 'mars', capabilities: ['backend.api'] });
const busy = node.agent({ id: 'neptune', capabilities: ['backend.api'] });

mars.onProposal(async (proposal) => {
  const work = await proposal.accept({ estimatedCompletionMs: 5_000 });
  work.progress('half done');
  await work.complete({ built: proposal.input });
});
busy.onProposal((proposal) => proposal.reject('busy', { alternative: 'mars' }));

const task = { taskDescription: 'Build the login page', input: 'login' };
const first = sun.propose({ ...task, to: 'neptune' });
const { status, alternativeSuggestion } = await first.answered;
assert.equal(status, 'rejected');

const second = sun.propose({ ...task, to: alternativeSuggestion! });
second.onProgress((value) => assert.equal(value, 'half done'));
assert.equal((await second.answered).acceptedBy, 'mars');
assert.deepEqual(await second.result, { built: 'login' });

// Everyone who could do it is asked, and the best bid gets it.
const all = sun.proposeToAll({ ...task, requiredCapabilities: ['backend.api'] });
assert.deepEqual(await all.result, { built: 'login' });
assert.equal(all.to, 'mars');

const types = node.threads.get(second.proposal.correlationId).map(({ type }) => type);
assert.deepEqual(types, ['task-proposal', 'task-accept', 'notification', 'stream-data', 'response']);
console.log(`${second.to} has built it: ${types.join(', ')}`);
await node.stop();
