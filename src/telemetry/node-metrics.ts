import { inbox, outbox } from '../mail/tables.js';
import { audit, journal } from '../mesh/audit/tables.js';
import type { A2AObservability } from '../mesh/observability.js';
import { type MetricFamily, samplesBy, single } from '../mesh/prometheus.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { Network } from '../network/peers/network.js';
import type { ProviderRegistry } from '../providers/registry/registry.js';
import type { Store } from '../store/store.js';

export interface MeasuredNode {
  readonly registry: AgentRegistry;
  readonly network: Network | undefined;
  readonly providers: ProviderRegistry;
  readonly observability: A2AObservability;
}

/** States without any member are shown as zero, so that a graph has no gaps. */
const PEER_STATES = ['connected', 'idle', 'suspected', 'away', 'lost', 'incompatible', 'removed'] as const;
const PROVIDER_STATES = ['healthy', 'degraded', 'unavailable', 'starting', 'failed', 'draining'] as const;

/** Messages and work that wait, by queue. */
export async function queueLengths(node: MeasuredNode, store: Store | undefined): Promise<Record<string, number>> {
  let mailboxes = 0;
  for (const { mailbox } of node.registry.entries()) mailboxes += mailbox?.waiting ?? 0;
  const stored = store && { outbox: await store.count(outbox), inbox: await store.count(inbox) };
  return { mailboxes, 'provider-work': node.providers.waiting, ...stored };
}

export function peersByState({ network }: Pick<MeasuredNode, 'network'>): Record<string, number> {
  return countBy(
    PEER_STATES,
    (network?.list() ?? []).map(({ state }) => state),
  );
}

export function providersByState({ providers }: Pick<MeasuredNode, 'providers'>): Record<string, number> {
  return countBy(
    PROVIDER_STATES,
    providers.list().map(({ phase, state }) => {
      if (phase === 'failed') return 'failed';
      return phase === 'draining' || phase === 'drained' ? 'draining' : state;
    }),
  );
}

/** Queues, peers, providers, tasks, mail, store and process. */
export async function nodeFamilies(node: MeasuredNode, store: Store | undefined): Promise<MetricFamily[]> {
  const { observability } = node;
  const { rss, heapUsed, heapTotal, external } = process.memoryUsage();
  const agents: Record<string, number> = {};
  for (const { status } of node.registry.getLocalCards()) {
    const state = status?.state ?? 'ready';
    agents[state] = (agents[state] ?? 0) + 1;
  }
  const cpu = process.cpuUsage();
  return [
    gauge('ecliptic_queue_length', 'Messages and work that wait, by queue.', 'queue', await queueLengths(node, store)),
    gauge('ecliptic_agents', 'Agents of this node, by state.', 'state', agents),
    gauge('ecliptic_peers', 'Other nodes, by state.', 'state', peersByState(node)),
    gauge('ecliptic_providers', 'Providers, by state.', 'state', providersByState(node)),
    {
      name: 'ecliptic_tasks_total',
      type: 'counter',
      help: 'Tasks that agents of this node have ended, by kind and outcome.',
      samples: observability.getTaskCounts().flatMap(({ kind, completed, failed }) => [
        { labels: { kind, outcome: 'completed' }, value: completed },
        { labels: { kind, outcome: 'failed' }, value: failed },
      ]),
    },
    {
      name: 'ecliptic_receipts_total',
      type: 'counter',
      help: 'States that durable messages have reached, as this node learnt of them.',
      samples: samplesBy('state', observability.getReceiptCounts()),
    },
    ...(store ? await storeFamilies(store) : []),
    gauge('ecliptic_memory_bytes', 'Memory of the process, by kind.', 'kind', {
      rss,
      'heap-used': heapUsed,
      'heap-total': heapTotal,
      external,
    }),
    {
      name: 'ecliptic_cpu_seconds_total',
      type: 'counter',
      help: 'CPU time of the process, by mode.',
      samples: samplesBy('mode', { user: cpu.user / 1e6, system: cpu.system / 1e6 }),
    },
    {
      name: 'ecliptic_uptime_seconds',
      type: 'gauge',
      help: 'Age of the process.',
      samples: single(process.uptime()),
    },
  ];
}

async function storeFamilies(store: Store): Promise<MetricFamily[]> {
  const rows = { journal: (await store.figures(journal)).rows, audit: (await store.figures(audit)).rows };
  const state = store.state?.();
  return [
    gauge('ecliptic_store_rows', 'Rows of the records that grow, by table.', 'table', rows),
    ...(state
      ? ([
          gauge('ecliptic_store_bytes', 'Bytes of the store on disk, by kind of file.', 'kind', {
            log: state.logBytes,
            run: state.runBytes,
          }),
          gauge('ecliptic_store_files', 'Files of the store, by kind.', 'kind', { log: state.logs, run: state.runs }),
          {
            name: 'ecliptic_store_failures_total',
            type: 'counter',
            help: 'Operations of the store that failed: groups of writes, and flushes of full logs.',
            samples: samplesBy('operation', { write: state.failedWrites, flush: state.failedFlushes }),
          },
          {
            name: 'ecliptic_store_writable',
            type: 'gauge',
            help: '1 if the latest write of the store succeeded, else 0.',
            samples: single(state.failure ? 0 : 1),
          },
        ] satisfies MetricFamily[])
      : []),
  ];
}

function gauge(name: string, help: string, label: string, values: Readonly<Record<string, number>>): MetricFamily {
  return { name, type: 'gauge', help, samples: samplesBy(label, values) };
}

function countBy(states: readonly string[], found: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = Object.fromEntries(states.map((state) => [state, 0]));
  for (const state of found) counts[state] = (counts[state] ?? 0) + 1;
  return counts;
}
