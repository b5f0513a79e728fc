import { parsed } from '../../network/peers/wire.js';
import { EclipticError } from '../../runtime/errors.js';
import { KeeperElection } from './keeper-election.js';
import { KeptLeases } from './kept-leases.js';
import {
  CONFIRMED_MS,
  type HeldHere,
  type LeaseAuthority,
  type LeaseAuthorityComponents,
  nodeOf,
} from './lease-authority.js';
import type { DeviceQuestions } from './lease-devices.js';
import type { Lease, Operation, Outcome } from './lease-wire.js';
import * as wire from './lease-wire.js';
import { seenTokens } from './seen-tokens.js';
import { keepers as keeperTable, leases as leaseTable } from './tables.js';

const MAX_HOPS = 3;
const MAX_LISTED = 500;

/**
 * Without a broker, each repository has one keeper among the owner's devices: operations are decided here if this device
 * is the keeper, and sent to the keeper otherwise.
 */
export class KeeperAuthority implements LeaseAuthority, DeviceQuestions {
  readonly #components: LeaseAuthorityComponents;
  readonly #election: KeeperElection;
  readonly #kept: KeptLeases;
  /** Until when each keeper's last confirmation holds. */
  readonly #confirmedUntil = new Map<string, number>();

  private constructor(
    components: LeaseAuthorityComponents,
    stored: {
      readonly keepers: ConstructorParameters<typeof KeeperElection>[1];
      readonly kept: ConstructorParameters<typeof KeptLeases>[1];
      readonly tokens: ReadonlyMap<string, number>;
    },
  ) {
    const { runtime, store, devices, nodeKey, isGoneHere, onMove } = components;
    this.#components = components;
    const onEnd = (lease: Lease, reason: string) => this.#tellEnd(lease, reason);
    this.#kept = new KeptLeases({ runtime, store, nodeKey, isGoneHere, onEnd }, stored.kept, stored.tokens);
    this.#election = new KeeperElection(
      {
        store,
        nodeKey,
        devices: () => devices.others,
        reachable: (node) => devices.reachable(node),
        ask: (node, question, body) => devices.askOnce(node, question, body),
        highest: (repository) => this.#kept.highest(repository),
        onBegin: (repository, token) => this.#kept.saw(repository, token),
        onMove: async (repository, wasOurs) => {
          if (wasOurs) await this.#kept.giveUp(repository);
          onMove(repository);
        },
      },
      stored.keepers,
    );
  }

  static async open(components: LeaseAuthorityComponents): Promise<KeeperAuthority> {
    const { store } = components;
    const kept = await store.read(leaseTable, { where: { place: 'kept' } });
    const keepers = await store.read(keeperTable);
    return new KeeperAuthority(components, { keepers, kept, tokens: await seenTokens(store) });
  }

  start(): void {
    this.#components.devices.start(this);
  }

  /** The keeper of a repository, as far as this device knows. */
  keeperOf(repository: string): string | undefined {
    return this.#election.keeperOf(repository);
  }

  /** Do the keeper's decisions about the repository certainly still hold? */
  isConfirmed({ repository }: HeldHere): boolean {
    const keeper = this.#election.keeperOf(repository);
    const { nodeKey, runtime } = this.#components;
    return keeper === nodeKey || (keeper !== undefined && (this.#confirmedUntil.get(keeper) ?? 0) > runtime.now());
  }

  isGone(holder: string): boolean {
    return this.#kept.isGone(holder);
  }

  /** The keeper's decision; undefined when no keeper can be reached. */
  async settle(repository: string, operation: Operation): Promise<Outcome | undefined> {
    const { nodeKey, runtime, devices } = this.#components;
    await devices.meetAll();
    let keeper = await this.#election.find(repository);
    for (let hops = 0; hops < MAX_HOPS && keeper !== undefined; hops++) {
      if (keeper === nodeKey) return this.#kept.settle(repository, operation);
      const sentAt = runtime.now();
      const answer = await devices.ask(keeper, 'settle', { repository, operation });
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
  async beat(leases: readonly HeldHere[]): Promise<void> {
    const { nodeKey, runtime, devices, isGoneHere, onEnd } = this.#components;
    const keepers = new Map<string, HeldHere[]>();
    for (const lease of leases) {
      const keeper = this.#election.keeperOf(lease.repository);
      if (keeper === undefined || keeper === nodeKey) continue;
      keepers.set(keeper, [...(keepers.get(keeper) ?? []), lease]);
    }
    const beats = [...keepers].map(async ([keeper, kept]) => {
      const sentAt = runtime.now();
      const known = kept.map(({ repository, id }) => [repository, id]);
      const gone = [...new Set(kept.map(({ holder }) => holder))].filter(isGoneHere);
      const ends = wire.EndsSchema.safeParse(await devices.ask(keeper, 'beat', { known, gone }));
      if (!ends.success) return;
      this.#confirmedUntil.set(keeper, sentAt + CONFIRMED_MS);
      for (const [id, reason] of ends.data) await onEnd(id, reason);
    });
    await Promise.all(beats);
  }

  /** All leases that this device and the reachable others keep. */
  async list(): Promise<(readonly [repository: string, lease: Lease])[]> {
    const { devices } = this.#components;
    const others = devices.others.filter((node) => devices.reachable(node));
    const answers = await Promise.all(others.map((node) => devices.ask(node, 'list', null)));
    return [...this.#kept.all(), ...answers.flatMap((answer) => wire.KeptSchema.safeParse(answer).data ?? [])];
  }

  close(): void {}

  get keepers(): readonly (readonly [repository: string, keeper: string])[] {
    return [...this.#election.known];
  }

  heard(node: string): void {
    this.#kept.heard(node);
  }

  async answer(node: string, question: string, body: unknown): Promise<unknown> {
    const { devices, nodeKey, onEnd } = this.#components;
    switch (question) {
      case 'settle':
        return this.#answerSettle(node, parsed(wire.SettleSchema, body));
      case 'claim':
        await devices.met(node);
        return this.#election.answerClaim(parsed(wire.ClaimSchema, body).repository, node);
      case 'beat': {
        const { known, gone } = parsed(wire.BeatSchema, body);
        this.#kept.heard(node, new Set(gone.filter((holder) => holder.endsWith(`@${node}`))));
        return this.#kept.compare(node, known);
      }
      case 'end':
        for (const [id, reason] of parsed(wire.EndsSchema, body)) await onEnd(id, reason);
        return null;
      case 'keepers':
        for (const [repository, keeper] of parsed(wire.KeepersSchema, body)) {
          if (keeper === nodeKey || devices.others.includes(keeper)) await this.#election.heard(repository, keeper);
        }
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
    const node = nodeOf(lease.holder);
    const { nodeKey, onEnd, devices, runtime } = this.#components;
    const told = node === nodeKey ? onEnd(lease.id, reason) : devices.ask(node, 'end', [[lease.id, reason]]);
    told.catch((error: unknown) => runtime.logger.error({ err: error }, 'lease holder not told'));
  }
}
