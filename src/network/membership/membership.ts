import { createHash } from 'node:crypto';
import { LIMITS } from '../../mesh/limits.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import {
  type Chain,
  ChainSchema,
  CheckedCertificates,
  CLOCK_SKEW_MS,
  checkChain,
  EVERY_TIER,
  type Grant,
  GrantSchema,
  isOwners,
  issueCertificate,
  isWithin,
  limitOf,
  refusedMember,
  whyLapsed,
} from './certificate.js';
import { Identity, isSignedBy } from './identity.js';
import { inviteId, isInviteProof, proveInvite, SECRET_BYTES } from './invite.js';
import { KnownMembers } from './known-members.js';
import { MembershipRecord, type MembershipStore, WAY_OUT } from './membership-file.js';
import { nodeOf, type Removal, RemovalList, signRemoval } from './removal.js';

interface MembershipComponents {
  runtime: Runtime;
  identity: Identity;
  /** Without one, the membership ends with the process. */
  store?: MembershipStore;
  /** Decides when certificates end. Default: the runtime's clock. */
  clock?: Pick<Runtime, 'now'>;
}

/** One end of a link, and the hash of its handshake, which only its two ends know. */
export interface Handshake {
  readonly hash: Uint8Array;
  readonly initiator: boolean;
  readonly remoteKey: string;
}

/** The membership that the inviter gives to a joining node. */
export interface Welcome {
  readonly mesh: string;
  readonly meetingSecret: string;
  readonly chain: Chain;
  readonly bootstrap: readonly string[];
}

const YEAR_MS = 365 * 86_400_000;
const PROOF = 'link proof';
const MAX_KEPT = 256;
/** Of the signatures that a removal keeps, how many may be those of removals. */
const MAX_KEPT_REMOVALS = 64;
const LONGEST_CHAIN = 8;

const FULL_GRANT: Grant = { tiers: [...EVERY_TIER], invite: true };

/** This node's membership in a mesh, its proof, and its decisions about other nodes. Changes are stored before they count. */
export class Membership {
  readonly #runtime: Runtime;
  readonly #identity: Identity;
  readonly #record: MembershipRecord;
  readonly #clock: Pick<Runtime, 'now'>;
  readonly members: KnownMembers;
  readonly #checked = new CheckedCertificates();
  #removals = new RemovalList();

  constructor({ runtime, identity, store, clock = runtime }: MembershipComponents) {
    this.#runtime = runtime;
    this.#clock = clock;
    this.#identity = identity;
    const record = new MembershipRecord(store);
    this.#record = record;
    this.members = new KnownMembers({ record, ownKey: identity.key, isMember: (chain) => this.#isMember(chain) });
    const { state } = record;
    if (!state) return;
    if (state.chain[0]!.node !== identity.key) {
      throw new EclipticError(
        'DATA_FOLDER',
        'the membership in the data folder is another node’s; run: ecliptic leave',
      );
    }
    assertOwn(state.chain, state.mesh, identity.key);
    this.#removals = new RemovalList(state.removals);
    this.#renewOwn();
  }

  get joined(): boolean {
    return this.#record.state !== undefined;
  }

  /** The mesh's root key. */
  get mesh(): string {
    return this.#record.required.mesh;
  }

  get chain(): Chain {
    return this.#record.required.chain;
  }

  get grant(): Grant {
    return this.chain[0]!.grant;
  }

  /** Is this node a device of the owner's, which may ask and answer the others? */
  get isOwners(): boolean {
    return this.#record.state !== undefined && isOwners(this.chain[0]!);
  }

  get bootstrap(): readonly string[] {
    return this.#record.state?.bootstrap ?? [];
  }

  get removals(): readonly Removal[] {
    return this.#removals.all;
  }

  /** The DHT topic on which members find each other. */
  get topic(): Buffer {
    return createHash('sha256').update('ecliptic mesh topic 1\n').update(this.#record.required.meetingSecret).digest();
  }

  /** Under which name members share state at a broker, and a key that members know and the broker does not. */
  get sharedState(): { readonly scope: string; readonly key: Buffer | undefined } {
    if (!this.joined) return { scope: this.#identity.key, key: undefined };
    const { mesh, meetingSecret } = this.#record.required;
    return { scope: mesh, key: createHash('sha256').update('ecliptic mesh state 1\n').update(meetingSecret).digest() };
  }

  /** Creates a mesh with this node as its founder. */
  create(name: string, bootstrap: readonly string[]): void {
    this.#assertFree();
    const root = Identity.create(this.#runtime);
    this.#record.save({
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

  /** Makes a one-time secret that admits one node under this grant. */
  invite(grant: Grant, ttlMs: number): Uint8Array {
    const state = this.#record.required;
    const limit = limitOf(state.chain[0]!);
    if (!GrantSchema.safeParse(grant).success || !(ttlMs > 0 && ttlMs < YEAR_MS)) {
      throw new EclipticError(
        'INVALID_CONFIG',
        'an invite needs tiers, named sandboxes if any, and a time of up to a year',
      );
    }
    if (!limit.invite) throw new EclipticError('NOT_GRANTED', 'this node’s certificate does not let it invite');
    if (state.chain.length >= LONGEST_CHAIN) {
      throw new EclipticError('NOT_GRANTED', 'this node is too far from the mesh’s founder to invite');
    }
    if (!isWithin(grant, limit)) {
      throw new EclipticError('NOT_GRANTED', 'an invite cannot grant more than this node has', {
        limit,
      });
    }
    const secret = this.#runtime.bytes(SECRET_BYTES);
    const now = this.#runtime.now();
    const expiresAt = now + ttlMs;
    // A refusal explains what became of an invite, for a day.
    const recent = state.invites.filter((other) => other.expiresAt > now - 86_400_000);
    const invites = [...recent, { secret: hexOf(secret), grant, expiresAt, state: 'open' as const }];
    this.#record.save({ ...state, invites });
    return secret;
  }

  openInvites(): Uint8Array[] {
    const now = this.#runtime.now();
    const open =
      this.#record.state?.invites.filter(({ state, expiresAt }) => state === 'open' && expiresAt > now) ?? [];
    return open.map(({ secret }) => Buffer.from(secret, 'hex'));
  }

  revokeInvite(secret: Uint8Array): void {
    this.#setInvite(hexOf(secret), 'revoked');
  }

  /** Admits a node that proves that it has an open invite. The invite is spent before the node gets its certificate. */
  admit(id: string, proof: string, name: string, handshake: Handshake): { welcome: Welcome; proof: string } {
    const state = this.#record.required;
    const invite = state.invites.find(({ secret }) => inviteId(Buffer.from(secret, 'hex')) === id);
    if (!invite) throw refusedInvite('there is no such invite');
    const secret = Buffer.from(invite.secret, 'hex');
    if (!isInviteProof(secret, 'guest', handshake.hash, proof)) throw refusedInvite('the proof does not hold');
    // The node that used it may ask again: the answer may have been lost.
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

  /** Becomes a member with the inviter's welcome. */
  adopt(welcome: Welcome, addresses: readonly string[]): void {
    this.#assertFree();
    const { mesh, meetingSecret, chain, bootstrap } = welcome;
    this.#removals = new RemovalList();
    checkChain(chain, { mesh, node: this.#identity.key, ...this.#times, ...this.#known });
    this.#record.save({
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

  /** Proves, for one side of one link only, that this node holds its key. */
  prove(handshake: Handshake): string {
    this.#renewOwn();
    return this.#identity.sign(PROOF, proofOf(this.#identity.key, handshake.remoteKey, handshake.initiator, handshake));
  }

  /** Checks that the node at the other end of a link is a member. Returns its grant; throws `MEMBERSHIP_REFUSED`. */
  checkPeer(chain: unknown, proof: unknown, handshake: Handshake): { chain: Chain; grant: Grant } {
    const node = handshake.remoteKey;
    const parsed = ChainSchema.safeParse(chain);
    if (!parsed.success) throw refusedMember(node, 'it shows no certificate');
    const question = { mesh: this.mesh, node, ...this.#times, ...this.#known };
    const grant = checkChain(parsed.data, question);
    const expected = proofOf(node, this.#identity.key, !handshake.initiator, handshake);
    if (typeof proof !== 'string' || !isSignedBy(node, PROOF, expected, proof)) {
      throw refusedMember(node, 'its proof does not belong to this link');
    }
    try {
      this.members.noteMet([parsed.data], this.#runtime.now());
    } catch (error) {
      // A member is admitted even when the disk is full or read-only.
      this.#runtime.logger.error({ node, err: error }, 'member not noted on disk');
    }
    return { chain: parsed.data, grant };
  }

  /** The grant of a node that shows this chain; throws `MEMBERSHIP_REFUSED`. Something that it signed must be checked, too. */
  checkMember(chain: Chain, node: string): Grant {
    return checkChain(chain, { mesh: this.mesh, node, ...this.#times, ...this.#known });
  }

  #isMember(chain: Chain): boolean {
    const { mesh } = this.#record.required;
    try {
      checkChain(chain, { mesh, node: chain[0]!.node, ...this.#times, ...this.#known });
      return true;
    } catch {
      return false;
    }
  }

  /** The grant of another node, by the certificates that are known of it or that it shows; undefined if it is no member. */
  grantOf(node: string, shown?: unknown): Grant | undefined {
    const state = this.#record.state;
    if (!state) return undefined;
    const known = this.members.get(node)?.chain;
    if (known && !this.lapsed(known)) return known[0]!.grant;
    const parsed = ChainSchema.safeParse(shown);
    const isOwn = parsed.data?.[0]?.node === node;
    return parsed.success && isOwn && this.#isMember(parsed.data) ? parsed.data[0]!.grant : undefined;
  }

  /** Was the node of this chain removed? An expired certificate is no removal. */
  removed(chain: Chain): boolean {
    return whyLapsed(chain, Number.NEGATIVE_INFINITY, this.#removals) !== undefined;
  }

  /** Why a peer that was admitted with this chain is no longer a member, if it is not. */
  lapsed(chain: Chain): string | undefined {
    return whyLapsed(chain, this.#clock.now(), this.#removals);
  }

  /** Removes a node from the mesh. Members that it invited, and that this node has met, stay. */
  remove(chain: Chain): Removal {
    const state = this.#record.required;
    const { node, issuer } = chain[0]!;
    if (!state.chain[0]!.grant.invite) {
      throw new EclipticError('NOT_GRANTED', 'this node’s certificate does not let it remove others');
    }
    if (node === this.#identity.key) {
      throw new EclipticError('NOT_GRANTED', 'this is the node itself; use: ecliptic leave');
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

  /** Takes a removal that another member signed. True when it is new, false when it was known; throws if it does not hold. */
  takeRemoval(removal: Removal): boolean {
    const state = this.#record.required;
    const now = this.#runtime.now();
    const list = new RemovalList(this.#removals.all);
    const taken = list.add(removal, state.mesh, now);
    if (taken === 'new') {
      const members = state.members.filter(({ chain }) => !whyLapsed(chain, Number.NEGATIVE_INFINITY, list));
      this.#record.save({ ...state, removals: list.all, members });
      this.#removals = list;
    }
    if (taken === 'new' || taken === 'known') return taken === 'new';
    const node = nodeOf(removal);
    const forged = taken === false;
    throw new EclipticError(
      'MEMBERSHIP_REFUSED',
      `the removal of ${node} is not signed by a member that may remove it`,
      { node, forged },
    );
  }

  /** A fresh certificate for a member that this node invited, once the present one is past half its life. */
  renewed(chain: Chain): Chain | undefined {
    const { node, name, grant, issuer, since, issuedAt, expiresAt } = chain[0]!;
    if (issuer !== this.#identity.key || this.#clock.now() < (issuedAt + expiresAt) / 2) return undefined;
    if (this.lapsed(chain)) return undefined;
    return [this.#certificate(this.#identity, this.mesh, node, name, grant, since), ...this.chain];
  }

  /** Takes a fresh certificate for this node: from the same issuer, with the same grant, for longer. */
  renew(value: unknown, from: string): void {
    const state = this.#record.required;
    const parsed = ChainSchema.safeParse(value);
    const [present, fresh] = [state.chain[0]!, parsed.data?.[0]];
    const same = fresh?.issuer === present.issuer && JSON.stringify(fresh.grant) === JSON.stringify(present.grant);
    if (!parsed.success || !same || from !== present.issuer || fresh.expiresAt <= present.expiresAt) {
      throw refusedMember(from, 'its certificate does not renew this node’s');
    }
    const { mesh } = state;
    checkChain(parsed.data, { mesh, node: this.#identity.key, ...this.#times, ...this.#known });
    this.#record.save({ ...state, chain: parsed.data });
  }

  /** The addresses in the invite code that the owner gave. */
  get given(): readonly string[] {
    return this.#record.state?.given ?? [];
  }

  leave(): void {
    this.#record.clear();
    this.#removals = new RemovalList();
  }

  #assertFree(): void {
    if (!this.#record.state) return;
    throw new EclipticError('MESH_EXISTS', 'this node belongs to a mesh already; leave it first: ecliptic leave');
  }

  get #known(): { removals: RemovalList; checked: CheckedCertificates } {
    return { removals: this.#removals, checked: this.#checked };
  }

  /** Certificates end by the steady clock; the wall clock decides which are dated ahead. */
  get #times(): { now: number; wall: number } {
    return { now: this.#clock.now(), wall: this.#runtime.now() };
  }

  #certificate(issuer: Identity, mesh: string, node: string, name: string, grant: Grant, since?: number) {
    // Clocks differ: a certificate is never older than its issuer's, nor than the removal of a node that comes back.
    const removal = this.#removals.all.find((other) => nodeOf(other) === node);
    const parent = issuer === this.#identity ? (this.#record.state?.chain[0]?.issuedAt ?? 0) : 0;
    const earliest = Math.max(parent, removal ? removal.at + 1 : 0);
    const issuedAt = Math.max(this.#clock.now(), earliest);
    const known = cutText(name.trim() || 'a node', LIMITS.nameChars);
    const times = { since: since ?? issuedAt, issuedAt, expiresAt: issuedAt + YEAR_MS };
    return issueCertificate(issuer, { mesh, node, name: known, grant, ...times });
  }

  /** The founder has the root key, so it renews its own certificate. */
  #renewOwn(): void {
    const state = this.#record.required;
    const own = state.chain[0]!;
    const now = this.#clock.now();
    // Every other member refuses a certificate that was issued while this node's clock was ahead.
    const ahead = own.issuedAt > this.#runtime.now() + CLOCK_SKEW_MS;
    if (!state.rootSeed || (now < (own.issuedAt + own.expiresAt) / 2 && !ahead)) return;
    const root = Identity.fromSeed(Buffer.from(state.rootSeed, 'hex'));
    const since = Math.min(own.since, now);
    this.#record.save({ ...state, chain: [this.#certificate(root, root.key, own.node, own.name, own.grant, since)] });
  }

  #setInvite(secret: string, to: 'used' | 'revoked', by?: string): void {
    const state = this.#record.required;
    const usedAt = by === undefined ? undefined : this.#runtime.now();
    const spent = { state: to, by, usedAt };
    const invites = state.invites.map((invite) => (invite.secret === secret ? { ...invite, ...spent } : invite));
    this.#record.save({ ...state, invites });
  }
}

/** Refuses a certificate that was tampered with on disk, as every other member would. */
function assertOwn(chain: Chain, mesh: string, node: string): void {
  try {
    checkChain(chain, { mesh, node, now: chain[0]!.issuedAt, removals: new RemovalList() });
  } catch (error) {
    throw new EclipticError('DATA_FOLDER', `the certificate in mesh.json is damaged; ${WAY_OUT}`, {}, error);
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
