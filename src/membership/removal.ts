import { z } from 'zod';
import { ChainSchema, CLOCK_SKEW_MS, checkChain, NodeKeySchema, type Removals } from './certificate.js';
import { type Identity, isSignedBy } from './identity.js';

/** A member's signed word that a node is no longer one. It travels to every member and is kept for good. */
export const RemovalSchema = z.strictObject({
  mesh: NodeKeySchema,
  /** The certificate of the removed node: only a member can be removed. */
  of: ChainSchema,
  /** A membership begun up to this moment is over; the node may be invited again later. */
  at: z.number().nonnegative(),
  /** Signatures of certificates that the removed node had issued and that stay good; it cannot issue others. */
  keep: z.array(z.string().max(128)).max(256),
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
    for (const removal of removals) {
      const known = this.#byNode.get(nodeOf(removal));
      if (!known || known.at < removal.at) this.#byNode.set(nodeOf(removal), removal);
    }
  }

  get all(): Removal[] {
    return [...this.#byNode.values()];
  }

  /** Takes one that holds. `known` when it is no news, `false` when it is not a member's word. */
  add(removal: Removal, mesh: string, now: number): 'new' | 'known' | false {
    const known = this.#byNode.get(nodeOf(removal));
    if (known && known.at >= removal.at) return 'known';
    if (removal.at > now + CLOCK_SKEW_MS || JSON.stringify(removal).length > MAX_REMOVAL_CHARS) return false;
    if (!this.#holds(removal, mesh)) return false;
    if (!known && this.#byNode.size >= MAX_REMOVALS && !this.#makeRoomFor(removal, mesh)) return false;
    this.#byNode.set(nodeOf(removal), removal);
    return 'new';
  }

  /** A founder's word always finds room, in the place of the latest of others: nobody gets in or stays by filling the list. */
  #makeRoomFor(removal: Removal, mesh: string): boolean {
    if (removal.by[0]!.issuer !== mesh) return false;
    const lesser = this.all.findLast((other) => other.by[0]!.issuer !== mesh);
    return lesser !== undefined && this.#byNode.delete(nodeOf(lesser));
  }

  isRemoved(node: string, since: number): boolean {
    const removal = this.#byNode.get(node);
    return removal !== undefined && since <= removal.at;
  }

  isKept(removed: string, signature: string): boolean {
    return this.#byNode.get(removed)?.keep.includes(signature) === true;
  }

  /** Was it signed by a member that could remove others then? What became of that member since does not matter. */
  #holds(removal: Removal, mesh: string): boolean {
    const { signature, ...content } = removal;
    const { of, by, at } = removal;
    const signer = by[0]!.node;
    if (removal.mesh !== mesh || !isSignedBy(signer, PURPOSE, content, signature)) return false;
    // What the root itself signed cannot be taken back.
    if (of[0]!.issuer === mesh) return false;
    const earlier: Removals = {
      isRemoved: (node, since) => this.isRemoved(node, since) && this.#byNode.get(node)!.at <= at,
      isKept: (removed, kept) => this.isKept(removed, kept),
    };
    try {
      checkChain(of, { mesh, node: nodeOf(removal), now: of[0]!.issuedAt, removals: NONE });
      return checkChain(by, { mesh, node: signer, now: at, removals: earlier }).invite;
    } catch {
      return false;
    }
  }
}

const NONE: Removals = { isRemoved: () => false, isKept: () => false };
/** A list that everybody keeps for good must have an end. */
const MAX_REMOVALS = 256;
const MAX_REMOVAL_CHARS = 65_536;

/** Whom it removes. */
export function nodeOf({ of }: Removal): string {
  return of[0]!.node;
}
