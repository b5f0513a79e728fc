import type { Runtime } from '../../runtime/runtime.js';
import type { Link } from '../links/link.js';
import type { Discovery, DiscoveryStatus, Meeting, Seeker } from './discovery.js';

/** Opens a link between two nodes of this process: both ends, the caller's first; none when that cannot be now. */
export type Connect = (callerKey: string, calledKey: string) => [Link, Link] | undefined;

/** The meeting points of nodes in one process. */
export class MemoryMeetings {
  readonly connect: Connect;
  readonly #runtime: Runtime;
  readonly #present = new Set<MemoryDiscovery>();

  /** Over `connect` go the links: `linkInProcess`, or a `MemoryNetwork` with its faults. */
  constructor(runtime: Runtime, connect: Connect) {
    this.#runtime = runtime;
    this.connect = connect;
  }

  /** What a node's `network.discovery` is set to. */
  readonly join = (seeker: Seeker): Discovery => new MemoryDiscovery(this.#runtime, this, seeker);

  enter(discovery: MemoryDiscovery): void {
    this.#present.add(discovery);
  }

  exit(discovery: MemoryDiscovery): void {
    this.#present.delete(discovery);
  }

  others(discovery: MemoryDiscovery): MemoryDiscovery[] {
    return [...this.#present].filter((other) => other !== discovery);
  }
}

/** Finds nodes of this process that are at the same meeting points. */
class MemoryDiscovery implements Discovery {
  readonly #runtime: Runtime;
  readonly #meetings: MemoryMeetings;
  readonly #seeker: Seeker;
  #topics = new Map<string, Meeting['role']>();
  #onLink: ((link: Link) => void) | undefined;

  constructor(runtime: Runtime, meetings: MemoryMeetings, seeker: Seeker) {
    this.#runtime = runtime;
    this.#meetings = meetings;
    this.#seeker = seeker;
  }

  async start(onLink: (link: Link) => void): Promise<void> {
    this.#onLink = onLink;
    this.#meetings.enter(this);
  }

  meet(meetings: readonly Meeting[]): void {
    this.#topics = new Map(meetings.map(({ topic, role }) => [Buffer.from(topic).toString('hex'), role]));
    this.#runtime.defer(() => this.seek());
  }

  seek(): void {
    for (const other of this.#meetings.others(this)) {
      if (!this.#seeker.isLinked(other.#seeker.key) && this.#looksFor(other)) this.#call(other);
    }
  }

  status(): DiscoveryStatus {
    return { kind: 'memory', working: this.#onLink !== undefined, detail: 'within this process' };
  }

  async stop(): Promise<void> {
    this.#onLink = undefined;
    this.#meetings.exit(this);
  }

  #looksFor(other: MemoryDiscovery): boolean {
    return [...this.#topics].some(([topic, role]) => {
      const there = other.#topics.get(topic);
      return role !== 'host' && there !== undefined && there !== 'guest';
    });
  }

  #call(other: MemoryDiscovery): void {
    const called = other.#onLink;
    const links = this.#onLink && called && this.#meetings.connect(this.#seeker.key, other.#seeker.key);
    if (!links) return;
    this.#onLink?.(links[0]);
    called?.(links[1]);
  }
}
