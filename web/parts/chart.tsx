import { useEffect, useRef } from 'preact/hooks';
import type uPlot from 'uplot';
import { type Paint, paintOf } from '../orrery/paint.js';
import { type ChartText, METRICS_TEXT } from '../text/metrics.js';

const HEIGHT = 132;
const TONES = ['busy', 'bad', 'warn', 'good', 'text'] as const;
/** Beside the colour, so that a line is known without it. */
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3], [1, 2]] as const;
const MEDIA = ['(prefers-color-scheme: dark)', '(prefers-contrast: more)'] as const;

export interface ChartData {
  /** Epoch milliseconds. */
  readonly at: readonly number[];
  /** Null where there was nothing to measure. */
  readonly series: Readonly<Record<string, readonly Sample[]>>;
}

type Sample = number | null;

/** Times of messages: between gaps a sample may stand alone, which only a point shows. */
const TIMES = /^(?:routing|delivery)P\d+Ms$/;

function samplesOf(name: string, { series }: ChartData): readonly Sample[] {
  return series[name] ?? [];
}

/** A chart of some series over time, with its latest and greatest values as text. */
export function Chart({ text, data }: { text: ChartText; data: ChartData }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    const element = box.current!;
    const ended = new AbortController();
    let paint = paintOf(element);
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    const begin = async () => {
      const { uPlot: Plot } = await import('../charts.js');
      if (ended.signal.aborted) return;
      const options = optionsOf(text, element.clientWidth, () => paint);
      plot.current = new Plot(options, columns(text, latest.current), element);
      observer.observe(element);
    };
    for (const media of MEDIA) {
      const restyle = () => {
        paint = paintOf(element);
        plot.current?.redraw();
      };
      matchMedia(media).addEventListener('change', restyle, { signal: ended.signal });
    }
    void begin();
    return () => {
      ended.abort();
      observer.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [text]);
  useEffect(() => plot.current?.setData(columns(text, data)), [text, data]);
  return (
    <figure class="chart">
      <figcaption>
        <strong>{text.title}</strong>
        {text.series.map(([series, name], at) => (
          <span key={series} class="nowrap">
            <span class={TONES[at % TONES.length]} aria-hidden="true">
              {MARKS[at % MARKS.length]}
            </span>{' '}
            {summary(text, name, samplesOf(series, data))}
          </span>
        ))}
      </figcaption>
      <div ref={box} aria-hidden="true" />
    </figure>
  );
}

const MARKS = ['━', '╍', '┅', '╸', '┈'];

function summary({ unit }: ChartText, name: string, values: readonly Sample[]): string {
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return METRICS_TEXT.noData(name);
  const most = known.reduce((max, value) => Math.max(max, value), 0);
  const latest = values.at(-1) ?? null;
  return METRICS_TEXT.summary(name, latest === null ? METRICS_TEXT.none : unit(latest), unit(most));
}

function clock(seconds: number): string {
  return new Date(seconds * 1_000).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hour12: false });
}

function columns({ series }: ChartText, data: ChartData): uPlot.AlignedData {
  return [data.at.map((at) => at / 1_000), ...series.map(([name]) => [...samplesOf(name, data)])];
}

function optionsOf({ series, unit }: ChartText, width: number, paint: () => Paint): uPlot.Options {
  const axis = {
    stroke: () => paint().dim,
    font: '11px system-ui',
    grid: { stroke: () => paint().line, width: 1 },
    ticks: { show: false },
  };
  const zeroToMost: uPlot.Range.Function = (_plot, _least, most) => [0, Math.max(1, (most ?? 0) * 1.1)];
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 8, 0, 0],
    scales: { y: { range: zeroToMost } },
    axes: [
      { ...axis, size: 24, space: 64, values: (_plot, splits) => splits.map(clock) },
      { ...axis, size: 64, space: 32, values: (_plot, splits) => splits.map(unit) },
    ],
    series: [
      {},
      ...series.map(([, label], at) => ({
        label,
        stroke: () => paint()[TONES[at % TONES.length]!],
        dash: [...DASHES[at % DASHES.length]!],
        width: 1.5,
        // A sample between two gaps has no line.
        points: { show: series.some(([name]) => TIMES.test(name)), size: 3 },
      })),
    ],
  };
}
