import { splitAddress } from '../../mesh/address.js';
import type { Network } from '../../network/peers/network.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Store } from '../../store/store.js';
import type { Provenance } from './fence.js';

/** Whose mail goes through: this owner's own agents and devices, and those that somebody here wrote to or let in. */
export class Strangers {
  readonly #runtime: Runtime;
  readonly #store: Store;
  readonly #network: Network | undefined;
  readonly #known: Set<string>;

  private constructor(runtime: Runtime, store: Store, network: Network | undefined, known: Set<string>) {
    this.#runtime = runtime;
    this.#store = store;
    this.#network = network;
    this.#known = known;
  }

  static async open(runtime: Runtime, store: Store, network: Network | undefined): Promise<Strangers> {
    const rows = await store.read({ from: 'acquaintances' });
    const strangers = new Strangers(runtime, store, network, new Set(rows.map(({ address }) => address)));
    // An earlier process may have ended before it forgot them.
    for (const node of network?.removed ?? []) strangers.#forget(node);
    network?.peers.expelled.add((node) => strangers.#forget(node));
    return strangers;
  }

  /** A node was removed from the mesh: if it is let in again, its agents are strangers. */
  #forget(node: string): void {
    const gone = [...this.#known].filter((address) => splitAddress(address).node === node);
    if (gone.length === 0) return;
    for (const address of gone) this.#known.delete(address);
    this.#store
      .write(gone.map((address) => ({ delete: 'acquaintances', where: { address } })))
      .catch((err: unknown) =>
        this.#runtime.logger.error({ err, node }, 'acquaintances of a removed node stay stored'),
      );
  }

  relationOf(address: string): Provenance['relation'] {
    const { node } = splitAddress(address);
    if (node === undefined) return 'same-node';
    return this.#network?.isOwnDevice(node) ? 'same-owner' : 'paired';
  }

  /** Why mail from there waits; undefined when it does not. */
  whyHeld(address: string): string | undefined {
    if (this.relationOf(address) !== 'paired' || this.#known.has(address)) return undefined;
    return 'first contact: a person at the other end lets it in with "ecliptic held"';
  }

  async letIn(address: string): Promise<void> {
    if (this.relationOf(address) !== 'paired' || this.#known.has(address)) return;
    await this.#store.write([{ put: 'acquaintances', row: { address, at: this.#runtime.now() } }]);
    this.#known.add(address);
  }
}
