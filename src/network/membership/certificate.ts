import { z } from 'zod';
import { LIMITS } from '../../mesh/limits.js';
import { type AgentTier, AgentTierSchema } from '../../mesh/schemas.js';
import { EclipticError } from '../../runtime/errors.js';
import { type Identity, isNodeKey, isSignedBy } from './identity.js';

export const NodeKeySchema = z.string().refine(isNodeKey, 'must be a node key: 64 hexadecimal digits');

const time = z.number().nonnegative();

export const GrantSchema = z.strictObject({
  /** The tiers that the node's agents may have. */
  tiers: z.array(AgentTierSchema).min(1).max(4),
  /** The only sandboxes that its agents may live in; without this, any or none. */
  sandboxes: z.array(z.string().min(1).max(LIMITS.idChars)).min(1).max(16).optional(),
  /** May it invite others, and remove them? */
  invite: z.boolean(),
  /** It is a device of the owner's, which sees and answers what waits on the others. */
  owner: z.literal(true).optional(),
});

const CertificateSchema = z.strictObject({
  /** The mesh: its root key. */
  mesh: NodeKeySchema,
  node: NodeKeySchema,
  /** What people call the node. */
  name: z.string().min(1).max(LIMITS.nameChars),
  grant: GrantSchema,
  /** The signer: a member, or the root itself. */
  issuer: NodeKeySchema,
  /** When the node became a member. A renewal does not change it, so it undoes no removal. */
  since: time,
  issuedAt: time,
  expiresAt: time,
  signature: z.string().max(128),
});

/** A node's certificate, then its issuer's, up to one that the root signed. */
export const ChainSchema = z.array(CertificateSchema).min(1).max(8);

export type Grant = z.infer<typeof GrantSchema>;
export type Certificate = z.infer<typeof CertificateSchema>;
export type Chain = z.infer<typeof ChainSchema>;

export const EVERY_TIER: readonly AgentTier[] = [0, 1, 2, 3];

const PURPOSE = 'certificate';
/** How far another node's clock may be ahead. */
export const CLOCK_SKEW_MS = 3_600_000;
const LONGEST_LIFE_MS = 400 * 86_400_000;

export function issueCertificate(issuer: Identity, content: Omit<Certificate, 'issuer' | 'signature'>): Certificate {
  const signed = { ...content, issuer: issuer.key };
  return { ...signed, signature: issuer.sign(PURPOSE, signed) };
}

/** The removals that a chain is checked against. */
export interface Removals {
  /** Was the membership of that node that began at `since` removed? */
  isRemoved(node: string, since: number): boolean;
  /** Does this certificate stay valid although the membership of its issuer, begun then, is over? */
  isKept(removed: string, since: number, signature: string): boolean;
}

interface ChainQuestion {
  mesh: string;
  node: string;
  /** Certificates that have expired by then do not hold. */
  now: number;
  /** Certificates that are dated more than an hour ahead of this do not hold. Default: `now`. */
  wall?: number;
  removals: Removals;
  /** Remembers certificates whose signatures hold, so that each is checked once. */
  checked?: CheckedCertificates;
}

const MAX_CHECKED = 4_096;

/** Certificates whose signatures hold. The same few come with every greeting and every entry of the directory. */
export class CheckedCertificates {
  readonly #texts = new Set<string>();

  isGenuine(certificate: Certificate): boolean {
    const text = JSON.stringify(certificate);
    if (this.#texts.has(text)) return true;
    const { signature, ...content } = certificate;
    if (!isSignedBy(certificate.issuer, PURPOSE, content, signature)) return false;
    const [oldest] = this.#texts;
    if (oldest !== undefined && this.#texts.size >= MAX_CHECKED) this.#texts.delete(oldest);
    this.#texts.add(text);
    return true;
  }
}

/** Checks that this chain proves the membership of that node now. Returns its grant; throws `MEMBERSHIP_REFUSED`. */
export function checkChain(chain: Chain, question: ChainQuestion): Grant {
  const { mesh, node, now, wall = now, removals, checked = new CheckedCertificates() } = question;
  const own = chain[0]!;
  if (own.node !== node) throw refusedMember(node, 'the certificate is another node’s');
  if (new Set(chain.map((certificate) => certificate.node)).size < chain.length) {
    throw refusedMember(node, 'a node appears twice in the chain');
  }
  const lapse = whyLapsed(chain, now, removals);
  if (lapse) throw refusedMember(node, lapse);
  chain.forEach((certificate, index) => {
    const parent = chain[index + 1];
    if (certificate.issuedAt > wall + CLOCK_SKEW_MS) throw refusedMember(node, aheadBy(certificate.issuedAt - wall));
    if (certificate.expiresAt - certificate.issuedAt > LONGEST_LIFE_MS || certificate.since > certificate.issuedAt) {
      throw refusedMember(node, 'the certificate’s times make no sense');
    }
    if (certificate.mesh !== mesh) throw refusedMember(node, 'the certificate is another mesh’s');
    if (certificate.issuer !== (parent?.node ?? mesh)) throw refusedMember(node, 'the certificate’s issuer is missing');
    if (!checked.isGenuine(certificate)) {
      throw refusedMember(node, 'the certificate’s signature is wrong');
    }
    if (parent) checkIssuer(parent, certificate, node);
  });
  return own.grant;
}

/** Is the node of this certificate a device of the owner's? The founder, whose certificate the root signed, always is. */
export function isOwners({ grant, issuer, mesh }: Certificate): boolean {
  return grant.owner === true || issuer === mesh;
}

/** The grant that a member may pass on. */
export function limitOf(certificate: Certificate): Grant {
  return isOwners(certificate) ? { ...certificate.grant, owner: true } : certificate.grant;
}

function checkIssuer(parent: Certificate, child: Certificate, node: string): void {
  if (!parent.grant.invite) throw refusedMember(node, 'its issuer may not invite');
  if (!isWithin(child.grant, limitOf(parent))) throw refusedMember(node, 'its grant goes beyond its issuer’s');
  if (child.issuedAt < parent.issuedAt || child.issuedAt > parent.expiresAt) {
    throw refusedMember(node, 'its issuer was not a member at the time');
  }
}

/** Why a chain that was once valid no longer is, if it is not. Checks no signature, so it is cheap. */
export function whyLapsed(chain: Chain, now: number, removals: Removals): string | undefined {
  const own = chain[0]!;
  if (own.expiresAt <= now) return 'the certificate has expired';
  if (isVoid(own, removals)) return 'the node was removed from the mesh';
  const orphaned = chain.some((certificate, index) => {
    const issuer = chain[index + 1];
    return issuer && isVoid(issuer, removals) && !removals.isKept(issuer.node, issuer.since, certificate.signature);
  });
  return orphaned ? 'its issuer was removed from the mesh' : undefined;
}

/** Was this certificate revoked? One that the root signed cannot be: the holder of the root could sign it again. */
function isVoid({ mesh, issuer, node, since }: Certificate, removals: Removals): boolean {
  return issuer !== mesh && removals.isRemoved(node, since);
}

/** A node can grant no more than it has. */
export function isWithin(grant: Grant, limit: Grant): boolean {
  return (
    grant.tiers.every((tier) => limit.tiers.includes(tier)) &&
    (limit.sandboxes === undefined || grant.sandboxes?.every((id) => limit.sandboxes!.includes(id)) === true) &&
    (limit.invite || !grant.invite) &&
    (limit.owner === true || grant.owner === undefined)
  );
}

function aheadBy(ms: number): string {
  const minutes = Math.ceil(ms / 60_000);
  const allowed = CLOCK_SKEW_MS / 60_000;
  return `the certificate is from the future: it was issued ${minutes} minutes ahead of this node’s clock, and ${allowed} are allowed; check the clocks of both`;
}

export function refusedMember(node: string, reason: string): EclipticError {
  return new EclipticError('MEMBERSHIP_REFUSED', `node ${node} is not admitted: ${reason}`, { node, reason });
}
