import { z } from 'zod';
import { type Chain, ChainSchema, checkChain, NodeKeySchema, type Removals } from './certificate.js';
import { type Identity, isSignedBy } from './identity.js';

/** A member's signed word that a node is no longer one. It travels to every member and is kept for good. */
export const RemovalSchema = z.strictObject({
  mesh: NodeKeySchema,
  node: NodeKeySchema,
  /** Certificates issued up to this moment are void; the node may be invited again later. */
  at: z.number().nonnegative(),
  /** Members that the removed node had invited, directly or not, and that stay. */
  keep: z.array(NodeKeySchema).max(10_000),
  /** Who removed it, and the proof that it may. */
  by: ChainSchema,
  signature: z.string().max(128),
});

export type Removal = z.infer<typeof RemovalSchema>;

const PURPOSE = 'removal';

export function signRemoval(signer: Identity, content: Omit<Removal, 'signature'>): Removal {
  return { ...content, signature: signer.sign(PURPOSE, content) };
}

/** The removals that a node knows of. */
export class RemovalList implements Removals {
  readonly #byNode = new Map<string, Removal>();

  constructor(removals: readonly Removal[] = []) {
    for (const removal of removals) this.#byNode.set(removal.node, removal);
  }

  get all(): Removal[] {
    return [...this.#byNode.values()];
  }

  /** Takes a removal that holds and is news; false when it does not hold, or was known. */
  add(removal: Removal, mesh: string, now: number): boolean {
    const known = this.#byNode.get(removal.node);
    if (known && known.at >= removal.at) return false;
    if (!this.holds(removal, mesh, now)) return false;
    this.#byNode.set(removal.node, removal);
    return true;
  }

  /** Is it signed by a member that may remove others? */
  holds(removal: Removal, mesh: string, now: number): boolean {
    const { signature, ...content } = removal;
    const signer = removal.by[0]!.node;
    if (removal.mesh !== mesh || !isSignedBy(signer, PURPOSE, content, signature)) return false;
    return mayRemove(removal.by, { mesh, node: signer, now, removals: this });
  }

  isRemoved(node: string, issuedAt: number): boolean {
    const removal = this.#byNode.get(node);
    return removal !== undefined && issuedAt <= removal.at;
  }

  isKept(removed: string, node: string): boolean {
    return this.#byNode.get(removed)?.keep.includes(node) === true;
  }
}

function mayRemove(chain: Chain, question: Parameters<typeof checkChain>[1]): boolean {
  try {
    return checkChain(chain, question).invite;
  } catch {
    return false;
  }
}
