import { buildCard } from '../../src/agent/agent-init.js';
import { EnvelopeFactory, type ValidEnvelope } from '../../src/mesh/envelope.js';
import type { RouteOptions } from '../../src/mesh/message-sender.js';
import { A2AObservability } from '../../src/mesh/observability.js';
import { AgentRegistry } from '../../src/mesh/registry.js';
import type { A2AMessageType, RoutingResult } from '../../src/mesh/schemas.js';
import { ThreadTable } from '../../src/mesh/thread-table.js';
import { DeadlineQueue } from '../../src/runtime/deadlines.js';
import { SimulatedRuntime } from '../../src/runtime/simulated-runtime.js';
import { MemoryStore } from '../../src/store/memory-store.js';
import type { Store, Write } from '../../src/store/store.js';
import type { ProposalStatus } from '../../src/work/proposals/proposal.js';
import { ProposalRecords } from '../../src/work/proposals/proposal-records.js';
import type { ReceivedTask } from '../../src/work/proposals/received-task.js';
import type { SentProposal } from '../../src/work/proposals/sent-proposal.js';
import { TaskNegotiator } from '../../src/work/proposals/task-negotiator.js';

/** The plan of one history. Times are in milliseconds since its beginning. */
export interface Plan {
  readonly seed: number;
  readonly durable: boolean;
  readonly deadlineMs: number;
  /** The addressee's reaction to a proposal, and its delay. */
  readonly answer: 'accept' | 'reject' | 'nothing';
  readonly answerAfterMs: number;
  readonly workMs: number;
  readonly workFails: boolean;
  readonly withdrawAtMs: number | undefined;
  /** For messages sent before `calmAtMs`: the shares of lost and repeated ones, and the maximum delay. */
  readonly loss: number;
  readonly repeats: number;
  readonly delayMs: number;
  readonly crashes: readonly {
    readonly who: 'proposer' | 'addressee';
    readonly atMs: number;
    readonly forMs: number;
  }[];
  /** When and how another agent answers in the addressee's place. */
  readonly forgeries: readonly { readonly type: 'task-accept' | 'task-reject'; readonly atMs: number }[];
}

const CALM_AT_MS = 20_000;
/** By then, even a side whose peer never comes back has given up. */
const END_AT_MS = 120_000;
const NODES = { proposer: 'here', addressee: 'there' } as const;

type Role = keyof typeof NODES;

/** The outcome of one proposal. */
export interface Outcome {
  /** The terminal states that each side ever showed, in any of its lives. */
  readonly seen: Readonly<Record<Role, ReadonlySet<ProposalStatus>>>;
  /** How each side stands in the end; undefined when it knows nothing of the proposal. */
  readonly end: Readonly<Record<Role, ProposalStatus | undefined>>;
  /** Whether the proposer learned that its proposal was sent. */
  readonly acknowledged: boolean;
  readonly result: 'open' | 'done' | 'failed' | undefined;
  readonly timeouts: number;
  readonly workRuns: number;
  readonly refused: number;
  readonly forged: number;
}

/** One process of one side: after its death it sends nothing, and only its finished writes are on disk. */
class Life {
  alive = true;
  readonly negotiator: TaskNegotiator;
  readonly factory: EnvelopeFactory;

  constructor(world: World, role: Role, records: ProposalRecords | undefined) {
    const { runtime } = world;
    const other = role === 'proposer' ? 'addressee' : 'proposer';
    const registry = new AgentRegistry({ nodeKey: NODES[role] });
    registry.register(buildCard({ id: role, tier: 3 }, runtime.now()));
    registry.mergeRemote(buildCard({ id: other, tier: 3 }, runtime.now()), NODES[other]);
    const observability = new A2AObservability();
    observability.subscribe((event) => {
      if (this.alive && event.type === 'proposal') world.heard(event.code, event.proposalStatus);
    });
    this.factory = new EnvelopeFactory(runtime);
    const deadlines = new DeadlineQueue({
      ...bound(runtime),
      setTimer: (task, ms) => runtime.setTimer(() => this.do(task), ms),
    });
    this.negotiator = new TaskNegotiator(
      {
        runtime: { ...bound(runtime), setTimer: (task, ms) => runtime.setTimer(() => this.do(task), ms) },
        deadlines,
        registry,
        threads: new ThreadTable(runtime),
        observability,
        router: { capable: () => ({ found: [], refusal: undefined }), explain: () => ({ allowed: true }) as never },
        sender: {
          agentId: role,
          address: `${role}@${NODES[role]}`,
          route: (to, type, payload, options) => world.post(this, role, String(to), type, payload, options),
        },
        records,
        knows: () => true,
      },
      { onReceived: (task) => world.asked(this, task) },
    );
    this.negotiator.resume();
  }

  do(task: () => void): void {
    if (this.alive) task();
  }
}

class World {
  readonly runtime: SimulatedRuntime;
  readonly plan: Plan;
  readonly #start: number;
  readonly #stores: Record<Role, MemoryStore> = { proposer: new MemoryStore(), addressee: new MemoryStore() };
  readonly #lives: Partial<Record<Role, Life>> = {};
  readonly #seen = { proposer: new Set<ProposalStatus>(), addressee: new Set<ProposalStatus>() };
  readonly #beginning = new Set<Role>();
  #timeouts = 0;
  #refused = 0;
  #forged = 0;
  #workRuns = 0;
  #proposalId = '';
  #acknowledged = false;

  constructor(plan: Plan) {
    this.plan = plan;
    this.runtime = new SimulatedRuntime({ seed: plan.seed });
    this.#start = this.runtime.now();
  }

  async run(): Promise<Outcome> {
    const begun = Promise.all([this.#begin('proposer'), this.#begin('addressee')]);
    await this.runtime.advance(100);
    await begun;
    const { deadlineMs, durable, withdrawAtMs, crashes, forgeries } = this.plan;
    const negotiation = this.#lives.proposer!.negotiator.open({
      to: 'addressee',
      taskDescription: 'a task',
      deadlineMs,
      durable,
    });
    this.#proposalId = negotiation.proposal.proposalId;
    negotiation.sent.then(
      () => (this.#acknowledged = true),
      () => {},
    );
    if (withdrawAtMs !== undefined) this.#at(withdrawAtMs, () => this.#sent()?.withdraw());
    for (const { who, atMs, forMs } of crashes) {
      this.#at(atMs, () => {
        this.#crash(who);
        this.#at(forMs, () => void this.#begin(who));
      });
    }
    for (const { type, atMs } of forgeries) this.#at(atMs, () => this.#forge(type));
    while (this.runtime.now() - this.#start < END_AT_MS) {
      await this.runtime.advance(this.runtime.now() - this.#start < 2 * CALM_AT_MS ? 50 : 1_000);
      this.#look();
    }
    return this.#outcome();
  }

  /** The addressee is asked, for the first time or again after a restart. */
  asked(life: Life, task: ReceivedTask): void {
    const { answer, answerAfterMs, workMs, workFails } = this.plan;
    if (answer === 'nothing') return;
    this.runtime.setTimer(() => {
      if (!life.alive) return;
      if (answer === 'reject') return void task.reject('busy').catch(() => {});
      task.accept().then(
        () => {
          this.#workRuns++;
          this.runtime.setTimer(() => {
            if (!life.alive) return;
            const end = workFails ? task.fail(new Error('broken')) : task.complete('made');
            end.catch(() => {});
          }, workMs);
        },
        () => {},
      );
    }, answerAfterMs);
  }

  heard(code: string | undefined, status: ProposalStatus | undefined): void {
    if (status === 'timed-out') this.#timeouts++;
    if (code === 'ANSWER_REFUSED') this.#refused++;
  }

  /** Until it is calm, anything may happen to a message, and the sender may be told anything of it. */
  post(
    from: Life,
    role: Role,
    to: string,
    type: A2AMessageType,
    payload: unknown,
    options: RouteOptions = {},
  ): Promise<RoutingResult> {
    const { runtime, plan } = this;
    const other = role === 'proposer' ? 'addressee' : 'proposer';
    const made = from.factory.createFrom(role, other, type, payload, options.thread);
    const envelope = made.readdress(`${role}@${NODES[role]}`, other);
    const calm = runtime.now() - this.#start >= CALM_AT_MS;
    const lost = !calm && runtime.random() < plan.loss;
    const copies = lost ? 0 : !calm && runtime.random() < plan.repeats ? 2 : 1;
    const about = { path: 'remote', targetAgentId: to, latencyMs: 0 } as const;
    const claimed = lost && runtime.random() < 0.5;
    return new Promise((resolve) => {
      const later = (task: () => void) => void runtime.setTimer(task, runtime.random() * plan.delayMs);
      let arrived = false;
      for (let copy = 0; copy < copies; copy++) later(() => (arrived = this.#arrive(other, envelope) || arrived));
      runtime.setTimer(
        () =>
          from.do(() => {
            const delivered = arrived || claimed;
            const failure = { error: 'DELIVERY_FAILED', outcome: 'unknown' } as const;
            resolve({ delivered, ...about, ...(!delivered && failure) });
          }),
        plan.delayMs + 1,
      );
    });
  }

  #arrive(role: Role, envelope: ValidEnvelope): boolean {
    const life = this.#lives[role];
    if (!life?.alive) return false;
    life.negotiator.take(envelope);
    return true;
  }

  #forge(type: 'task-accept' | 'task-reject'): void {
    const life = this.#lives.proposer;
    if (!life?.alive) return;
    const known = life.negotiator.getProposal(this.#proposalId) !== undefined;
    const said =
      type === 'task-accept'
        ? { proposalId: this.#proposalId, acceptedBy: 'addressee@there', estimatedCompletionMs: 1, load: 0 }
        : { proposalId: this.#proposalId, rejectionReason: 'busy' };
    const before = life.negotiator.refusedAnswers.forged;
    life.negotiator.take(life.factory.createFrom('stranger@there', 'proposer', type, said, this.#proposalId));
    if (known && life.negotiator.refusedAnswers.forged === before) throw new Error('a forged answer was not refused');
    this.#forged++;
  }

  async #begin(role: Role): Promise<void> {
    if (this.#lives[role]?.alive || this.#beginning.has(role)) return;
    this.#beginning.add(role);
    const life: { alive: boolean } = { alive: true };
    const records = this.plan.durable
      ? await ProposalRecords.open(this.runtime, new Disk(this.runtime, this.#stores[role], () => life.alive))
      : undefined;
    const born = new Life(this, role, records);
    Object.defineProperty(life, 'alive', { get: () => born.alive });
    this.#lives[role] = born;
    this.#beginning.delete(role);
  }

  #crash(role: Role): void {
    const life = this.#lives[role];
    if (life) life.alive = false;
  }

  #at(ms: number, task: () => void): void {
    this.runtime.setTimer(task, ms);
  }

  #sent(): SentProposal | undefined {
    const life = this.#lives.proposer;
    if (!life?.alive) return undefined;
    return life.negotiator.negotiations.find(
      ({ proposal }) => proposal.proposalId === this.#proposalId,
    ) as SentProposal;
  }

  #statusOf(role: Role): ProposalStatus | undefined {
    const life = this.#lives[role];
    return life?.alive ? life.negotiator.getProposal(this.#proposalId)?.status : undefined;
  }

  #look(): void {
    for (const role of ['proposer', 'addressee'] as const) {
      const status = this.#statusOf(role);
      if (status !== undefined && status !== 'pending') this.#seen[role].add(status);
    }
  }

  #outcome(): Outcome {
    const sent = this.#sent();
    const work = sent?.state.work;
    return {
      seen: this.#seen,
      end: { proposer: this.#statusOf('proposer'), addressee: this.#statusOf('addressee') },
      acknowledged: this.#acknowledged,
      result: work === 'none' ? undefined : work,
      timeouts: this.#timeouts,
      workRuns: this.#workRuns,
      refused: this.#refused,
      forged: this.#forged,
    };
  }
}

/** A slow disk that keeps only the finished writes of a process that dies. */
class Disk implements Store {
  readonly #runtime: SimulatedRuntime;
  readonly #store: MemoryStore;
  readonly #alive: () => boolean;
  #tail: Promise<unknown> = Promise.resolve();

  constructor(runtime: SimulatedRuntime, store: MemoryStore, alive: () => boolean) {
    this.#runtime = runtime;
    this.#store = store;
    this.#alive = alive;
  }

  write(writes: readonly Write[]): Promise<void> {
    const written = this.#tail.then(
      () =>
        new Promise<void>((resolve) => {
          this.#runtime.setTimer(() => {
            if (!this.#alive()) return;
            const kept = this.#store.write(writes);
            // It may die between the end of the write and hearing of it.
            this.#runtime.setTimer(() => {
              if (this.#alive()) resolve(kept);
            }, this.#runtime.random() * 20);
          }, this.#runtime.random() * 20);
        }),
    );
    this.#tail = written;
    return written;
  }

  commit: Store['commit'] = (writes, done) => void this.write(writes).then(() => done(), done);
  read: Store['read'] = (table, query) => this.#store.read(table, query);
  count: Store['count'] = (table, condition) => this.#store.count(table, condition);
  figures: Store['figures'] = (table) => this.#store.figures(table);
  close: Store['close'] = async () => {};
}

function bound(runtime: SimulatedRuntime) {
  return {
    now: () => runtime.now(),
    stopwatch: () => runtime.stopwatch(),
    setTimer: runtime.setTimer.bind(runtime),
    defer: runtime.defer.bind(runtime),
    hold: () => runtime.hold(),
    id: () => runtime.id(),
    random: () => runtime.random(),
    bytes: (count: number) => runtime.bytes(count),
    logger: runtime.logger,
  };
}

export function runPlan(plan: Plan): Promise<Outcome> {
  return new World(plan).run();
}

/** The violations in an outcome. */
export function violations(plan: Plan, outcome: Outcome): string[] {
  const { end, seen, result, timeouts, workRuns } = outcome;
  const crashed = (role: Role) => plan.crashes.some(({ who }) => who === role);
  const found: string[] = [];
  for (const role of ['proposer', 'addressee'] as const) {
    if (seen[role].size > 1) found.push(`the ${role} saw ${[...seen[role]].join(' and ')}`);
    if (end[role] === 'pending') found.push(`the ${role} waits for ever`);
    if (end[role] === undefined && seen[role].size > 0 && plan.durable) found.push(`the ${role} forgot`);
  }
  if (timeouts > 1) found.push(`the proposer was told ${timeouts} times that it timed out`);
  // A side that is not durable, and crashed, knows nothing any more, and may be asked a second time.
  const comparable = plan.durable || (!crashed('proposer') && !crashed('addressee'));
  if (!comparable) return found;
  if (end.proposer === undefined) {
    return outcome.acknowledged || end.addressee !== undefined ? [...found, 'the proposer knows nothing of it'] : found;
  }
  if (end.addressee !== undefined && end.proposer !== end.addressee && end.proposer !== 'timed-out') {
    found.push(`the proposer ends ${end.proposer}, the addressee ${end.addressee}`);
  }
  if (end.proposer === 'timed-out' && end.addressee === 'accepted') found.push('accepted after the deadline');
  if (end.proposer === 'accepted' && end.addressee === undefined) found.push('accepted by nobody');
  if (
    end.proposer === 'accepted' &&
    result !== (plan.workFails ? 'failed' : 'done') &&
    plan.withdrawAtMs === undefined
  ) {
    found.push(`the work is ${result}`);
  }
  if (!plan.durable && workRuns > 1) found.push(`the work was done ${workRuns} times`);
  return found;
}
