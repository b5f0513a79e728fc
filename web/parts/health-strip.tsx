import { useLayoutEffect, useRef } from 'preact/hooks';
import type { ProviderChange } from '../../src/providers/adapter/events.js';
import { now } from '../store.js';
import { PROVIDERS_TEXT } from '../text/providers.js';
import { STATE_MARKS, span } from '../text.js';

const WINDOW_MS = 3_600_000;
/** Changes before which there is no health. */
const BEGINNINGS: ReadonlySet<string> = new Set(['registered', 'init.failed']);

interface Stretch {
  readonly state: string;
  readonly ms: number;
}

/** The health of a provider over the last hour, as a bar and as text. */
export function HealthStrip({ state, changes }: { state: string; changes: readonly ProviderChange[] }) {
  const stretches = stretchesOf(state, changes, now.value);
  const text = stretches.map((one) => `${one.state} ${span(one.ms)}`).join(', ');
  return (
    <span class="strip" role="img" aria-label={PROVIDERS_TEXT.strip(text)} title={text}>
      {stretches.map((one, at) => (
        <Part key={at} stretch={one} />
      ))}
    </span>
  );
}

function Part({ stretch: { state, ms } }: { stretch: Stretch }) {
  const bar = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    bar.current!.style.flexGrow = String(ms);
  }, [ms]);
  return <span ref={bar} class={STATE_MARKS[state]?.[1] ?? 'dim'} />;
}

/** Oldest first, since an hour ago or the first known change. */
function stretchesOf(state: string, changes: readonly ProviderChange[], until: number): Stretch[] {
  const known = changes.filter(({ what }) => BEGINNINGS.has(what) || what === 'health.changed');
  const first = known.at(-1)?.at ?? until - WINDOW_MS;
  const from = Math.max(until - WINDOW_MS, Math.min(first, until - 1));
  const stretches: Stretch[] = [];
  let [end, current] = [until, state];
  for (const { at, what, from: before } of known) {
    const start = Math.max(at, from);
    if (start < end) stretches.unshift({ state: current, ms: end - start });
    end = Math.min(end, start);
    if (at <= from || BEGINNINGS.has(what)) break;
    current = before ?? current;
  }
  if (end > from) stretches.unshift({ state: current, ms: end - from });
  return stretches;
}
