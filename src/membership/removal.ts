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
  /** Signatures of certificates and removals by the removed node that stay good; it cannot sign others. */
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

/**
 * The removals that a node knows of. Several members may remove the same node: each has one word about it, the latest,
 * and a certificate of the removed node stays good only where all of them keep it. So no accomplice can widen what
 * another member kept.
 */
export class RemovalList implements Removals {
  /** By removed node, then by signer. */
  readonly #byNode = new Map<string, Map<string, Removal>>();
  #size = 0;

  constructor(removals: readonly Removal[] = []) {
    for (const removal of removals) {
      const known = this.#byNode.get(nodeOf(removal))?.get(signerOf(removal));
      if (!known || known.at < removal.at) this.#set(removal);
    }
  }

  get all(): Removal[] {
    return [...this.#byNode.values()].flatMap((words) => [...words.values()]);
  }

  /**
   * Takes one that holds. `known` when it changes nothing, `false` when it is not a member's word. A removal that its
   * signer's own removal does not keep is void: a removed member could have dated it back.
   */
  add(removal: Removal, mesh: string, now: number): 'new' | 'known' | false {
    if (this.#isKnown(removal)) return 'known';
    if (removal.at > now + CLOCK_SKEW_MS || JSON.stringify(removal).length > MAX_REMOVAL_CHARS) return false;
    if (!this.#holds(removal, mesh)) return false;
    const replaces = this.#byNode.get(nodeOf(removal))?.has(signerOf(removal)) === true;
    if (!replaces && this.#size >= MAX_REMOVALS && !this.#makeRoomFor(removal, mesh)) return false;
    this.#set(removal);
    return 'new';
  }

  isRemoved(node: string, since: number): boolean {
    return this.#covering(node, since).length > 0;
  }

  isKept(removed: string, since: number, signature: string): boolean {
    return this.#covering(removed, since).every(({ keep }) => keep.includes(signature));
  }

  /** The signatures of what a node said about others' removal, as far as it is believed here. */
  signedBy(node: string): string[] {
    return this.all.filter((removal) => signerOf(removal) === node).map(({ signature }) => signature);
  }

  /** The removals that end a membership of that node which began then. */
  #covering(node: string, since: number): Removal[] {
    const words = this.#byNode.get(node);
    return words ? [...words.values()].filter(({ at }) => since <= at) : [];
  }

  /** Is it here, or one of the same signer that is later, or does it say no more than the others do together? */
  #isKnown(removal: Removal): boolean {
    const words = this.#byNode.get(nodeOf(removal));
    if (!words) return false;
    const own = words.get(signerOf(removal));
    if (own) return own.at >= removal.at;
    return [...words.values()].some(
      ({ at, keep }) => at >= removal.at && keep.every((signature) => removal.keep.includes(signature)),
    );
  }

  #set(removal: Removal): void {
    const node = nodeOf(removal);
    const words = this.#byNode.get(node) ?? new Map<string, Removal>();
    this.#byNode.set(node, words);
    const before = words.size;
    words.set(signerOf(removal), removal);
    this.#size += words.size - before;
  }

  /** A founder's word always finds room, in the place of the latest of others: nobody gets in or stays by filling the list. */
  #makeRoomFor(removal: Removal, mesh: string): boolean {
    if (removal.by[0]!.issuer !== mesh) return false;
    const lesser = this.all.findLast((other) => other.by[0]!.issuer !== mesh);
    if (!lesser) return false;
    const words = this.#byNode.get(nodeOf(lesser))!;
    words.delete(signerOf(lesser));
    if (words.size === 0) this.#byNode.delete(nodeOf(lesser));
    this.#size--;
    return true;
  }

  /** Was it signed by a member that may remove others, and, if that member was removed since, does its removal keep it? */
  #holds(removal: Removal, mesh: string): boolean {
    const { signature, ...content } = removal;
    const { of, by, at } = removal;
    const signer = signerOf(removal);
    if (removal.mesh !== mesh || !isSignedBy(signer, PURPOSE, content, signature)) return false;
    // What the root itself signed cannot be taken back.
    if (of[0]!.issuer === mesh) return false;
    const voiding: Removals = {
      isRemoved: (node, since) => this.#covering(node, since).some(({ keep }) => !keep.includes(signature)),
      isKept: (removed, since, kept) => this.isKept(removed, since, kept),
    };
    try {
      checkChain(of, { mesh, node: nodeOf(removal), now: of[0]!.issuedAt, removals: NONE });
      return checkChain(by, { mesh, node: signer, now: at, removals: voiding }).invite;
    } catch {
      return false;
    }
  }
}

function signerOf({ by }: Removal): string {
  return by[0]!.node;
}

const NONE: Removals = { isRemoved: () => false, isKept: () => false };
/** A list that everybody keeps for good must have an end. */
const MAX_REMOVALS = 256;
const MAX_REMOVAL_CHARS = 65_536;

/** Whom it removes. */
export function nodeOf({ of }: Removal): string {
  return of[0]!.node;
}
