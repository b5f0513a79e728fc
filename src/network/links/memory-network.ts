import type { Runtime } from '../../runtime/runtime.js';
import type { Link, LinkKind, LinkListener } from './link.js';

/** Bytes under way after which a sender is asked to wait. */
const HIGH_WATER_BYTES = 262_144;

/** A frame on its way, or the close of an end. */
export interface Parcel {
  /** Makes room for the next frame: called once. */
  left(): void;
  /** Hands it to the other end: never, once or more often. */
  arrive(): void;
  readonly closing: boolean;
}

interface MemoryLinkInit {
  kind: LinkKind;
  reliable: boolean;
  handshake: Uint8Array;
  carry: (from: MemoryLink, parcel: Parcel) => void;
}

/** One end of a link within one process. */
export class MemoryLink implements Link {
  readonly kind: LinkKind;
  readonly reliable: boolean;
  readonly handshake: Uint8Array;
  readonly remoteKey: string;
  readonly initiator: boolean;
  readonly #carry: MemoryLinkInit['carry'];
  #peer!: MemoryLink;
  #listener: LinkListener | undefined;
  #early: Uint8Array[] = [];
  #underWay = 0;
  #full = false;
  #closed: string | undefined;

  private constructor(init: MemoryLinkInit, remoteKey: string, initiator: boolean) {
    this.kind = init.kind;
    this.reliable = init.reliable;
    this.handshake = init.handshake;
    this.#carry = init.carry;
    this.remoteKey = remoteKey;
    this.initiator = initiator;
  }

  /** Both ends of a new link: the caller's, then the called one's. */
  static pair(callerKey: string, calledKey: string, init: MemoryLinkInit): [MemoryLink, MemoryLink] {
    const caller = new MemoryLink(init, calledKey, true);
    const called = new MemoryLink(init, callerKey, false);
    caller.#peer = called;
    called.#peer = caller;
    return [caller, called];
  }

  send(frame: Uint8Array): boolean {
    if (this.#closed !== undefined) return false;
    this.#underWay += frame.byteLength;
    this.#full = this.#underWay > HIGH_WATER_BYTES;
    this.#carry(this, {
      closing: false,
      arrive: () => this.#peer.#take(frame),
      left: () => {
        this.#underWay -= frame.byteLength;
        this.#drainMaybe();
      },
    });
    return !this.#full;
  }

  listen(listener: LinkListener): void {
    this.#listener = listener;
    const closed = this.#closed;
    for (const frame of this.#early.splice(0)) if (this.#closed === closed) this.#listener.onFrame(frame);
    if (closed !== undefined) listener.onClose(closed, false);
  }

  close(): void {
    if (this.#closed !== undefined) return;
    this.#end('this end closed it');
    this.#carry(this, { closing: true, arrive: () => this.#peer.#end('the other end closed it'), left: () => {} });
  }

  /** Ends this end only, as a crash or a cut cable would. */
  sever(): void {
    this.#end('the connection broke');
  }

  #take(frame: Uint8Array): void {
    if (this.#closed !== undefined) return;
    if (this.#listener) this.#listener.onFrame(frame);
    else this.#early.push(frame);
  }

  #drainMaybe(): void {
    if (this.#closed !== undefined || !this.#full || this.#underWay > HIGH_WATER_BYTES / 2) return;
    this.#full = false;
    this.#listener?.onDrain();
  }

  #end(reason: string): void {
    if (this.#closed !== undefined) return;
    this.#closed = reason;
    this.#listener?.onClose(reason, false);
  }
}

/** A faultless link between two nodes of this process: both ends, the caller's first. */
export function linkInProcess(runtime: Runtime, callerKey: string, calledKey: string): [Link, Link] {
  return MemoryLink.pair(callerKey, calledKey, {
    kind: 'in-process',
    reliable: true,
    handshake: runtime.bytes(32),
    // Never inside `send`: the other side must not run in the middle of this one.
    carry: (_from, parcel) =>
      queueMicrotask(() => {
        parcel.arrive();
        parcel.left();
      }),
  });
}

/** What a memory network does to frames. Probabilities are per frame. */
export interface Faults {
  /** Shortest and longest time under way. Each frame draws its own, so a wide range reorders. */
  latencyMs: readonly [number, number];
  loss: number;
  duplication: number;
}

const NO_FAULTS: Faults = { latencyMs: [1, 1], loss: 0, duplication: 0 };

interface End {
  readonly from: string;
  readonly to: string;
  readonly other: MemoryLink;
  /** When the last frame that this end sent arrives. */
  last: number;
}

/**
 * A network between nodes of one process that loses, repeats, delays and reorders frames, and can be cut in two. It
 * draws from the runtime's randomness and clock only, so a seed replays it exactly.
 */
export class MemoryNetwork {
  readonly #runtime: Runtime;
  readonly #ends = new Map<MemoryLink, End>();
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
    this.#ends.set(caller, { from: callerKey, to: calledKey, other: called, last: 0 });
    this.#ends.set(called, { from: calledKey, to: callerKey, other: caller, last: 0 });
    return [caller, called];
  };

  /** Drops every frame between the two, without closing their links. */
  cut(one: string, other: string): void {
    this.#cuts.add(pairOf(one, other));
  }

  heal(one: string, other: string): void {
    this.#cuts.delete(pairOf(one, other));
  }

  healAll(): void {
    this.#cuts.clear();
  }

  /** Ends every link of a node whose process is gone. With `silently`, the other ends are not told. */
  crash(key: string, silently: boolean): void {
    for (const [link, { from, other }] of [...this.#ends]) {
      if (from !== key) continue;
      this.#ends.delete(link);
      link.sever();
      if (!silently) other.sever();
    }
  }

  #carry(from: MemoryLink, parcel: Parcel): void {
    const end = this.#ends.get(from);
    if (!end) return;
    if (parcel.closing) this.#ends.delete(from);
    const { loss, duplication } = this.faults;
    const deliver = () => {
      if (!this.#isCut(end.from, end.to)) parcel.arrive();
    };
    this.#runtime.setTimer(() => parcel.left(), this.#latency());
    if (this.#runtime.random() >= loss) this.#runtime.setTimer(deliver, this.#wait(end, parcel));
    if (this.#runtime.random() < duplication) this.#runtime.setTimer(deliver, this.#wait(end, parcel));
  }

  /** How long a parcel takes. Only a range of times reorders frames; a close comes last in any case. */
  #wait(end: End, { closing }: Parcel): number {
    const [least, most] = this.faults.latencyMs;
    const now = this.#runtime.now();
    const due = now + this.#latency();
    const at = closing || least === most ? Math.max(due, end.last + 0.001) : due;
    end.last = Math.max(end.last, at);
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
