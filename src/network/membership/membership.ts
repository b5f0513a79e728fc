import { createHash } from 'node:crypto';
import { LIMITS } from '../../mesh/limits.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import {
  type Chain,
  ChainSchema,
  CLOCK_SKEW_MS,
  checkChain,
  EVERY_TIER,
  type Grant,
  GrantSchema,
  issueCertificate,
  isWithin,
  whyLapsed,
} from './certificate.js';
import { Identity, isSignedBy } from './identity.js';
import { inviteId, isInviteProof, proveInvite, SECRET_BYTES } from './invite.js';
import type { KnownMember, MembershipState, MembershipStore } from './membership-file.js';
import { nodeOf, type Removal, RemovalList, signRemoval } from './removal.js';

export interface MembershipComponents {
  runtime: Runtime;
  identity: Identity;
  store: MembershipStore;
  /** What ends certificates. Default: the runtime's clock. */
  clock?: Pick<Runtime, 'now'>;
}

/** The two ends of one link, and what only they know of its handshake. */
export interface Handshake {
  readonly hash: Uint8Array;
  readonly initiator: boolean;
  readonly remoteKey: string;
}

/** What a joining node is given. */
export interface Welcome {
  readonly mesh: string;
  readonly meetingSecret: string;
  readonly chain: Chain;
  readonly bootstrap: readonly string[];
}

const YEAR_MS = 365 * 86_400_000;
const PROOF = 'link proof';
/** Nodes whose addresses are remembered. */
const MAX_ADDRESSES = 1_000;
/** Certificates that are remembered as met. */
const MAX_MET = 1_000;
/** Members that are remembered, and how many of them one member may have vouched for. */
const MAX_MEMBERS = 1_000;
const MAX_VOUCHED = 32;
/** How old the time of the last meeting may be on disk. */
const MET_AGE_MS = 3_600_000;
/** Signatures that a removal keeps. */
const MAX_KEPT = 256;
/** Of the signatures that a removal keeps, how many may be those of removals. */
const MAX_KEPT_REMOVALS = 64;
/** Certificates from a node up to the root. */
const LONGEST_CHAIN = 8;

/** What this node may do in one's own mesh: everything. */
const FULL_GRANT: Grant = { tiers: [...EVERY_TIER], invite: true };

/** Which mesh this node belongs to, the proof of it, and whom it admits. Every change is on disk before it counts. */
export class Membership {
  readonly #runtime: Runtime;
  readonly #identity: Identity;
  readonly #store: MembershipStore;
  readonly #clock: Pick<Runtime, 'now'>;
  #state: MembershipState | undefined;
  #removals = new RemovalList();

  constructor({ runtime, identity, store, clock = runtime }: MembershipComponents) {
    this.#runtime = runtime;
    this.#clock = clock;
    this.#identity = identity;
    this.#store = store;
    this.#state = store.load();
    if (!this.#state) return;
    if (this.#state.chain[0]!.node !== identity.key) {
      throw new EclipticError(
        'DATA_FOLDER',
        'the membership in the data folder is another node’s; run: ecliptic leave',
      );
    }
    assertOwn(this.#state.chain, this.#state.mesh, identity.key);
    this.#removals = new RemovalList(this.#state.removals);
    this.#renewOwn();
  }

  get joined(): boolean {
    return this.#state !== undefined;
  }

  /** The mesh's root key. */
  get mesh(): string {
    return this.#required.mesh;
  }

  get chain(): Chain {
    return this.#required.chain;
  }

  /** What this node may do. */
  get grant(): Grant {
    return this.chain[0]!.grant;
  }

  get bootstrap(): readonly string[] {
    return this.#state?.bootstrap ?? [];
  }

  get removals(): readonly Removal[] {
    return this.#removals.all;
  }

  /** Where on a DHT the members meet. */
  get topic(): Buffer {
    return createHash('sha256').update('ecliptic mesh topic 1\n').update(this.#required.meetingSecret).digest();
  }

  /** Founds a mesh of one's own. */
  found(name: string, bootstrap: readonly string[]): void {
    this.#assertFree();
    const root = Identity.create(this.#runtime);
    this.#save({
      version: 2,
      mesh: root.key,
      rootSeed: root.seed,
      meetingSecret: Buffer.from(this.#runtime.bytes(32)).toString('hex'),
      chain: [this.#certificate(root, root.key, this.#identity.key, name, FULL_GRANT)],
      met: [],
      members: [],
      given: [],
      bootstrap: [...bootstrap],
      addresses: {},
      invites: [],
      removals: [],
    });
  }

  /** Makes a one-time secret that lets one node in, under this grant. */
  invite(grant: Grant, ttlMs: number): Uint8Array {
    const state = this.#required;
    const limit = state.chain[0]!.grant;
    if (!GrantSchema.safeParse(grant).success || !(ttlMs > 0 && ttlMs < YEAR_MS)) {
      throw new EclipticError('INVALID_CONFIG', 'an invite has tiers, named sandboxes and a time of up to a year');
    }
    if (!limit.invite) throw new EclipticError('NOT_GRANTED', 'this node’s certificate does not let it invite');
    if (state.chain.length >= LONGEST_CHAIN) {
      throw new EclipticError('NOT_GRANTED', 'this node is too far from the one that founded the mesh to invite');
    }
    if (!isWithin(grant, limit)) {
      throw new EclipticError('NOT_GRANTED', 'nobody can hand on more tiers or sandboxes than it has', { limit });
    }
    const secret = this.#runtime.bytes(SECRET_BYTES);
    const now = this.#runtime.now();
    const expiresAt = now + ttlMs;
    // Invites long past need no more explaining.
    const recent = state.invites.filter((other) => other.expiresAt > now - 86_400_000);
    const invites = [...recent, { secret: hexOf(secret), grant, expiresAt, state: 'open' as const }];
    this.#save({ ...state, invites });
    return secret;
  }

  /** Secrets of the invites that somebody may still use. */
  openInvites(): Uint8Array[] {
    const now = this.#runtime.now();
    const open = this.#state?.invites.filter(({ state, expiresAt }) => state === 'open' && expiresAt > now) ?? [];
    return open.map(({ secret }) => Buffer.from(secret, 'hex'));
  }

  /** Makes an invite void before its time. */
  revokeInvite(secret: Uint8Array): void {
    this.#setInvite(hexOf(secret), 'revoked');
  }

  /** Lets a node in that proves it has an open invite; the invite is spent before anything is given. */
  admit(id: string, proof: string, name: string, handshake: Handshake): { welcome: Welcome; proof: string } {
    const state = this.#required;
    const invite = state.invites.find(({ secret }) => inviteId(Buffer.from(secret, 'hex')) === id);
    if (!invite) throw refusedInvite('there is no such invite');
    const secret = Buffer.from(invite.secret, 'hex');
    if (!isInviteProof(secret, 'guest', handshake.hash, proof)) throw refusedInvite('the proof does not hold');
    // Whoever used it may ask again: the answer may have been lost.
    const { remoteKey } = handshake;
    const again =
      invite.state === 'used' && invite.by === remoteKey && !this.#removals.isRemoved(remoteKey, invite.usedAt ?? 0);
    if (invite.state !== 'open' && !again) throw refusedInvite(`the invite was ${invite.state} before`);
    if (invite.expiresAt <= this.#runtime.now()) throw refusedInvite('the invite has expired');
    if (!again) this.#setInvite(invite.secret, 'used', remoteKey);
    const { mesh, meetingSecret, bootstrap, chain } = state;
    const issued = this.#certificate(
      this.#identity,
      mesh,
      remoteKey,
      name,
      invite.grant,
      again ? invite.usedAt : undefined,
    );
    const welcome = { mesh, meetingSecret, bootstrap, chain: [issued, ...chain] };
    return { welcome, proof: proveInvite(secret, 'host', handshake.hash) };
  }

  /** Becomes a member by what the inviter gave. */
  adopt(welcome: Welcome, addresses: readonly string[]): void {
    this.#assertFree();
    const { mesh, meetingSecret, chain, bootstrap } = welcome;
    this.#removals = new RemovalList();
    checkChain(chain, { mesh, node: this.#identity.key, ...this.#times, removals: this.#removals });
    this.#save({
      version: 2,
      mesh,
      meetingSecret,
      chain: [...chain],
      bootstrap: [...bootstrap],
      addresses: addresses.length > 0 ? { [chain[0]!.issuer]: [...addresses] } : {},
      given: [...addresses],
      invites: [],
      removals: [],
      met: [],
      members: [],
    });
  }

  /** Proof, for one side of one link only, that this node holds its key. */
  prove(handshake: Handshake): string {
    this.#renewOwn();
    return this.#identity.sign(PROOF, proofOf(this.#identity.key, handshake.remoteKey, handshake.initiator, handshake));
  }

  /** Is the node at the other end of a link a member? Returns what it may do; throws `MEMBERSHIP_REFUSED`. */
  checkPeer(chain: unknown, proof: unknown, handshake: Handshake): { chain: Chain; grant: Grant } {
    const node = handshake.remoteKey;
    const parsed = ChainSchema.safeParse(chain);
    if (!parsed.success) throw refusedPeer(node, 'it shows no certificate');
    const question = { mesh: this.mesh, node, ...this.#times, removals: this.#removals };
    const grant = checkChain(parsed.data, question);
    const expected = proofOf(node, this.#identity.key, !handshake.initiator, handshake);
    if (typeof proof !== 'string' || !isSignedBy(node, PROOF, expected, proof)) {
      throw refusedPeer(node, 'its proof does not belong to this link');
    }
    try {
      this.#noteMet(parsed.data);
    } catch (error) {
      // A disk that takes nothing, as when it is read-only, is no reason to turn a member away.
      this.#runtime.logger.error({ node, err: error }, 'member not noted on disk');
    }
    return { chain: parsed.data, grant };
  }

  /** The other members that this node knows of, met or vouched for. */
  get members(): readonly KnownMember[] {
    return this.#state?.members ?? [];
  }

  /** The record of one member, by its key. */
  member(node: string): KnownMember | undefined {
    return this.members.find(({ chain }) => chain[0]!.node === node);
  }

  /** Takes a member's word that other nodes are members too. Their certificates must hold; one member vouches for a few. */
  vouch(chains: readonly Chain[], by: string): void {
    const state = this.#required;
    const known = new Set([this.#identity.key, ...state.members.map(({ chain }) => chain[0]!.node)]);
    let room = MAX_VOUCHED - state.members.filter((member) => member.by === by).length;
    const news: KnownMember[] = [];
    for (const chain of chains) {
      const { node } = chain[0]!;
      if (known.has(node)) continue;
      if (room-- <= 0 || state.members.length + news.length >= MAX_MEMBERS) break;
      if (!this.#isMember(chain)) continue;
      known.add(node);
      news.push({ chain, metAt: null, by });
    }
    if (news.length > 0) this.#save({ ...state, members: [...state.members, ...news] });
  }

  #isMember(chain: Chain): boolean {
    const { mesh } = this.#required;
    try {
      checkChain(chain, { mesh, node: chain[0]!.node, ...this.#times, removals: this.#removals });
      return true;
    } catch {
      return false;
    }
  }

  /** Was the membership that this chain proves taken away? A certificate that only expired was not. */
  removed(chain: Chain): boolean {
    return whyLapsed(chain, Number.NEGATIVE_INFINITY, this.#removals) !== undefined;
  }

  /** Is a peer that was admitted with this chain still a member? Returns why not. */
  lapsed(chain: Chain): string | undefined {
    return whyLapsed(chain, this.#clock.now(), this.#removals);
  }

  /** Takes a node's membership away. Members that it had invited, and that were met here, stay. */
  remove(chain: Chain): Removal {
    const state = this.#required;
    const { node, issuer } = chain[0]!;
    if (!state.chain[0]!.grant.invite) {
      throw new EclipticError('NOT_GRANTED', 'this node’s certificate does not let it remove others');
    }
    if (node === this.#identity.key) {
      throw new EclipticError('NOT_GRANTED', 'this is the node itself; take it out with: ecliptic leave');
    }
    if (issuer === state.mesh) {
      throw new EclipticError('NOT_GRANTED', 'this is the node that founded the mesh; only it can leave', { node });
    }
    const at = Math.max(this.#clock.now(), chain[0]!.since);
    const removals = this.#removals.signedBy(node).slice(-MAX_KEPT_REMOVALS);
    const certificates = state.met.filter(([by]) => by === node).map(([, signature]) => signature);
    const keep = [...certificates.slice(removals.length - MAX_KEPT), ...removals];
    const content = { mesh: state.mesh, of: chain, at, keep, by: state.chain };
    const removal = signRemoval(this.#identity, content);
    this.takeRemoval(removal);
    return removal;
  }

  /** Takes another member's word about a removal. True when it is news, false when it was known; throws if it lies. */
  takeRemoval(removal: Removal): boolean {
    const state = this.#required;
    const now = this.#runtime.now();
    const list = new RemovalList(this.#removals.all);
    const taken = list.add(removal, state.mesh, now);
    if (taken === 'new') {
      const members = state.members.filter(({ chain }) => !whyLapsed(chain, Number.NEGATIVE_INFINITY, list));
      this.#save({ ...state, removals: list.all, members });
      this.#removals = list;
    }
    if (taken === 'new' || taken === 'known') return taken === 'new';
    const node = nodeOf(removal);
    const forged = taken === false;
    throw new EclipticError('MEMBERSHIP_REFUSED', `the removal of ${node} is not a member’s word`, { node, forged });
  }

  /** A fresh certificate for a member that this node invited and whose present one is past its half; else nothing. */
  renewed(chain: Chain): Chain | undefined {
    const { node, name, grant, issuer, since, issuedAt, expiresAt } = chain[0]!;
    if (issuer !== this.#identity.key || this.#clock.now() < (issuedAt + expiresAt) / 2) return undefined;
    if (this.lapsed(chain)) return undefined;
    return [this.#certificate(this.#identity, this.mesh, node, name, grant, since), ...this.chain];
  }

  /** Takes a fresh certificate of this node: from its issuer, for the same, for longer. Anything else is refused. */
  renew(value: unknown, from: string): void {
    const state = this.#required;
    const parsed = ChainSchema.safeParse(value);
    const [present, fresh] = [state.chain[0]!, parsed.data?.[0]];
    const same = fresh?.issuer === present.issuer && JSON.stringify(fresh.grant) === JSON.stringify(present.grant);
    if (!parsed.success || !same || from !== present.issuer || fresh.expiresAt <= present.expiresAt) {
      throw refusedPeer(from, 'what it says is no renewal of this node’s certificate');
    }
    const { mesh } = state;
    checkChain(parsed.data, { mesh, node: this.#identity.key, ...this.#times, removals: this.#removals });
    this.#save({ ...state, chain: parsed.data });
  }

  /** Other members' `ws://` addresses, as far as they are known. */
  get addresses(): Readonly<Record<string, readonly string[]>> {
    return this.#state?.addresses ?? {};
  }

  /** The addresses in the code that this node joined with, which its owner gave it. */
  get given(): readonly string[] {
    return this.#state?.given ?? [];
  }

  /** A node that is no member any more is neither shown nor called. */
  forget(node: string): void {
    const state = this.#state;
    if (!state || (!state.addresses[node] && !this.member(node))) return;
    const { [node]: _, ...addresses } = state.addresses;
    this.#save({ ...state, addresses, members: state.members.filter(({ chain }) => chain[0]!.node !== node) });
  }

  /** Remembers where members can be called. */
  noteAddresses(found: Readonly<Record<string, readonly string[]>>): void {
    const state = this.#required;
    const news = Object.entries(found).filter(([node, addresses]) => {
      return addresses.length > 0 && JSON.stringify(state.addresses[node]) !== JSON.stringify(addresses);
    });
    if (news.length === 0) return;
    const kept = Object.entries(state.addresses).slice(-MAX_ADDRESSES);
    const all = [...kept, ...news.map(([node, addresses]): [string, string[]] => [node, [...addresses]])];
    this.#save({ ...state, addresses: Object.fromEntries(all) });
  }

  leave(): void {
    this.#store.clear();
    this.#state = undefined;
    this.#removals = new RemovalList();
  }

  get #required(): MembershipState {
    if (this.#state) return this.#state;
    throw new EclipticError('NO_MESH', 'this node belongs to no mesh yet; use: ecliptic invite, or ecliptic join CODE');
  }

  #assertFree(): void {
    if (!this.#state) return;
    throw new EclipticError('MESH_EXISTS', 'this node belongs to a mesh already; leave it first: ecliptic leave');
  }

  /** Certificates end by the steady clock; the wall clock tells which are dated ahead. */
  get #times(): { now: number; wall: number } {
    return { now: this.#clock.now(), wall: this.#runtime.now() };
  }

  #certificate(issuer: Identity, mesh: string, node: string, name: string, grant: Grant, since?: number) {
    // Clocks differ: a certificate is never older than its issuer's, nor than the removal of a node that comes back.
    const removal = this.#removals.all.find((other) => nodeOf(other) === node);
    const parent = issuer === this.#identity ? (this.#state?.chain[0]?.issuedAt ?? 0) : 0;
    const earliest = Math.max(parent, removal ? removal.at + 1 : 0);
    const issuedAt = Math.max(this.#clock.now(), earliest);
    const known = cutText(name.trim() || 'a node', LIMITS.nameChars);
    const times = { since: since ?? issuedAt, issuedAt, expiresAt: issuedAt + YEAR_MS };
    return issueCertificate(issuer, { mesh, node, name: known, grant, ...times });
  }

  /** Notes a member that proved itself, and whose certificates were seen: what a removal of their issuer must not touch. */
  #noteMet(chain: Chain): void {
    const state = this.#required;
    const known = new Set(state.met.map(([, signature]) => signature));
    const news = chain
      .filter(({ signature }) => !known.has(signature))
      .map(({ issuer, signature }): [string, string] => [issuer, signature]);
    const own = chain[0]!;
    const before = this.member(own.node);
    const metAt = this.#runtime.now();
    const same = before?.chain[0]?.signature === own.signature && Math.abs(metAt - (before.metAt ?? 0)) < MET_AGE_MS;
    if (news.length === 0 && same) return;
    // One that was met pushes out one that was only vouched for, else the one that was met longest ago.
    const others = state.members
      .filter((member) => member !== before)
      .sort((a, b) => (a.metAt ?? 0) - (b.metAt ?? 0))
      .slice(1 - MAX_MEMBERS);
    const members = [...others, { chain, metAt }];
    this.#save({ ...state, met: [...state.met, ...news].slice(-MAX_MET), members });
  }

  /** The founder has the root key, and needs nobody to stay a member. */
  #renewOwn(): void {
    const state = this.#required;
    const own = state.chain[0]!;
    const now = this.#clock.now();
    // One that was issued while the clock was wrong is from the future to every other member.
    const ahead = own.issuedAt > this.#runtime.now() + CLOCK_SKEW_MS;
    if (!state.rootSeed || (now < (own.issuedAt + own.expiresAt) / 2 && !ahead)) return;
    const root = Identity.fromSeed(Buffer.from(state.rootSeed, 'hex'));
    const since = Math.min(own.since, now);
    this.#save({ ...state, chain: [this.#certificate(root, root.key, own.node, own.name, own.grant, since)] });
  }

  #setInvite(secret: string, to: 'used' | 'revoked', by?: string): void {
    const state = this.#required;
    const usedAt = by === undefined ? undefined : this.#runtime.now();
    const spent = { state: to, by, usedAt };
    const invites = state.invites.map((invite) => (invite.secret === secret ? { ...invite, ...spent } : invite));
    this.#save({ ...state, invites });
  }

  #save(state: MembershipState): void {
    this.#store.save(state);
    this.#state = state;
  }
}

/** A certificate that somebody wrote into the file would be refused by every other member, and is refused here first. */
function assertOwn(chain: Chain, mesh: string, node: string): void {
  try {
    checkChain(chain, { mesh, node, now: chain[0]!.issuedAt, removals: new RemovalList() });
  } catch (error) {
    const reason =
      'the certificate in mesh.json is not what was signed; restore the file, or leave the mesh and join again';
    throw new EclipticError('DATA_FOLDER', reason, {}, error);
  }
}

function proofOf(from: string, to: string, initiator: boolean, { hash }: Handshake): object {
  return { from, to, role: initiator ? 'initiator' : 'responder', handshake: hexOf(hash) };
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

function refusedInvite(reason: string): EclipticError {
  return new EclipticError('INVALID_INVITE', `the invite is refused: ${reason}`, { reason });
}

function refusedPeer(node: string, reason: string): EclipticError {
  return new EclipticError('MEMBERSHIP_REFUSED', `node ${node} is not admitted: ${reason}`, { node, reason });
}
