import type { Network } from '../../network/peers/network.js';
import { parsed } from '../../network/peers/wire.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { meta } from '../../store/common-tables.js';
import type { Store } from '../../store/store.js';
import { LeaseExchange } from './lease-exchange.js';
import { type Here, HereSchema, type Participants } from './participants.js';

export interface LeaseDevicesComponents {
  runtime: Runtime;
  store: Store;
  network: Network | undefined;
  participants: Participants;
  onMet: () => void;
}

/** What a lease authority has to say to other devices. */
export interface DeviceQuestions {
  /** What a device that connected is told of the keepers of repositories. */
  readonly keepers: readonly (readonly [repository: string, keeper: string])[];
  answer(node: string, question: string, body: unknown): Promise<unknown>;
  /** A device has connected, or sent something. */
  heard(node: string): void;
}

/** The owner's other devices, as far as leases concern them: who they are, and what they and this one ask each other. */
export class LeaseDevices {
  readonly #components: LeaseDevicesComponents;
  readonly #known: KnownDevices;
  readonly #exchange: LeaseExchange | undefined;
  #questions: DeviceQuestions | undefined;

  private constructor(components: LeaseDevicesComponents, known: KnownDevices) {
    const { runtime, network } = components;
    this.#components = components;
    this.#known = known;
    if (!network) return;
    this.#exchange = new LeaseExchange({
      runtime,
      network,
      answer: (node, question, body) => this.#answer(node, question, body),
      onBegin: (node) => this.#met(node),
      onEnd: (node) => this.#lost(node),
      isEngaged: (node) => components.participants.isEngaged(node),
    });
  }

  static async open(components: LeaseDevicesComponents): Promise<LeaseDevices> {
    return new LeaseDevices(components, await KnownDevices.open(components.store, components.network));
  }

  start(questions: DeviceQuestions): void {
    this.#questions = questions;
    if (this.#exchange) this.#components.network?.handle(this.#exchange);
  }

  /** The owner's other devices that this one knows, connected or not. */
  get others(): string[] {
    return this.#known.others;
  }

  /** Begins a conversation with each device that is there. */
  async meetAll(): Promise<void> {
    await this.#exchange?.meetAll();
  }

  reachable(node: string): boolean {
    return this.#components.network?.peers.reachable(node) === true;
  }

  /** Undefined when the device cannot be reached. */
  async ask(node: string, question: string, body: unknown): Promise<unknown> {
    if (!this.reachable(node)) return undefined;
    try {
      return await this.askOnce(node, question, body);
    } catch (error) {
      if (error instanceof EclipticError && error.code === 'QUEUE_FULL') throw error;
      return undefined;
    }
  }

  /** Rejects when the device cannot be reached, or refuses to answer. */
  askOnce(node: string, question: string, body: unknown): Promise<unknown> {
    return this.#exchange!.ask(node, question, body);
  }

  /** Tells the other devices which repositories are worked in here. */
  tellHere(here: Here): void {
    for (const node of this.others) void this.ask(node, 'here', here);
  }

  /** Remembers a device that takes part. */
  met(node: string): Promise<void> {
    return this.#known.met(node);
  }

  close(): void {
    this.#exchange?.close();
  }

  #met(node: string): void {
    void this.met(node).catch((error: unknown) => this.#complain(error, 'lease device not stored'));
    this.#questions?.heard(node);
    void this.#greet(node);
    this.#components.onMet();
  }

  /** A device that disconnects before it answers is greeted again when it comes back. */
  async #greet(node: string): Promise<void> {
    try {
      await this.askOnce(node, 'keepers', this.#questions?.keepers ?? []);
      await this.askOnce(node, 'here', this.#components.participants.here);
    } catch (error) {
      // A device without leases has no say in them.
      if ((error as EclipticError).code === 'METHOD_NOT_FOUND') await this.#known.forget(node);
    }
  }

  #lost(node: string): void {
    this.#components.participants.lost(node);
    void this.#known.lost(node).catch((error: unknown) => this.#complain(error, 'lease device not removed'));
  }

  async #answer(node: string, question: string, body: unknown): Promise<unknown> {
    this.#questions?.heard(node);
    if (question === 'here') {
      this.#components.participants.heard(node, parsed(HereSchema, body));
      return null;
    }
    return this.#questions?.answer(node, question, body);
  }

  #complain(error: unknown, message: string): void {
    this.#components.runtime.logger.error({ err: error }, message);
  }
}

const NAME = 'lease devices';

/** A device that was met once is remembered while it is away, until it leaves the mesh. */
class KnownDevices {
  readonly #store: Store;
  readonly #network: Network | undefined;
  readonly #known: Set<string>;

  private constructor(store: Store, network: Network | undefined, known: Set<string>) {
    this.#store = store;
    this.#network = network;
    this.#known = known;
  }

  static async open(store: Store, network: Network | undefined): Promise<KnownDevices> {
    const [row] = await store.read(meta, { where: { name: NAME } });
    return new KnownDevices(store, network, new Set(row ? (JSON.parse(row.value) as string[]) : []));
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

  /** Forgets a disconnected device if it has left the mesh. */
  async lost(node: string): Promise<void> {
    const network = this.#network;
    if (network?.joined && !network.peers.get(node)) await this.forget(node);
  }

  async forget(node: string): Promise<void> {
    if (this.#known.delete(node)) await this.#keep();
  }

  async #keep(): Promise<void> {
    await this.#store.write([meta.put({ name: NAME, value: JSON.stringify([...this.#known]) })]);
  }
}
