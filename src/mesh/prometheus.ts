import type { A2AMetrics, HistogramSnapshot, Histograms } from './observability.js';

export interface Gauges {
  /** Waiting messages and work, by queue. */
  readonly queues: Readonly<Record<string, number>>;
  /** Other nodes, by state. */
  readonly peers: Readonly<Record<string, number>>;
  /** Bytes, by kind. */
  readonly memory: Readonly<Record<string, number>>;
}

export function toPrometheus(metrics: A2AMetrics, histograms?: Histograms, gauges?: Gauges): string {
  const lines: string[] = [];
  const family = (name: string, type: 'counter' | 'gauge', help: string, samples: Iterable<[string, number]>) => {
    lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
    for (const [labels, value] of samples) lines.push(`${name}${labels} ${value}`);
  };
  family(
    'ecliptic_messages_sent_total',
    'counter',
    'Messages accepted for delivery, by type.',
    by('type', metrics.messagesSentByType),
  );
  family('ecliptic_messages_received_total', 'counter', 'Messages handed to local agents.', [
    ['', metrics.totalMessagesReceived],
  ]);
  const histogram = (name: string, help: string, { buckets, sumMs, count }: HistogramSnapshot) => {
    lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} histogram`);
    for (const [bound, below] of buckets) {
      lines.push(`${name}_bucket{le="${bound === Number.POSITIVE_INFINITY ? '+Inf' : bound / 1_000}"} ${below}`);
    }
    lines.push(`${name}_sum ${sumMs / 1_000}`, `${name}_count ${count}`);
  };
  family('ecliptic_errors_total', 'counter', 'Refusals and failures, by code.', by('code', metrics.errorsByCode));
  family(
    'ecliptic_tool_invocations_total',
    'counter',
    'Tool invocations, by tool.',
    by('tool', metrics.toolInvocationsByTool),
  );
  family('ecliptic_tool_errors_total', 'counter', 'Tool invocations that failed.', [['', metrics.toolErrorCount]]);
  if (histograms) {
    const { routingLatency, toolDuration } = histograms;
    histogram('ecliptic_routing_latency_seconds', 'Time to route a message, of those measured.', routingLatency);
    histogram('ecliptic_tool_duration_seconds', 'Duration of tool invocations.', toolDuration);
  }
  if (gauges) {
    family('ecliptic_queue_length', 'gauge', 'Messages and work that wait, by queue.', by('queue', gauges.queues));
    family('ecliptic_peers', 'gauge', 'Other nodes, by state.', by('state', gauges.peers));
    family('ecliptic_memory_bytes', 'gauge', 'Memory of the process, by kind.', by('kind', gauges.memory));
  }
  return `${lines.join('\n')}\n`;
}

function by(label: string, counts: Readonly<Record<string, number | undefined>>): [string, number][] {
  return Object.entries(counts).map(([value, count]) => [`{${label}="${escapeLabel(value)}"}`, count ?? 0]);
}

function escapeLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
