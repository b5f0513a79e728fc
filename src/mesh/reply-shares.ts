import { splitAddress } from './address.js';

/** The part of a reply permit that its share needs. */
interface SharedPermit {
  readonly state: 'asked' | 'noticed' | 'settled';
  readonly weight: number;
  settle(): void;
  letGo(): false;
}

/** Agents that may hold a permit to reply to one owner's messages that ask for no answer. */
const NOTICES = 4_096;
/** Shares without an open permit are dropped when there are this many more of them than of the others. */
const IDLE_SHARES = 1_024;

/**
 * The open reply permits of one owner: an agent of this node, another node, or an agent of that node. A permit counts
 * for its opener and for every share above it.
 */
export class Share {
  readonly #parent: Share | undefined;
  /** Permits whose opener waits for an answer. */
  #asked = 0;
  /** Shares directly below this one that have such permits. */
  #active = 0;
  /** Permits to reply to messages that ask for no answer, oldest first. The owner's next ones replace them. */
  #notices: SharedPermit[] | undefined;
  #weight = 0;

  constructor(parent?: Share) {
    this.#parent = parent;
  }

  get asked(): number {
    return this.#asked;
  }

  /** The share of all owners together has no owner. */
  get isOwned(): boolean {
    return this.#parent !== undefined;
  }

  take(): void {
    this.#asked++;
    if (!this.#parent) return;
    if (this.#asked === 1) this.#parent.#active++;
    this.#parent.take();
  }

  giveBack(): void {
    this.#asked--;
    if (!this.#parent) return;
    if (this.#asked === 0) this.#parent.#active--;
    this.#parent.giveBack();
  }

  /**
   * May its owner open one more, if all owners together may have `limit`? An owner may use all free room. Once there is
   * none, an owner with less than an equal part may still open more: a full table stops only the owners that filled it.
   */
  hasRoom(limit: number): boolean {
    if (!this.#parent) return this.#asked < limit;
    return this.#parent.hasRoom(limit) || this.#asked < this.#parent.#partFor(this, limit);
  }

  #partFor(child: Share, limit: number): number {
    const whole = this.#parent ? this.#parent.#partFor(this, limit) : limit;
    return whole / (child.#asked === 0 ? this.#active + 1 : this.#active);
  }

  /** Keeps a permit that later ones of the same local agent, or of the same other node, may replace. */
  keep(permit: SharedPermit): void {
    const above = this.#parent;
    if (above?.isOwned) {
      above.keep(permit);
      return;
    }
    this.#notices ??= [];
    this.#notices.push(permit);
    this.#weight += permit.weight;
    if (this.#weight > NOTICES) this.#makeRoom();
  }

  /** Drops settled permits, then the oldest, down to three quarters, so that most calls of `keep` need no cleaning. */
  #makeRoom(): void {
    const open = this.#notices!.filter((permit) => permit.state === 'noticed' || permit.letGo());
    let weight = open.reduce((sum, permit) => sum + permit.weight, 0);
    let from = 0;
    for (; weight > NOTICES * 0.75 && from < open.length - 1; from++) {
      weight -= open[from]!.weight;
      open[from]!.settle();
      open[from]!.letGo();
    }
    this.#notices = open.slice(from);
    this.#weight = weight;
  }

  get idle(): boolean {
    return this.#asked === 0 && !this.#notices?.some((permit) => permit.state === 'noticed');
  }
}

export class ReplyShares {
  readonly #limit: number;
  readonly #all = new Share();
  readonly #nodes = new Map<string, Share>();
  readonly #agents = new Map<string, Share>();
  #sweepAt = IDLE_SHARES;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get asked(): number {
    return this.#all.asked;
  }

  hasRoom(share: Share): boolean {
    return this.#all.asked < this.#limit || share.hasRoom(this.#limit);
  }

  of(opener: string): Share {
    return this.#agents.get(opener) ?? this.#add(opener);
  }

  #add(opener: string): Share {
    if (this.#agents.size >= this.#sweepAt) this.#sweep();
    const { node } = splitAddress(opener);
    const share = new Share(node === undefined ? this.#all : this.#ofNode(node));
    this.#agents.set(opener, share);
    return share;
  }

  #ofNode(node: string): Share {
    const share = this.#nodes.get(node) ?? new Share(this.#all);
    this.#nodes.set(node, share);
    return share;
  }

  #sweep(): void {
    for (const [opener, share] of this.#agents) if (share.idle) this.#agents.delete(opener);
    for (const [node, share] of this.#nodes) if (share.idle) this.#nodes.delete(node);
    this.#sweepAt = this.#agents.size + IDLE_SHARES;
  }
}
