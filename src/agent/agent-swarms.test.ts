import { afterEach, describe, expect, it } from 'vitest';
import { createNode, type EclipticNode } from '../node.js';
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
