const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

const bytes = (value: number) => {
  const power = value < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log10(value) / 3));
  return `${round(value / 1000 ** power)} ${UNITS[power]}`;
};
const ms = (value: number) => `${round(value)} ms`;
const perSecond = (value: number) => `${round(value)}/s`;
const plain = (value: number) => round(value);

function round(value: number): string {
  if (value === 0) return '0';
  return value >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(value >= 1 ? 3 : 2)));
}

export interface ChartText {
  readonly title: string;
  readonly unit: (value: number) => string;
  /** The name of each series in the history, and for people. */
  readonly series: readonly (readonly [series: string, name: string])[];
}

/** Texts of the view of metrics. */
export const METRICS_TEXT = {
  loading: 'Reading the metrics.',
  charts: [
    {
      title: 'Messages',
      unit: perSecond,
      series: [
        ['routedPerSecond', 'routed'],
        ['refusedPerSecond', 'refused'],
        ['failedPerSecond', 'failed'],
      ],
    },
    {
      title: 'Queues',
      unit: plain,
      series: [
        ['mailboxes', 'mailboxes'],
        ['providerWork', 'work of providers'],
        ['outbox', 'outbox'],
        ['inbox', 'inbox'],
        ['approvalsWaiting', 'approvals'],
      ],
    },
    {
      title: 'Routing time',
      unit: ms,
      series: [
        ['routingP50Ms', 'p50'],
        ['routingP99Ms', 'p99'],
      ],
    },
    {
      title: 'Delivery time',
      unit: ms,
      series: [
        ['deliveryP50Ms', 'p50'],
        ['deliveryP99Ms', 'p99'],
      ],
    },
    {
      title: 'Memory',
      unit: bytes,
      series: [
        ['rssBytes', 'process'],
        ['heapBytes', 'heap'],
      ],
    },
    { title: 'Event loop delay', unit: ms, series: [['eventLoopP99Ms', 'p99']] },
    { title: 'Store', unit: bytes, series: [['storeBytes', 'on disk']] },
    { title: 'Free disk', unit: bytes, series: [['diskFreeBytes', 'free']] },
    { title: 'Connected devices', unit: plain, series: [['peersConnected', 'connected']] },
  ] as readonly ChartText[],
  /** For a series that this page does not know. */
  other: (series: string): ChartText => ({ title: series, unit: plain, series: [[series, series]] }),
  summary: (name: string, latest: string, most: string) => `${name} ${latest} (max ${most})`,
  none: 'no data',
  noData: (name: string) => `${name} no data`,
  noHistory: (reason: string) => `No history of metrics: ${reason}. The counters since the start of the node:`,
  tooNew: 'The first samples come within seconds of the start of the node.',
  periodLabel: 'The last',
  /** Samples, at one every five seconds. */
  periods: [
    [120, '10 minutes'],
    [360, '30 minutes'],
    [720, 'hour'],
  ],
  samples: (count: number, seconds: number) => `${count} samples, one every ${seconds} s`,
  counters: {
    title: 'Counters since the start',
    names: {
      sent: 'Messages sent',
      received: 'Messages received',
      latency: 'Average routing time',
      errors: 'Errors',
      tools: 'Tool calls',
      toolTime: 'Average tool time',
      toolErrors: 'Failed tool calls',
    },
    ms,
    byType: 'By type',
    byCode: 'By error code',
    more: 'For Prometheus: GET /metrics. In a terminal:',
    command: 'ecliptic metrics',
  },
} as const;
