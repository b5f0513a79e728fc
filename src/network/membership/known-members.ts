import type { Chain } from './certificate.js';
import type { KnownMember, MembershipRecord } from './membership-file.js';

export interface KnownMembersComponents {
  record: MembershipRecord;
  ownKey: string;
  /** Does that chain prove a membership now? */
  isMember: (chain: Chain) => boolean;
}

/** Nodes whose addresses are remembered. */
const MAX_ADDRESSES = 1_000;
/** Certificates that are remembered as met. */
const MAX_MET = 1_000;
/** Members that are remembered, and how many of them one member may have vouched for. */
const MAX_MEMBERS = 1_000;
const MAX_VOUCHED = 32;
/** How old the time of the last meeting may be on disk. */
const MET_AGE_MS = 3_600_000;

/** The other members that this node has met or heard of, and their addresses. */
export class KnownMembers {
  readonly #components: KnownMembersComponents;
  /** The members by node, for the list that it was made from. */
  #index: { readonly of: readonly KnownMember[]; readonly byNode: ReadonlyMap<string, KnownMember> } | undefined;

  constructor(components: KnownMembersComponents) {
    this.#components = components;
  }

  get all(): readonly KnownMember[] {
    return this.#components.record.state?.members ?? [];
  }

  get(node: string): KnownMember | undefined {
    return this.#byNode.get(node);
  }

  get #byNode(): ReadonlyMap<string, KnownMember> {
    const { all } = this;
    if (this.#index?.of !== all) {
      this.#index = { of: all, byNode: new Map(all.map((member) => [member.chain[0]!.node, member])) };
    }
    return this.#index.byNode;
  }

  /** The `ws://` addresses of other members. */
  get addresses(): Readonly<Record<string, readonly string[]>> {
    return this.#components.record.state?.addresses ?? {};
  }

  /** Takes a member's word that other nodes are members too. Their certificates must hold; one member vouches for a few. */
  vouch(chains: readonly Chain[], by: string): void {
    const { record, ownKey, isMember } = this.#components;
    const known = (node: string) => node === ownKey || this.#byNode.has(node);
    if (chains.every(([own]) => known(own!.node))) return;
    const state = record.required;
    let room = MAX_VOUCHED - state.members.filter((member) => member.by === by).length;
    const added = new Map<string, KnownMember>();
    for (const chain of chains) {
      const { node } = chain[0]!;
      if (known(node) || added.has(node)) continue;
      if (room-- <= 0 || state.members.length + added.size >= MAX_MEMBERS) break;
      if (isMember(chain)) added.set(node, { chain, metAt: null, by });
    }
    if (added.size > 0) record.save({ ...state, members: [...state.members, ...added.values()] });
  }

  /** Remembers members that proved themselves, and their certificates, which a removal of their issuer must keep valid. */
  noteMet(chains: readonly Chain[], metAt: number): void {
    const { record } = this.#components;
    const state = record.required;
    const known = new Set(state.met.map(([, signature]) => signature));
    const certificates = new Map(chains.flat().map(({ issuer, signature }) => [signature, issuer]));
    const added = [...certificates]
      .filter(([signature]) => !known.has(signature))
      .map(([signature, issuer]): [string, string] => [issuer, signature]);
    const changed = chains.filter((chain) => {
      const before = this.get(chain[0]!.node);
      const same = before?.chain[0]?.signature === chain[0]!.signature;
      return !same || Math.abs(metAt - (before?.metAt ?? 0)) >= MET_AGE_MS;
    });
    if (added.length === 0 && changed.length === 0) return;
    const met = new Map(changed.map((chain) => [chain[0]!.node, { chain, metAt }]));
    // A member that was met pushes out one that was only vouched for, else the one that was met longest ago.
    const others = state.members
      .filter(({ chain }) => !met.has(chain[0]!.node))
      .sort((a, b) => (a.metAt ?? 0) - (b.metAt ?? 0));
    const members = [...others, ...met.values()].slice(-MAX_MEMBERS);
    record.save({ ...state, met: [...state.met, ...added].slice(-MAX_MET), members });
  }

  noteAddresses(found: Readonly<Record<string, readonly string[]>>): void {
    const { record } = this.#components;
    const state = record.required;
    const changed = Object.entries(found).filter(([node, addresses]) => {
      return addresses.length > 0 && JSON.stringify(state.addresses[node]) !== JSON.stringify(addresses);
    });
    if (changed.length === 0) return;
    const kept = Object.entries(state.addresses).slice(-MAX_ADDRESSES);
    const all = [...kept, ...changed.map(([node, addresses]): [string, string[]] => [node, [...addresses]])];
    record.save({ ...state, addresses: Object.fromEntries(all) });
  }

  forget(node: string): void {
    const { record } = this.#components;
    const { state } = record;
    if (!state || (!state.addresses[node] && !this.get(node))) return;
    const { [node]: _, ...addresses } = state.addresses;
    record.save({ ...state, addresses, members: state.members.filter(({ chain }) => chain[0]!.node !== node) });
  }
}
