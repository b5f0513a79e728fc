import type { z } from 'zod';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { Directory, DirectoryEntry, DirectoryListener } from '../directory/directory.js';
import { type DirectoryKey, type DirectorySecret, DirectorySecretSchema } from '../membership/directory-key.js';
import type { Identity } from '../membership/identity.js';
import { type Confirmation, headOf } from './directory-entry.js';
import { GossipConfirmations } from './gossip-confirmations.js';
import { GossipEntries, type Kept, put } from './gossip-entries.js';
import {
  ConfirmedSchema,
  DigestSchema,
  EntriesSchema,
  type Had,
  listOf,
  MAX_ENTRIES,
  MAX_LISTED,
  type Neighbour,
  type Offer,
  readHad,
  WantSchema,
} from './gossip-items.js';
import type { PeerProtocol } from './protocol.js';
import { ITEM, type Item, malformed, parsed } from './wire.js';

export interface GossipDirectoryComponents {
  runtime: Runtime;
  identity: Identity;
  /** Queues an item for a node that there is a conversation with; throws when that is not possible. */
  say: (node: string, text: string) => void;
  /** May that node learn everything that full members announce? */
  isFullMember: (node: string) => boolean;
  /** Has the node signed its confirmation? Default: checks the signature. */
  isConfirmed?: (confirmation: Confirmation) => boolean;
  /** The secret that full members share. */
  key: DirectoryKey;
  /** News is told to neighbours. Others that there is a conversation with compare what they have from time to time. */
  isNeighbour: (node: string) => boolean;
  /** How long an entry that a neighbour offers may still come from a broker, so that it is not asked for. Default: 0. */
  brokerMs?: () => number;
  /** Another member has passed on a later secret. */
  onKey: () => void;
}

/** News is gathered for this long before the neighbours are told: for the longer time if they were told a moment ago. */
const GATHER_MS = 50;
const GATHER_MORE_MS = 250;
/** After how long without a confirmation a node counts as gone. */
export const GONE_MS = 60_000;
/** Confirmations are gathered until the next tick: they are many, and none of them is urgent. */
const TICK_MS = 1_000;
/** After how long a later confirmation of a node is asked for, how often, and for how many nodes at once. */
const OVERDUE_MS = 35_000;
const SEEK_AGAIN_MS = 8_000;
const MAX_SOUGHT = 8;
/** How often two neighbours compare all that they know, which repairs whatever was lost. */
const COMPARE_MS = 5_000;
/** An entry that was asked for and has not come is asked for again, from another neighbour if one has it. */
const ASK_AGAIN_MS = 2_000;
/** An answer that takes longer does not count. */
const ANSWER_MS = 30_000;
/** An entry that was refused is not asked for again until this time has passed. */
const REFUSED_MS = 60_000;
/** A node's entries that come faster are taken later: the changes of one node must not occupy the whole mesh. */
const ENTRY_GAP_MS = 200;
/** Characters of all entries together. */
const MAX_CHARS = 128 * 1_048_576;
const CHUNK_CHARS = 262_144;
/** Characters of entries that one neighbour is given in a second, however many it wants. */
const MAX_GIVEN_CHARS = 16 * 1_048_576;

/**
 * The directory of a mesh without a server. Neighbours tell each other which entries they have, ask for those that they
 * miss, and pass on the confirmations of nodes that are alive. Every entry travels to every node once.
 */
export class GossipDirectory implements Directory, PeerProtocol {
  readonly kinds = [ITEM.directory];
  readonly needsNeighbours = true;
  readonly #components: GossipDirectoryComponents;
  readonly #kept = new GossipEntries();
  readonly #confirmations: GossipConfirmations;
  /** Entries that their nodes have signed, and that are refused all the same. */
  readonly #refused = new Map<string, { readonly version: number; readonly at: number }>();
  readonly #neighbours = new Map<string, Neighbour>();
  /** When an entry was last asked for. */
  readonly #askedAt = new Map<string, number>();
  #listener: DirectoryListener | undefined;
  #own: DirectoryEntry | undefined;
  #gathering: Timer | undefined;
  #ticking: Timer | undefined;
  #gatheredAt = Number.NEGATIVE_INFINITY;
  #comparedAt = 0;

  constructor(components: GossipDirectoryComponents) {
    this.#components = components;
    this.#confirmations = new GossipConfirmations({
      ...components,
      kept: this.#kept,
      listener: () => this.#listener,
      say: (node, confirmations) => this.#sayList(node, 'alive', confirmations),
    });
  }

  async start(listener: DirectoryListener): Promise<void> {
    this.#listener = listener;
    this.#tickLater();
  }

  publish(entry: DirectoryEntry): void {
    const now = this.#components.runtime.stopwatch();
    this.#own = entry;
    this.#keep(entry.node, {
      ...entry,
      takenAt: now,
      heardAt: now,
      confirmation: this.#confirmations.make(entry.version),
    });
    this.#spread(entry.node);
  }

  async stop(): Promise<void> {
    this.#ticking?.cancel();
    this.#gathering?.cancel();
    this.#gathering = undefined;
    const last = this.#kept.get(this.#own?.node ?? '');
    // The neighbours could not ask for it any more.
    if (last)
      for (const node of this.#neighbours.keys())
        this.#say(node, 'gone', JSON.stringify([last.text, last.confirmation]));
    this.#listener = undefined;
    this.#own = undefined;
    this.#kept.clear();
    this.#confirmations.clear();
    this.#neighbours.clear();
    this.#askedAt.clear();
    this.#refused.clear();
  }

  forget(node: string): void {
    this.#kept.bury(node);
  }

  began(node: string): void {
    if (!this.#components.isFullMember(node)) return;
    this.#neighbours.set(node, {
      have: new Set(),
      offers: new Map(),
      asked: new Map(),
      given: 0,
      stopped: false,
    });
    this.#sayKey(node);
    this.#sayHave(node, this.#kept.nodes);
  }

  ended(node: string): void {
    this.#neighbours.delete(node);
  }

  take(node: string, [, verb, body]: Item): void {
    const neighbour = this.#neighbours.get(node);
    if (!this.#listener || !neighbour || neighbour.stopped) return;
    if (verb === 'have') this.#takeHave(node, neighbour, listOf(body, MAX_LISTED));
    else if (verb === 'want') this.#takeWant(node, neighbour, parsed(WantSchema, body));
    else if (verb === 'entries') this.#takeEntries(node, neighbour, parsed(EntriesSchema, body));
    else if (verb === 'digest') this.#takeDigest(node, parsed(DigestSchema, body));
    else if (verb === 'all') this.#takeAll(node, neighbour, listOf(body, MAX_ENTRIES));
    else if (verb === 'gone') this.#takeGone(node, neighbour, parsed(ConfirmedSchema, body));
    else if (verb === 'key') this.#takeKey(parsed(DirectorySecretSchema, body));
    else if (verb === 'alive') for (const said of listOf(body, MAX_LISTED)) this.#confirmations.take(node, said);
    else throw malformed('unknown verb about the directory');
  }

  /** Passes the secret on, because it has changed. */
  spreadKey(): void {
    for (const node of this.#neighbours.keys()) this.#sayKey(node);
  }

  #sayKey(node: string): void {
    const { secret } = this.#components.key;
    if (secret) this.#say(node, 'key', JSON.stringify(secret));
  }

  #takeKey(secret: DirectorySecret): void {
    if (!this.#components.key.take(secret)) return;
    this.spreadKey();
    this.#components.onKey();
  }

  #takeHave(from: string, neighbour: Neighbour, have: readonly unknown[]): readonly Had[] {
    const at = this.#components.runtime.stopwatch();
    const offered: string[] = [];
    const all = have.map((said) => (this.#isHad(said) ? said : readHad(said)));
    for (const [node, version, ageMs] of all) {
      const known = this.#kept.get(node);
      if (known && known.version <= version) neighbour.have.delete(node);
      if (known?.version === version) continue;
      const latest = known?.confirmation ?? this.#kept.pastOf(node);
      // A node that does not know of its own latest version has restarted with an older clock.
      if (node === from && latest && version < latest[1]) this.#say(from, 'alive', JSON.stringify([latest]));
      if (!this.#isNews(node, { version, ageMs })) continue;
      if (neighbour.offers.size >= MAX_ENTRIES && !neighbour.offers.has(node)) continue;
      neighbour.offers.set(node, { version, ageMs, at });
      offered.push(node);
    }
    this.#ask(from, neighbour, offered);
    return all;
  }

  /** Is that an entry that this node has too? */
  #isHad(said: unknown): said is Had {
    if (!Array.isArray(said) || said.length !== 3 || typeof said[2] !== 'number') return false;
    return this.#kept.get(said[0] as string)?.version === said[1];
  }

  /** A neighbour compares what it has. If that differs, it is told all that this node has, and answers with what is missing. */
  #takeDigest(from: string, digest: string): void {
    if (digest !== this.#kept.digest) this.#say(from, 'all', JSON.stringify(this.#had(this.#kept.nodes)));
  }

  #takeAll(from: string, neighbour: Neighbour, all: readonly unknown[]): void {
    const theirs = new Map(this.#takeHave(from, neighbour, all).map(([node, version]) => [node, version]));
    const missing = [...this.#kept].filter(([node, { version }]) => version > (theirs.get(node) ?? -1));
    this.#sayHave(
      from,
      missing.map(([node]) => node),
    );
  }

  #isNews(node: string, { version, ageMs }: Pick<Offer, 'version' | 'ageMs'>): boolean {
    const { identity, runtime } = this.#components;
    const known = this.#kept.get(node);
    const refused = this.#refused.get(node);
    if (node === identity.key || ageMs >= GONE_MS) return false;
    if (refused && version <= refused.version && runtime.stopwatch() - refused.at < REFUSED_MS) return false;
    if (known) return version > known.version;
    if (this.#listener?.isBrought?.(node, version)) return false;
    // A node that was cut off for a while comes back with the same entry, confirmed since.
    return version >= (this.#kept.pastOf(node)?.[1] ?? 0) && this.#kept.size < MAX_ENTRIES;
  }

  /** Asks a neighbour for those of its offers that no other neighbour was asked for lately. */
  #ask(from: string, neighbour: Neighbour, nodes: Iterable<string>): void {
    const now = this.#components.runtime.stopwatch();
    const wanted: string[] = [];
    const brokerMs = this.#components.brokerMs?.() ?? 0;
    for (const node of nodes) {
      const { offers, asked } = neighbour;
      const offer = offers.get(node);
      const takenAt = this.#kept.get(node)?.takenAt ?? Number.NEGATIVE_INFINITY;
      if (!offer || !this.#isNews(node, offer)) offers.delete(node);
      else if (now - offer.at < brokerMs) continue;
      else if (now - takenAt >= ENTRY_GAP_MS && !this.#askedAt.has(node) && asked.size < MAX_ENTRIES) {
        offers.delete(node);
        asked.set(node, { at: now, ageMs: offer.ageMs });
        this.#askedAt.set(node, now);
        wanted.push(node);
      }
    }
    this.#sayList(from, 'want', wanted);
  }

  #takeWant(from: string, neighbour: Neighbour, nodes: readonly string[]): void {
    let chunk: string[] = [];
    let chars = 0;
    const give = () => {
      if (chunk.length > 0) this.#say(from, 'entries', `[${chunk.join(',')}]`);
      chunk = [];
      chars = 0;
    };
    for (const node of new Set(nodes)) {
      const kept = this.#kept.get(node);
      if (!kept || neighbour.given > MAX_GIVEN_CHARS) continue;
      const { length } = kept.text;
      neighbour.given += length;
      if (chars + length > CHUNK_CHARS) give();
      chunk.push(JSON.stringify([kept.text, kept.confirmation]));
      chars += length;
    }
    give();
  }

  #takeEntries(from: string, { asked }: Neighbour, entries: z.infer<typeof EntriesSchema>): void {
    for (const [text, confirmation] of entries) {
      const { node } = headOf(text);
      const question = asked.get(node);
      if (!question) continue;
      asked.delete(node);
      this.#askedAt.delete(node);
      this.#takeEntry(from, text, confirmation, question.ageMs);
    }
  }

  /** A node that stops says so itself, and nothing more. */
  #takeGone(from: string, neighbour: Neighbour, [text, confirmation]: z.infer<typeof ConfirmedSchema>): void {
    if (headOf(text).node !== from) throw malformed('it says that another node stops');
    neighbour.stopped = true;
    this.#takeEntry(from, text, confirmation, 0);
  }

  #takeEntry(from: string, text: string, confirmation: Confirmation, ageMs: number): void {
    const now = this.#components.runtime.stopwatch();
    const { node, version } = headOf(text);
    const [about, confirmed, at] = confirmation;
    if (about !== node || confirmed !== version) throw malformed('an entry comes with the confirmation of another');
    const known = this.#kept.get(node);
    if (known?.version === version) {
      this.#confirmations.takeLater(node, known, confirmation);
      return;
    }
    const before = this.#kept.pastOf(node);
    if (!this.#isNews(node, { version, ageMs: 0 }) || (before && before[1] === version && at <= before[2])) return;
    if (this.#kept.chars - (known?.text.length ?? 0) + text.length > MAX_CHARS) return;
    // No honest node passes on an entry or a confirmation that its node has not signed.
    this.#confirmations.check(confirmation);
    if (!this.#listener!.onEntry(text)) {
      put(this.#refused, node, { version, at: now });
      return;
    }
    this.#keep(node, { version, text, takenAt: now, heardAt: now - ageMs, confirmation });
    this.#spread(node, from);
  }

  #keep(node: string, kept: Kept): void {
    this.#kept.keep(node, kept);
    this.#refused.delete(node);
  }

  /** Lets the neighbours know of an entry, except the one that it came from. */
  #spread(node: string, from?: string): void {
    for (const [neighbour, { have }] of this.#neighbours) if (this.#isTold(neighbour, from)) have.add(node);
    this.#gather();
  }

  #isTold(node: string, from: string | undefined): boolean {
    return node !== from && this.#components.isNeighbour(node);
  }

  #gather(): void {
    if (this.#neighbours.size === 0 || this.#gathering) return;
    const { runtime } = this.#components;
    const wait = runtime.stopwatch() - this.#gatheredAt > GATHER_MORE_MS ? GATHER_MS : GATHER_MORE_MS;
    this.#gathering = runtime.setTimer(() => this.#flush(), wait);
  }

  #flush(): void {
    this.#gathering = undefined;
    this.#gatheredAt = this.#components.runtime.stopwatch();
    for (const [neighbour, { have }] of this.#neighbours) {
      this.#sayHave(neighbour, have);
      have.clear();
    }
  }

  #sayHave(neighbour: string, nodes: Iterable<string>): void {
    this.#sayList(neighbour, 'have', this.#had(nodes));
  }

  #had(nodes: Iterable<string>): (readonly [string, number, number])[] {
    const now = this.#components.runtime.stopwatch();
    return [...nodes].flatMap((node) => {
      const kept = this.#kept.get(node);
      return kept ? [[node, kept.version, node === this.#own?.node ? 0 : Math.floor(now - kept.heardAt)] as const] : [];
    });
  }

  #sayList(node: string, verb: string, list: readonly unknown[]): void {
    for (let first = 0; first < list.length; first += MAX_LISTED) {
      this.#say(node, verb, JSON.stringify(list.slice(first, first + MAX_LISTED)));
    }
  }

  #say(node: string, verb: string, list: string): void {
    try {
      this.#components.say(node, `["${ITEM.directory}","${verb}",${list}]`);
    } catch (error) {
      // The node's queue is full, or the conversation has ended: the next comparison repeats it.
      this.#components.runtime.logger.debug({ node, err: error }, 'directory: a neighbour was not told');
    }
  }

  #tickLater(): void {
    this.#ticking = this.#components.runtime.setTimer(() => {
      this.#tick();
      this.#tickLater();
    }, TICK_MS);
  }

  #tick(): void {
    const { runtime, identity } = this.#components;
    const now = runtime.stopwatch();
    this.#confirmations.tell([...this.#neighbours.keys()].filter((node) => this.#components.isNeighbour(node)));
    if (now - this.#comparedAt >= COMPARE_MS && this.#neighbours.size > 0) {
      this.#comparedAt = now;
      this.#say(this.#anyOf([...this.#neighbours.keys()]), 'digest', `"${this.#kept.digest}"`);
    }
    const overdue: string[] = [];
    for (const [node, kept] of this.#kept) {
      const silentMs = now - kept.heardAt;
      if (silentMs < OVERDUE_MS || node === identity.key) continue;
      if (silentMs < GONE_MS) {
        if (now - (kept.soughtAt ?? kept.heardAt) >= SEEK_AGAIN_MS) overdue.push(node);
        continue;
      }
      this.#kept.bury(node);
      this.#listener?.onGone(node);
    }
    this.#seek(overdue.slice(0, MAX_SOUGHT), now);
    for (const [node, at] of this.#askedAt) if (now - at >= ASK_AGAIN_MS) this.#askedAt.delete(node);
    for (const [name, neighbour] of this.#neighbours) {
      const { asked, offers } = neighbour;
      neighbour.given = 0;
      for (const [node, { at }] of asked) if (now - at >= ANSWER_MS) asked.delete(node);
      this.#ask(name, neighbour, [...offers.keys()]);
    }
  }

  /** Asks any neighbour for a later confirmation of each of these nodes, which comes with its entry. */
  #seek(nodes: readonly string[], now: number): void {
    if (this.#neighbours.size === 0) return;
    for (const node of nodes) {
      const kept = this.#kept.get(node)!;
      const neighbour = this.#anyOf([...this.#neighbours.keys()]);
      kept.soughtAt = now;
      this.#neighbours.get(neighbour)!.asked.set(node, { at: now, ageMs: now - kept.heardAt });
      this.#sayList(neighbour, 'want', [node]);
    }
  }

  #anyOf(nodes: readonly string[]): string {
    return nodes[Math.floor(this.#components.runtime.random() * nodes.length)]!;
  }
}
