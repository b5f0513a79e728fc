import { useEffect, useState } from 'preact/hooks';
import type { A2AMetrics } from '../../src/mesh/observability.js';
import { connection, read } from '../api.js';
import { Chart, type ChartData } from '../parts/chart.js';
import { Empty, Stale } from '../parts/empty.js';
import { Unread } from '../parts/read.js';
import { Facts, Section } from '../parts/table.js';
import { useRead } from '../stream.js';
import { METRICS_TEXT } from '../text/metrics.js';

interface History extends ChartData {
  readonly everyMs: number;
}

const RETRY_MS = 10_000;

/** Rates, times, queues, memory and disk of this node over the last minutes, and its counters. */
export function Metrics() {
  const [points, setPoints] = useState<number>(METRICS_TEXT.periods[1][0]);
  const { history, error } = useHistory(points);
  return (
    <>
      <p class="period">
        <label>
          <span class="dim">{METRICS_TEXT.periodLabel}</span>
          <select value={points} onChange={(event) => setPoints(Number(event.currentTarget.value))}>
            {METRICS_TEXT.periods.map(([count, name]) => (
              <option key={count} value={count}>
                {name}
              </option>
            ))}
          </select>
        </label>
        {history && <span class="dim">{METRICS_TEXT.samples(history.at.length, history.everyMs / 1_000)}</span>}
      </p>
      {history ? (
        <Charts history={history} error={error} />
      ) : error === undefined || connection.value === 'broken' ? (
        <Unread reading={METRICS_TEXT.loading} />
      ) : (
        <p class="dim">{METRICS_TEXT.noHistory(error)}</p>
      )}
      <Counters />
    </>
  );
}

/** Read again with each sample; not followed, because all of it changes with each. */
function useHistory(points: number): { readonly history: History | undefined; readonly error: string | undefined } {
  const [history, setHistory] = useState<History | undefined>(undefined);
  const [error, setError] = useState<string | undefined>(undefined);
  const isBroken = connection.value === 'broken';
  useEffect(() => {
    if (isBroken) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isOver = false;
    const next = async () => {
      let pause = RETRY_MS;
      try {
        const found = await read<History>(`metrics.history?points=${points}`);
        if (isOver) return;
        pause = found.everyMs;
        setHistory(found);
        setError(undefined);
      } catch (thrown) {
        if (isOver) return;
        setError(String((thrown as Error).message));
      }
      timer = setTimeout(() => void next(), pause);
    };
    void next();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [points, isBroken]);
  return { history, error };
}

function Charts({ history, error }: { history: History; error: string | undefined }) {
  if (history.at.length === 0) return <Empty>{METRICS_TEXT.tooNew}</Empty>;
  const known = new Set(METRICS_TEXT.charts.flatMap(({ series }) => series.map(([name]) => name)));
  const others = Object.keys(history.series).filter((name) => !known.has(name));
  const charts = METRICS_TEXT.charts.filter(({ series }) => series.some(([name]) => name in history.series));
  return (
    <>
      <Stale error={error} />
      <div class="charts">
        {charts.map((text) => (
          <Chart key={text.title} text={text} data={history} />
        ))}
        {others.map((name) => (
          <OtherChart key={name} name={name} history={history} />
        ))}
      </div>
    </>
  );
}

function OtherChart({ name, history }: { name: string; history: History }) {
  const [text] = useState(() => METRICS_TEXT.other(name));
  return <Chart text={text} data={history} />;
}

function Counters() {
  const { value, error } = useRead<A2AMetrics>('metrics');
  if (!value) return null;
  const { names, ms, title, byType, byCode, more, command } = METRICS_TEXT.counters;
  const listed = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts)
      .filter(([, count]) => count > 0)
      .map(([name, count]) => `${name} ${count}`)
      .join(', ');
  return (
    <Section title={title}>
      <Stale error={error} />
      <Facts
        rows={[
          [names.sent, value.totalMessagesSent],
          [names.received, value.totalMessagesReceived],
          [byType, listed(value.messagesByType)],
          [names.latency, ms(value.averageRoutingLatencyMs)],
          [names.errors, value.errorCount],
          [byCode, listed(value.errorsByCode as Record<string, number>)],
          [names.tools, value.totalToolInvocations],
          [names.toolTime, value.totalToolInvocations === 0 ? null : ms(value.averageToolDurationMs)],
          [names.toolErrors, value.totalToolInvocations === 0 ? null : value.toolErrorCount],
        ]}
      />
      <p class="dim">
        {more} <code>{command}</code>
      </p>
    </Section>
  );
}
