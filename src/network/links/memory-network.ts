import type { Runtime } from '../../runtime/runtime.js';
import type { Link } from './link.js';
import { MemoryLink, type Parcel } from './memory-link.js';

/** What the network does to frames. Probabilities are per frame. */
export interface Faults {
  /** Shortest and longest time under way; each frame draws its own, so that a wide range reorders. */
  latencyMs: readonly [number, number];
  loss: number;
  duplication: number;
}

const NO_FAULTS: Faults = { latencyMs: [1, 1], loss: 0, duplication: 0 };

interface Place {
  readonly from: string;
  readonly to: string;
  readonly other: MemoryLink;
  /** When the last of what this end sent arrives. */
  last: number;
}

/**
 * A network between nodes of one process that loses, repeats, delays and reorders frames, and can be cut in two:
 * everything drawn from the runtime's randomness and timed by its clock, so that a seed replays it exactly.
 */
export class MemoryNetwork {
  readonly #runtime: Runtime;
  readonly #links = new Map<MemoryLink, Place>();
  readonly #cuts = new Set<string>();
  faults: Faults;

  constructor(runtime: Runtime, faults: Partial<Faults> = {}) {
    this.#runtime = runtime;
    this.faults = { ...NO_FAULTS, ...faults };
  }

  /** Opens a link between two nodes; undefined when the network is cut between them. */
  readonly connect = (callerKey: string, calledKey: string): [Link, Link] | undefined => {
    if (this.#isCut(callerKey, calledKey)) return undefined;
    const [caller, called] = MemoryLink.pair(callerKey, calledKey, {
      kind: 'memory',
      reliable: false,
      handshake: this.#runtime.bytes(32),
      carry: (from, parcel) => this.#carry(from, parcel),
    });
    this.#links.set(caller, { from: callerKey, to: calledKey, other: called, last: 0 });
    this.#links.set(called, { from: calledKey, to: callerKey, other: caller, last: 0 });
    return [caller, called];
  };

  /** Nothing gets from one to the other any more, and nobody is told. */
  cut(one: string, other: string): void {
    this.#cuts.add(pairOf(one, other));
  }

  heal(one: string, other: string): void {
    this.#cuts.delete(pairOf(one, other));
  }

  healAll(): void {
    this.#cuts.clear();
  }

  /** Ends every link of a node, whose process is gone. With `silently`, the others must find out by themselves. */
  crash(key: string, silently: boolean): void {
    for (const [link, { from, other }] of [...this.#links]) {
      if (from !== key) continue;
      this.#links.delete(link);
      link.sever();
      if (!silently) other.sever();
    }
  }

  #carry(from: MemoryLink, parcel: Parcel): void {
    const place = this.#links.get(from);
    if (!place) return;
    if (parcel.closing) this.#links.delete(from);
    const { loss, duplication } = this.faults;
    const deliver = () => {
      if (!this.#isCut(place.from, place.to)) parcel.arrive();
    };
    this.#runtime.setTimer(() => parcel.left(), this.#latency());
    if (this.#runtime.random() >= loss) this.#runtime.setTimer(deliver, this.#wait(place, parcel));
    if (this.#runtime.random() < duplication) this.#runtime.setTimer(deliver, this.#wait(place, parcel));
  }

  /** How long a parcel takes. Only a range of times reorders frames; a close comes last in any case. */
  #wait(place: Place, { closing }: Parcel): number {
    const [least, most] = this.faults.latencyMs;
    const now = this.#runtime.now();
    const due = now + this.#latency();
    const at = closing || least === most ? Math.max(due, place.last + 0.001) : due;
    place.last = Math.max(place.last, at);
    return at - now;
  }

  #latency(): number {
    const [least, most] = this.faults.latencyMs;
    return least + (most - least) * this.#runtime.random();
  }

  #isCut(one: string, other: string): boolean {
    return this.#cuts.has(pairOf(one, other));
  }
}

function pairOf(one: string, other: string): string {
  return one < other ? `${one} ${other}` : `${other} ${one}`;
}
