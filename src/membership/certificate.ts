import { z } from 'zod';
import { LIMITS } from '../a2a/limits.js';
import { type AgentTier, AgentTierSchema } from '../a2a/schemas.js';
import { EclipticError } from '../runtime/errors.js';
import { type Identity, isSignedBy, NODE_KEY } from './identity.js';

export const NodeKeySchema = z.string().regex(NODE_KEY, 'must be a node key: 64 hexadecimal digits');

const time = z.number().nonnegative();

export const GrantSchema = z.strictObject({
  /** The tiers that the node's agents may have. */
  tiers: z.array(AgentTierSchema).min(1).max(4),
  /** The only sandboxes that its agents may live in; without this, any or none. */
  sandboxes: z.array(z.string().min(1).max(LIMITS.idChars)).min(1).max(LIMITS.cardListEntries).optional(),
  /** May it invite others, and remove them? */
  invite: z.boolean(),
});

const CertificateSchema = z.strictObject({
  /** The mesh: its root key. */
  mesh: NodeKeySchema,
  node: NodeKeySchema,
  /** What people call the node. */
  name: z.string().min(1).max(LIMITS.nameChars),
  grant: GrantSchema,
  /** Who signed this: a member, or the root itself. */
  issuer: NodeKeySchema,
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

export function issueCertificate(issuer: Identity, content: Omit<Certificate, 'issuer' | 'signature'>): Certificate {
  const signed = { ...content, issuer: issuer.key };
  return { ...signed, signature: issuer.sign(PURPOSE, signed) };
}

/** Who was removed, as far as a chain is concerned. */
export interface Removals {
  /** Is a certificate of that node, issued then, void? */
  isRemoved(node: string, issuedAt: number): boolean;
  /** Does a member stay one although the issuer above it was removed? */
  isKept(removed: string, node: string): boolean;
}

export interface ChainQuestion {
  mesh: string;
  node: string;
  now: number;
  removals: Removals;
}

/** Is this chain the membership of that node, now? Returns what the node may do; throws `MEMBERSHIP_REFUSED`. */
export function checkChain(chain: Chain, { mesh, node, now, removals }: ChainQuestion): Grant {
  const own = chain[0]!;
  if (own.node !== node) throw refused('the certificate is another node’s', node);
  if (own.expiresAt <= now) throw refused('the certificate has expired', node);
  if (isVoid(own, removals)) throw refused('the node was removed from the mesh', node);
  chain.forEach((certificate, index) => {
    const parent = chain[index + 1];
    const { signature, ...content } = certificate;
    if (certificate.mesh !== mesh) throw refused('the certificate is another mesh’s', node);
    if (certificate.issuer !== (parent?.node ?? mesh)) throw refused('the certificate’s issuer is missing', node);
    if (!isSignedBy(certificate.issuer, PURPOSE, content, signature)) {
      throw refused('the certificate’s signature is wrong', node);
    }
    if (parent) checkIssuer(parent, certificate, node, removals);
  });
  return own.grant;
}

function checkIssuer(parent: Certificate, child: Certificate, node: string, removals: Removals): void {
  if (!parent.grant.invite) throw refused('its issuer may not invite', node);
  if (!isWithin(child.grant, parent.grant)) throw refused('its grant goes beyond its issuer’s', node);
  if (child.issuedAt < parent.issuedAt || child.issuedAt > parent.expiresAt) {
    throw refused('its issuer was no member at the time', node);
  }
  if (isVoid(parent, removals) && !removals.isKept(parent.node, node)) {
    throw refused('its issuer was removed from the mesh', node);
  }
}

/** Was this taken back? What the root itself signed nobody can take back: its holder could sign it again. */
export function isVoid({ mesh, issuer, node, issuedAt }: Certificate, removals: Removals): boolean {
  return issuer !== mesh && removals.isRemoved(node, issuedAt);
}

/** Nobody can hand on more than it has. */
export function isWithin(grant: Grant, limit: Grant): boolean {
  return (
    grant.tiers.every((tier) => limit.tiers.includes(tier)) &&
    (limit.sandboxes === undefined || grant.sandboxes?.every((id) => limit.sandboxes!.includes(id)) === true) &&
    (limit.invite || !grant.invite)
  );
}

function refused(reason: string, node: string): EclipticError {
  return new EclipticError('MEMBERSHIP_REFUSED', `node ${node} is not admitted: ${reason}`, { node, reason });
}
