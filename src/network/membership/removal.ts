import { z } from 'zod';
import { ChainSchema, CLOCK_SKEW_MS, checkChain, NodeKeySchema, type Removals, whyLapsed } from './certificate.js';
import { type Identity, isSignedBy } from './identity.js';

/** A member's signed statement that another node is no longer a member. It travels to every member, which keeps it. */
export const RemovalSchema = z.strictObject({
  mesh: NodeKeySchema,
  /** The chain of the removed node: only a member can be removed. */
  of: ChainSchema,
  /** A membership begun up to this moment is over; the node may be invited again later. */
  at: z.number().nonnegative(),
  /** Signatures of certificates and removals by the removed node that stay valid; it can sign no others. */
  keep: z.array(z.string().max(128)).max(256),
  /** The signer's chain, which proves that it may remove others. */
  by: ChainSchema,
  signature: z.string().max(128),
});

export type Removal = z.infer<typeof RemovalSchema>;

const PURPOSE = 'removal';

export function signRemoval(signer: Identity, content: Omit<Removal, 'signature'>): Removal {
  return { ...content, signature: signer.sign(PURPOSE, content) };
}

/**
 * The removals that a node knows of. Several members may remove the same node: the latest removal of each counts, and a
 * certificate of the removed node stays valid only if all of them keep it, so an accomplice cannot keep more.
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
   * Adds a removal that holds. `known` when it changes nothing; `void` when it does not count here, though another
   * honest member may believe it; `false` when no honest member can. A removal that its signer's own removal does not
   * keep is void: a removed member could have dated it back. Signatures are checked last.
   */
  add(removal: Removal, mesh: string, now: number): 'new' | 'known' | 'void' | false {
    if (this.#isKnown(removal)) return 'known';
    if (JSON.stringify(removal).length > MAX_REMOVAL_CHARS) return false;
    if (removal.at > now + CLOCK_SKEW_MS || this.#isVoid(removal)) return 'void';
    const replaces = this.#byNode.get(nodeOf(removal))?.has(signerOf(removal)) === true;
    const full = !replaces && this.#size >= MAX_REMOVALS;
    const lesser = full ? this.#lesserThan(removal, mesh) : undefined;
    if (full && !lesser) return 'void';
    if (!isGenuine(removal, mesh)) return false;
    if (lesser) this.#delete(lesser);
    this.#set(removal);
    return 'new';
  }

  isRemoved(node: string, since: number): boolean {
    return this.#covering(node, since).length > 0;
  }

  isKept(removed: string, since: number, signature: string): boolean {
    return this.#covering(removed, since).every(({ keep }) => keep.includes(signature));
  }

  /** The signatures of the removals by that node. */
  signedBy(node: string): string[] {
    return this.all.filter((removal) => signerOf(removal) === node).map(({ signature }) => signature);
  }

  /** The removals that end a membership of that node, begun then. */
  #covering(node: string, since: number): Removal[] {
    const words = this.#byNode.get(node);
    return words ? [...words.values()].filter(({ at }) => since <= at) : [];
  }

  /** Is it here, or a later one of the same signer, or one of another signer that covers it? */
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

  /** A founder's removal always finds room, in place of the latest of another member: filling the list keeps no node in. */
  #lesserThan(removal: Removal, mesh: string): Removal | undefined {
    if (removal.by[0]!.issuer !== mesh) return undefined;
    return this.all.findLast((other) => other.by[0]!.issuer !== mesh);
  }

  #delete(removal: Removal): void {
    const words = this.#byNode.get(nodeOf(removal))!;
    words.delete(signerOf(removal));
    if (words.size === 0) this.#byNode.delete(nodeOf(removal));
    this.#size--;
  }

  /** Was its signer, or a node above the signer, removed by a removal that does not keep it? */
  #isVoid({ by, signature }: Removal): boolean {
    const voiding: Removals = {
      isRemoved: (node, since) => this.#covering(node, since).some(({ keep }) => !keep.includes(signature)),
      isKept: (removed, since, kept) => this.isKept(removed, since, kept),
    };
    return whyLapsed(by, Number.NEGATIVE_INFINITY, voiding) !== undefined;
  }
}

/** Is it signed by a member that may remove others? */
function isGenuine(removal: Removal, mesh: string): boolean {
  const { signature, ...content } = removal;
  const { of, by, at } = removal;
  const signer = signerOf(removal);
  // A certificate that the root signed cannot be revoked.
  if (removal.mesh !== mesh || of[0]!.issuer === mesh) return false;
  if (!isSignedBy(signer, PURPOSE, content, signature)) return false;
  try {
    checkChain(of, { mesh, node: nodeOf(removal), now: of[0]!.issuedAt, removals: NONE });
    return checkChain(by, { mesh, node: signer, now: at, removals: NONE }).invite;
  } catch {
    return false;
  }
}

function signerOf({ by }: Removal): string {
  return by[0]!.node;
}

const NONE: Removals = { isRemoved: () => false, isKept: () => false };
/** Every member keeps the whole list, so it is bounded. */
const MAX_REMOVALS = 256;
const MAX_REMOVAL_CHARS = 65_536;

/** The node that it removes. */
export function nodeOf({ of }: Removal): string {
  return of[0]!.node;
}
