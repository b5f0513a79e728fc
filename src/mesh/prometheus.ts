import type { HistogramSnapshot } from './histogram.js';
import type { A2AMetrics, Histograms } from './observability.js';

export interface MetricSample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** One metric with all of its samples. Units are the base units of Prometheus: seconds and bytes. */
export type MetricFamily = {
  readonly name: string;
  readonly help: string;
} & (
  | { readonly type: 'counter' | 'gauge'; readonly samples: readonly MetricSample[] }
  | { readonly type: 'histogram'; readonly histogram: HistogramSnapshot }
);

/** One sample for each entry, with the entry's name as label. */
export function samplesBy(
  label: string,
  values: Readonly<Record<string, number | undefined>>,
): readonly MetricSample[] {
  return Object.entries(values).map(([name, value]) => ({ labels: { [label]: name }, value: value ?? 0 }));
}

export function single(value: number): readonly MetricSample[] {
  return [{ labels: {}, value }];
}

/** The metrics of messages and tools. */
export function messageFamilies(metrics: A2AMetrics, histograms?: Histograms): MetricFamily[] {
  const { messagesSentByType, totalMessagesReceived, errorsByCode, toolInvocationsByTool, toolErrorCount } = metrics;
  const counters: MetricFamily[] = [
    {
      name: 'ecliptic_messages_sent_total',
      type: 'counter',
      help: 'Messages accepted for delivery, by type.',
      samples: samplesBy('type', messagesSentByType),
    },
    {
      name: 'ecliptic_messages_received_total',
      type: 'counter',
      help: 'Messages handed to local agents.',
      samples: single(totalMessagesReceived),
    },
    {
      name: 'ecliptic_errors_total',
      type: 'counter',
      help: 'Refusals and failures, by code.',
      samples: samplesBy('code', errorsByCode),
    },
    {
      name: 'ecliptic_tool_invocations_total',
      type: 'counter',
      help: 'Tool invocations, by tool.',
      samples: samplesBy('tool', toolInvocationsByTool),
    },
    {
      name: 'ecliptic_tool_errors_total',
      type: 'counter',
      help: 'Tool invocations that failed.',
      samples: single(toolErrorCount),
    },
  ];
  if (!histograms) return counters;
  const histogram = (name: string, help: string, snapshot: HistogramSnapshot): MetricFamily => {
    return { name, type: 'histogram', help, histogram: snapshot };
  };
  const { routingLatency, deliveryLatency, toolDuration, taskDuration } = histograms;
  return [
    ...counters,
    histogram('ecliptic_routing_latency_seconds', 'Time to route a message, of those measured.', routingLatency),
    histogram(
      'ecliptic_delivery_latency_seconds',
      'Time from the send of a message until its handler was done, of those measured.',
      deliveryLatency,
    ),
    histogram('ecliptic_tool_duration_seconds', 'Duration of tool invocations.', toolDuration),
    histogram('ecliptic_task_duration_seconds', 'Time that agents worked on tasks.', taskDuration),
  ];
}

/** The metrics of messages and tools, and others, in Prometheus' text format 0.0.4. */
export function toPrometheus(
  metrics: A2AMetrics,
  histograms?: Histograms,
  others: readonly MetricFamily[] = [],
): string {
  const lines: string[] = [];
  for (const family of [...messageFamilies(metrics, histograms), ...others]) {
    const { name } = family;
    lines.push(`# HELP ${name} ${escapeHelp(family.help)}`, `# TYPE ${name} ${family.type}`);
    if (family.type !== 'histogram') {
      for (const { labels, value } of family.samples) lines.push(`${name}${labelText(labels)} ${value}`);
      continue;
    }
    const { buckets, sumMs, count } = family.histogram;
    for (const [bound, below] of buckets) {
      const le = bound === Number.POSITIVE_INFINITY ? '+Inf' : String(bound / 1_000);
      lines.push(`${name}_bucket{le="${le}"} ${below}`);
    }
    lines.push(`${name}_sum ${sumMs / 1_000}`, `${name}_count ${count}`);
  }
  return `${lines.join('\n')}\n`;
}

function labelText(labels: Readonly<Record<string, string>>): string {
  const parts = Object.entries(labels).map(([label, value]) => `${label}="${escapeLabel(value)}"`);
  return parts.length === 0 ? '' : `{${parts.join(',')}}`;
}

function escapeHelp(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}

function escapeLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
