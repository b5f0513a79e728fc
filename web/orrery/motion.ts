import type { MessageLine } from '../../src/http/dashboard/facts.js';
import type { Layout } from './layout.js';

/** What moves: messages as arcs while they are few, and as flows between bodies above that. Knows no canvas and no clock. */

export interface Arc {
  readonly from: number;
  readonly to: number;
  readonly isRefused: boolean;
  readonly start: number;
  readonly ms: number;
}

/** A broadcast, or a message within a node that is one body. */
export interface Wave {
  readonly body: number;
  readonly isRefused: boolean;
  readonly start: number;
  readonly ms: number;
}

export interface Flow {
  readonly from: number;
  readonly to: number;
  /** Messages a second, of all and not only of those that the page gets. */
  readonly rate: number;
  readonly refused: number;
}

export interface Counts {
  arcs: number;
  refusals: number;
  waves: number;
}

/** Messages a second above which they are shown as flows. */
export const FLOW_RATE = 30;
const ARC_MS = [150, 400] as const;
const WAVE_MS = 400;
/** The time for which the mark of a refusal stays. */
const MARK_MS = 350;
const WINDOW_MS = 1_000;
/** A page that reconnects gets messages of the past. */
const OLD_MS = 3_000;
const MAX_ARCS = 120;

interface Passed {
  readonly at: number;
  readonly from: string;
  readonly to: string;
  readonly isRefused: boolean;
}

export class Motion {
  readonly counts: Counts = { arcs: 0, refusals: 0, waves: 0 };
  arcs: readonly Arc[] = [];
  waves: readonly Wave[] = [];
  #window: Passed[] = [];
  #last: MessageLine | undefined;
  #known = false;

  /** Takes the latest messages, newest first. Returns whether something is to be drawn. */
  take(lines: readonly MessageLine[], layout: Layout, now: number, isStill: boolean): boolean {
    const fresh = this.#fresh(lines);
    const { arcs, waves } = this;
    for (const line of fresh) this.#begin(line, layout, now, isStill);
    return this.arcs !== arcs || this.waves !== waves || (fresh.length > 0 && this.isFlow(undefined, now, isStill));
  }

  /** Those that were routed since the last look, oldest first; none of a history that was read at once. */
  #fresh(lines: readonly MessageLine[]): MessageLine[] {
    const end = this.#last === undefined ? -1 : lines.indexOf(this.#last);
    const isFirst = !this.#known;
    this.#known = true;
    this.#last = lines[0];
    if (isFirst || (end < 0 && lines.length > 1)) return [];
    const newest = lines[0]?.at ?? 0;
    return lines
      .slice(0, end < 0 ? lines.length : end)
      .filter(({ seq, at }) => seq === null && at > newest - OLD_MS)
      .reverse();
  }

  #begin({ from, to, code }: MessageLine, layout: Layout, now: number, isStill: boolean): void {
    const isRefused = code !== null;
    this.#window.push({ at: now, from, to, isRefused });
    if (this.#window.length > 2_000) this.#window.splice(0, 1_000);
    const [start, end] = [layout.at.get(from), layout.at.get(to)];
    if (to === '*') this.counts.waves++;
    else if (isRefused) this.counts.refusals++;
    else this.counts.arcs++;
    if (isStill || start === undefined || this.isFlow(undefined, now, isStill)) return;
    if (to === '*' || start === end) {
      this.waves = [...this.waves, { body: start, isRefused, start: now, ms: WAVE_MS }];
    } else if (end !== undefined) {
      const [a, b] = [layout.bodies[start]!, layout.bodies[end]!];
      const ms = Math.min(ARC_MS[1], Math.max(ARC_MS[0], Math.hypot(a.x - b.x, a.y - b.y)));
      this.arcs = [...this.arcs.slice(-MAX_ARCS), { from: start, to: end, isRefused, start: now, ms }];
    }
  }

  /** Forgets what has ended. Returns whether anything still moves. */
  advance(now: number): boolean {
    this.arcs = this.arcs.filter(({ start, ms, isRefused }) => now < start + ms + (isRefused ? MARK_MS : 0));
    this.waves = this.waves.filter(({ start, ms }) => now < start + ms);
    return this.arcs.length + this.waves.length > 0;
  }

  /** Messages a second: the node's own count where it sends only a sample. */
  rate(total: number | undefined, now: number): number {
    return total ?? this.#recent(now).length;
  }

  /** Are there too many messages for arcs? Always where nothing may move. */
  isFlow(total: number | undefined, now: number, isStill: boolean): boolean {
    return isStill || this.rate(total, now) > FLOW_RATE;
  }

  /** The flows of the last second, widest first. A sample is scaled to the node's count. */
  flows(layout: Layout, total: number | undefined, now: number): Flow[] {
    const recent = this.#recent(now);
    const scale = recent.length === 0 ? 0 : Math.max(1, (total ?? 0) / recent.length);
    const found = new Map<string, { from: number; to: number; count: number; refused: number }>();
    for (const { from, to, isRefused } of recent) {
      const [start, end] = [layout.at.get(from), layout.at.get(to)];
      if (start === undefined || end === undefined || start === end) continue;
      const key = `${start} ${end}`;
      const flow = found.get(key) ?? { from: start, to: end, count: 0, refused: 0 };
      flow.count++;
      if (isRefused) flow.refused++;
      found.set(key, flow);
    }
    return [...found.values()]
      .map(({ from, to, count, refused }) => ({ from, to, rate: count * scale, refused: refused * scale }))
      .sort((a, b) => b.rate - a.rate);
  }

  /** Messages a second between agents of one body: a node that is not opened. */
  within(layout: Layout, total: number | undefined, now: number): ReadonlyMap<number, number> {
    const recent = this.#recent(now);
    const found = new Map<number, number>();
    for (const { from, to } of recent) {
      const body = layout.at.get(from);
      if (body === undefined || layout.bodies[body]?.star || (to !== '*' && layout.at.get(to) !== body)) continue;
      found.set(body, (found.get(body) ?? 0) + Math.max(1, (total ?? 0) / recent.length));
    }
    return found;
  }

  /** Bodies have other numbers in another layout. */
  relayout(): void {
    this.arcs = [];
    this.waves = [];
  }

  #recent(now: number): readonly Passed[] {
    const first = this.#window.findIndex(({ at }) => at > now - WINDOW_MS);
    if (first !== 0) this.#window = first < 0 ? [] : this.#window.slice(first);
    return this.#window;
  }
}
