import type { Mail } from '../../mail/mail.js';
import { EnvelopeFactory } from '../../mesh/envelope.js';
import type { Network } from '../../network/peers/network.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { Registers } from '../../store/shared/registers.js';
import type { Store } from '../../store/store.js';
import { isSameGlob } from './glob.js';
import { type HeldLease, HeldLeases } from './held-leases.js';
import { KeeperAuthority } from './keeper-authority.js';
import type { LeaseAuthority } from './lease-authority.js';
import { LeaseDevices } from './lease-devices.js';
import { step } from './lease-machine.js';
import type { Lease, Operation, Outcome } from './lease-wire.js';
import { Participants } from './participants.js';
import { RegisterAuthority } from './register-authority.js';
import type { Identify, Repository } from './repository.js';
import { leases as leaseTable } from './tables.js';

export interface LeasesComponents {
  runtime: Runtime;
  store: Store;
  mail: Mail;
  network: Network | undefined;
  nodeKey: string;
  identify: Identify;
  /** Where leases are decided if the mesh has a broker. Without: by one of the owner's devices for each repository. */
  registers?: Registers | undefined;
}

/** `guarded`: every agent there has a guard. `advisory`: not every agent has. `unconfirmed`: no keeper confirmed it. */
export type LeaseLabel = 'guarded' | 'advisory' | 'unconfirmed';

export interface LeaseView extends Lease {
  readonly repository: string;
  readonly label: LeaseLabel;
  /** The holder's process is connected. */
  readonly alive: boolean;
}

export interface Settled {
  readonly outcome: Outcome;
  /** The keeper decided it. */
  readonly confirmed: boolean;
}

interface Newcomer {
  readonly checkout: string;
  readonly client: string;
  readonly ancestors?: readonly number[] | undefined;
}

/** How often a device sends the keepers of its leases a sign of life. */
const BEAT_MS = 3_000;
/** Time for members to reconnect after a restart of their node. */
const RETURN_MS = 10_000;

/** Reservations of files: those that this node's members hold, and through the authority those of other devices. */
export class Leases {
  readonly participants = new Participants();
  readonly #components: LeasesComponents;
  readonly #factory: EnvelopeFactory;
  readonly #startedAt: number;
  #authority!: LeaseAuthority;
  #devices!: LeaseDevices;
  #held!: HeldLeases;
  /** Ids of leases that must be confirmed again: their holder was away, or the keeper changed. */
  readonly #doubted = new Set<string>();
  readonly #names = new Map<string, string>();
  /** The latest change of each holder's leases in a repository. */
  readonly #turns = new Map<string, Promise<void>>();
  #timer: Timer | undefined;
  readonly #listeners = new Set<() => void>();
  #refreshing: Promise<void> | undefined;
  #again = false;
  #closed = false;

  private constructor(components: LeasesComponents) {
    this.#components = components;
    this.#factory = new EnvelopeFactory(components.runtime);
    this.#startedAt = components.runtime.now();
  }

  static async open(components: LeasesComponents): Promise<Leases> {
    const { runtime, store, network, nodeKey, registers } = components;
    const leases = new Leases(components);
    const { participants } = leases;
    const rows = await store.read(leaseTable, { where: { place: 'held' } });
    const notify = (holder: string, text: string) => leases.notify(holder, text);
    leases.#held = new HeldLeases({ runtime, store, notify, onChange: () => leases.#changed() }, rows);
    const onMet = () => leases.#refresh();
    const devices = await LeaseDevices.open({ runtime, store, network, participants, onMet });
    const about = {
      ...{ runtime, store, devices, nodeKey },
      isGoneHere: (holder: string) => leases.#isGoneHere(holder),
      onEnd: (id: string, reason: string) => leases.#held.end(id, reason),
      onMove: (repository: string | undefined) =>
        leases.#doubt((lease) => repository === undefined || lease.repository === repository),
    };
    const admits = (node: string) => (network?.peers.get(node) ? network.isOwnDevice(node) : undefined);
    leases.#devices = devices;
    leases.#authority = registers
      ? await RegisterAuthority.open({ ...about, registers, admits })
      : await KeeperAuthority.open(about);
    leases.#authority.start();
    leases.#refreshLater();
    return leases;
  }

  async repositoryOf(name: string): Promise<Repository> {
    const checkout = this.participants.checkoutOf(name);
    if (checkout === undefined) throw new EclipticError('AGENT_UNAVAILABLE', `"${name}" has left`);
    return this.repositoryAt(checkout);
  }

  async repositoryAt(folder: string): Promise<Repository> {
    const repository = await this.#components.identify(folder);
    this.#names.set(repository.id, repository.name);
    if (repository.formerId !== undefined) await this.#move(repository.formerId, repository.id);
    return repository;
  }

  /** Leases that were taken under an earlier id of the repository; the authority confirms them under the new one. */
  async #move(from: string, to: string): Promise<void> {
    const moved = this.#held.all.filter(({ repository }) => repository === from);
    if (moved.length === 0) return;
    for (const { id } of moved) this.#doubted.add(id);
    await this.#held.put(moved.map((lease) => ({ ...lease, repository: to })));
    this.#refresh();
  }

  /** The repository's name, or the beginning of its id where the name is unknown here. */
  nameOf(repository: string): string {
    return this.#names.get(repository) ?? repository.slice(0, 8);
  }

  keeperOf(repository: string): string | undefined {
    return this.#authority.keeperOf(repository);
  }

  /** Calls back when members come or go, or when what they hold changes. */
  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  joined(name: string, { checkout, client, ancestors = [] }: Newcomer): void {
    this.participants.join(name, { checkout, client, ancestors });
    const holder = this.address(name);
    this.#doubt((lease) => lease.holder === holder);
    this.repositoryAt(checkout).then(
      ({ id }) => {
        this.participants.worksIn(name, id);
        this.#devices.tellHere(this.participants.here);
        this.#changed();
      },
      (error: unknown) => this.#components.runtime.logger.warn({ err: error, checkout }, 'repository not identified'),
    );
  }

  left(name: string): void {
    this.participants.leave(name);
    this.#devices.tellHere(this.participants.here);
    this.#changed();
    this.#refresh();
  }

  address(name: string): string {
    return `${name}@${this.#components.nodeKey}`;
  }

  /** The guard of this member's client has made a call, so it works. */
  proveGuard(name: string): void {
    if (this.participants.proveGuard(name)) this.#devices.tellHere(this.participants.here);
  }

  /** Has the authority decide; without it, decides by the leases of this node alone, as unconfirmed. */
  operate(repository: string, operation: Operation): Promise<Settled> {
    const isChange = operation.kind !== 'check' && operation.kind !== 'revoke';
    const work = () => this.#operate(repository, operation);
    return isChange ? this.#inTurn(repository, operation.holder, work) : work();
  }

  /** One change of a holder's leases at a time: a confirmation that ends late must not bring back a released lease. */
  async #inTurn<T>(repository: string, holder: string, work: () => Promise<T>): Promise<T> {
    const key = `${repository}\n${holder}`;
    const turn = (this.#turns.get(key) ?? Promise.resolve()).then(work);
    const ended = turn.then(
      () => {},
      () => {},
    );
    this.#turns.set(key, ended);
    try {
      return await turn;
    } finally {
      if (this.#turns.get(key) === ended) this.#turns.delete(key);
    }
  }

  async #operate(repository: string, operation: Operation): Promise<Settled> {
    if (operation.kind === 'renew') for (const lease of this.#of(repository, operation)) await this.#confirmNow(lease);
    // From here on another may have it: the answer can take long, or be lost.
    if (operation.kind === 'release') for (const { id } of this.#of(repository, operation)) this.#doubted.add(id);
    const sentAt = this.#components.runtime.now();
    const outcome = await this.#authority.settle(repository, operation);
    if (!outcome) return { outcome: await this.#alone(repository, operation), confirmed: false };
    if (operation.kind === 'take' || operation.kind === 'renew') {
      await this.#note(repository, operation, outcome, sentAt);
    } else if (operation.kind === 'release') {
      // Includes leases that the keeper never heard of.
      const leases = [
        ...new Map([...this.#of(repository, operation), ...outcome.leases].map((one) => [one.id, one])).values(),
      ];
      await this.#held.remove(leases.map(({ id }) => id));
      return { outcome: { ...outcome, leases }, confirmed: true };
    }
    return { outcome, confirmed: true };
  }

  /** The holder's own leases that an operation concerns. */
  #of(repository: string, { holder, globs }: { holder: string; globs?: readonly string[] }): HeldLease[] {
    const own = this.#held.all.filter((lease) => lease.repository === repository && lease.holder === holder);
    return own.filter(({ glob }) => globs?.some((one) => isSameGlob(one, glob)) ?? true);
  }

  label(repository: string, confirmed: boolean): LeaseLabel {
    if (!confirmed) return 'unconfirmed';
    return this.participants.allGuarded(repository) ? 'guarded' : 'advisory';
  }

  get held(): LeaseView[] {
    return this.#held.all.map((lease) => {
      const { warned: _warned, ...rest } = lease;
      const alive = !this.#isGoneHere(lease.holder);
      return { ...rest, label: this.label(lease.repository, this.#isConfirmed(lease)), alive };
    });
  }

  /** This node's leases, and those that this and the other reachable devices keep. */
  async list(): Promise<LeaseView[]> {
    const found = new Map(this.held.map((lease) => [lease.id, lease]));
    for (const [repository, lease] of await this.#authority.list()) {
      const alive = !this.#authority.isGone(lease.holder);
      if (!found.has(lease.id))
        found.set(lease.id, { ...lease, repository, label: this.label(repository, true), alive });
    }
    return [...found.values()].sort((one, other) => one.since - other.since);
  }

  async revoke(id: string): Promise<LeaseView> {
    const lease = (await this.list()).find((one) => one.id === id || (id.length >= 6 && one.id.endsWith(id)));
    if (!lease) throw new EclipticError('LEASE_NOT_FOUND', `no lease has the id "${id}"; see: ecliptic leases`, { id });
    if (this.#held.has(lease.id)) this.#doubted.add(lease.id);
    const settled = await this.#authority.settle(lease.repository, { kind: 'revoke', id: lease.id });
    if (!settled && !this.#held.has(lease.id)) {
      throw new EclipticError('PEER_UNREACHABLE', 'the device that settles this lease cannot be reached');
    }
    await this.#held.end(lease.id, 'your user took it back');
    return lease;
  }

  close(): void {
    this.#closed = true;
    this.#listeners.clear();
    this.#timer?.cancel();
    this.#held.close();
    this.#authority.close();
    this.#devices.close();
  }

  async #note(repository: string, { kind, ...asked }: Operation, { leases, reclaimed }: Outcome, sentAt: number) {
    const { ttlMs } = asked as { ttlMs: number };
    const known = new Map(this.#held.all.map((lease) => [lease.id, lease]));
    await this.#held.put(
      leases.map((lease) => {
        const expiresAt = Math.max(known.get(lease.id)?.expiresAt ?? 0, sentAt + ttlMs);
        this.#doubted.delete(lease.id);
        return { ...lease, repository, since: sentAt, expiresAt, warned: false };
      }),
    );
    if (kind === 'take') await this.#tellReclaimed(leases, reclaimed);
    this.#refreshLater();
  }

  /** Decides without the keeper, by the leases of this node's members; the keeper confirms later. */
  async #alone(repository: string, operation: Operation): Promise<Outcome> {
    const { runtime } = this.#components;
    const leases = this.#held.all.filter((lease) => lease.repository === repository);
    const isGone = (holder: string) => this.#isGoneHere(holder);
    const { outcome } = step({ token: 0, leases }, operation, { now: runtime.now(), isGone, settles: false });
    if (operation.kind === 'check' || outcome.conflicts.length > 0) return outcome;
    if (operation.kind === 'release') await this.#held.remove(outcome.leases.map(({ id }) => id));
    if (operation.kind !== 'take' && operation.kind !== 'renew') return outcome;
    for (const { id } of outcome.reclaimed)
      await this.#held.end(id, `${nameIn(operation.holder)} took the files: your process was gone`);
    await this.#held.put(outcome.leases.map((lease) => ({ ...lease, repository, warned: false })));
    await this.#tellReclaimed(outcome.leases, outcome.reclaimed);
    this.#refreshLater();
    return outcome;
  }

  #refreshLater(): void {
    if (this.#closed || this.#timer || this.#held.all.length === 0) return;
    this.#timer = this.#components.runtime.setTimer(() => {
      this.#timer = undefined;
      this.#refresh();
    }, BEAT_MS);
  }

  #refresh(): void {
    if (this.#closed) return;
    this.#again = true;
    this.#refreshing ??= this.#refreshNow().finally(() => {
      this.#refreshing = undefined;
      this.#refreshLater();
    });
  }

  async #refreshNow(): Promise<void> {
    while (this.#again && !this.#closed) {
      this.#again = false;
      try {
        for (const lease of this.#held.all) await this.#confirm(lease);
        await this.#authority.beat(this.#held.all.filter((lease) => !this.#isUnsettled(lease)));
      } catch (error) {
        this.#complain(error, 'leases not refreshed');
      }
    }
  }

  /** Asks the authority to confirm an unconfirmed or doubted lease, and tells the holder the result. */
  async #confirm({ id, repository, holder }: HeldLease): Promise<void> {
    await this.#inTurn(repository, holder, async () => {
      const lease = this.#held.all.find((one) => one.id === id);
      if (lease) await this.#confirmNow(lease);
    });
  }

  async #confirmNow(lease: HeldLease): Promise<void> {
    if (!this.#isUnsettled(lease) || this.#isGoneHere(lease.holder)) return;
    const { id, glob, holder, why, repository } = lease;
    const ttlMs = lease.expiresAt - this.#components.runtime.now();
    if (ttlMs <= 0) return;
    const outcome = await this.#authority.settle(repository, {
      kind: 'take',
      holder,
      wanted: [{ id, glob }],
      ttlMs,
      why,
    });
    if (!outcome || !this.#held.has(id)) return;
    const [conflict] = outcome.conflicts;
    if (conflict) return this.#held.end(id, `${nameIn(conflict.lease.holder)} holds ${conflict.lease.glob}`);
    this.#doubted.delete(id);
    const settled = outcome.leases[0]!;
    // The keeper may know the lease by another id, which counts.
    if (settled.id !== id) await this.#held.remove([id]);
    if (settled.id === id || !this.#held.has(settled.id)) {
      await this.#held.put([{ ...lease, id: settled.id, token: settled.token }]);
    }
    if (lease.token === 0)
      await this.notify(holder, `Your lease on ${glob} is confirmed, with token ${settled.token}.`);
  }

  #isConfirmed(lease: HeldLease): boolean {
    return !this.#isUnsettled(lease) && this.#authority.isConfirmed(lease);
  }

  #isUnsettled({ id, token, repository }: HeldLease): boolean {
    return token === 0 || this.#doubted.has(id) || this.#authority.keeperOf(repository) === undefined;
  }

  #doubt(concerns: (lease: HeldLease) => boolean): void {
    for (const lease of this.#held.all) if (concerns(lease)) this.#doubted.add(lease.id);
    this.#refresh();
  }

  #isGoneHere(holder: string): boolean {
    const name = nameIn(holder);
    if (this.participants.isHere(name)) return false;
    return this.participants.hasBeenHere(name) || this.#components.runtime.now() - this.#startedAt > RETURN_MS;
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }

  #complain(error: unknown, message: string): void {
    if (!this.#closed) this.#components.runtime.logger.error({ err: error }, message);
  }

  async #tellReclaimed([lease]: readonly Lease[], reclaimed: readonly Lease[]): Promise<void> {
    if (!lease || reclaimed.length === 0) return;
    const from = reclaimed.map(({ glob, holder }) => `${glob} from ${nameIn(holder)}`).join(', ');
    await this.notify(
      lease.holder,
      `You took ${from}, whose process is gone. It was told; its work there may be unfinished.`,
    );
  }

  /** Sends mail to a member of this node, which may be away. */
  async notify(holder: string, text: string): Promise<void> {
    const name = nameIn(holder);
    const payload = { text, mesh: { needs: 'none', hops: 0, notice: true } };
    const envelope = this.#factory.create({
      sender: name,
      recipient: name,
      type: 'notification',
      payload,
      metadata: { durable: true },
    });
    await this.#components.mail.keep(envelope, { address: name, node: undefined, tier: 3, sandboxId: undefined });
  }
}

export function nameIn(holder: string): string {
  return holder.slice(0, holder.lastIndexOf('@'));
}
