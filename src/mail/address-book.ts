import { joinAddress } from '../mesh/address.js';
import type { Party } from '../mesh/policy.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { AgentCard } from '../mesh/schemas.js';
import type { Store } from '../store/store.js';
import { addresses } from './tables.js';

/** Addresses of one node: the next one replaces the oldest. */
const MAX_PER_NODE = 10_000;
const MAX_OWN = 100_000;

/** Every agent that this node has ever known, so that mail can be addressed to absent ones. */
export class AddressBook {
  readonly #store: Store;
  readonly #entries = new Map<string, Party>();
  /** The addresses of each node, oldest first; those of this node under ''. */
  readonly #byNode = new Map<string, Set<string>>();
  /** The cards of this node's own agents, including those that have left. */
  readonly #cards = new Map<string, AgentCard>();
  #now = () => 0;
  #onFailure: (error: unknown) => void = () => {};

  private constructor(store: Store) {
    this.#store = store;
  }

  static async open(store: Store): Promise<AddressBook> {
    const book = new AddressBook(store);
    const rows = await store.read(addresses);
    for (const { address, node, card } of rows.sort((a, b) => a.seenAt - b.seenAt)) {
      const known = JSON.parse(card);
      book.#add(partyOf(address, node ?? undefined, known));
      if (node === null) book.#cards.set(address, known);
    }
    return book;
  }

  /** Stores the address of every card of the registry. Returns the function that stops this. */
  follow(registry: AgentRegistry, now: () => number, onFailure: (error: unknown) => void): () => void {
    this.#now = now;
    this.#onFailure = onFailure;
    for (const card of registry.listAll()) this.note(card);
    return registry.onCard((card) => this.note(card));
  }

  /** Stores the address of a card. */
  note(card: AgentCard): void {
    const address = joinAddress(card.id, card.node);
    const known = this.#entries.get(address);
    if (known && known.tier === card.tier && known.sandboxId === card.sandboxId) return;
    const gone = this.#add(partyOf(address, card.node, card));
    const { tier, sandboxId } = card;
    if (card.node === undefined) this.#cards.set(address, card);
    const kept = JSON.stringify(card.node === undefined ? card : { tier, sandboxId });
    const row = { address, node: card.node ?? null, card: kept, seenAt: this.#now() };
    const removal = gone === undefined ? [] : [addresses.delete({ address: gone })];
    this.#store.write([addresses.put(row), ...removal]).catch(this.#onFailure);
  }

  /** The other nodes with an agent that is known. */
  get nodes(): string[] {
    return [...this.#byNode.keys()].filter((node) => node !== '');
  }

  knows(node: string): boolean {
    return this.#byNode.has(node);
  }

  forget(node: string): void {
    for (const address of this.#byNode.get(node) ?? []) this.#entries.delete(address);
    this.#byNode.delete(node);
  }

  /** Returns the address that was displaced, if any. */
  #add(party: Party): string | undefined {
    const { address, node = '' } = party;
    const known = this.#byNode.get(node) ?? new Set();
    this.#byNode.set(node, known);
    known.delete(address);
    known.add(address);
    this.#entries.set(address, party);
    if (known.size <= (node === '' ? MAX_OWN : MAX_PER_NODE)) return undefined;
    const [oldest] = known;
    known.delete(oldest!);
    this.#entries.delete(oldest!);
    this.#cards.delete(oldest!);
    return oldest;
  }

  find(address: string): Party | undefined {
    return this.#entries.get(address);
  }

  /** All agents of other nodes that have, or had, that id. */
  named(id: string): Party[] {
    return this.all.filter(({ address, node }) => node !== undefined && address === joinAddress(id, node));
  }

  get all(): Party[] {
    return [...this.#entries.values()];
  }

  /** The cards of those of these agents of this node that have left. */
  absent(agents: ReadonlySet<string>, registry: AgentRegistry): AgentCard[] {
    return [...agents].filter((agent) => !registry.ownEntry(agent)).flatMap((agent) => this.cardOf(agent) ?? []);
  }

  cardOf(id: string): AgentCard | undefined {
    return this.#cards.get(id);
  }

  complete(prefix: string): string | undefined {
    const found = [...this.#entries.keys()].filter((address) => address.startsWith(prefix));
    return found.length === 1 ? found[0] : undefined;
  }
}

function partyOf(
  address: string,
  node: string | undefined,
  { tier, sandboxId }: Pick<AgentCard, 'tier' | 'sandboxId'>,
): Party {
  return { address, node, tier, sandboxId };
}
