import type { Network } from '../../network/peers/network.js';
import type { Store } from '../../store/store.js';

const NAME = 'lease devices';

/** The other devices of this owner: once met, one is known also while it is away, until it is no member any more. */
export class Devices {
  readonly #store: Store;
  readonly #network: Network | undefined;
  readonly #known: Set<string>;

  private constructor(store: Store, network: Network | undefined, known: Set<string>) {
    this.#store = store;
    this.#network = network;
    this.#known = known;
  }

  static async open(store: Store, network: Network | undefined): Promise<Devices> {
    const [row] = await store.read({ from: 'meta', where: { name: NAME } });
    return new Devices(store, network, new Set(row ? (JSON.parse(row.value) as string[]) : []));
  }

  get others(): string[] {
    const network = this.#network;
    if (!network?.joined) return [];
    return [...this.#known].filter((node) => !network.hasRemoved(node));
  }

  async met(node: string): Promise<void> {
    if (this.#known.has(node)) return;
    this.#known.add(node);
    await this.#keep();
  }

  /** The conversation with it is over; one that left the mesh is no device any more. */
  async lost(node: string): Promise<void> {
    const network = this.#network;
    if (network?.joined && !network.peers.get(node)) await this.forget(node);
  }

  async forget(node: string): Promise<void> {
    if (this.#known.delete(node)) await this.#keep();
  }

  async #keep(): Promise<void> {
    await this.#store.write([{ put: 'meta', row: { name: NAME, value: JSON.stringify([...this.#known]) } }]);
  }
}
