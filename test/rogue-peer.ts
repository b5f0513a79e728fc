import { type AgentInit, buildCard } from '../src/agent/agent-init.js';
import type { AgentCard } from '../src/mesh/schemas.js';
import type { Link, LinkListener } from '../src/network/links/link.js';
import { linkInProcess } from '../src/network/links/memory-network.js';
import { type Certificate, type Chain, EVERY_TIER, issueCertificate } from '../src/network/membership/certificate.js';
import { Identity } from '../src/network/membership/identity.js';
import { decodeInvite, inviteId, proveInvite } from '../src/network/membership/invite.js';
import { announceCard, type SignedCard, signCard, signCards } from '../src/network/membership/signed-cards.js';
import type { InviteOptions } from '../src/network/peers/network.js';
import { decodeFrame, type Frame } from '../src/network/peers/wire.js';
import type { Runtime } from '../src/runtime/runtime.js';
import type { NetworkedNode, Nodes } from './nodes-fixture.js';

const DAY_MS = 86_400_000;
const SOFTWARE = 'rogue 6.6.6';

/** A node that speaks the wire protocol by hand, so that it can send frames that an honest node never would. */
export class Rogue {
  /** The session name of each node that was met. */
  readonly knows = new Map<string, string>();
  readonly identity: Identity;
  readonly #nodes: Nodes;
  /** The membership that it presents; none while it is a stranger. */
  chain: Chain | undefined;

  constructor(nodes: Nodes, identity: Identity = Identity.create(nodes.runtime)) {
    this.#nodes = nodes;
    this.identity = identity;
  }

  /** A genuine member, by the genuine protocol. */
  static async join(nodes: Nodes, host: NetworkedNode, options?: InviteOptions): Promise<Rogue> {
    const { code } = await nodes.settled(host.network.invite(options));
    const rogue = new Rogue(nodes);
    const link = await rogue.useInvite(host, code);
    link.close();
    await nodes.runtime.advance(0);
    return rogue;
  }

  get key(): string {
    return this.identity.key;
  }

  /** Shows an invite; keeps the certificate that it gets for it. Returns the link, for whatever comes next. */
  async useInvite(host: NetworkedNode, code: string): Promise<RogueLink> {
    const link = this.call(host);
    const { secret } = decodeInvite(code);
    link.say(['join', joinBody(inviteId(secret), proveInvite(secret, 'guest', link.handshake))]);
    await this.#nodes.runtime.advance(0);
    const welcome = link.frames.find(([kind]) => kind === 'welcome')?.[1] as { chain: Chain } | undefined;
    if (welcome) this.chain = welcome.chain;
    return link;
  }

  /** Another rogue, which is a member because this one says so in a certificate of whatever content. */
  vouchFor(changes: Partial<Omit<Certificate, 'issuer' | 'signature'>> = {}): Rogue {
    const other = new Rogue(this.#nodes);
    other.chain = [this.certify(other.key, changes), ...this.chain!];
    return other;
  }

  /** A certificate for any node, signed by this one. */
  certify(node: string, changes: Partial<Omit<Certificate, 'issuer' | 'signature'>> = {}): Certificate {
    const issuedAt = changes.issuedAt ?? this.#nodes.runtime.now();
    return issueCertificate(this.identity, {
      mesh: this.chain?.[0]?.mesh ?? this.key,
      node,
      name: 'accomplice',
      grant: { tiers: [...EVERY_TIER], invite: true },
      since: issuedAt,
      issuedAt,
      expiresAt: issuedAt + 300 * DAY_MS,
      ...changes,
    });
  }

  /** Calls a node; nothing has been said yet. */
  call(victim: NetworkedNode): RogueLink {
    const [own, theirs] = linkInProcess(this.#nodes.runtime, this.key, victim.key);
    const link = new RogueLink(this.#nodes.runtime, this, own);
    victim.network.links.take(theirs);
    return link;
  }

  /** Lets a node call this one; the node has spoken first. */
  letCall(victim: NetworkedNode): RogueLink {
    const [theirs, own] = linkInProcess(this.#nodes.runtime, victim.key, this.key);
    const link = new RogueLink(this.#nodes.runtime, this, own);
    victim.network.links.take(theirs);
    return link;
  }

  /** Calls a node and gets in as an honest member would; the first words of the conversation have been said. */
  async meet(victim: NetworkedNode, hello: object = {}): Promise<RogueLink> {
    const link = this.call(victim);
    link.hello(hello);
    await this.#nodes.runtime.advance(0);
    if (link.closed) throw new Error(`the rogue was not let in: ${JSON.stringify(link.frames)}`);
    return link;
  }

  /** A card of an agent of this node, signed as it must be. */
  card(init: AgentInit, changes: Partial<AgentCard> = {}): SignedCard {
    return signCard(this.identity, { ...buildCard({ tier: 3, ...init }, this.#nodes.runtime.now()), ...changes });
  }

  /** Cards of agents of this node, and one signature for all of them. */
  cardList(...agents: AgentInit[]): [cards: object[], signature: string] {
    const now = this.#nodes.runtime.now();
    const announced = agents.map((init) => announceCard(this.identity, buildCard({ tier: 3, ...init }, now)));
    const signature = signCards(
      this.identity,
      announced.map(({ digest }) => digest),
    );
    return [announced.map(({ text }) => JSON.parse(text) as object), signature];
  }

  /** A card that says anything at all, signed by this node. */
  forgedCard(said: unknown): SignedCard {
    return [said as object, this.identity.sign('card', said)];
  }

  prove(link: RogueLink, changes: { hash?: Uint8Array; initiator?: boolean; remoteKey?: string } = {}): string {
    const { handshake, initiator, remoteKey } = link;
    const said = { hash: handshake, initiator, remoteKey, ...changes };
    return this.identity.sign('link proof', {
      from: this.key,
      to: said.remoteKey,
      role: said.initiator ? 'initiator' : 'responder',
      handshake: Buffer.from(said.hash).toString('hex'),
    });
  }
}

interface DataInit {
  first?: unknown;
  base?: unknown;
  received?: unknown;
  refusals?: unknown;
  items?: unknown;
}

/** The rogue's end of a link. It acknowledges and answers heartbeats unless told not to; the rest is up to the test. */
export class RogueLink implements LinkListener {
  readonly #runtime: Runtime;
  readonly #rogue: Rogue;
  readonly #link: Link;
  readonly frames: Frame[] = [];
  /** When each frame came. */
  readonly times: number[] = [];
  closed = false;
  acknowledges = true;
  #next = 1;
  #seen = 0;

  constructor(runtime: Runtime, rogue: Rogue, link: Link) {
    this.#runtime = runtime;
    this.#rogue = rogue;
    this.#link = link;
    link.listen(this);
  }

  get handshake(): Uint8Array {
    return this.#link.handshake;
  }

  get initiator(): boolean {
    return this.#link.initiator;
  }

  get remoteKey(): string {
    return this.#link.remoteKey;
  }

  /** Everything that came, as text. */
  get heard(): string {
    return this.frames.map((frame) => JSON.stringify(frame)).join('\n');
  }

  /** Every item that came, earliest first; one that came twice is there twice. */
  get items(): unknown[][] {
    return this.frames.filter(([kind]) => kind === 'd').flatMap((frame) => frame[5] as unknown[][]);
  }

  /** The number of the next item. */
  get next(): number {
    return this.#next;
  }

  onFrame(bytes: Uint8Array): void {
    const frame = decodeFrame(bytes);
    this.frames.push(frame);
    this.times.push(this.#runtime.now());
    if (frame[0] === 'hello') this.#rogue.knows.set(this.remoteKey, (frame[1] as { session: string }).session);
    if (frame[0] === 'p') this.say(['q', frame[1]]);
    if (frame[0] !== 'd' || !this.acknowledges) return;
    const items = frame[5] as unknown[];
    this.#seen = Math.max(this.#seen, (frame[1] as number) + items.length - 1);
    if (items.length > 0) this.data({ items: [] });
  }

  onDrain(): void {}

  onClose(): void {
    this.closed = true;
  }

  /** Any value as a frame. */
  say(value: unknown): void {
    this.sayText(JSON.stringify(value));
  }

  sayText(text: string): void {
    this.sayBytes(Buffer.from(text));
  }

  sayBytes(bytes: Uint8Array): void {
    this.#link.send(bytes);
  }

  hello(changes: object = {}): void {
    this.say(['hello', this.helloBody(changes)]);
  }

  helloBody(changes: object = {}): object {
    const { chain } = this.#rogue;
    return {
      protocol: { min: 1, max: 1 },
      software: SOFTWARE,
      time: this.#runtime.now(),
      chain,
      proof: this.#rogue.prove(this),
      session: 'rogue-session',
      knows: this.#rogue.knows.get(this.remoteKey) ?? null,
      addresses: [],
      ...changes,
    };
  }

  /** A data frame whose numbers are an honest one's, but for the changes. */
  data({ first = this.#next, base = 1, received = this.#seen, refusals = [], items = [] }: DataInit): void {
    this.say(['d', first, base, received, refusals, items]);
  }

  /** Sends items with the numbers that come next. */
  give(...items: unknown[]): void {
    this.data({ items });
    this.#next += items.length;
  }

  /** Announces agents of the rogue. */
  announce(...agents: AgentInit[]): void {
    this.give(['c', 'change', agents.map((init) => this.#rogue.card(init))]);
  }

  close(): void {
    this.#link.close();
  }
}

export function joinBody(invite: string, proof: string, changes: object = {}): object {
  return { protocol: { min: 1, max: 1 }, software: SOFTWARE, name: 'rogue', invite, proof, ...changes };
}
