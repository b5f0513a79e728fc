import { afterEach, describe, expect, it } from 'vitest';
import { invokeRemoteAgent } from '../../src/a2a/client/remote-agents.js';
import { DELEGATION_HEADER } from '../../src/a2a/protocol/delegation.js';
import type { Agent } from '../../src/agent/agent.js';
import type { AgentTask } from '../../src/agent/agent-tasks.js';
import type { Gateway } from '../../src/http/gateway.js';
import { createNode, type EclipticNode } from '../../src/node/compose.js';
import { offerRemoteAgents } from '../../src/roster/remote-agent-tools.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';

const nodes: EclipticNode[] = [];

afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

interface Served {
  readonly node: EclipticNode;
  readonly gateway: Gateway;
}

async function serve(prepare: (node: EclipticNode) => void): Promise<Served> {
  const node = await createNode();
  nodes.push(node);
  prepare(node);
  return { node, gateway: await node.serve({ port: 0, open: true, allowPrivate: ['127.0.0.0/8'] }) };
}

const cardOf = ({ gateway }: Served, agent: string) => `${gateway.url}/api/agents/${agent}/agent-card`;

/** Records the chains of its tasks and delegates each task; the outcome is its result. */
function handsOn(agent: Agent, to: () => string, chains: string[][]): void {
  agent.onTask(async (task: AgentTask) => {
    chains.push(task.delegation.chain.map((entry) => entry.replace(/@.*/, '')));
    const { error, responseText } = await invokeRemoteAgent(to(), task.text, {
      ...task.delegation,
      allowPrivate: true,
    });
    return error ?? responseText;
  });
}

describe('a delegated task', () => {
  it('is refused when it comes back to an agent that delegated it', async () => {
    const chains: string[][] = [];
    const a = await serve((node) => handsOn(node.agent({ id: 'front' }), () => cardOf(b, 'back'), chains));
    const b: Served = await serve((node) => handsOn(node.agent({ id: 'back' }), () => cardOf(a, 'front'), chains));
    const { responseText } = await invokeRemoteAgent(a.gateway.url, 'round and round', { allowPrivate: true });
    expect(responseText).toContain(`the task has come back to ${a.node.agentById('front').address}`);
    expect(chains).toEqual([[], ['front']]);
  });

  it('is not mistaken for a cycle when agents of two nodes have the same name', async () => {
    const b = await serve((node) => node.agent({ id: 'mars' }).onTask(({ text }) => `done: ${text}`));
    const a = await serve((node) => handsOn(node.agent({ id: 'mars' }), () => cardOf(b, 'mars'), []));
    const { responseText } = await invokeRemoteAgent(a.gateway.url, 'dig', { allowPrivate: true });
    expect(responseText).toBe('done: dig');
  });

  it('is delegated at most five times', async () => {
    const chains: string[][] = [];
    const way = ['a1', 'b1', 'a2', 'b2', 'a3', 'b3', 'a4'];
    const placed = (side: string) => (node: EclipticNode) => {
      for (const [step, id] of way.entries()) {
        if (!id.startsWith(side)) continue;
        const next = way[step + 1];
        const to = () => cardOf(next!.startsWith('a') ? a : b, next!);
        handsOn(node.agent({ id }), to, chains);
      }
    };
    const a: Served = await serve(placed('a'));
    const b: Served = await serve(placed('b'));
    const { responseText } = await invokeRemoteAgent(cardOf(a, 'a1'), 'on and on', { allowPrivate: true });
    expect(responseText).toBe('the task was handed on 5 times');
    expect(chains.at(-1)).toEqual(['a1', 'b1', 'a2', 'b2', 'a3']);
  });

  it('keeps its chain through a tool that calls the other agent, which adds the caller', async () => {
    const chains: (readonly string[])[] = [];
    const b = await serve((node) =>
      node.agent({ id: 'back' }).onTask((task) => {
        chains.push(task.delegation.chain);
        return 'done';
      }),
    );
    const a = await serve((node) => {
      const front = node.agent({ id: 'front' }).onTask(async (task) => {
        const args = { agent_url: b.gateway.url, message: task.text };
        const { structuredContent } = await front.mcp.call('sun.invoke_remote_agent', args, { meta: task.meta });
        return structuredContent;
      });
      offerRemoteAgents(node.agent({ id: 'sun' }), { runtime: systemRuntime(), allowPrivate: ['127.0.0.0/8'] });
    });
    const asked = { agent: 'venus@far', chain: ['pluto@far'], allowPrivate: true };
    expect(await invokeRemoteAgent(a.gateway.url, 'dig', asked)).toMatchObject({ success: true });
    expect(chains).toEqual([['pluto@far', 'venus@far', a.node.agentById('front').address]]);
  });

  it('keeps a chain that came only in a header', async () => {
    let task: AgentTask | undefined;
    const { gateway } = await serve((node) =>
      node.agent({ id: 'front' }).onTask((given) => {
        task = given;
      }),
    );
    const headers = { 'Content-Type': 'application/json', [DELEGATION_HEADER]: 'pluto%40far, venus%40far' };
    const body = JSON.stringify({ message: 'hello' });
    expect((await fetch(`${gateway.url}/a2a/tasks/send`, { method: 'POST', headers, body })).status).toBe(200);
    await expect.poll(() => task?.delegation.chain).toEqual(['pluto@far', 'venus@far']);
  });
});
