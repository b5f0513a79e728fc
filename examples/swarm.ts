import assert from 'node:assert/strict';
import { createNode, type SubTaskInput } from 'ecliptic';

/** Three agents make a picture book between them; another agent takes over from one that fails. */
const node = await createNode();
const sun = node.agent({ id: 'sun' });

node.agent({ id: 'mars', capabilities: ['writing'] }).onTask((task) => `once upon a time: ${task.text}`);
node.agent({ id: 'venus', capabilities: ['drawing'] }).onTask((task) => {
  const { results } = task.message.parts[1]!.data as SubTaskInput;
  return `a drawing of "${results.story}"`;
});
node.agent({ id: 'pluto', capabilities: ['drawing', 'writing'] }).onTask(() => {
  throw new Error('too small');
});

const swarm = sun.swarm('A picture book', {
  capabilities: ['drawing', 'writing'],
  plan: [
    { id: 'story', description: 'a cat in space', requiredCapabilities: ['writing'] },
    { id: 'cover', description: 'the cover', requiredCapabilities: ['drawing'], dependsOn: ['story'] },
    { id: 'back', description: 'the back', requiredCapabilities: ['drawing'], dependsOn: ['story'] },
  ],
});
const { status, results } = await swarm.result;

assert.equal(status, 'completed');
assert.equal(results.story, 'once upon a time: a cat in space');
assert.equal(results.cover, 'a drawing of "once upon a time: a cat in space"');
assert.equal(
  swarm.session!.subTasks.every(({ assignedAgent }) => !assignedAgent.startsWith('pluto@')),
  true,
);
console.log(results);

await node.stop();
