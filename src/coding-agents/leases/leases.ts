import type { Mail } from '../../mail/mail.js';
import { EnvelopeFactory } from '../../mesh/envelope.js';
import type { Network } from '../../network/peers/network.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { Store } from '../../store/store.js';
import { type HeldLease, HeldLeases } from './held-leases.js';
import { LeaseAuthority } from './lease-authority.js';
import { type Lease, type Operation, type Outcome, step } from './lease-machine.js';
import { Participants } from './participants.js';
import type { Identify, Repository } from './repository.js';

export interface LeasesComponents {
  runtime: Runtime;
  store: Store;
  mail: Mail;
  network: Network | undefined;
  nodeKey: string;
  identify: Identify;
}

/** `guarded`: a guard sees the edits of everyone there. `advisory`: not of everyone. `unconfirmed`: not settled. */
export type LeaseLabel = 'guarded' | 'advisory' | 'unconfirmed';

/** A lease as people and agents see it. */
export interface LeaseView extends Lease {
  readonly repository: string;
  readonly label: LeaseLabel;
  /** Is the holder's process there? */
  readonly alive: boolean;
}

export interface Settled {
  readonly outcome: Outcome;
  /** Did the keeper settle it? */
  readonly confirmed: boolean;
}

/** A member whose process came, and where it works. */
export interface Newcomer {
  readonly checkout: string;
  readonly client: string;
  readonly ancestors?: readonly number[] | undefined;
}

/** How often devices tell the keepers of their leases that they are there. */
const BEAT_MS = 3_000;
/** How long members may take to come back after a restart of their node. */
const RETURN_MS = 10_000;

/** Who has reserved which files: what this node's members hold, and what it settles for the owner's other devices. */
export class Leases {
  readonly participants = new Participants();
  readonly #components: LeasesComponents;
  readonly #factory: EnvelopeFactory;
  readonly #startedAt: number;
  #authority!: LeaseAuthority;
  #held!: HeldLeases;
  /** Leases that another may have taken since: their holder was gone, or another device settles them now. */
  readonly #doubted = new Set<string>();
  readonly #names = new Map<string, string>();
  #timer: Timer | undefined;
  #tending: Promise<void> | undefined;
  #again = false;
  #closed = false;

  private constructor(components: LeasesComponents) {
    this.#components = components;
    this.#factory = new EnvelopeFactory(components.runtime);
    this.#startedAt = components.runtime.now();
  }

  static async open(components: LeasesComponents): Promise<Leases> {
    const { runtime, store, network, nodeKey } = components;
    const leases = new Leases(components);
    const { participants } = leases;
    const rows = await store.read({ from: 'leases', where: { place: 'held' } });
    const notify = (holder: string, text: string) => leases.#notify(holder, text);
    leases.#held = new HeldLeases({ runtime, store, notify }, rows);
    leases.#authority = await LeaseAuthority.open({
      ...{ runtime, store, network, nodeKey, participants },
      isGoneHere: (holder) => leases.#isGoneHere(holder),
      onEnd: (id, reason) => leases.#held.end(id, reason),
      onMove: (repository) => leases.#doubt((lease) => lease.repository === repository),
      onMet: () => leases.#tend(),
    });
    leases.#authority.start();
    leases.#tendLater();
    return leases;
  }

  /** What that member's folder belongs to. */
  async repositoryOf(name: string): Promise<Repository> {
    const checkout = this.participants.checkoutOf(name);
    if (checkout === undefined) throw new EclipticError('AGENT_UNAVAILABLE', `"${name}" has left`);
    return this.repositoryAt(checkout);
  }

  async repositoryAt(folder: string): Promise<Repository> {
    const repository = await this.#components.identify(folder);
    this.#names.set(repository.id, repository.name);
    return repository;
  }

  /** What a repository is called, as far as this node knows. */
  nameOf(repository: string): string {
    return this.#names.get(repository) ?? repository.slice(0, 8);
  }

  /** The device that settles what is asked about a repository, as far as this one knows. */
  keeperOf(repository: string): string | undefined {
    return this.#authority.keeperOf(repository);
  }

  joined(name: string, { checkout, client, ancestors = [] }: Newcomer): void {
    this.participants.join(name, { checkout, client, ancestors });
    const holder = this.address(name);
    this.#doubt((lease) => lease.holder === holder);
    this.repositoryAt(checkout).then(
      ({ id }) => {
        this.participants.worksIn(name, id);
        this.#authority.tellHere(this.participants.here);
      },
      (error: unknown) => this.#components.runtime.logger.warn({ err: error, checkout }, 'no repository was found'),
    );
  }

  left(name: string): void {
    this.participants.leave(name);
    this.#authority.tellHere(this.participants.here);
    this.#tend();
  }

  address(name: string): string {
    return `${name}@${this.#components.nodeKey}`;
  }

  /** The guard of that member's client has spoken. */
  proveGuard(name: string): void {
    if (this.participants.proveGuard(name)) this.#authority.tellHere(this.participants.here);
  }

  /** Does what is asked where it is settled; where that cannot be reached, only here, and says so. */
  async operate(repository: string, operation: Operation): Promise<Settled> {
    if (operation.kind === 'renew') for (const lease of this.#of(repository, operation)) await this.#confirm(lease);
    const sentAt = this.#components.runtime.now();
    const outcome = await this.#authority.settle(repository, operation);
    if (!outcome) return { outcome: await this.#alone(repository, operation), confirmed: false };
    if (operation.kind === 'take' || operation.kind === 'renew') {
      await this.#note(repository, operation, outcome, sentAt);
    } else if (operation.kind === 'release') {
      // Also what its keeper never heard of.
      const leases = [
        ...new Map([...this.#of(repository, operation), ...outcome.leases].map((one) => [one.id, one])).values(),
      ];
      await this.#held.remove(leases.map(({ id }) => id));
      return { outcome: { ...outcome, leases }, confirmed: true };
    }
    return { outcome, confirmed: true };
  }

  /** What a member of this node has there of what it asks about. */
  #of(repository: string, { holder, globs }: { holder: string; globs?: readonly string[] }): HeldLease[] {
    const own = this.#held.all.filter((lease) => lease.repository === repository && lease.holder === holder);
    return own.filter(({ glob }) => globs?.includes(glob) ?? true);
  }

  label(repository: string, confirmed: boolean): LeaseLabel {
    if (!confirmed) return 'unconfirmed';
    return this.participants.allGuarded(repository) ? 'guarded' : 'advisory';
  }

  /** What the members of this node hold, as it is now. */
  get held(): LeaseView[] {
    return this.#held.all.map((lease) => {
      const { warned: _warned, ...rest } = lease;
      const alive = !this.#isGoneHere(lease.holder);
      return { ...rest, label: this.label(lease.repository, this.#isConfirmed(lease)), alive };
    });
  }

  /** All leases that this node can learn of now: its own, and what it and the owner's other devices settle. */
  async list(): Promise<LeaseView[]> {
    const found = new Map(this.held.map((lease) => [lease.id, lease]));
    for (const [repository, lease] of await this.#authority.list()) {
      const alive = !this.#authority.isGone(lease.holder);
      if (!found.has(lease.id))
        found.set(lease.id, { ...lease, repository, label: this.label(repository, true), alive });
    }
    return [...found.values()].sort((one, other) => one.since - other.since);
  }

  /** The owner takes a lease back. */
  async revoke(id: string): Promise<LeaseView> {
    const lease = (await this.list()).find((one) => one.id === id || (id.length >= 6 && one.id.endsWith(id)));
    if (!lease) throw new EclipticError('LEASE_NOT_FOUND', `no lease has the id "${id}"; see: ecliptic leases`, { id });
    const settled = await this.#authority.settle(lease.repository, { kind: 'revoke', id: lease.id });
    if (!settled && !this.#held.has(lease.id)) {
      throw new EclipticError('PEER_UNREACHABLE', 'the device that settles this lease cannot be reached');
    }
    await this.#held.end(lease.id, 'your user took it back');
    return lease;
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#held.close();
    this.#authority.close();
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
    this.#tendLater();
  }

  /** Without its keeper: judged by what this node's members hold, and settled later. */
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
    this.#tendLater();
    return outcome;
  }

  #tendLater(): void {
    if (this.#closed || this.#timer || this.#held.all.length === 0) return;
    this.#timer = this.#components.runtime.setTimer(() => {
      this.#timer = undefined;
      this.#tend();
    }, BEAT_MS);
  }

  #tend(): void {
    if (this.#closed) return;
    this.#again = true;
    this.#tending ??= this.#tendNow().finally(() => {
      this.#tending = undefined;
      this.#tendLater();
    });
  }

  async #tendNow(): Promise<void> {
    while (this.#again && !this.#closed) {
      this.#again = false;
      try {
        for (const lease of this.#held.all) await this.#confirm(lease);
        await this.#authority.beat(this.#held.all.filter((lease) => !this.#isUnsettled(lease)));
      } catch (error) {
        this.#complain(error, 'leases were not tended');
      }
    }
  }

  /** Has what was granted without its keeper, or is in doubt, settled; its holder is told what came of it. */
  async #confirm(lease: HeldLease): Promise<void> {
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
    // One that its keeper knows by another name: the keeper's counts.
    if (settled.id !== id) await this.#held.remove([id]);
    if (settled.id === id || !this.#held.has(settled.id)) {
      await this.#held.put([{ ...lease, id: settled.id, token: settled.token }]);
    }
    if (lease.token === 0)
      await this.#notify(holder, `Your lease on ${glob} is confirmed, with token ${settled.token}.`);
  }

  #isConfirmed(lease: HeldLease): boolean {
    return !this.#isUnsettled(lease) && this.#authority.isGood(lease.repository);
  }

  /** Does it wait for a keeper's word? */
  #isUnsettled({ id, token, repository }: HeldLease): boolean {
    return token === 0 || this.#doubted.has(id) || this.#authority.keeperOf(repository) === undefined;
  }

  #doubt(concerns: (lease: HeldLease) => boolean): void {
    for (const lease of this.#held.all) if (concerns(lease)) this.#doubted.add(lease.id);
    this.#tend();
  }

  #isGoneHere(holder: string): boolean {
    const name = nameIn(holder);
    if (this.participants.isHere(name)) return false;
    return this.participants.hasBeenHere(name) || this.#components.runtime.now() - this.#startedAt > RETURN_MS;
  }

  #complain(error: unknown, message: string): void {
    if (!this.#closed) this.#components.runtime.logger.error({ err: error }, message);
  }

  async #tellReclaimed([lease]: readonly Lease[], reclaimed: readonly Lease[]): Promise<void> {
    if (!lease || reclaimed.length === 0) return;
    const from = reclaimed.map(({ glob, holder }) => `${glob} from ${nameIn(holder)}`).join(', ');
    await this.#notify(
      lease.holder,
      `You took ${from}, whose process is gone. It was told; its work there may be unfinished.`,
    );
  }

  async #notify(holder: string, text: string): Promise<void> {
    const name = nameIn(holder);
    const payload = { text, mesh: { needs: 'none', hops: 0 } };
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

/** The holder's name, without its node. */
export function nameIn(holder: string): string {
  return holder.slice(0, holder.lastIndexOf('@'));
}
