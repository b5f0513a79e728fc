import type { NodeStatus } from '../../http/dashboard/facts.js';
import { VERSION } from '../../runtime/package.js';
import { peersByState, queueLengths } from '../../telemetry/node-metrics.js';
import type { ControlContext, Handlers } from './context.js';
import { ALONE } from './story/told.js';

type Used = Pick<Handlers, 'agents' | 'providers' | 'waiting'>;

/** The state of the node in numbers. */
export function statusMethods({ node, store }: Pick<ControlContext, 'node' | 'store'>, on: Used) {
  return {
    async status(): Promise<NodeStatus> {
      const { registry, network } = node;
      const [agents, providers, waiting, queues, ready, { bytes, freeBytes, ...kept }] = await Promise.all([
        on.agents({}, ALONE),
        on.providers({}, ALONE),
        on.waiting({ local: true }, ALONE),
        queueLengths(node, undefined),
        node.readiness(),
        store.size(),
      ]);
      const unwell = providers.filter(({ phase, state }) => phase !== 'ready' || state !== 'healthy');
      return {
        node: registry.nodeKey ?? '',
        name: network?.name ?? '',
        version: VERSION,
        ready,
        uptimeMs: Math.round(process.uptime() * 1_000),
        agents: countBy(agents, ({ state }) => state),
        peers: peersByState(node),
        queues: { ...queues, ...kept },
        waiting: countBy(waiting.items, ({ kind }) => kind),
        degraded: unwell.map(({ id, phase, state, message }) => {
          return { id, state: phase === 'ready' ? state : phase, reason: message };
        }),
        store: { bytes, freeBytes },
      };
    },
  } satisfies Partial<Handlers>;
}

export function countBy<T>(items: readonly T[], keyOf: (item: T) => string): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const item of items) counts[keyOf(item)] = (counts[keyOf(item)] ?? 0) + 1;
  return counts;
}
