import { createHash } from 'node:crypto';
import type { Discovery, DiscoveryStatus, Rendezvous, Seeker } from '../network/discovery/discovery.js';
import type { Link } from '../network/links/link.js';
import { type Identity, NODE_KEY } from '../network/membership/identity.js';
import { within } from '../runtime/async.js';
import { describeError } from '../runtime/errors.js';
import type { Runtime, Timer } from '../runtime/runtime.js';
import { brokerStatus } from './broker-status.js';
import type { CoreConnection, NatsConnection } from './connection.js';
import { NatsLinks } from './nats-links.js';
import type { Presence, PresentNode } from './presence.js';

export interface NatsDiscoveryComponents {
  runtime: Runtime;
  identity: Identity;
  connection: NatsConnection;
  presence: Presence;
  seeker: Seeker;
}

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5_000;
/** Calls at once: to members that are wanted now, and to neighbours, of which a newcomer cannot yet say who they are. */
const MAX_DIALS = 32;
const MAX_NEIGHBOUR_DIALS = 4;
/** How long the node with the greater key leaves the call to the other, so that two do not call each other at once. */
const YIELD_MS = 1_000;
/** How often a guest asks for the host of its invite. */
const ASK_MS = 500;
const SETTLED_MS = 3_000;
const GOODBYE_MS = 500;

interface Attempt {
  dialing: boolean;
  wait: number;
  nextAt: number;
}

/** Finds members by their presence at the broker, and the host of an invite by a subject that only the invite tells. */
export class NatsDiscovery implements Discovery {
  readonly #components: NatsDiscoveryComponents;
  readonly #attempts = new Map<string, Attempt>();
  readonly #remove: (() => void)[] = [];
  #links: NatsLinks | undefined;
  #onLink: ((link: Link) => void) | undefined;
  #points: readonly Rendezvous[] = [];
  /** The members that are present. */
  readonly #members = new Set<string>();
  /** Nodes that were linked over the broker. They are called also while its buckets, which say who is present, do not answer. */
  readonly #met = new Set<string>();
  /** What ends waiting for guests. */
  readonly #hosting = new Map<string, () => void>();
  #hostingOn: CoreConnection | undefined;
  #asking: Timer | undefined;
  #dialing = 0;
  #failure: string | undefined;

  constructor(components: NatsDiscoveryComponents) {
    this.#components = components;
  }

  async start(onLink: (link: Link) => void): Promise<void> {
    const { runtime, identity, connection, presence } = this.#components;
    this.#onLink = (link) => {
      this.#met.add(link.remoteKey);
      onLink(link);
    };
    const onFailure = (from: string, reason: string) => runtime.logger.debug({ from, reason }, 'NATS caller refused');
    this.#links = new NatsLinks({ runtime, keyPair: identity.keyPair, connection, onLink: this.#onLink, onFailure });
    this.#links.start();
    this.#remove.push(
      presence.onPresent((node) => this.#appeared(node)),
      presence.onGone((node) => this.#disappeared(node)),
      connection.onConnected(() => this.#meet()),
    );
  }

  setRendezvous(points: readonly Rendezvous[]): void {
    this.#points = points;
    this.#members.clear();
    for (const present of this.#components.presence.nodes) this.#note(present);
    this.#meet();
  }

  seek(): void {
    const { seeker } = this.#components;
    for (const node of this.#members) if (seeker.isNeighbour(node)) this.#call(node, false);
  }

  reach(node: string): void {
    if (this.#members.has(node) || this.#met.has(node)) this.#call(node, true);
  }

  status(): DiscoveryStatus {
    return brokerStatus(this.#components, { members: this.#members.size, failure: this.#failure });
  }

  async settled(): Promise<void> {
    const { connection, presence, runtime } = this.#components;
    await connection.ready(SETTLED_MS).catch(() => {});
    await within(runtime, presence.tried(), SETTLED_MS, () => undefined);
  }

  async stop(): Promise<void> {
    const { presence, runtime } = this.#components;
    this.#onLink = undefined;
    for (const remove of this.#remove.splice(0)) remove();
    this.#points = [];
    this.#meet();
    await presence.withdraw();
    const links = this.#links;
    if (!links) return;
    await within(runtime, links.drained(), GOODBYE_MS, () => undefined);
    links.close();
  }

  /** Announces this node on its members' topics, waits for guests, asks for hosts: as the points say. */
  #meet(): void {
    const { presence, connection, seeker } = this.#components;
    const of = (role: Rendezvous['role']) => this.#points.filter((point) => point.role === role);
    const members = of('member');
    if (members.length > 0) presence.announce(members.map(({ topic }) => tagOf(topic, seeker.key)));
    this.#wait(new Set(of('host').map(({ topic }) => nameOf(topic))));
    this.#asking?.cancel();
    if (of('guest').length > 0 && connection.isConnected) this.#ask(of('guest').map(({ topic }) => nameOf(topic)));
  }

  #wait(invites: ReadonlySet<string>): void {
    const { connection, seeker } = this.#components;
    for (const [invite, end] of this.#hosting) {
      if (invites.has(invite)) continue;
      end();
      this.#hosting.delete(invite);
    }
    if (!connection.isConnected) return;
    // The client keeps subscriptions when it reconnects; a new connection has none.
    if (this.#hostingOn !== connection.core) this.#hosting.clear();
    this.#hostingOn = connection.core;
    for (const invite of invites) {
      if (this.#hosting.has(invite)) continue;
      const subscription = connection.core.subscribe(connection.names.invite(invite), {
        callback: (error, message) => {
          if (!error) message.respond(seeker.key);
        },
      });
      this.#hosting.set(invite, () => subscription.unsubscribe());
    }
  }

  #ask(invites: readonly string[]): void {
    const { connection, runtime, seeker } = this.#components;
    for (const invite of invites) {
      const request = connection.isConnected
        ? connection.core.request(connection.names.invite(invite), seeker.key, { timeout: ASK_MS })
        : undefined;
      request?.then(
        (answer) => {
          const host = answer.string();
          if (NODE_KEY.test(host)) this.#call(host, true);
        },
        // No host waits there yet, or the broker does not let this node ask.
        (error: unknown) => {
          this.#failure = describeError(error);
        },
      );
    }
    this.#asking = runtime.setTimer(() => this.#ask(invites), ASK_MS);
  }

  #appeared(present: PresentNode): void {
    const { runtime, seeker } = this.#components;
    const attempt = this.#attempt(present.node);
    attempt.wait = FIRST_WAIT_MS;
    attempt.nextAt = seeker.key < present.node ? 0 : runtime.stopwatch() + YIELD_MS;
    this.#note(present);
    if (this.#members.has(present.node) && seeker.isNeighbour(present.node)) this.#call(present.node, false);
  }

  #disappeared(node: string): void {
    this.#attempts.delete(node);
    this.#members.delete(node);
    this.#met.delete(node);
  }

  /** A member shows that it knows a topic that this node looks on. */
  #note({ node, tags }: PresentNode): void {
    const knows = this.#points.some(({ topic, role }) => role === 'member' && tags.includes(tagOf(topic, node)));
    if (knows) this.#members.add(node);
    else this.#members.delete(node);
  }

  #attempt(node: string): Attempt {
    const attempt = this.#attempts.get(node) ?? { dialing: false, wait: FIRST_WAIT_MS, nextAt: 0 };
    this.#attempts.set(node, attempt);
    return attempt;
  }

  #call(node: string, atOnce: boolean): void {
    const { connection, runtime, seeker } = this.#components;
    if (node === seeker.key || !seeker.shouldCall(node) || !connection.isConnected || !this.#links) return;
    const attempt = this.#attempt(node);
    const early = !atOnce && runtime.stopwatch() < attempt.nextAt;
    const most = atOnce ? MAX_DIALS : MAX_NEIGHBOUR_DIALS;
    if (attempt.dialing || early || this.#dialing >= most) return;
    void this.#dial(this.#links, node, attempt);
  }

  async #dial(links: NatsLinks, node: string, attempt: Attempt): Promise<void> {
    const { runtime } = this.#components;
    attempt.dialing = true;
    this.#dialing++;
    try {
      const link = await links.dial(node);
      this.#failure = undefined;
      if (this.#onLink) this.#onLink(link);
      else link.close();
    } catch (error) {
      this.#failure = describeError(error);
    }
    attempt.dialing = false;
    this.#dialing--;
    attempt.nextAt = runtime.stopwatch() + attempt.wait * (0.5 + runtime.random());
    attempt.wait = Math.min(attempt.wait * 2, LONGEST_WAIT_MS);
  }
}

/** Shows only to nodes that know the topic that this node knows it too. */
function tagOf(topic: Uint8Array, node: string): string {
  return digest('member', topic, node);
}

/** The last part of the subject on which a host waits. */
function nameOf(topic: Uint8Array): string {
  return digest('invite', topic, '');
}

function digest(purpose: string, topic: Uint8Array, node: string): string {
  const hash = createHash('sha256').update(`ecliptic nats ${purpose} 1\n`).update(topic).update(node);
  return hash.digest('hex').slice(0, 40);
}
