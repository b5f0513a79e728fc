import type { A2AMetrics } from './observability.js';

/** The same counters in Prometheus' text format. */
export function toPrometheus(metrics: A2AMetrics): string {
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
  family('ecliptic_routing_latency_ms', 'gauge', 'Average routing latency in milliseconds.', [
    ['', metrics.averageRoutingLatencyMs],
  ]);
  family('ecliptic_errors_total', 'counter', 'Refusals and failures, by code.', by('code', metrics.errorsByCode));
  family(
    'ecliptic_tool_invocations_total',
    'counter',
    'Tool invocations, by tool.',
    by('tool', metrics.toolInvocationsByTool),
  );
  family('ecliptic_tool_errors_total', 'counter', 'Tool invocations that failed.', [['', metrics.toolErrorCount]]);
  family('ecliptic_tool_duration_ms', 'gauge', 'Average tool duration in milliseconds.', [
    ['', metrics.averageToolDurationMs],
  ]);
  return `${lines.join('\n')}\n`;
}

function by(label: string, counts: Readonly<Record<string, number | undefined>>): [string, number][] {
  return Object.entries(counts).map(([value, count]) => [`{${label}="${escapeLabel(value)}"}`, count ?? 0]);
}

function escapeLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
