import { afterEach, describe, expect, it } from 'vitest';
import { createNode, type EclipticNode } from '../node/compose.js';
import type { Agent } from './agent.js';
import type { SubTaskInput } from './agent-swarms.js';

const nodes: EclipticNode[] = [];
afterEach(async () => {
  await Promise.all(nodes.splice(0).map((node) => node.stop()));
});

async function start(): Promise<EclipticNode> {
  const node = await createNode();
  nodes.push(node);
  return node;
}

function worker(node: EclipticNode, id: string, capabilities: string[], done: string[] = []): Agent {
  return node.agent({ id, capabilities }).onRequest(({ payload }) => {
    const { input } = payload as { input: SubTaskInput };
    done.push(`${id} ${input.subTask}`);
    return { by: id, of: input.subTask, from: Object.keys(input.results) };
  });
}

describe('agent.swarm', () => {
  it('describes sub-tasks without a description to their workers, and passes on earlier results [T-B6]', async () => {
    const node = await start();
    const told: string[] = [];
    for (const [id, capability] of [
      ['ann', 'writing'],
      ['bob', 'drawing'],
    ] as const) {
      node.agent({ id, capabilities: [capability] }).onTask((task) => {
        told.push(task.text);
        return `${capability} with ${JSON.stringify(task.results)}`;
      });
    }
    const { results } = await node.agent({ id: 'sun' }).swarm('A picture book', {
      capabilities: ['drawing', 'writing'],
      plan: [
        { id: 'story', requiredCapabilities: ['writing'] },
        { id: 'cover', requiredCapabilities: ['drawing'], dependsOn: ['story'] },
      ],
    }).result;
    expect(told).toEqual(['story: A picture book', 'cover: A picture book']);
    expect(results).toEqual({ story: 'writing with {}', cover: 'drawing with {"story":"writing with {}"}' });
  });

  it('does one sub-task for each capability, and gives all results [R8.2 R8.6]', async () => {
    const node = await start();
    const sun = node.agent({ id: 'sun' });
    worker(node, 'ann', ['paint']);
    worker(node, 'bob', ['write', 'paint']);
    const run = sun.swarm('a book', { capabilities: ['paint', 'write'] });
    const { results, status } = await run.result;
    expect(status).toBe('completed');
    expect(results).toEqual({
      paint: { by: 'ann', of: 'paint', from: [] },
      write: { by: 'bob', of: 'write', from: [] },
    });
    expect(run.session).toMatchObject({ status: 'completed', participants: [`ann@${node.key}`, `bob@${node.key}`] });
  });
});
