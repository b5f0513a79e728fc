import type { Link, LinkKind, LinkListener } from './link.js';

/** Bytes under way after which a sender is asked to wait. */
const HIGH_WATER_BYTES = 262_144;

export interface MemoryLinkInit {
  kind: LinkKind;
  reliable: boolean;
  handshake: Uint8Array;
  carry: (from: MemoryLink, parcel: Parcel) => void;
}

/** A frame on its way, or the news that an end closed. */
export interface Parcel {
  /** Makes room for the next: called once. */
  left(): void;
  /** Hands it to the other end: never, once or more often. */
  arrive(): void;
  readonly closing: boolean;
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
