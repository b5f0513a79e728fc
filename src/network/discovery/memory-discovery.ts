import type { Runtime } from '../../runtime/runtime.js';
import type { Link } from '../links/link.js';
import type { Discovery, DiscoveryStatus, Rendezvous, Seeker } from './discovery.js';

/** Opens a link between two nodes of this process: both ends, the caller's first; undefined when they are cut off. */
export type Connect = (callerKey: string, calledKey: string) => [Link, Link] | undefined;

/** Where the nodes of one process find each other. */
export class MemoryRendezvous {
  readonly connect: Connect;
  /** Every discovery that is started. */
  readonly present = new Set<MemoryDiscovery>();
  readonly #runtime: Runtime;

  /** `connect` is `linkInProcess`, or a `MemoryNetwork` with its faults. */
  constructor(runtime: Runtime, connect: Connect) {
    this.#runtime = runtime;
    this.connect = connect;
  }

  /** For a node's `network.discovery`. */
  readonly join = (seeker: Seeker): Discovery => new MemoryDiscovery(this.#runtime, this, seeker);
}

class MemoryDiscovery implements Discovery {
  readonly #runtime: Runtime;
  readonly #shared: MemoryRendezvous;
  readonly #seeker: Seeker;
  #topics = new Map<string, Rendezvous['role']>();
  #onLink: ((link: Link) => void) | undefined;

  constructor(runtime: Runtime, shared: MemoryRendezvous, seeker: Seeker) {
    this.#runtime = runtime;
    this.#shared = shared;
    this.#seeker = seeker;
  }

  async start(onLink: (link: Link) => void): Promise<void> {
    this.#onLink = onLink;
    this.#shared.present.add(this);
  }

  setRendezvous(points: readonly Rendezvous[]): void {
    this.#topics = new Map(points.map(({ topic, role }) => [Buffer.from(topic).toString('hex'), role]));
    this.#runtime.defer(() => this.seek());
  }

  seek(): void {
    for (const other of [...this.#shared.present]) {
      const { key } = other.#seeker;
      const wanted = this.#seeker.isNeighbour(key) && this.#seeker.shouldCall(key);
      if (other !== this && wanted && this.#looksFor(other)) this.#call(other);
    }
  }

  reach(node: string): void {
    for (const other of [...this.#shared.present]) {
      if (other.#seeker.key === node && this.#seeker.shouldCall(node) && this.#looksFor(other)) this.#call(other);
    }
  }

  status(): DiscoveryStatus {
    return { kind: 'memory', working: this.#onLink !== undefined, detail: 'within this process' };
  }

  async stop(): Promise<void> {
    this.#onLink = undefined;
    this.#shared.present.delete(this);
  }

  #looksFor(other: MemoryDiscovery): boolean {
    return [...this.#topics].some(([topic, role]) => {
      const there = other.#topics.get(topic);
      return role !== 'host' && there !== undefined && there !== 'guest';
    });
  }

  #call(other: MemoryDiscovery): void {
    const called = other.#onLink;
    const links = this.#onLink && called && this.#shared.connect(this.#seeker.key, other.#seeker.key);
    if (!links) return;
    this.#onLink?.(links[0]);
    called?.(links[1]);
  }
}
