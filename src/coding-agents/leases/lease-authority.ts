import type { Network } from '../../network/peers/network.js';
import { parsed } from '../../network/peers/wire.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cursors, meta } from '../../store/common-tables.js';
import type { Store } from '../../store/store.js';
import { KeeperElection } from './keeper-election.js';
import { KeptLeases } from './kept-leases.js';
import { LeaseExchange } from './lease-exchange.js';
import type { Lease, Operation, Outcome } from './lease-wire.js';
import * as wire from './lease-wire.js';
import { type Here, HereSchema, type Participants } from './participants.js';
import { keepers as keeperTable, leases as leaseTable } from './tables.js';

export interface LeaseAuthorityComponents {
  runtime: Runtime;
  store: Store;
  network: Network | undefined;
  nodeKey: string;
  participants: Participants;
  isGoneHere: (holder: string) => boolean;
  /** A lease of this node's member ended before its time. */
  onEnd: (id: string, reason: string) => Promise<void>;
  /** The repository has another keeper now, so its leases must be confirmed again. */
  onMove: (repository: string) => void;
  onMet: () => void;
}

/** How long a keeper's confirmation holds: less than the time after which it gives a silent device's leases away. */
const CONFIRMED_MS = 8_000;
const MAX_HOPS = 3;
const MAX_LISTED = 500;

/**
 * Decides about leases. Each repository has one keeper among the owner's devices: operations are decided here if this
 * device is the keeper, and sent to the keeper otherwise.
 */
export class LeaseAuthority {
  readonly #components: LeaseAuthorityComponents;
  readonly #devices: Devices;
  readonly #exchange: LeaseExchange | undefined;
  readonly #election: KeeperElection;
  readonly #kept: KeptLeases;
  /** Until when each keeper's last confirmation holds. */
  readonly #confirmedUntil = new Map<string, number>();

  private constructor(
    components: LeaseAuthorityComponents,
    devices: Devices,
    stored: {
      readonly keepers: ConstructorParameters<typeof KeeperElection>[1];
      readonly kept: ConstructorParameters<typeof KeptLeases>[1];
      readonly tokens: ReadonlyMap<string, number>;
    },
  ) {
    const { runtime, store, network, nodeKey, isGoneHere, onMove } = components;
    this.#components = components;
    this.#devices = devices;
    const onEnd = (lease: Lease, reason: string) => this.#tellEnd(lease, reason);
    this.#kept = new KeptLeases({ runtime, store, nodeKey, isGoneHere, onEnd }, stored.kept, stored.tokens);
    this.#election = new KeeperElection(
      {
        store,
        nodeKey,
        devices: () => devices.others,
        reachable: (node) => this.#reachable(node),
        ask: (node, question, body) => this.#exchange!.ask(node, question, body),
        highest: (repository) => this.#kept.highest(repository),
        onBegin: (repository, token) => this.#kept.saw(repository, token),
        onMove: async (repository, wasOurs) => {
          if (wasOurs) await this.#kept.giveUp(repository);
          onMove(repository);
        },
      },
      stored.keepers,
    );
    if (!network) return;
    this.#exchange = new LeaseExchange({
      runtime,
      network,
      answer: (node, question, body) => this.#answer(node, question, body),
      onBegin: (node) => this.#met(node),
      onEnd: (node) => this.#lost(node),
    });
  }

  static async open(components: LeaseAuthorityComponents): Promise<LeaseAuthority> {
    const { store, network } = components;
    const kept = await store.read(leaseTable, { where: { place: 'kept' } });
    const keepers = await store.read(keeperTable);
    const tokens = new Map<string, number>();
    for (const { repository } of keepers) {
      const [cursor] = await store.read(cursors, { where: { name: `lease ${repository}` } });
      if (cursor) tokens.set(repository, cursor.value);
    }
    return new LeaseAuthority(components, await Devices.open(store, network), { keepers, kept, tokens });
  }

  start(): void {
    if (this.#exchange) this.#components.network?.handle(this.#exchange);
  }

  /** The keeper of a repository, as far as this device knows. */
  keeperOf(repository: string): string | undefined {
    return this.#election.keeperOf(repository);
  }

  /** Do the keeper's decisions about the repository certainly still hold? */
  isConfirmed(repository: string): boolean {
    const keeper = this.#election.keeperOf(repository);
    const { nodeKey, runtime } = this.#components;
    return keeper === nodeKey || (keeper !== undefined && (this.#confirmedUntil.get(keeper) ?? 0) > runtime.now());
  }

  isGone(holder: string): boolean {
    return this.#kept.isGone(holder);
  }

  /** The keeper's decision; undefined when no keeper can be reached. */
  async settle(repository: string, operation: Operation): Promise<Outcome | undefined> {
    const { nodeKey, runtime } = this.#components;
    let keeper = await this.#election.find(repository);
    for (let hops = 0; hops < MAX_HOPS && keeper !== undefined; hops++) {
      if (keeper === nodeKey) return this.#kept.settle(repository, operation);
      const sentAt = runtime.now();
      const answer = await this.#ask(keeper, 'settle', { repository, operation });
      if (answer === undefined) return undefined;
      const said = parsed(wire.SettledSchema, answer);
      if ('outcome' in said) {
        await this.#election.heard(repository, keeper);
        this.#confirmedUntil.set(keeper, sentAt + CONFIRMED_MS);
        await this.#kept.saw(repository, Math.max(0, ...said.outcome.leases.map(({ token }) => token)));
        return said.outcome;
      }
      keeper = said.keeper === nodeKey ? await this.#election.claim(repository) : (said.keeper ?? undefined);
    }
    return undefined;
  }

  /** Tells each keeper which of its leases this node knows of, and whose holders are gone. */
  async beat(leases: readonly (Lease & { readonly repository: string })[]): Promise<void> {
    const { nodeKey, runtime, isGoneHere, onEnd } = this.#components;
    const keepers = new Map<string, (Lease & { readonly repository: string })[]>();
    for (const lease of leases) {
      const keeper = this.#election.keeperOf(lease.repository);
      if (keeper === undefined || keeper === nodeKey) continue;
      keepers.set(keeper, [...(keepers.get(keeper) ?? []), lease]);
    }
    const beats = [...keepers].map(async ([keeper, kept]) => {
      const sentAt = runtime.now();
      const known = kept.map(({ repository, id }) => [repository, id]);
      const gone = [...new Set(kept.map(({ holder }) => holder))].filter(isGoneHere);
      const ends = wire.EndsSchema.safeParse(await this.#ask(keeper, 'beat', { known, gone }));
      if (!ends.success) return;
      this.#confirmedUntil.set(keeper, sentAt + CONFIRMED_MS);
      for (const [id, reason] of ends.data) await onEnd(id, reason);
    });
    await Promise.all(beats);
  }

  /** All leases that this device and the reachable others keep. */
  async list(): Promise<(readonly [repository: string, lease: Lease])[]> {
    const others = this.#devices.others.filter((node) => this.#reachable(node));
    const answers = await Promise.all(others.map((node) => this.#ask(node, 'list', null)));
    return [...this.#kept.all(), ...answers.flatMap((answer) => wire.KeptSchema.safeParse(answer).data ?? [])];
  }

  /** Tells the other devices which repositories are worked in here. */
  tellHere(here: Here): void {
    for (const node of this.#devices.others) void this.#ask(node, 'here', here);
  }

  close(): void {
    this.#exchange?.close();
  }

  #reachable(node: string): boolean {
    return this.#components.network?.peers.reachable(node) === true;
  }

  /** Undefined when the device cannot be reached. */
  async #ask(node: string, question: string, body: unknown): Promise<unknown> {
    if (!this.#reachable(node)) return undefined;
    try {
      return await this.#exchange!.ask(node, question, body);
    } catch (error) {
      if (error instanceof EclipticError && error.code === 'QUEUE_FULL') throw error;
      return undefined;
    }
  }

  #met(node: string): void {
    void this.#devices.met(node).catch((error: unknown) => this.#complain(error, 'lease device not stored'));
    this.#kept.heard(node);
    void this.#greet(node);
    this.#components.onMet();
  }

  /** A device that disconnects before it answers is greeted again when it comes back. */
  async #greet(node: string): Promise<void> {
    try {
      await this.#exchange!.ask(node, 'keepers', [...this.#election.known]);
      await this.#exchange!.ask(node, 'here', this.#components.participants.here);
    } catch (error) {
      // A device without leases has no say in them.
      if ((error as EclipticError).code === 'METHOD_NOT_FOUND') await this.#devices.forget(node);
    }
  }

  #lost(node: string): void {
    this.#components.participants.lost(node);
    void this.#devices.lost(node).catch((error: unknown) => this.#complain(error, 'lease device not removed'));
  }

  async #answer(node: string, question: string, body: unknown): Promise<unknown> {
    this.#kept.heard(node);
    switch (question) {
      case 'settle':
        return this.#answerSettle(node, parsed(wire.SettleSchema, body));
      case 'claim':
        await this.#devices.met(node);
        return this.#election.answerClaim(parsed(wire.ClaimSchema, body).repository, node);
      case 'beat': {
        const { known, gone } = parsed(wire.BeatSchema, body);
        this.#kept.heard(node, new Set(gone.filter((holder) => holder.endsWith(`@${node}`))));
        return this.#kept.compare(node, known);
      }
      case 'end':
        for (const [id, reason] of parsed(wire.EndsSchema, body)) await this.#components.onEnd(id, reason);
        return null;
      case 'keepers':
        for (const [repository, keeper] of parsed(wire.KeepersSchema, body)) {
          const isDevice = keeper === this.#components.nodeKey || this.#devices.others.includes(keeper);
          if (isDevice) await this.#election.heard(repository, keeper);
        }
        return null;
      case 'here':
        this.#components.participants.heard(node, parsed(HereSchema, body));
        return null;
      case 'list':
        return [...this.#kept.all()].slice(0, MAX_LISTED);
      default:
        throw new EclipticError('METHOD_NOT_FOUND', `there is no question "${question}" about leases`);
    }
  }

  async #answerSettle(node: string, { repository, operation }: { repository: string; operation: Operation }) {
    if ('holder' in operation && !operation.holder.endsWith(`@${node}`)) {
      throw new EclipticError('NOT_GRANTED', 'a device speaks for its own members only');
    }
    if ('holder' in operation) this.#kept.asks(operation.holder);
    const keeper = this.#election.keeperOf(repository) ?? (await this.#election.claim(repository));
    if (keeper !== this.#components.nodeKey) return { keeper: keeper ?? null };
    return { outcome: await this.#kept.settle(repository, operation) };
  }

  #tellEnd(lease: Lease, reason: string): void {
    const node = lease.holder.slice(lease.holder.lastIndexOf('@') + 1);
    const { nodeKey, onEnd } = this.#components;
    const told = node === nodeKey ? onEnd(lease.id, reason) : this.#ask(node, 'end', [[lease.id, reason]]);
    told.catch((error: unknown) => this.#complain(error, 'lease holder not told'));
  }

  #complain(error: unknown, message: string): void {
    this.#components.runtime.logger.error({ err: error }, message);
  }
}

const NAME = 'lease devices';

/** The owner's other devices. A device that was met once is remembered while it is away, until it leaves the mesh. */
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
    const [row] = await store.read(meta, { where: { name: NAME } });
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
