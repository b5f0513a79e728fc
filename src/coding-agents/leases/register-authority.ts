import { wait } from '../../runtime/async.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Timer } from '../../runtime/runtime.js';
import type { Registers } from '../../store/shared/registers.js';
import { DeviceSession } from './device-session.js';
import {
  type HeldHere,
  type LeaseAuthority,
  type LeaseAuthorityComponents,
  nodeOf,
  ORPHAN_MS,
} from './lease-authority.js';
import type { DeviceQuestions } from './lease-devices.js';
import { step } from './lease-machine.js';
import type { Lease, Operation, Outcome } from './lease-wire.js';
import { RegisterBoard } from './register-board.js';
import { addEnds, type RepositoryState, type StoredLease } from './register-values.js';
import { seenTokens, tokenSeen } from './seen-tokens.js';
import { keepers as keeperTable, leases as leaseTable } from './tables.js';

export interface RegisterAuthorityComponents extends LeaseAuthorityComponents {
  registers: Registers;
  /** Is the node a device of this owner? Undefined if this node does not know it. */
  admits: (node: string) => boolean | undefined;
}

/** How long an operation is tried while others change the same register. */
const SETTLE_MS = 5_000;
const RETRY_MS = 20;
/** Until this device tries again to begin its session. */
const AGAIN_MS = 1_000;
/** How long to wait for another device to give a revoked lease up. */
const REVOKE_MS = 2_000;
/** Stands for the token of a new lease until the register's revision is known. */
const NEW_TOKEN = Number.MAX_SAFE_INTEGER;
const TAKEN_BACK = 'your user took it back';

interface Change<T> {
  readonly result: T;
  /** Absent: nothing changes. */
  readonly leases?: readonly StoredLease[];
  readonly ends?: RepositoryState['ends'];
}

/**
 * With a broker, the leases of a repository are in one shared register, which every device changes by compare-and-set.
 * A device relies on its leases while its session is live. Only that device ends them, until its session is closed.
 */
export class RegisterAuthority implements LeaseAuthority, DeviceQuestions {
  readonly keepers = [];
  readonly #components: RegisterAuthorityComponents;
  readonly #board: RegisterBoard;
  readonly #session: DeviceSession;
  readonly #tokens: Map<string, number>;
  readonly #closing = new AbortController();
  readonly #unsubscribe: (() => void)[] = [];
  #tidying: Timer | undefined;
  #beginning: Timer | undefined;

  private constructor(components: RegisterAuthorityComponents, tokens: Map<string, number>) {
    const { runtime, registers, nodeKey, admits, isGoneHere, onMove } = components;
    this.#components = components;
    this.#tokens = tokens;
    this.#board = new RegisterBoard({
      ...{ runtime, registers, nodeKey, admits, isGoneHere },
      onChange: (before, after, writer) => this.#changed(before, after, writer),
      onDamage: (repository) => onMove(repository),
    });
    this.#session = new DeviceSession({
      ...{ runtime, registers, nodeKey },
      gone: () => [...new Set([...this.#own()].map(([, { lease }]) => lease.holder))].filter(isGoneHere),
      onBegin: () => onMove(undefined),
      onLost: () => {
        runtime.logger.warn({}, 'lease session was ended by another device');
        onMove(undefined);
      },
    });
  }

  static async open(components: RegisterAuthorityComponents): Promise<RegisterAuthority> {
    const { store } = components;
    // This device keeps no repository any more. If the mesh gives the broker up, keepers are elected again.
    const keepers = await store.read(keeperTable);
    const stale = keepers.map(({ repository }) => keeperTable.delete({ repository }));
    await store.write([...stale, leaseTable.delete({ place: 'kept' })]);
    return new RegisterAuthority(components, await seenTokens(store));
  }

  start(): void {
    const { devices, registers } = this.#components;
    devices.start(this);
    this.#unsubscribe.push(
      registers.watch((key, entry) => this.#board.learn(key, entry)),
      registers.onReachable(() => void this.#begin()),
    );
  }

  /** Other devices wait until each of them has shown that it decides by the registers. */
  async #begin(): Promise<void> {
    try {
      await this.#session.beat();
    } catch (error) {
      this.#unheard(error);
    }
    const { runtime } = this.#components;
    this.#beginning?.cancel();
    if (this.#session.isLive || this.#closing.signal.aborted) return;
    this.#beginning = runtime.setTimer(() => void this.#begin(), AGAIN_MS);
  }

  keeperOf(_repository: string): string {
    return this.#components.registers.place;
  }

  isConfirmed({ repository, id }: HeldHere): boolean {
    if (!this.#session.isLive || this.#unmoved().length > 0) return false;
    // The state is never older than this device's own changes.
    return this.#board.get(repository)?.leases.some(({ lease }) => lease.id === id) === true;
  }

  isGone(holder: string): boolean {
    const node = nodeOf(holder);
    const { nodeKey, isGoneHere } = this.#components;
    if (node === nodeKey) return isGoneHere(holder);
    const session = this.#board.session(node);
    return session?.closed === true || session?.gone.includes(holder) === true || this.#board.isSilent(node);
  }

  async settle(repository: string, operation: Operation): Promise<Outcome | undefined> {
    try {
      if (operation.kind === 'revoke') return await this.#revoke(repository, operation.id);
      return await this.#settle(repository, operation);
    } catch (error) {
      if (error instanceof EclipticError && error.code === 'BROKER_UNREACHABLE') return undefined;
      throw error;
    }
  }

  async beat(leases: readonly HeldHere[]): Promise<void> {
    const { onEnd, runtime } = this.#components;
    try {
      await this.#session.beat();
    } catch (error) {
      return this.#unheard(error);
    }
    const known = new Set(leases.map(({ id }) => id));
    for (const { id, repository, token } of leases) {
      const state = this.#board.get(repository);
      // A state without the token may be older than the lease.
      if (!state || state.base + state.revision < token || state.leases.some(({ lease }) => lease.id === id)) continue;
      await onEnd(id, state.ends.find(([ended]) => ended === id)?.[1] ?? 'the broker does not know of it any more');
    }
    const now = runtime.now();
    const isOrphan = ({ lease }: StoredLease) => !known.has(lease.id) && now - lease.since > ORPHAN_MS;
    await this.#dropOwn(isOrphan);
  }

  async list(): Promise<(readonly [repository: string, lease: Lease])[]> {
    const { nodeKey, runtime } = this.#components;
    const isOver = (lease: Lease) => nodeOf(lease.holder) === nodeKey && lease.expiresAt <= runtime.now();
    return [...this.#board.repositories].flatMap(({ repository, leases }) =>
      leases.filter(({ lease }) => !isOver(lease)).map(({ lease }) => [repository, lease] as const),
    );
  }

  close(): void {
    this.#closing.abort();
    this.#tidying?.cancel();
    this.#beginning?.cancel();
    for (const end of this.#unsubscribe.splice(0)) end();
  }

  heard(): void {}

  /** Devices without the broker must not decide by themselves: they would not know of leases here. */
  async answer(_node: string, question: string): Promise<unknown> {
    if (question === 'keepers') return null;
    if (question === 'list') return [];
    throw new EclipticError('NOT_GRANTED', `leases of this device are decided by ${this.#components.registers.place}`);
  }

  async #settle(repository: string, operation: Exclude<Operation, { kind: 'revoke' }>): Promise<Outcome | undefined> {
    const isGrant = operation.kind === 'take' || operation.kind === 'renew';
    const reason = () => `${operation.holder} took the files: your process was gone, or out of reach`;
    for (const from = this.#stopwatch(); this.#stopwatch() - from < SETTLE_MS; ) {
      const session = isGrant ? await this.#session.ensure() : 0;
      if (session === undefined || !(await this.#haveAllMoved())) return undefined;
      const done = await this.#change(repository, (before) => {
        const { leases, outcome } = this.#decide(before, operation, session);
        if (operation.kind === 'check' || outcome.conflicts.length > 0) return { result: outcome };
        return { result: outcome, leases, ends: addEnds(before.ends, outcome.reclaimed, reason) };
      });
      if (!done) return undefined;
      const outcome = this.#withTokens(done.result, done.after);
      if (outcome.conflicts.length > 0) {
        if (operation.kind === 'take' && (await this.#closeSilent(outcome.conflicts.map(({ lease }) => lease))))
          continue;
        return outcome;
      }
      if (operation.kind === 'check') return outcome;
      await this.#saw(repository, Math.max(0, ...outcome.leases.map(({ token }) => token)));
      // A lease of an ended session may have been given away since.
      if (isGrant && this.#session.number !== session) continue;
      const { nodeKey, onEnd } = this.#components;
      const gone = outcome.reclaimed.filter(({ holder }) => nodeOf(holder) === nodeKey);
      for (const lease of gone) await onEnd(lease.id, reason());
      return outcome;
    }
    return undefined;
  }

  /** Decides as a single keeper would. The times of other devices' leases are for them to judge. */
  #decide(before: RepositoryState, operation: Operation, session: number) {
    const { nodeKey, runtime } = this.#components;
    const stored = new Map(before.leases.map((one) => [one.lease.id, one]));
    const seen = new Map<string, Lease>();
    for (const { lease } of before.leases) {
      const expiresAt = nodeOf(lease.holder) === nodeKey ? lease.expiresAt : Number.POSITIVE_INFINITY;
      seen.set(lease.id, { ...lease, expiresAt });
    }
    const alive = new Set(before.leases.filter((one) => !this.#board.isGone(one)).map(({ lease }) => lease.holder));
    const { state, outcome } = step({ token: NEW_TOKEN - 1, leases: [...seen.values()] }, operation, {
      now: runtime.now(),
      isGone: (holder) => !alive.has(holder),
      settles: true,
    });
    const asOf = this.#session.beats;
    const leases = state.leases.map((lease): StoredLease => {
      if (seen.get(lease.id) === lease) return stored.get(lease.id)!;
      return { lease: lease.token === NEW_TOKEN ? { ...lease, token: 0 } : lease, session, asOf };
    });
    const restored = (lease: Lease) => (seen.get(lease.id) === lease ? stored.get(lease.id)!.lease : lease);
    const conflicts = outcome.conflicts.map(({ glob, lease }) => ({ glob, lease: restored(lease) }));
    const rest = { leases: outcome.leases.map(restored), reclaimed: outcome.reclaimed.map(restored) };
    return { leases, outcome: { ...rest, conflicts } };
  }

  /** Changes the leases of a repository; undefined if they cannot be believed, or others are always faster. */
  async #change<T>(repository: string, change: (before: RepositoryState) => Change<T>) {
    const { runtime } = this.#components;
    const { signal } = this.#closing;
    for (const from = this.#stopwatch(); this.#stopwatch() - from < SETTLE_MS && !signal.aborted; ) {
      const before = await this.#board.read(repository);
      if (!before) return undefined;
      const { result, leases, ends = before.ends } = change(before);
      if (!leases) return { result, after: before };
      const base = Math.max(before.base, (this.#tokens.get(repository) ?? 0) - before.revision);
      const after = await this.#board.write(before, { repository, base, leases, ends });
      if (after) return { result, after };
      await wait(runtime, RETRY_MS * runtime.random(), signal);
    }
    return undefined;
  }

  /** A user takes a lease back: its device gives it up at once, unless that device is gone. */
  async #revoke(repository: string, id: string): Promise<Outcome | undefined> {
    const { nodeKey, runtime } = this.#components;
    const done = await this.#change<readonly Lease[]>(repository, (before) => {
      const found = before.leases.find(({ lease }) => lease.id === id);
      if (!found) return { result: [] };
      const rest = before.leases.filter((one) => one !== found);
      const isOurs = nodeOf(found.lease.holder) === nodeKey;
      const ends = addEnds(before.ends, [found.lease], () => TAKEN_BACK);
      if (isOurs || this.#board.isGone(found)) return { result: [found.lease], leases: rest, ends };
      return { result: [found.lease], leases: [...rest, { ...found, revoked: true }], ends };
    });
    if (!done) return undefined;
    const isThere = () => this.#board.get(repository)?.leases.some(({ lease }) => lease.id === id) !== false;
    for (const from = this.#stopwatch(); isThere() && this.#stopwatch() - from < REVOKE_MS; ) {
      await wait(runtime, RETRY_MS, this.#closing.signal);
      await this.#board.read(repository);
    }
    return { leases: done.result, conflicts: [], reclaimed: [] };
  }

  /** Gives up leases of this device that nothing here relies on, if that is still so when the register is changed. */
  async #dropOwn(isOver: (stored: StoredLease) => boolean): Promise<void> {
    const { nodeKey } = this.#components;
    const isDropped = (stored: StoredLease) => nodeOf(stored.lease.holder) === nodeKey && isOver(stored);
    const repositories = new Set(
      [...this.#own()].filter(([, stored]) => isOver(stored)).map(([repository]) => repository),
    );
    try {
      for (const repository of repositories) {
        await this.#change(repository, ({ leases }) => {
          const rest = leases.filter((stored) => !isDropped(stored));
          return rest.length < leases.length ? { result: null, leases: rest } : { result: null };
        });
      }
    } catch (error) {
      this.#unheard(error);
    }
  }

  /** Ends the sessions of silent devices among the holders. True if there was one. */
  async #closeSilent(leases: readonly Lease[]): Promise<boolean> {
    const { nodeKey } = this.#components;
    let closed = false;
    for (const node of new Set(leases.map(({ holder }) => nodeOf(holder)))) {
      if (node !== nodeKey && (await this.#board.close(node))) closed = true;
    }
    return closed;
  }

  #changed(before: RepositoryState | undefined, { leases, ends }: RepositoryState, writer: string): void {
    const { nodeKey, onEnd } = this.#components;
    const isOurs = ({ lease }: StoredLease) => nodeOf(lease.holder) === nodeKey;
    const left = new Set(leases.map(({ lease }) => lease.id));
    if (writer !== nodeKey) {
      for (const { lease } of before?.leases.filter(isOurs) ?? []) {
        if (left.has(lease.id)) continue;
        const why = ends.find(([id]) => id === lease.id)?.[1] ?? 'another device ended it';
        onEnd(lease.id, why).catch((error: unknown) => this.#complain(error, 'lease holder not told'));
      }
    }
    for (const { lease } of leases.filter((one) => isOurs(one) && one.revoked)) {
      // In this order: nothing here relies on the lease when another device can take it.
      onEnd(lease.id, TAKEN_BACK)
        .then(() => this.#dropOwn((stored) => stored.revoked === true && stored.lease.id === lease.id))
        .catch((error: unknown) => this.#complain(error, 'revoked lease not given up'));
    }
    this.#tidyLater();
  }

  /** This device ends its own leases when their time is over: clocks of others do not matter. */
  #tidyLater(): void {
    const { runtime } = this.#components;
    this.#tidying?.cancel();
    const due = Math.min(...[...this.#own()].map(([, { lease }]) => lease.expiresAt));
    if (!Number.isFinite(due) || this.#closing.signal.aborted) return;
    const ms = Math.max(RETRY_MS, Math.min(due - runtime.now(), 86_400_000));
    this.#tidying = runtime.setTimer(() => void this.#tidy(), ms);
  }

  async #tidy(): Promise<void> {
    const now = this.#components.runtime.now();
    const isOver = ({ lease }: StoredLease) => lease.expiresAt <= now;
    const wasEarly = ![...this.#own()].some(([, stored]) => isOver(stored));
    await this.#dropOwn(isOver);
    // Leases that could not be dropped are reclaimed by others when this device is silent, or dropped with its next change.
    if (wasEarly) this.#tidyLater();
  }

  *#own(): Generator<readonly [repository: string, stored: StoredLease]> {
    const { nodeKey } = this.#components;
    for (const { repository, leases } of this.#board.repositories) {
      for (const stored of leases) if (nodeOf(stored.lease.holder) === nodeKey) yield [repository, stored];
    }
  }

  /** The owner's devices that have never used the registers, and may decide about leases without them. */
  #unmoved(): string[] {
    return this.#components.devices.others.filter((node) => !this.#board.session(node));
  }

  async #haveAllMoved(): Promise<boolean> {
    for (const node of this.#unmoved()) {
      if (await this.#board.readSession(node)) continue;
      this.#components.runtime.logger.warn({ node }, 'leases are unconfirmed: a device does not use the broker yet');
      return false;
    }
    return true;
  }

  #withTokens(outcome: Outcome, after: RepositoryState): Outcome {
    const tokens = new Map(after.leases.map(({ lease }) => [lease.id, lease.token]));
    const leases = outcome.leases.map((lease) => ({ ...lease, token: tokens.get(lease.id) ?? lease.token }));
    return { ...outcome, leases };
  }

  async #saw(repository: string, token: number): Promise<void> {
    if (token <= (this.#tokens.get(repository) ?? 0)) return;
    this.#tokens.set(repository, token);
    await this.#components.store.write([tokenSeen(repository, token)]);
  }

  #stopwatch(): number {
    return this.#components.runtime.stopwatch();
  }

  #unheard(error: unknown): void {
    this.#components.runtime.logger.debug({ err: error }, 'lease registers cannot be reached');
  }

  #complain(error: unknown, message: string): void {
    if (!this.#closing.signal.aborted) this.#components.runtime.logger.error({ err: error }, message);
  }
}
