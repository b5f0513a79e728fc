import type { Runtime } from '../../runtime/runtime.js';
import type { DirectoryListener } from '../directory/directory.js';
import type { Identity } from '../membership/identity.js';
import { type Confirmation, ConfirmationSchema, isConfirmed, signConfirmation } from './directory-entry.js';
import type { GossipEntries, Kept } from './gossip-entries.js';
import { malformed, parsed } from './wire.js';

export interface GossipConfirmationsComponents {
  runtime: Runtime;
  identity: Identity;
  kept: GossipEntries;
  listener: () => DirectoryListener | undefined;
  say: (node: string, confirmations: readonly Confirmation[]) => void;
  /** Has the node signed its confirmation? Default: checks the signature. */
  isConfirmed?: ((confirmation: Confirmation) => boolean) | undefined;
}

/** How often this node confirms its entry. */
const CONFIRM_MS = 15_000;
/**
 * Neighbours that a node passes others' confirmations on to. Each reaches about 94 of 100 nodes, each of them three times; with
 * all neighbours it would be ten times and more. Nodes that were not heard of for the second time are asked about.
 */
const PASSED_TO = 3;
/** A confirmation that is older, by the clock of its node, does not say that the node is alive now. */
const CURRENT_MS = 5_000;

/** The nodes' words that they are alive: makes this node's, takes those of others, and passes them on. */
export class GossipConfirmations {
  readonly #components: GossipConfirmationsComponents;
  /** Those that came since the last telling, and the neighbours that have each of them. */
  readonly #fresh = new Map<string, { readonly confirmation: Confirmation; readonly known: Set<string> }>();
  #madeAt = 0;
  /** The number of the last confirmation: the time, unless the clock was set back. */
  #number = 0;

  constructor(components: GossipConfirmationsComponents) {
    this.#components = components;
  }

  make(version: number): Confirmation {
    const { identity, runtime } = this.#components;
    this.#madeAt = runtime.stopwatch();
    this.#number = Math.max(this.#number + 1, Math.floor(runtime.now()));
    return signConfirmation(identity, version, this.#number);
  }

  clear(): void {
    this.#fresh.clear();
  }

  check(confirmation: Confirmation): void {
    const check = this.#components.isConfirmed ?? isConfirmed;
    if (!check(confirmation)) throw malformed('a directory confirmation has the wrong signature');
  }

  take(from: string, said: unknown): void {
    if (this.#isOld(from, said)) return;
    parsed(ConfirmationSchema, said);
    const confirmation = said as Confirmation;
    const [node, version, at] = confirmation;
    const { runtime, identity, listener } = this.#components;
    const kept = this.#components.kept.get(node);
    if (!kept) return;
    const isOwn = node === identity.key;
    if (isOwn ? version <= kept.version : version !== kept.version || at <= kept.confirmation[2]) return;
    this.check(confirmation);
    if (isOwn) {
      listener()?.onOutdone(version);
      return;
    }
    kept.confirmation = confirmation;
    kept.heardAt = runtime.stopwatch();
    listener()?.onHeard(node);
    this.#fresh.set(node, { confirmation, known: new Set([from]) });
  }

  /** Most confirmations are known already, so that is found out before they are read. */
  #isOld(from: string, said: unknown): boolean {
    if (!Array.isArray(said) || said.length !== 4) return false;
    const [node, version, at] = said as [string, unknown, unknown];
    const kept = this.#components.kept.get(node);
    if (!kept || version !== kept.version || typeof at !== 'number' || at > kept.confirmation[2]) return false;
    const fresh = this.#fresh.get(node);
    if (fresh?.confirmation[2] === at) fresh.known.add(from);
    return true;
  }

  /** Takes a confirmation that was asked for: it is as much later than the known one as its node says. */
  takeLater(node: string, kept: Kept, confirmation: Confirmation): void {
    const { runtime, identity, listener } = this.#components;
    const now = runtime.stopwatch();
    const later = confirmation[2] - kept.confirmation[2];
    if (later <= 0 || node === identity.key) return;
    this.check(confirmation);
    kept.confirmation = confirmation;
    kept.heardAt = Math.min(now, kept.heardAt + later);
    if (now - kept.heardAt < CURRENT_MS) listener()?.onHeard(node);
  }

  /** Tells all neighbours that this node is alive, from time to time, and some of them which others are. */
  tell(neighbours: readonly string[]): void {
    const { identity, kept, runtime, say } = this.#components;
    const own = kept.get(identity.key);
    const isDue = own !== undefined && runtime.stopwatch() - this.#madeAt >= CONFIRM_MS;
    if (isDue) own.confirmation = this.make(own.version);
    // Nodes that are linked to all others hear each of them directly.
    const passedTo = Math.min(neighbours.length, neighbours.length >= kept.size - 1 ? 1 : PASSED_TO);
    const some = new Set<string>();
    while (some.size < passedTo) some.add(neighbours[Math.floor(runtime.random() * neighbours.length)]!);
    for (const node of neighbours) {
      const others = some.has(node) ? this.#unknownTo(node) : [];
      say(node, isDue ? [own.confirmation, ...others] : others);
    }
    this.#fresh.clear();
  }

  #unknownTo(neighbour: string): Confirmation[] {
    const unknown: Confirmation[] = [];
    for (const { confirmation, known } of this.#fresh.values()) if (!known.has(neighbour)) unknown.push(confirmation);
    return unknown;
  }
}
