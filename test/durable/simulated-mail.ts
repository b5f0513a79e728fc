import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Agent } from '../../src/agent/agent.js';
import type { Message } from '../../src/agent/message.js';
import type { Receipt } from '../../src/mail/receipt.js';
import { inbox, outbox, type ReceiptRow, receipts } from '../../src/mail/tables.js';
import type { A2ALogEvent } from '../../src/mesh/schemas.js';
import type { Discovery, Seeker } from '../../src/network/discovery/discovery.js';
import { createNode, type NodeInit } from '../../src/node/compose.js';
import { EclipticError, isErrorCode } from '../../src/runtime/errors.js';
import type { Logger, Runtime, Timer } from '../../src/runtime/runtime.js';
import type { SimulatedRuntime } from '../../src/runtime/simulated-runtime.js';
import { cursors } from '../../src/store/common-tables.js';
import { type MemorySnapshot, MemoryStore } from '../../src/store/memory-store.js';
import type { Condition, Figures, Query, Store, Write } from '../../src/store/store.js';
import type { RowOf, Table } from '../../src/store/table.js';
import { type NetworkedNode, Nodes, type NodesInit } from '../nodes-fixture.js';
import { MemoryCustodian } from './memory-custodian.js';

/** One process's view of the common clock: once the process has ended, nothing of it runs any more. */
export class ProcessRuntime implements Runtime {
  readonly logger: Logger;
  readonly #inner: SimulatedRuntime;
  readonly #timers = new Set<Timer>();
  /** How far the wall clock of this machine is ahead of the common one. */
  aheadMs = 0;
  #ended = false;

  constructor(inner: SimulatedRuntime, onError: (message: string, error: unknown) => void) {
    this.#inner = inner;
    const error: Logger['error'] = ({ err }, message) => {
      if (!this.#ended) onError(message, err);
    };
    this.logger = { debug() {}, info() {}, warn() {}, error };
  }

  get pending(): number {
    return this.#timers.size;
  }

  now(): number {
    return this.#inner.now() + this.aheadMs;
  }

  stopwatch(): number {
    return this.#inner.stopwatch();
  }

  setTimer(task: () => void, ms: number): Timer {
    if (this.#ended) return { cancel() {} };
    const inner = this.#inner.setTimer(() => {
      this.#timers.delete(timer);
      task();
    }, ms);
    const timer = {
      cancel: () => {
        this.#timers.delete(timer);
        inner.cancel();
      },
    };
    this.#timers.add(timer);
    return timer;
  }

  defer(task: () => void): void {
    this.setTimer(task, 0);
  }

  hold(): Timer {
    return this.#inner.hold();
  }

  id(): string {
    return this.#inner.id();
  }

  random(): number {
    return this.#inner.random();
  }

  bytes(count: number): Uint8Array {
    return this.#inner.bytes(count);
  }

  /** Resolves after that time; never, if the process ends before. */
  pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.setTimer(resolve, ms));
  }

  end(): void {
    this.#ended = true;
    for (const timer of [...this.#timers]) timer.cancel();
  }
}

/** The fate of one store call: it passes, fails, waits, or the process ends before or after its execution. */
export type Fate = 'pass' | 'fail' | 'crash before' | 'crash after' | Promise<void>;

/** The store of one process: it can be told to fail, to wait, or to be the place at which the process ends. */
export class ProcessStore implements Store {
  readonly inner: MemoryStore;
  readonly #die: () => void;
  #dead = false;
  calls = 0;
  /** The fate of each call. */
  fate: (call: number, writes: readonly Write[] | undefined) => Fate = () => 'pass';

  constructor(inner: MemoryStore, die: () => void) {
    this.inner = inner;
    this.#die = die;
  }

  write(writes: readonly Write[]): Promise<void> {
    return this.#call(() => this.inner.write(writes), writes);
  }

  commit(writes: readonly Write[], done: (error?: unknown) => void): void {
    this.write(writes).then(() => done(), done);
  }

  read<T extends Table>(table: T, query?: Query<RowOf<T>>): Promise<RowOf<T>[]> {
    return this.#call(() => this.inner.read(table, query));
  }

  count<T extends Table>(table: T, condition?: Condition<RowOf<T>>): Promise<number> {
    return this.#call(() => this.inner.count(table, condition));
  }

  figures(table: Table): Promise<Figures> {
    return this.#call(() => this.inner.figures(table));
  }

  close(): Promise<void> {
    return this.inner.close();
  }

  /** From now on it sends nothing. */
  end(): void {
    this.#dead = true;
  }

  #call<T>(carryOut: () => Promise<T>, writes?: readonly Write[]): Promise<T> {
    if (this.#dead) return NEVER;
    const fate = this.fate(++this.calls, writes);
    if (fate === 'fail') return Promise.reject(new EclipticError('STORE_FAILED', 'the disk is full, says the test'));
    if (fate === 'crash before') {
      this.#die();
      return NEVER;
    }
    const after = () => {
      if (fate === 'crash after' && !this.#dead) this.#die();
    };
    const outcome = typeof fate === 'string' ? carryOut() : fate.then(carryOut);
    return new Promise((resolve, reject) => {
      outcome.then(
        (value) => {
          after();
          if (!this.#dead) resolve(value);
        },
        (error) => {
          after();
          if (!this.#dead) reject(error);
        },
      );
    });
  }
}

const NEVER = new Promise<never>(() => {});

/** A node as others know it: its key, its folder, its disk. Processes come and go. */
export interface Station {
  readonly name: string;
  readonly folder: string;
  readonly init: Omit<NodeInit, 'runtime' | 'store' | 'network'>;
  key: string;
  disk: MemorySnapshot | undefined;
  life: Life | undefined;
  lives: number;
  /** How far its wall clock is ahead at its next start. */
  aheadMs?: number;
}

/** One process of a node. */
export interface Life {
  readonly name: string;
  readonly station: Station;
  readonly runtime: ProcessRuntime;
  readonly store: ProcessStore;
  readonly node: NetworkedNode;
  readonly events: A2ALogEvent[];
  /** Its logged errors. */
  readonly errors: string[];
  ended: boolean;
  /** Did it end in the middle of everything? Whatever it still says or does after that was never said or done. */
  crashed: boolean;
  leave: () => void;
}

/** Nodes with disks, on one virtual clock and one network, that can crash in the middle of everything. */
export class World {
  readonly nodes: Nodes;
  readonly folder = mkdtempSync(join(tmpdir(), 'ecliptic-mail-'));
  readonly stations: Station[] = [];
  /** Keeps mail for absent nodes, if the nodes have one. */
  custodian: MemoryCustodian | undefined;
  onEvent: (life: Life, event: A2ALogEvent) => void = () => {};
  onCrash: (life: Life) => void = () => {};
  /** For nodes that start from now on. */
  network: Omit<NonNullable<NodeInit['network']>, 'name' | 'folder' | 'discovery'> = {};

  constructor(init: NodesInit = {}) {
    this.nodes = new Nodes({ faults: {}, ...init });
  }

  get runtime(): SimulatedRuntime {
    return this.nodes.runtime;
  }

  station(name: string, init: Station['init'] = {}): Station {
    const folder = join(this.folder, name);
    mkdirSync(folder);
    const station: Station = { name, folder, init, key: '', disk: undefined, life: undefined, lives: 0 };
    this.stations.push(station);
    return station;
  }

  /** Starts a process on the station's disk. */
  async start(station: Station, init: Station['init'] = {}): Promise<Life> {
    const name = `${station.name}/${++station.lives}`;
    const errors: string[] = [];
    const runtime = new ProcessRuntime(this.runtime, (message, error) => errors.push(`${message}: ${error}`));
    runtime.aheadMs = station.aheadMs ?? 0;
    let discovery: Discovery | undefined;
    const join = (seeker: Seeker) => {
      discovery = this.nodes.meetings.join(seeker);
      return discovery;
    };
    let life: Life | undefined;
    const store: ProcessStore = new ProcessStore(new MemoryStore(station.disk), () => this.crash(life!));
    const { custodian } = this;
    const mailRelay = custodian && ((_: Runtime, key: string) => custodian.relay(runtime, key));
    const own = { name: station.name, folder: station.folder, discovery: join };
    const network = { ...this.network, ...own, ...(mailRelay && { mailRelay }) };
    const node = (await createNode({ ...station.init, ...init, runtime, store, network })) as NetworkedNode;
    station.key = node.key;
    const events: A2ALogEvent[] = [];
    const leave = () => void discovery?.stop();
    life = { name, station, runtime, store, node, events, errors, ended: false, crashed: false, leave };
    const alive = life;
    node.observability.subscribe((event) => {
      if (alive.ended) return;
      events.push(event);
      this.onEvent(alive, event);
    });
    station.life = life;
    return life;
  }

  /** That many nodes of one mesh, each with its store, connected to each other. */
  async mesh(count: number, init: Station['init'] = {}): Promise<Life[]> {
    const lives: Life[] = [];
    for (let index = 0; index < count; index++) lives.push(await this.start(this.station('abcdef'[index]!, init)));
    for (const { node } of lives.slice(1)) await this.nodes.join(node, lives[0]!.node);
    await this.connected();
    return lives;
  }

  /** The process ends in the middle of everything; its disk is as it was at this moment. */
  crash(life: Life, silently = false): void {
    if (life.ended) return;
    const { station, store, runtime } = life;
    life.ended = true;
    life.crashed = true;
    station.disk = store.inner.snapshot();
    store.end();
    runtime.end();
    life.leave();
    this.nodes.network.crash(station.key, silently);
    station.life = undefined;
    this.onCrash(life);
  }

  /** The process ends in good order, unless it crashes on the way there. */
  async stop(life: Life, drainMs = 0): Promise<void> {
    const { station, store, node } = life;
    let over = false;
    const stopped = node.stop({ drainMs }).finally(() => {
      over = true;
    });
    await this.until(() => over || life.ended);
    if (life.ended) return;
    await stopped;
    life.ended = true;
    station.disk = store.inner.snapshot();
    station.life = undefined;
  }

  settled<T>(promise: Promise<T>): Promise<T> {
    return this.nodes.settled(promise);
  }

  until(condition: () => boolean, limitMs?: number): Promise<void> {
    return this.nodes.until(condition, limitMs);
  }

  /** Waits until all nodes that are up are connected to each other. */
  async connected(): Promise<void> {
    const up = this.stations.flatMap(({ life }) => life ?? []);
    const linked = (one: Life) =>
      up.every((other) => other === one || one.node.network.peers.reachable(other.station.key));
    await this.until(() => up.every(linked));
  }

  /** The rows of a node's table. */
  rows<T extends Table>({ store }: Life, table: T): Promise<RowOf<T>[]> {
    return store.inner.read(table);
  }

  /** The stored receipt updates that a node has not sent yet. */
  async untold(life: Life): Promise<ReceiptRow[]> {
    const known = new Map((await this.rows(life, cursors)).map(({ name, value }) => [name, value]));
    const rows = await this.rows(life, receipts);
    return rows.filter(({ node, news }) => news !== null && news > (known.get(`heard ${node}`) ?? 0));
  }

  async end(): Promise<void> {
    for (const { life } of this.stations) if (life) this.crash(life);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export interface SeedResult {
  readonly seed: number;
  /** The events with their virtual times; the same seed gives the same lines. */
  readonly log: readonly string[];
  /** Which promises were broken. None, if all is well. */
  readonly violations: readonly string[];
  /** How often each kind of thing happened, to see that something did. */
  readonly counts: Readonly<Record<string, number>>;
}

export interface SeedOptions {
  /** Must both sides of a receipt show the same times and reasons too, and not only the same states? */
  times?: boolean;
  /** Whether nodes may be stopped with time to finish their work, instead of at once. */
  drain?: boolean;
  /** Whether a custodian keeps mail for absent nodes. */
  relay?: boolean;
}

/** Runs one mesh through the faults that the seed draws, and checks the outcome of its durable mail. */
export async function runSeed(seed: number, options: SeedOptions = {}): Promise<SeedResult> {
  const simulation = new Simulation(seed, options);
  try {
    await simulation.run();
  } catch (error) {
    simulation.violation(`the scenario broke: ${error instanceof Error ? error.stack : String(error)}`);
  } finally {
    await simulation.cleanUp();
  }
  const { log, violations, counts } = simulation;
  return { seed, log, violations, counts: Object.fromEntries(counts) };
}

/** The report of a failed seed. */
export function describeFailure({ seed, violations, log }: SeedResult, lines = 40): string {
  const replay = `ECLIPTIC_SEED=${seed} npx vitest run test/durable/simulated-mail.test.ts`;
  return [
    `seed ${seed} breaks ${violations.length} promise(s); replay with: ${replay}`,
    ...violations.slice(0, 12).map((violation) => `  ✗ ${violation}`),
    ...log.slice(Math.max(0, log.length - lines)).map((line) => `    ${line}`),
  ].join('\n');
}

/** How long everything may take to come to rest once it is healed: longer than any time to live and any retry. */
const REST_MS = 300_000;

/** An agent, whichever process it lives in. */
interface Role {
  readonly id: string;
  readonly station: Station;
}

type Kind = 'note' | 'request' | 'forwarded';

/** A durable message to send, and its outcome. */
interface Op {
  readonly index: number;
  readonly kind: Kind;
  readonly from: Role;
  readonly to: Role;
  readonly about: string;
  readonly ttlMs: number | undefined;
  /** How often its handler throws in one process before it does its work. */
  readonly failures: number;
  /** How long its handler takes. */
  readonly delayMs: number;
  /** Does the handler end it by a commit, or by returning? */
  readonly commits: boolean;
  /** The message that the handler sends with its commit. */
  readonly child: Op | undefined;
  /** `pending` for ever, if the sender's process crashed before it heard. */
  outcome: 'pending' | 'stored' | 'failed';
  messageId: string | undefined;
  /** In which processes its handler was called, and how often. */
  readonly runs: Map<Life, number>;
  /** The number of its last sending along its path. */
  sentAs: number;
}

interface Payload {
  readonly op: number;
}

class Simulation {
  readonly log: string[] = [];
  readonly violations: string[] = [];
  readonly counts = new Map<string, number>();
  readonly #options: SeedOptions;
  readonly #dice: Dice;
  readonly #world: World;
  readonly #start: number;
  readonly #ops: Op[] = [];
  readonly #roles: Role[] = [];
  readonly #plans = new Set<Timer>();
  readonly #sent = new Map<string, number>();
  /** Handlers' first runs along each path, in the order they happened. */
  readonly #firsts = new Map<string, Op[]>();
  readonly #answers = new Map<number, number>();
  #chaos = true;

  constructor(seed: number, options: SeedOptions) {
    this.#options = options;
    this.#dice = new Dice(seed);
    this.#world = new World({ seed });
    if (options.relay) this.#world.custodian = new MemoryCustodian(() => this.#dice.next());
    this.#start = this.#world.runtime.now();
    this.#world.onEvent = (life, event) => this.#onEvent(life, event);
    this.#world.onCrash = (life) => {
      this.note(`${life.name} is gone`);
      if (this.#chaos) this.#restartLater(life.station);
    };
  }

  async run(): Promise<void> {
    const dice = this.#dice;
    const { runtime, nodes } = this.#world;
    await this.#assemble();
    const faults = {
      loss: dice.chance(0.2) ? 0 : dice.between(0, 0.25),
      duplication: dice.chance(0.3) ? 0 : dice.between(0, 0.2),
      latencyMs: [1, dice.pick([5, 20, 80, 200])] as const,
    };
    this.note(
      `loss ${faults.loss.toFixed(2)}, duplication ${faults.duplication.toFixed(2)}, ${faults.latencyMs[1]} ms`,
    );
    nodes.network.faults = faults;
    const { custodian } = this.#world;
    if (custodian) custodian.faults = { unacknowledged: dice.between(0, 0.2), lost: dice.chance(0.5) ? 0 : 0.1 };
    const end = runtime.now() + dice.between(15_000, 40_000);
    const pace = dice.pick([100, 300, 800]);
    const calm = dice.pick([1_000, 3_000, 8_000]);
    let trouble = runtime.now() + dice.between(0, calm);
    while (runtime.now() < end) {
      await runtime.advance(Math.min(dice.between(0, 2 * pace), Math.max(0, trouble - runtime.now())));
      const burst = dice.chance(0.1) ? dice.whole(2, 12) : 1;
      for (let at = 0; at < burst; at++) this.#act();
      if (runtime.now() < trouble) continue;
      trouble = runtime.now() + (dice.chance(0.4) ? dice.between(0, 500) : dice.between(0, 2 * calm));
      await this.#disturb();
    }
    await this.#recover();
    await this.#judge();
  }

  async cleanUp(): Promise<void> {
    await this.#world.end();
  }

  violation(text: string): void {
    this.violations.push(`${this.#time()} ${text}`);
    this.note(`VIOLATION ${text}`);
  }

  note(text: string): void {
    this.log.push(`${this.#time()} ${text}`);
  }

  count(what: string, by = 1): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + by);
  }

  // Nodes and agents

  async #assemble(): Promise<void> {
    const lives = await this.#world.mesh(this.#dice.whole(2, 3));
    for (const { station } of lives) {
      const agents = this.#dice.whole(1, 2);
      for (let at = 1; at <= agents; at++) this.#roles.push({ id: `${station.name}${at}`, station });
    }
    for (const life of lives) this.#populate(life);
    const known = ({ node }: Life) => node.registry.listAll().filter(({ id }) => id !== 'worker').length;
    await this.#world.until(() => lives.every((life) => known(life) === this.#roles.length));
  }

  async #bringUp(station: Station): Promise<void> {
    const life = await this.#world.start(station);
    this.note(`${life.name} is up`);
    this.#populate(life);
  }

  #populate(life: Life): void {
    for (const role of this.#roles) {
      if (role.station !== life.station) continue;
      const agent = life.node.agent({ id: role.id, tier: 0 });
      agent.onNotification(async (message) => void (await this.#handle(life, agent, role, message)));
      agent.onRequest((message) => this.#handle(life, agent, role, message));
      agent.onMessage((message) => this.#onAnswer(life, role, message));
    }
    // Work in progress that delays the stop of a node.
    if (this.#options.drain) life.node.agent({ id: 'worker', tier: 0 }).onNotification(() => life.runtime.pause(1_500));
  }

  // Operations of agents

  #act(): void {
    const dice = this.#dice;
    const from = dice.pick(this.#roles);
    const { life } = from.station;
    if (!life) return;
    const others = this.#roles.filter((role) => role !== from);
    const elsewhere = others.filter(({ station }) => station !== from.station);
    const to = dice.pick(dice.chance(0.9) ? elsewhere : others);
    const kind = dice.chance(0.1) ? 'request' : 'note';
    const next = kind === 'note' && dice.chance(0.2) ? dice.pick(this.#roles.filter((role) => role !== to)) : undefined;
    const child = next && this.#draw('forwarded', to, next);
    const op = this.#draw(kind, from, to, child);
    this.note(`${op.about} is sent${op.ttlMs === undefined ? '' : `, to live ${op.ttlMs} ms`}`);
    this.count(kind);
    this.#sends(op);
    const options = { durable: true, ttlMs: op.ttlMs };
    const thread = kind === 'request' ? { type: 'request' as const, thread: `t${op.index}` } : {};
    const payload: Payload = { op: op.index };
    life.node
      .agentById(from.id)
      .send(addressOf(to, from.station), payload, { ...options, ...thread })
      .then(
        (result) => {
          if (life.ended) return;
          op.outcome = 'stored';
          op.messageId = result.messageId;
          this.note(`${op.about} is stored`);
          if (!result.stored) this.violation(`${op.about} resolved without being stored`);
        },
        (error: unknown) => {
          if (life.ended) return;
          op.outcome = 'failed';
          this.note(`${op.about} failed: ${nameOf(error)}`);
          // A node that is being stopped takes nothing more; there is no other reason here.
          const code = error instanceof EclipticError && isErrorCode(error.code) ? error.code : nameOf(error);
          if (code !== 'NODE_STOPPED' && code !== 'STORE_FAILED') this.violation(`${op.about} failed: ${code}`);
        },
      );
  }

  #draw(kind: Kind, from: Role, to: Role, child?: Op): Op {
    const dice = this.#dice;
    const index = this.#ops.length;
    const op: Op = {
      index,
      kind,
      from,
      to,
      about: `#${index} ${from.id}→${to.id} (${kind})`,
      ttlMs: kind !== 'forwarded' && dice.chance(0.15) ? Math.round(dice.between(200, 20_000)) : undefined,
      failures: kind === 'request' || dice.chance(0.85) ? 0 : dice.whole(1, 2),
      delayMs: dice.chance(0.5) ? 0 : dice.between(0, 1_500),
      commits: child !== undefined || (kind !== 'request' && dice.chance(0.7)),
      child,
      outcome: 'pending',
      messageId: undefined,
      runs: new Map(),
      sentAs: -1,
    };
    this.#ops.push(op);
    return op;
  }

  /** Notes when an op gets its place among those of its path. */
  #sends(op: Op): void {
    const path = pathOf(op);
    op.sentAs = this.#sent.get(path) ?? 0;
    this.#sent.set(path, op.sentAs + 1);
  }

  async #handle(life: Life, agent: Agent, role: Role, message: Message): Promise<unknown> {
    if (life.crashed) return NEVER;
    const op = this.#ops[(message.payload as Payload).op]!;
    const run = (op.runs.get(life) ?? 0) + 1;
    this.note(`${life.name} handles ${op.about}${message.redelivered ? ' again' : ''}`);
    this.count('handled');
    if (life.ended) this.violation(`${op.about} was handled by a process that had ended`);
    if (op.to !== role) this.violation(`${op.about} was handed to ${role.id}`);
    if (message.from !== addressOf(op.from, role.station)) this.violation(`${op.about} came from ${message.from}`);
    if (op.runs.size > 0 && !message.redelivered) this.violation(`${op.about} came again as if for the first time`);
    if (op.messageId !== undefined && op.messageId !== message.envelope.id)
      this.violation(`${op.about} came under another id`);
    op.messageId = message.envelope.id;
    if (op.runs.size === 0) this.#firstRun(op);
    op.runs.set(life, run);
    if (op.delayMs > 0) await life.runtime.pause(op.delayMs);
    if (run <= op.failures) throw new Error('as the test wants it');
    if (!op.commits) return op.index;
    const done = ((await agent.kept<number[]>(op.from.id)) ?? []).concat(op.index);
    const { child } = op;
    if (child) this.#sends(child);
    const send = child ? [{ to: addressOf(child.to, role.station), payload: { op: child.index } }] : [];
    await message.commit({ keep: { [op.from.id]: done }, send });
    this.note(`${life.name} has committed ${op.about}`);
    this.count('committed');
    return undefined;
  }

  #firstRun(op: Op): void {
    const path = pathOf(op);
    const firsts = this.#firsts.get(path) ?? [];
    this.#firsts.set(path, firsts);
    const before = firsts.at(-1);
    if (before && before.sentAs >= op.sentAs) this.violation(`${op.about} was handled after ${before.about}`);
    firsts.push(op);
  }

  #onAnswer(life: Life, role: Role, message: Message): void {
    if (life.crashed) return;
    const index = message.payload as number;
    const op = this.#ops[index];
    this.note(`${life.name} got the answer to ${op?.about}`);
    this.count('answered');
    if (message.type !== 'response' || op?.from !== role || message.thread !== `t${index}`) {
      this.violation(`${role.id} got an answer of type ${message.type} in ${message.thread}: ${JSON.stringify(index)}`);
    }
    this.#answers.set(index, (this.#answers.get(index) ?? 0) + 1);
  }

  // Trouble

  async #disturb(): Promise<void> {
    const dice = this.#dice;
    const { network } = this.#world.nodes;
    const draw = dice.whole(0, 99);
    const up = this.#world.stations.filter(({ life }) => life !== undefined);
    const { custodian } = this.#world;
    if (custodian && dice.chance(0.2)) custodian.down = !custodian.down;
    if (up.length === 0) return;
    const station = dice.pick(up);
    const life = station.life!;
    if (draw < 20) this.#partition();
    else if (draw < 35) {
      this.note(`the links of ${station.name} break`);
      this.count('links broke');
      network.crash(station.key, dice.chance(0.5));
    } else if (draw < 60) this.#crash(life);
    else if (draw < 90) this.#crashSoon(life);
    else await this.#stop(life);
  }

  #partition(): void {
    const [one, other] = this.#dice.shuffled(this.#world.stations) as [Station, Station];
    const ms = this.#dice.between(1_000, 90_000 * this.#dice.next());
    this.note(`${one.name} and ${other.name} are cut apart for ${Math.round(ms)} ms`);
    this.count('partition');
    this.#world.nodes.network.cut(one.key, other.key);
    this.#later(ms, () => {
      this.note(`${one.name} and ${other.name} are joined again`);
      this.#world.nodes.network.heal(one.key, other.key);
    });
  }

  #crash(life: Life): void {
    const silently = this.#dice.chance(0.5);
    this.note(`${life.name} crashes ${silently ? 'silently' : 'loudly'}`);
    this.count('crash');
    this.#world.crash(life, silently);
  }

  /** The process ends at one of its next calls to the disk: before the disk has it, or before the process hears so. */
  #crashSoon(life: Life): void {
    const at = life.store.calls + this.#dice.whole(1, 15);
    const fate = this.#dice.pick(['crash before', 'crash after'] as const);
    this.note(`${life.name} will ${fate} its call ${at} to the disk`);
    this.count(fate);
    life.store.fate = (call) => (call === at && this.#chaos ? fate : 'pass');
  }

  async #stop(life: Life): Promise<void> {
    this.note(`${life.name} is stopped`);
    this.count('stop');
    life.store.fate = () => 'pass';
    const [role] = this.#roles.filter((other) => other.station === life.station);
    if (this.#options.drain) void life.node.agentById(role!.id).send('worker', 'work');
    await this.#world.stop(life, this.#options.drain ? 2_000 : 0);
    if (!life.crashed) this.#restartLater(life.station);
  }

  #restartLater(station: Station): void {
    const soon = this.#dice.chance(0.6);
    const ms = soon ? this.#dice.between(0, 300) : this.#dice.between(300, 15_000);
    this.#later(ms, () => void this.#bringUp(station).catch((error) => this.violation(`no restart: ${nameOf(error)}`)));
  }

  #later(ms: number, task: () => void): void {
    const timer = this.#world.runtime.setTimer(() => {
      this.#plans.delete(timer);
      if (this.#chaos) task();
    }, ms);
    this.#plans.add(timer);
  }

  // The end

  async #recover(): Promise<void> {
    this.#chaos = false;
    const { nodes, stations, runtime } = this.#world;
    for (const timer of this.#plans) timer.cancel();
    nodes.network.healAll();
    nodes.network.faults = { loss: 0, duplication: 0, latencyMs: [1, 1] };
    if (this.#world.custodian) {
      this.#world.custodian.down = false;
      this.#world.custodian.faults = { unacknowledged: 0, lost: 0 };
      this.count('batches', this.#world.custodian.stored);
      this.count('lost batches', this.#world.custodian.lost);
    }
    this.note('everything is healed');
    // A restart may be in progress.
    await runtime.advance(0);
    for (const station of stations) if (!station.life) await this.#bringUp(station);
    const began = runtime.now();
    for (;;) {
      const left = await this.#unfinished();
      if (left.length === 0) break;
      if (runtime.now() - began > REST_MS) {
        for (const what of left) this.violation(`after ${REST_MS} ms: ${what}`);
        break;
      }
      await runtime.advance(500);
    }
    this.count('seconds to rest', Math.round((runtime.now() - began) / 1_000));
    this.note('at rest');
  }

  get #lives(): Life[] {
    return this.#world.stations.map(({ life }) => life!);
  }

  async #unfinished(): Promise<string[]> {
    const left: string[] = [];
    for (const life of this.#lives) {
      for (const { id } of await this.#world.rows(life, outbox))
        left.push(`${life.name} has ${this.#name(id)} to send`);
      for (const { id } of await this.#world.rows(life, inbox))
        left.push(`${life.name} has ${this.#name(id)} to handle`);
      for (const { id, steps } of await this.#world.untold(life))
        left.push(`${life.name} has yet to tell of ${this.#name(id)}: ${steps}`);
    }
    return left;
  }

  async #judge(): Promise<void> {
    for (const life of this.#lives) for (const error of life.errors) this.violation(`${life.name} logged ${error}`);
    const ends = await this.#judgeReceipts();
    for (const role of this.#roles) await this.#judgeEffects(role);
    for (const op of this.#ops) this.#judgeOp(op, op.messageId === undefined ? undefined : ends.get(op.messageId));
  }

  /** Whoever knows of a message knows how it ended, and both ends of it know the same. */
  async #judgeReceipts(): Promise<Map<string, string>> {
    const stories = new Map<string, Map<Life, Receipt>>();
    const ends = new Map<string, string>();
    for (const life of this.#lives) {
      for (const id of new Set((await this.#world.rows(life, receipts)).map((row) => row.id))) {
        const { state, over, story } = await life.node.mail!.receipt(id);
        if (!over) this.violation(`${life.name} has ${this.#name(id)} as ${state}, at the end`);
        const sides = stories.get(id) ?? new Map<Life, Receipt>();
        stories.set(id, sides.set(life, story));
        ends.set(id, state);
        this.count(`ended ${state}`);
      }
    }
    for (const [id, sides] of stories) {
      const [one, other] = [...sides].map(([life, story]) => `${life.name}: ${this.#tellStory(story)}`);
      const [first, second] = [...sides.values()].map((story) => this.#tellStory(story));
      if (second !== undefined && first !== second) this.violation(`${this.#name(id)} is ${one} but ${other}`);
    }
    return ends;
  }

  #tellStory(story: Receipt): string {
    // Only the sender's side knows of the custodian.
    return story
      .filter(({ state }) => state !== 'relayed')
      .map(({ state, at, reason }) => (this.#options.times ? `${state} ${at - this.#start} ${reason ?? ''}` : state))
      .join(', ');
  }

  /** Each committed message was committed once, in sending order. */
  async #judgeEffects(role: Role): Promise<void> {
    const agent = role.station.life!.node.agentById(role.id);
    for (const from of this.#roles) {
      const kept = ((await agent.kept<number[]>(from.id)) ?? []).map((index) => this.#ops[index]!);
      for (const [at, op] of kept.entries()) {
        if (kept.indexOf(op) !== at) this.violation(`${op.about} took effect twice`);
        const before = kept[at - 1];
        if (before && before.sentAs >= op.sentAs) this.violation(`${op.about} took effect after ${before.about}`);
        this.#effects.add(op);
      }
    }
  }

  readonly #effects = new Set<Op>();

  #judgeOp(op: Op, end: string | undefined): void {
    const { outcome, about, runs, ttlMs, kind, commits } = op;
    const done = commits ? this.#effects.has(op) : runs.size > 0;
    if (outcome === 'failed' && runs.size > 0) this.violation(`${about} was refused, and handled nevertheless`);
    if (end === undefined) {
      if (outcome === 'stored') this.violation(`${about} was acknowledged, and no node knows of it`);
      if (runs.size > 0) this.violation(`${about} was handled, and no node knows of it`);
      return;
    }
    if (end === 'expired') {
      if (ttlMs === undefined) this.violation(`${about} expired`);
      if (commits && done) this.violation(`${about} expired, but took effect`);
      return;
    }
    if (end !== (kind === 'request' ? 'replied' : 'done')) this.violation(`${about} ended as ${end}`);
    if (!done) this.violation(`${about} is ${end}, but was not done`);
    if (kind === 'request' && !this.#answers.has(op.index)) this.violation(`${about} was never answered`);
    if (op.child && !this.#effects.has(op.child) && op.child.runs.size === 0)
      this.violation(`${about} was done, but not ${op.child.about}`);
  }

  #onEvent(life: Life, event: A2ALogEvent): void {
    if (event.type === 'security') {
      this.violation(`${life.name} reports ${event.code} about ${event.sender ?? event.node}: ${event.reason}`);
    }
    if (event.type === 'peer-status') {
      const peer = this.#world.stations.find(({ key }) => key === event.node);
      this.note(`${life.name} has ${peer?.name} as ${event.peerStatus}`);
    }
    if (event.type === 'receipt' && event.envelopeId !== undefined)
      this.note(`${life.name} has ${this.#name(event.envelopeId)} as ${event.receiptState}`);
  }

  #name(id: string): string {
    return this.#ops.find((op) => op.messageId === id)?.about ?? `message ${id}`;
  }

  #time(): string {
    return ((this.#world.runtime.now() - this.#start) / 1_000).toFixed(3);
  }
}

function pathOf({ from, to }: Op): string {
  return `${from.id}→${to.id}`;
}

function addressOf({ id, station }: Role, here: Station): string {
  return station === here ? id : `${id}@${station.key}`;
}

/** The scenario's own randomness: a change in what the fabric draws leaves the scenario's decisions as they are. */
class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = Math.imul(seed, 0x9e3779b1) ^ 0x5bf03635;
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  between(least: number, most: number): number {
    return least + (most - least) * this.next();
  }

  whole(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  pick<T>(from: readonly T[]): T {
    return from[Math.floor(this.next() * from.length)]!;
  }

  shuffled<T>(from: readonly T[]): T[] {
    return from
      .map((item) => ({ item, at: this.next() }))
      .sort((a, b) => a.at - b.at)
      .map(({ item }) => item);
  }
}

function nameOf(error: unknown): string {
  return error instanceof EclipticError ? error.code : error instanceof Error ? String(error.stack) : String(error);
}
