import { splitAddress } from '../../mesh/address.js';
import type { Network } from '../../network/peers/network.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { Store } from '../../store/store.js';
import type { Provenance } from './provenance.js';
import { acquaintances as acquaintanceTable } from './tables.js';

/** The agents of other owners whose mail is delivered: a local agent wrote to them first, or the owner let them in. */
export class Acquaintances {
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

  static async open(runtime: Runtime, store: Store, network: Network | undefined): Promise<Acquaintances> {
    const rows = await store.read(acquaintanceTable);
    const known = new Set(rows.map(({ address }) => address));
    const acquaintances = new Acquaintances(runtime, store, network, known);
    // An earlier process may have ended between a node's removal and this clean-up.
    for (const node of network?.removed ?? []) acquaintances.#forget(node);
    network?.peers.onRemoved((node) => acquaintances.#forget(node));
    return acquaintances;
  }

  /** Agents of a removed node are strangers again if the node is readmitted. */
  #forget(node: string): void {
    const gone = [...this.#known].filter((address) => splitAddress(address).node === node);
    if (gone.length === 0) return;
    for (const address of gone) this.#known.delete(address);
    this.#store
      .write(gone.map((address) => acquaintanceTable.delete({ address })))
      .catch((err: unknown) => this.#runtime.logger.error({ err, node }, 'acquaintances of removed node not deleted'));
  }

  relationOf(address: string): Provenance['relation'] {
    const { node } = splitAddress(address);
    if (node === undefined) return 'same-node';
    return this.#network?.isOwnDevice(node) ? 'same-owner' : 'paired';
  }

  /** Why mail from this address is held; undefined when it is delivered. */
  whyHeld(address: string): string | undefined {
    if (this.relationOf(address) !== 'paired' || this.#known.has(address)) return undefined;
    return 'first contact: a person at the other end lets it in with "ecliptic held"';
  }

  async letIn(address: string): Promise<void> {
    if (this.relationOf(address) !== 'paired' || this.#known.has(address)) return;
    await this.#store.write([acquaintanceTable.put({ address, at: this.#runtime.now() })]);
    this.#known.add(address);
  }
}
