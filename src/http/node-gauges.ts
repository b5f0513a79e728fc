import type { Gauges } from '../mesh/prometheus.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { Network } from '../network/peers/network.js';
import type { ProviderRegistry } from '../providers/registry/provider-registry.js';
import type { Store } from '../store/store.js';

export interface GaugedNode {
  readonly registry: AgentRegistry;
  readonly network: Network | undefined;
  readonly providers: ProviderRegistry;
}

/** How full the node's queues are, which peers it has, and the memory that it takes, at this moment. */
export async function gaugesOf(node: GaugedNode, store: Store | undefined): Promise<Gauges> {
  const { registry, network, providers } = node;
  let mailboxes = 0;
  for (const { mailbox } of registry.entries()) mailboxes += mailbox?.load ?? 0;
  const peers: Record<string, number> = {};
  for (const { state } of network?.list() ?? []) peers[state] = (peers[state] ?? 0) + 1;
  const { rss, heapUsed, external } = process.memoryUsage();
  const kept = store && {
    outbox: await store.count({ from: 'outbox' }),
    inbox: await store.count({ from: 'inbox' }),
  };
  return {
    queues: { mailboxes, 'provider-work': providers.waiting, ...kept },
    peers,
    memory: { rss, 'heap-used': heapUsed, external },
  };
}
