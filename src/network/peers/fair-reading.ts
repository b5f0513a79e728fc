import type { Runtime } from '../../runtime/runtime.js';
import type { Link } from '../links/link.js';

/** How often the shares are compared, at most. */
const INTERVAL_MS = 10;
/** Below this part of its time, the event loop has enough for everyone. */
const BUSY = 0.7;
/** The part of the event loop that one peer may have while others wait, if it sends more than they do. */
const SHARE = 0.15;
/** Bytes of one interval from which a peer counts as one that sends in bulk. */
const BULK_BYTES = 16_384;
/** The part of an interval from which a peer is one that others have to leave time for, and for how long after it. */
const DEMAND = 0.03;
const DEMAND_MS = 500;
const MAX_PAUSE_MS = 250;

/** The time that frames of one peer took since the shares were last compared. */
export class ReadingMeter {
  ms = 0;
  bytes = 0;
  /** When it last needed a noticeable part of the time: heartbeats do not count. */
  demandAt = Number.NEGATIVE_INFINITY;
  link: Link | undefined;
  isPaused = false;
}

/**
 * Divides the event loop among the peers whose frames it reads. While it is busy, a peer that sends in bulk and takes more
 * than its share is not read for a while: its frames wait in its own socket, and those of others are handled meanwhile. Among
 * peers that all send in bulk, the one that takes most waits. With one peer nothing is measured.
 */
export class FairReading {
  readonly #runtime: Runtime;
  readonly #meters = new Set<ReadingMeter>();
  #current: ReadingMeter | undefined;
  #since = 0;
  #comparedAt = 0;
  #isDue = false;
  #loop: unknown;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  add(meter: ReadingMeter, link: Link): void {
    meter.link = link;
    meter.isPaused = false;
    this.#meters.add(meter);
  }

  /** The link has ended; another one may have taken its place. */
  remove(meter: ReadingMeter, link: Link): void {
    if (meter.link !== link) return;
    meter.link = undefined;
    this.#meters.delete(meter);
    if (this.#current === meter) this.#current = undefined;
  }

  /** A frame of that peer is about to be handled. Returns when that was. */
  heard(meter: ReadingMeter, bytes: number): number {
    const now = this.#runtime.stopwatch();
    if (this.#meters.size > 1 && this.#runtime.loopUse) this.#count(meter, now, bytes);
    return now;
  }

  #count(meter: ReadingMeter, now: number, bytes: number): void {
    meter.bytes += bytes;
    if (this.#current === meter) {
      // A turn in which one peer is read must not last until all that it has sent is handled.
      if (now - this.#since < INTERVAL_MS) return;
      this.#charge(now);
      this.#since = now;
      this.#compare(now);
      return;
    }
    this.#charge(now);
    this.#current = meter;
    this.#since = now;
    if (this.#isDue) return;
    this.#isDue = true;
    // What frames cause in the same turn counts too, so it ends with the turn.
    this.#runtime.defer(() => {
      this.#isDue = false;
      const end = this.#runtime.stopwatch();
      this.#charge(end);
      this.#current = undefined;
      if (end - this.#comparedAt >= INTERVAL_MS) this.#compare(end);
    });
  }

  #charge(now: number): void {
    if (this.#current) this.#current.ms += now - this.#since;
  }

  #compare(now: number): void {
    const elapsed = now - this.#comparedAt;
    this.#comparedAt = now;
    const { busy = 0, state } = this.#runtime.loopUse?.(this.#loop) ?? {};
    this.#loop = state;
    const active = [...this.#meters].filter(({ ms }) => ms > 0).sort((a, b) => b.ms - a.ms);
    const greedy = active.find(({ bytes }) => bytes >= BULK_BYTES);
    for (const meter of active) if (meter.ms >= elapsed * DEMAND) meter.demandAt = now;
    const others = [...this.#meters].some((meter) => meter !== greedy && now - meter.demandAt < DEMAND_MS);
    if (greedy && others && busy >= BUSY) {
      const measured = active.reduce((sum, { ms }) => sum + ms, 0);
      const bytes = active.reduce((sum, meter) => sum + meter.bytes, 0);
      // Work that frames cause later, as that of a store, is divided by their bytes.
      const rest = Math.max(0, busy * elapsed - measured);
      const share = (greedy.ms + (rest * greedy.bytes) / bytes) / elapsed;
      if (share > SHARE) this.#pause(greedy, Math.min(elapsed, MAX_PAUSE_MS) * (share / SHARE - 1));
    }
    for (const meter of active) {
      meter.ms = 0;
      meter.bytes = 0;
    }
  }

  #pause(meter: ReadingMeter, ms: number): void {
    const { link } = meter;
    if (meter.isPaused || !link?.pause) return;
    meter.isPaused = true;
    link.pause();
    this.#runtime.setTimer(
      () => {
        if (meter.link === link) meter.isPaused = false;
        link.resume?.();
      },
      Math.min(ms, MAX_PAUSE_MS),
    );
  }
}
