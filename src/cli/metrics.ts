import type { A2AMetrics } from '../mesh/observability.js';
import type { Command } from './command.js';

export const command: Command = {
  summary: 'show the node’s counters',
  usage: 'metrics [--prometheus]',
  options: { prometheus: { type: 'boolean' } },
  optionHelp: [['--prometheus', 'in Prometheus’ text format, as the node serves it at /metrics']],
  examples: ['ecliptic metrics', 'ecliptic metrics --prometheus'],
  async run({ connect, values, output }) {
    const client = await connect();
    if (values.prometheus) return output.line((await client.call<string>('metrics.text')).trimEnd());
    const metrics = await client.call<A2AMetrics>('metrics');
    output.value(metrics, () =>
      [
        `sent      ${metrics.totalMessagesSent}${breakdown(metrics.messagesSentByType)}`,
        `received  ${metrics.totalMessagesReceived}`,
        `latency   ${metrics.averageRoutingLatencyMs.toFixed(3)} ms on average`,
        `errors    ${metrics.errorCount}${breakdown(metrics.errorsByCode)}`,
        `tools     ${metrics.totalToolInvocations} calls, ${metrics.toolErrorCount} failed`,
      ].join('\n'),
    );
  },
};

function breakdown(counts: Readonly<Record<string, number | undefined>>): string {
  const parts = Object.entries(counts).filter(([, count]) => count);
  return parts.length === 0 ? '' : `  (${parts.map(([name, count]) => `${name} ${count}`).join(', ')})`;
}
