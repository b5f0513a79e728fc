import type { Runtime } from '../../runtime/runtime.js';
import type { Registered, Registers } from '../../store/shared/registers.js';
import { nodeOf, SILENT_MS } from './lease-authority.js';
import {
  emptyState,
  isRepositoryKey,
  type RepositoryState,
  type RepositoryValue,
  readRepository,
  readSession,
  repositoryKey,
  type SessionValue,
  type StoredLease,
  sessionKey,
  sessionNode,
  withTokens,
} from './register-values.js';

export interface RegisterBoardComponents {
  runtime: Runtime;
  registers: Registers;
  nodeKey: string;
  /** Is the node a device of this owner? Undefined if this node does not know it. */
  admits: (node: string) => boolean | undefined;
  isGoneHere: (holder: string) => boolean;
  /** The leases of a repository changed; `before` is undefined at first. */
  onChange: (before: RepositoryState | undefined, after: RepositoryState, writer: string) => void;
  /** A register of this repository has a value that no device of the owner has written. */
  onDamage: (repository: string) => void;
}

/** Registers that are remembered. Whoever has the broker's credentials could make any number. */
const MAX_KNOWN = 10_000;

/** A session of another device, and since when it shows no newer sign of life. */
interface SeenSession {
  readonly revision: number;
  readonly since: number;
  readonly value: SessionValue | undefined;
}

/** Leases and sessions as the registers have them, as far as this device has read them. */
export class RegisterBoard {
  readonly #components: RegisterBoardComponents;
  readonly #repositories = new Map<string, RepositoryState>();
  readonly #sessions = new Map<string, SeenSession>();
  /** Registers whose value cannot be believed, and since when. */
  readonly #damaged = new Map<string, { readonly revision: number; readonly since: number }>();
  /** Revisions that reads do not bring, and since when. */
  readonly #missed = new Map<string, { readonly revision: number; readonly since: number }>();
  #scope: string;

  constructor(components: RegisterBoardComponents) {
    this.#components = components;
    this.#scope = components.registers.scope;
  }

  get repositories(): Iterable<RepositoryState> {
    return this.#repositories.values();
  }

  /** The leases as last read; undefined if they are not known for certain. */
  get(repository: string): RepositoryState | undefined {
    const key = repositoryKey(repository);
    return this.#damaged.has(key) ? undefined : this.#repositories.get(key);
  }

  session(node: string): SessionValue | undefined {
    return this.#sessions.get(node)?.value;
  }

  learn(key: string, entry: Registered): void {
    this.#checkScope();
    const node = sessionNode(key);
    const isNew =
      node === undefined ? !this.#repositories.has(key) && !this.#damaged.has(key) : !this.#sessions.has(node);
    if (isNew && this.#sessions.size + this.#repositories.size + this.#damaged.size >= MAX_KNOWN) return;
    if (node !== undefined) this.#learnSession(node, entry);
    else if (isRepositoryKey(key)) this.#learnRepository(key, entry);
  }

  /** Reads the leases of a repository; undefined if nothing may be decided by them now. */
  async read(repository: string): Promise<RepositoryState | undefined> {
    const { registers, runtime } = this.#components;
    const key = repositoryKey(repository);
    const entry = await registers.read(key);
    this.learn(key, entry);
    const damaged = this.#damaged.get(key);
    if (!damaged && entry.revision === 0) return emptyState(repository, 0);
    if (!damaged) return this.#latest(key, entry);
    // A device that relied on the value before has noticed by then.
    if (runtime.stopwatch() - damaged.since < SILENT_MS) return undefined;
    // The broker showed a revision that it does not have. If it has it after all, no write is based on the one before.
    if (damaged.revision > entry.revision) return this.#genuine(key, entry);
    const stranger = entry.writer !== undefined && this.#admits(entry.writer) === undefined;
    return damaged.revision === entry.revision && !stranger ? emptyState(repository, entry.revision) : undefined;
  }

  /** The leases as last read or watched; `entry` has just been read. */
  #latest(key: string, entry: Registered): RepositoryState | undefined {
    const known = this.#repositories.get(key);
    if (!known || known.revision <= entry.revision) {
      this.#missed.delete(key);
      return known?.revision === entry.revision ? known : undefined;
    }
    const now = this.#components.runtime.stopwatch();
    const missed = this.#missed.get(key);
    // The watch may have brought a newer one while this was read.
    if (missed?.revision !== known.revision) this.#missed.set(key, { revision: known.revision, since: now });
    if (missed?.revision !== known.revision || now - missed.since < SILENT_MS) return known;
    // The broker does not have it: its answer to a write was false. If it does, no write succeeds on the one before.
    this.#repositories.delete(key);
    this.learn(key, entry);
    return this.#repositories.get(key);
  }

  /** Replaces the leases of a repository. Undefined if they were changed in between. */
  async write(before: RepositoryState, value: RepositoryValue): Promise<RepositoryState | undefined> {
    const { registers, nodeKey } = this.#components;
    const key = repositoryKey(value.repository);
    const revision = await registers.write(key, value, before.revision);
    if (revision === undefined) return undefined;
    // It follows the revision that was read, so the broker never had a later one.
    if ((this.#damaged.get(key)?.revision ?? 0) > revision) this.#damaged.delete(key);
    this.learn(key, { revision, writer: nodeKey, value });
    return withTokens(value, revision);
  }

  async readSession(node: string): Promise<SessionValue | undefined> {
    const key = sessionKey(node);
    const entry = await this.#components.registers.read(key);
    const seen = this.#sessions.get(node);
    // The broker showed a revision that it does not have. A device that is away writes no later one.
    if (seen && !seen.value && entry.revision > 0 && entry.revision < seen.revision) this.#sessions.delete(node);
    this.learn(key, entry);
    return this.session(node);
  }

  /** Is the holder of a lease certainly not relying on it? */
  isGone({ lease, session, asOf }: StoredLease): boolean {
    const node = nodeOf(lease.holder);
    const { nodeKey, isGoneHere } = this.#components;
    if (node === nodeKey) return isGoneHere(lease.holder);
    if (this.#admits(node) === false) return true;
    const known = this.session(node);
    if (!known) return false;
    if (known.closed && session <= known.session) return true;
    const isLater = known.session > session || (known.session === session && known.beat > asOf);
    return isLater && known.gone.includes(lease.holder);
  }

  isSilent(node: string): boolean {
    const seen = this.#sessions.get(node);
    return seen !== undefined && this.#components.runtime.stopwatch() - seen.since >= SILENT_MS;
  }

  /**
   * Ends the session of a device that has been silent for too long. True if it is over: the register had not changed, so
   * the device has sent no sign of life since, and does not rely on its leases any more.
   */
  async close(node: string): Promise<boolean> {
    const { registers, nodeKey } = this.#components;
    const value = await this.readSession(node);
    const seen = this.#sessions.get(node);
    if (!seen || !this.isSilent(node)) return false;
    // No session before was above the register's revision, and every later one will be.
    const closed: SessionValue = { session: seen.revision, beat: value?.beat ?? 0, gone: [], closed: true };
    const revision = await registers.write(sessionKey(node), closed, seen.revision);
    if (revision === undefined) return false;
    this.learn(sessionKey(node), { revision, writer: nodeKey, value: closed });
    return true;
  }

  #admits(node: string): boolean | undefined {
    return node === this.#components.nodeKey || this.#components.admits(node);
  }

  /** The leases, if a device of the owner has written them here. */
  #genuine(key: string, entry: Registered): RepositoryState | undefined {
    const state = readRepository(entry);
    const isGenuine = entry.writer !== undefined && this.#admits(entry.writer) === true;
    return isGenuine && state && repositoryKey(state.repository) === key ? state : undefined;
  }

  #learnSession(node: string, entry: Registered): void {
    const seen = this.#sessions.get(node);
    const isOld = seen && seen.revision > entry.revision && entry.revision > 0;
    if (isOld || (seen?.revision === entry.revision && seen.value)) return;
    const value = readSession(entry);
    const isGenuine = entry.writer === node || (value?.closed && entry.writer && this.#admits(entry.writer));
    const since = seen?.revision === entry.revision ? seen.since : this.#components.runtime.stopwatch();
    this.#sessions.set(node, { revision: entry.revision, since, value: isGenuine ? value : undefined });
  }

  #learnRepository(key: string, entry: Registered): void {
    const { runtime, onChange, onDamage } = this.#components;
    const known = this.#repositories.get(key);
    const damaged = this.#damaged.get(key);
    const latest = Math.max(known?.revision ?? 0, damaged?.revision ?? 0);
    // A read can be behind. A register without a value was deleted, or the broker has lost its data.
    if (entry.revision < latest && entry.revision > 0) return;
    if (entry.revision === latest && (damaged === undefined || entry.writer === undefined)) return;
    const state = this.#genuine(key, entry);
    if (state) {
      this.#damaged.delete(key);
      this.#repositories.set(key, state);
      onChange(known, state, entry.writer!);
      return;
    }
    if (damaged?.revision === entry.revision) return;
    this.#damaged.set(key, { revision: entry.revision, since: runtime.stopwatch() });
    runtime.logger.warn({ key, writer: entry.writer }, 'lease register was not written by a device of this owner');
    if (known) onDamage(known.repository);
  }

  /** The node has joined another mesh: nothing that was read counts. */
  #checkScope(): void {
    const { scope } = this.#components.registers;
    if (scope === this.#scope) return;
    this.#scope = scope;
    this.#repositories.clear();
    this.#sessions.clear();
    this.#damaged.clear();
    this.#missed.clear();
  }
}
