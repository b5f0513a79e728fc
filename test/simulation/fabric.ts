import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Agent } from '../../src/agent/agent.js';
import type { A2ALogEvent, AgentTier, SandboxRoutingConfig } from '../../src/mesh/schemas.js';
import type { Discovery, Seeker } from '../../src/network/discovery/discovery.js';
import { MemoryRendezvous } from '../../src/network/discovery/memory-discovery.js';
import { createNode } from '../../src/node/compose.js';
import { openStore } from '../../src/node/tables.js';
import { EclipticError } from '../../src/runtime/errors.js';
import { SimulatedRuntime } from '../../src/runtime/simulated-runtime.js';
import type { FileStore } from '../../src/store/file-store.js';
import type { RowOf, Table } from '../../src/store/table.js';
import type { NetworkedNode } from '../nodes-fixture.js';
import type { Subject } from './contract.js';
import { Dice } from './dice.js';
import { FabricDisk } from './fabric-disk.js';
import { FabricNetwork } from './fabric-network.js';
import { ProcessRuntime } from './process-runtime.js';

/** The identity of an agent, across processes. */
export interface Role {
  readonly id: string;
  readonly station: Station;
  readonly tier: AgentTier;
  readonly sandbox: string | undefined;
}

/** A node as others know it: its key, its folder, its disk. Processes come and go. */
export interface Station {
  readonly name: string;
  readonly folder: string;
  readonly disk: FabricDisk;
  readonly roles: Role[];
  key: string;
  life: Life | undefined;
  lives: number;
  /** How far its clock is ahead. */
  aheadMs: number;
  /** When it was removed from the mesh. */
  removedAt: number | undefined;
}

/** One process of a node, from its start to its end. */
export interface Life {
  readonly name: string;
  readonly station: Station;
  readonly runtime: ProcessRuntime;
  readonly startedAt: number;
  /** Undefined until it is up. */
  node: NetworkedNode | undefined;
  store: FileStore | undefined;
  state: 'starting' | 'up' | 'stopping' | 'stopped' | 'crashed';
  /** Ends the use of the disk, the discovery. */
  readonly leave: (() => void)[];
  readonly agents: Map<string, Agent>;
}

export type UpLife = Life & { readonly node: NetworkedNode; readonly store: FileStore };

/** Answers of user code that is being served by a process that is gone. */
export const NEVER = new Promise<never>(() => {});

export const LAB = 'lab';
const SANDBOXES: SandboxRoutingConfig = { enforced: true, shared: [LAB], crossSandboxAllowList: [] };
/** Small, so that logs are continued and runs are written. */
const LOG_BYTES = 48 * 1_024;

/** What faults and checkers work on: whole nodes on one virtual clock, one network and a disk each. */
export class Fabric {
  readonly seed: number;
  readonly dice: Dice;
  readonly runtime: SimulatedRuntime;
  readonly network: FabricNetwork;
  readonly stations: Station[] = [];
  readonly log: string[] = [];
  readonly violations: { readonly subject: Subject; readonly text: string; readonly at: number }[] = [];
  readonly counts = new Map<string, number>();
  readonly checks = new Map<Subject, number>();
  /** Are faults still allowed? */
  chaos = true;
  /** Errors that nodes may log now, because a disk is full. */
  diskMayFail = false;
  /** Streams whose reader's process has ended. Their producers' nodes keep the reply permits for an hour. */
  orphans: () => number = () => 0;
  onUp: (life: UpLife) => void | Promise<void> = () => {};
  onEvent: (life: UpLife, event: A2ALogEvent) => void = () => {};
  onCrash: (life: Life) => void = () => {};
  readonly #meetings: MemoryRendezvous;
  readonly #folder: string;
  readonly #start: number;
  readonly #trace = createHash('sha256');
  readonly #names = new Map<string, string>();
  #steps = 0;

  constructor(seed: number, network: { readonly steady: boolean }) {
    this.seed = seed;
    this.dice = new Dice(seed ^ 0x2545f491);
    this.runtime = new SimulatedRuntime({ seed });
    this.network = new FabricNetwork(this.runtime, network.steady);
    this.network.onFrame = (from, to) => this.step(`frame ${from} ${to}`);
    this.#meetings = new MemoryRendezvous(this.runtime, this.network.connect);
    // Keys and memberships are real files: in memory, where the machine has such a folder.
    this.#folder = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'ecliptic-fabric-'));
    this.#start = this.runtime.now();
  }

  /** Frames that arrived, timers that fired, and writes: what the simulation did so far. */
  get steps(): number {
    return this.#steps;
  }

  get now(): number {
    return this.runtime.now() - this.#start;
  }

  /** Notes a step. All steps with their times make the hash of the history. */
  step(what: string): void {
    this.#steps++;
    this.#trace.update(`${this.runtime.now()} ${what}\n`);
  }

  traceHash(): string {
    return this.#trace.copy().digest('hex').slice(0, 16);
  }

  note(text: string): void {
    const line = `${(this.now / 1_000).toFixed(3)} ${this.readable(text)}`;
    this.#trace.update(`${line}\n`);
    this.log.push(line);
  }

  violation(subject: Subject, text: string): void {
    this.violations.push({ subject, text: this.readable(text), at: this.now });
    this.note(`VIOLATION of "${subject}": ${text}`);
  }

  /** Counts one examination of a promise, and reports if it does not hold. */
  check(subject: Subject, holds: boolean, text: () => string): void {
    this.checks.set(subject, (this.checks.get(subject) ?? 0) + 1);
    if (!holds) this.violation(subject, text());
  }

  count(what: string, by = 1): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + by);
  }

  readable(text: string): string {
    return text.replace(/[0-9a-f]{64}/g, (key) => this.#names.get(key) ?? key);
  }

  // Nodes

  station(name: string): Station {
    const folder = join(this.#folder, name);
    mkdirSync(folder);
    const disk = new FabricDisk(this.runtime);
    disk.onWrite = (what) => this.step(`${name} ${what}`);
    const about = { key: '', life: undefined, lives: 0, aheadMs: 0, removedAt: undefined };
    const station: Station = { name, folder, disk, roles: [], ...about };
    this.stations.push(station);
    return station;
  }

  /** Nodes that are members, whether they run or not. */
  get members(): Station[] {
    return this.stations.filter(({ removedAt }) => removedAt === undefined);
  }

  /** Processes that are up. */
  get up(): UpLife[] {
    return this.stations.flatMap(({ life }) => (life && isUp(life) ? life : []));
  }

  get roles(): Role[] {
    return this.stations.flatMap(({ roles }) => roles);
  }

  address(role: Role, from: Station): string {
    return role.station === from ? role.id : `${role.id}@${role.station.key}`;
  }

  agent(role: Role): Agent | undefined {
    const { life } = role.station;
    return life?.state === 'up' ? life.agents.get(role.id) : undefined;
  }

  roleAt(address: string, here: Station): Role | undefined {
    const [id, key] = address.split('@');
    return this.roles.find((role) => role.id === id && role.station.key === (key ?? here.key));
  }

  /** Starts a process on the station's disk. It may crash before it is up, and then this never resolves. */
  async start(station: Station): Promise<UpLife> {
    const name = `${station.name}/${++station.lives}`;
    const events = {
      onStep: () => this.step(name),
      onError: (message: string, fields: Record<string, unknown>) => this.#onLoggedError(life, message, fields),
    };
    const runtime = new ProcessRuntime(this.runtime, events);
    runtime.aheadMs = station.aheadMs;
    const { disk, end } = station.disk.open();
    const startedAt = this.runtime.now();
    const parts = { node: undefined, store: undefined, leave: [end], agents: new Map<string, Agent>() };
    const life: Life = { name, station, runtime, startedAt, state: 'starting', ...parts };
    station.life = life;
    life.store = await openStore(station.folder, { runtime, disk, logBytes: LOG_BYTES });
    const discovery = (seeker: Seeker): Discovery => {
      const found = this.#meetings.join(seeker);
      life.leave.push(() => void found.stop());
      return found;
    };
    const network = { name: station.name, folder: station.folder, place: station.name, discovery };
    life.node = (await createNode({ runtime, store: life.store, network, sandbox: SANDBOXES })) as NetworkedNode;
    const up = life as UpLife;
    this.#names.set(up.node.key, station.name);
    if (station.key !== '') {
      this.check('store', station.key === up.node.key, () => `${name} has another key than before`);
    }
    station.key = up.node.key;
    up.node.observability.subscribe((event) => {
      if (life.state === 'crashed') return;
      this.onEvent(up, event);
    });
    life.state = 'up';
    this.note(`${name} is up`);
    for (const { id, tier, sandbox } of station.roles) life.agents.set(id, up.node.agent({ id, tier, sandbox }));
    await this.onUp(up);
    return up;
  }

  /** The process ends in the middle of everything. With a power cut, its disk loses what was not synced. */
  crash(life: Life, { silently, power }: { readonly silently: boolean; readonly power: boolean }): void {
    if (life.state === 'crashed' || life.state === 'stopped') return;
    life.state = 'crashed';
    life.runtime.end();
    for (const leave of life.leave) leave();
    this.network.sever(life.station.key, silently);
    if (power) life.station.disk.cutPower(() => this.runtime.random());
    life.station.life = undefined;
    this.onCrash(life);
  }

  /** The process ends in good order, unless it crashes on the way there. */
  async stop(life: UpLife, drainMs = 0): Promise<void> {
    life.state = 'stopping';
    await life.node.stop({ drainMs });
    if ((life.state as Life['state']) === 'crashed') return;
    life.state = 'stopped';
    for (const leave of life.leave) leave();
    life.station.life = undefined;
    this.note(`${life.name} has stopped`);
    // The last frames and callbacks of this turn.
    await this.sleep(1_000);
    this.check('stopping', life.runtime.pending === 0, () => `${life.name} left ${life.runtime.pending} timers`);
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.runtime.setTimer(resolve, ms));
  }

  rows<T extends Table>({ store }: UpLife, table: T): Promise<RowOf<T>[]> {
    return this.settled(store.read(table));
  }

  /** Moves the clock until the promise has settled. */
  async settled<T>(promise: Promise<T>, limitMs = 300_000): Promise<T> {
    let over = false;
    const end = () => {
      over = true;
    };
    promise.then(end, end);
    await this.until('a promise settles', () => over, limitMs);
    return promise;
  }

  async until(what: string, condition: () => boolean, limitMs: number): Promise<void> {
    for (let passed = 0; passed < limitMs; passed += 50) {
      if (condition()) return;
      await this.runtime.advance(50);
    }
    if (!condition()) throw new Error(`not within ${limitMs} ms: ${what}`);
  }

  cleanUp(): void {
    for (const { life } of this.stations) if (life) this.crash(life, { silently: true, power: false });
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #onLoggedError(life: Life, message: string, fields: Record<string, unknown>): void {
    if (this.diskMayFail || message === 'agent: handler failed') return;
    // Handlers that outlive their node find its store closed.
    if (life.state !== 'up' && life.state !== 'starting') return;
    if (fields.err instanceof Error && fields.err.message === ON_PURPOSE) return;
    this.violation('handlers', `${life.name} logged "${message}": ${nameOf(fields.err ?? fields)}`);
  }
}

/** The message of errors that user code of the simulation throws. */
export const ON_PURPOSE = 'as the simulation wants it';

export function isUp(life: Life): life is UpLife {
  return life.state === 'up';
}

export function nameOf(error: unknown): string {
  if (!(error instanceof EclipticError)) return error instanceof Error ? String(error.stack) : JSON.stringify(error);
  const { outcome } = error.details;
  return `${error.code}${typeof outcome === 'string' ? ` (${outcome})` : ''}`;
}

/** The tiers that each tier may open a conversation with, written down again: the oracle must not be the suspect. */
const MAY_OPEN: Readonly<Record<AgentTier, readonly AgentTier[]>> = {
  0: [0, 1, 2, 3],
  1: [0, 1],
  2: [0, 1, 2],
  3: [0, 1, 2, 3],
};

/** May the one open a conversation with the other? */
export function mayOpen(from: Role, to: Role): boolean {
  return isWithinSandbox(from, to) && MAY_OPEN[from.tier].includes(to.tier);
}

export function isWithinSandbox(from: Role, to: Role): boolean {
  return from.sandbox === undefined || from.sandbox === to.sandbox;
}
