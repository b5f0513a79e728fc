import type { Agent } from '../../../src/index.js';

/** Its requests: write an entry, return all, or say what time it is. */
type ScribeOrder = { readonly set: string } | { readonly do: 'read' | 'time' };

/** An agent that writes entries into a durable document that the scribes of all nodes share. */
export function setup(agent: Agent): void {
  const board = agent.state('board');
  const entries = board.map('entries');
  agent.onRequest(async ({ payload }) => {
    const order = payload as ScribeOrder;
    if ('set' in order) {
      entries.set(order.set, agent.id);
      // Earlier builds have only `synced`.
      await (board.stored ?? board.synced).call(board);
      return true;
    }
    if (order.do === 'time') return Date.now();
    return Object.keys(board.toJSON().entries ?? {}).sort();
  });
}
