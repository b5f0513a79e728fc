import type { Link } from '../../src/network/links/link.js';
import { type Faults, MemoryLink, type Parcel } from '../../src/network/links/memory-network.js';
import type { Runtime } from '../../src/runtime/runtime.js';

/** One direction of a link. */
interface Way {
  readonly from: string;
  readonly to: string;
  readonly link: MemoryLink;
  readonly other: MemoryLink;
  isClosing: boolean;
  /** Frames under way on a network that keeps their order. */
  readonly queue: { readonly parcel: Parcel; readonly due: number }[];
  /** When the last frame arrives. */
  last: number;
}

export const PERFECT: Faults = { loss: 0, duplication: 0, latencyMs: [1, 1] };

/**
 * The network between all nodes. `steady`: links as TCP offers them, in order, late while cut, until they break. Otherwise
 * frames are lost, repeated and reordered. Cuts have a direction.
 */
export class FabricNetwork {
  readonly steady: boolean;
  readonly #runtime: Runtime;
  readonly #ways = new Map<MemoryLink, Way>();
  readonly #cuts = new Map<string, number>();
  readonly #clogs = new Map<string, number>();
  /** When the last frame between two nodes arrived. */
  readonly #arrivals = new Map<string, number>();
  faults: Faults = PERFECT;
  onFrame: (from: string, to: string) => void = () => {};

  constructor(runtime: Runtime, steady: boolean) {
    this.#runtime = runtime;
    this.steady = steady;
  }

  readonly connect = (callerKey: string, calledKey: string): [Link, Link] | undefined => {
    if (this.isCut(callerKey, calledKey) || this.isCut(calledKey, callerKey)) return undefined;
    const [caller, called] = MemoryLink.pair(callerKey, calledKey, {
      kind: 'memory',
      reliable: this.steady,
      handshake: this.#runtime.bytes(32),
      carry: (from, parcel) => this.#carry(from, parcel),
    });
    const fresh = { isClosing: false, last: 0 };
    this.#ways.set(caller, { from: callerKey, to: calledKey, link: caller, other: called, queue: [], ...fresh });
    this.#ways.set(called, { from: calledKey, to: callerKey, link: called, other: caller, queue: [], ...fresh });
    return [caller, called];
  };

  /** Cuts one direction. Cuts add up: each needs a `heal` of its own. */
  cut(from: string, to: string): void {
    const way = `${from} ${to}`;
    this.#cuts.set(way, (this.#cuts.get(way) ?? 0) + 1);
  }

  heal(from: string, to: string): void {
    const way = `${from} ${to}`;
    const left = (this.#cuts.get(way) ?? 0) - 1;
    if (left > 0) this.#cuts.set(way, left);
    else this.#cuts.delete(way);
    this.#deliverAll();
  }

  /** Delays every frame of one direction. */
  clog(from: string, to: string, ms: number): void {
    if (ms > 0) this.#clogs.set(`${from} ${to}`, ms);
    else this.#clogs.delete(`${from} ${to}`);
  }

  healAll(): void {
    this.#cuts.clear();
    this.#clogs.clear();
    this.#deliverAll();
  }

  isCut(from: string, to: string): boolean {
    return this.#cuts.has(`${from} ${to}`);
  }

  /** When a frame of one node last arrived at another. */
  lastArrival(from: string, to: string): number | undefined {
    return this.#arrivals.get(`${from} ${to}`);
  }

  /** Ends every link of a node. With `silently`, the other ends are not told. */
  sever(key: string, silently: boolean): void {
    for (const [link, { from, other }] of [...this.#ways]) {
      if (from !== key) continue;
      this.#ways.delete(link);
      link.sever();
      if (silently) continue;
      this.#ways.delete(other);
      other.sever();
    }
  }

  #carry(from: MemoryLink, parcel: Parcel): void {
    const way = this.#ways.get(from);
    if (!way) return;
    if (parcel.closing) way.isClosing = true;
    if (parcel.closing && !this.steady) this.#ways.delete(from);
    if (this.steady) this.#queue(way, parcel);
    else this.#scatter(way, parcel);
  }

  #queue(way: Way, parcel: Parcel): void {
    const due = Math.max(this.#runtime.now() + this.#latency(way), way.last);
    way.last = due;
    way.queue.push({ parcel, due });
    this.#runtime.setTimer(() => this.#deliver(way), due - this.#runtime.now());
  }

  #deliverAll(): void {
    for (const way of [...this.#ways.values()]) this.#deliver(way);
  }

  #deliver(way: Way): void {
    while (!this.isCut(way.from, way.to) && way.queue.length > 0 && way.queue[0]!.due <= this.#runtime.now()) {
      const { parcel } = way.queue.shift()!;
      parcel.left();
      this.#arrive(way, parcel);
    }
    if (way.queue.length === 0 && way.isClosing) this.#ways.delete(way.link);
  }

  #scatter(way: Way, parcel: Parcel): void {
    const { loss, duplication } = this.faults;
    const deliver = () => {
      if (!this.isCut(way.from, way.to)) this.#arrive(way, parcel);
    };
    this.#runtime.setTimer(() => parcel.left(), this.#latency(way));
    if (this.#runtime.random() >= loss) this.#runtime.setTimer(deliver, this.#wait(way, parcel));
    if (this.#runtime.random() < duplication) this.#runtime.setTimer(deliver, this.#wait(way, parcel));
  }

  #arrive(way: Way, parcel: Parcel): void {
    this.onFrame(way.from, way.to);
    this.#arrivals.set(`${way.from} ${way.to}`, this.#runtime.now());
    parcel.arrive();
  }

  /** Only a range of times reorders frames; a close comes last in any case. */
  #wait(way: Way, { closing }: Parcel): number {
    const [least, most] = this.faults.latencyMs;
    const now = this.#runtime.now();
    const due = now + this.#latency(way);
    const at = closing || least === most ? Math.max(due, way.last + 0.001) : due;
    way.last = Math.max(way.last, at);
    return at - now;
  }

  #latency({ from, to }: Way): number {
    const [least, most] = this.faults.latencyMs;
    const clog = this.#clogs.get(`${from} ${to}`) ?? 0;
    return least + (most - least) * this.#runtime.random() + clog;
  }
}
