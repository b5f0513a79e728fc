import DHT from 'hyperdht';
import Hyperswarm, { type PeerDiscoverySession } from 'hyperswarm';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { Link } from '../links/link.js';
import { SecretStreamLink } from '../links/secret-stream-link.js';
import type { Discovery, DiscoveryStatus, Rendezvous } from './discovery.js';

export interface HyperswarmDiscoveryComponents {
  runtime: Runtime;
  keyPair: { publicKey: Uint8Array; secretKey: Uint8Array };
  shouldCall: (node: string) => boolean;
}

export interface HyperswarmDiscoveryInit {
  /** Nodes of a private DHT, `host:port`; none means the public one. */
  bootstrap: readonly string[];
}

/** Two nodes that join at once may look before either has announced itself, so every node looks again soon. */
const FIRST_LOOKS_MS = [250, 1_000, 3_000];
/** Waits between look-ups while a node is missing. */
const SEEK_MS = [500, 1_000, 2_000, 5_000, 10_000, 30_000];
/** Links that look-ups open by themselves; further ones are opened by key. */
const MAX_PEERS = 8;
const MAX_PARALLEL = 16;

/** Finds nodes on a distributed hash table, and connects to them through NATs. */
export class HyperswarmDiscovery implements Discovery {
  readonly #components: HyperswarmDiscoveryComponents;
  readonly #bootstrap: readonly string[];
  readonly #sessions = new Map<string, { session: PeerDiscoverySession; looks: Timer[]; point: Rendezvous }>();
  #dht: DHT | undefined;
  #swarm: Hyperswarm | undefined;
  /** Nodes that are being connected to by key. */
  readonly #reaching = new Set<string>();
  #onLink: ((link: Link) => void) | undefined;
  /** Look-ups since a node was last found. */
  #seeks = 0;
  #nextSeek = 0;
  #lastSeek = 0;

  constructor(components: HyperswarmDiscoveryComponents, init: HyperswarmDiscoveryInit) {
    this.#components = components;
    this.#bootstrap = init.bootstrap;
  }

  async start(onLink: (link: Link) => void): Promise<void> {
    const { runtime, keyPair } = this.#components;
    this.#onLink = onLink;
    // A DHT on this machine needs no other interface; any other needs all of them.
    const local = this.#bootstrap.length > 0 && this.#bootstrap.every((place) => /^(127\.|localhost:)/.test(place));
    const host = local ? '127.0.0.1' : '0.0.0.0';
    const bootstrap = this.#bootstrap.length > 0 ? { bootstrap: this.#bootstrap } : {};
    this.#dht = new DHT({ ...bootstrap, host });
    this.#swarm = new Hyperswarm({ dht: this.#dht, keyPair, maxPeers: MAX_PEERS, maxParallel: MAX_PARALLEL });
    this.#swarm.on('connection', (stream) => {
      this.#seeks = 0;
      onLink(new SecretStreamLink(runtime, 'hyperswarm', stream));
    });
  }

  setRendezvous(points: readonly Rendezvous[]): void {
    const wanted = new Map(points.map((point) => [Buffer.from(point.topic).toString('hex'), point]));
    for (const [topic, { session, looks, point }] of this.#sessions) {
      if (wanted.get(topic)?.role === point.role) continue;
      for (const timer of looks) timer.cancel();
      session.destroy().catch(() => {});
      this.#sessions.delete(topic);
    }
    for (const [topic, point] of wanted) if (!this.#sessions.has(topic)) this.#join(topic, point);
  }

  seek(): void {
    const now = this.#components.runtime.stopwatch();
    // No node was missing for a while: begin with short waits again.
    if (now - this.#lastSeek > 2_000) this.#seeks = 0;
    this.#lastSeek = now;
    if (this.#seeks > 0 && now < this.#nextSeek) return;
    this.#nextSeek = now + SEEK_MS[Math.min(this.#seeks++, SEEK_MS.length - 1)]!;
    for (const { session, point } of this.#sessions.values()) {
      if (point.role !== 'host') this.#look(session, point);
    }
  }

  reach(node: string): void {
    const { runtime, keyPair, shouldCall } = this.#components;
    if (!this.#dht || this.#reaching.has(node) || !shouldCall(node)) return;
    this.#reaching.add(node);
    const stream = this.#dht.connect(Buffer.from(node, 'hex'), { keyPair });
    stream.on('error', (error) => runtime.logger.debug({ node, err: error }, 'DHT connection failed'));
    stream.on('close', () => this.#reaching.delete(node));
    stream.on('open', () => {
      this.#reaching.delete(node);
      this.#onLink?.(new SecretStreamLink(runtime, 'hyperswarm', stream));
    });
  }

  status(): DiscoveryStatus {
    const where = this.#bootstrap.length > 0 ? `the private DHT at ${this.#bootstrap.join(', ')}` : 'the public DHT';
    const working = this.#dht?.bootstrapped === true && this.#dht.online && this.#dht.toArray().length > 0;
    const detail = working ? `reaches ${where}` : `cannot reach ${where}: is UDP blocked, or nothing running there?`;
    return { kind: 'hyperswarm', working, detail };
  }

  async settled(): Promise<void> {
    await this.#dht?.fullyBootstrapped().catch(() => {});
  }

  async stop(): Promise<void> {
    const { working } = this.status();
    this.#onLink = undefined;
    this.setRendezvous([]);
    const destroyed = this.#swarm?.destroy({ force: !working });
    if (working) return destroyed;
    // An unreachable DHT has no announcement to withdraw, and its queries take 12 s and more to time out.
    destroyed?.catch(() => {});
  }

  #join(topic: string, point: Rendezvous): void {
    const session = this.#swarm!.join(Buffer.from(point.topic), roles(point));
    const looks: Timer[] = [];
    this.#sessions.set(topic, { session, looks, point });
    if (point.role === 'host') return;
    const lookAgain = () => {
      for (const ms of FIRST_LOOKS_MS) {
        looks.push(this.#components.runtime.setTimer(() => this.#look(session, point), ms));
      }
    };
    session.flushed().then(
      () => this.#sessions.get(topic)?.session === session && lookAgain(),
      () => {},
    );
  }

  #look(session: PeerDiscoverySession, point: Rendezvous): void {
    session.refresh(roles(point)).catch((error: unknown) => {
      this.#components.runtime.logger.debug({ err: error }, 'DHT look-up failed');
    });
  }
}

function roles({ role }: Rendezvous): { client: boolean; server: boolean } {
  return { client: role !== 'host', server: role !== 'guest' };
}
