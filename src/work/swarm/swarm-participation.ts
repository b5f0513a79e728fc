import type { DocumentOptions, SharedDocument } from '../../documents/document.js';
import { weighJson } from '../../mesh/json-value.js';
import { type CallbackFailed, Callbacks } from '../../runtime/callbacks.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import { Fifo } from '../../runtime/fifo.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import type { SharedLogs } from '../../store/shared/record-log.js';
import { addUsage, NO_USAGE, type Usage, usageIn } from '../usage.js';
import { waitingIn } from '../waiting-report.js';
import { BoardDocument } from './board-document.js';
import { BrokerLog } from './broker-log.js';
import { isKeeping, type KeepingEffect, type ParticipationRecords } from './participation-records.js';
import { beatMs, type SwarmEvent, SwarmMachine, type SwarmMachineInit } from './swarm-machine.js';
import type { Finding, SwarmEffect, SwarmMessage, Work } from './swarm-messages.js';
import type { SwarmEscalation, SwarmOpening, SwarmOutcome, SwarmRecord, SwarmStatus } from './swarm-records.js';
import { type SwarmSession, sharedHeader, sharedSubTask } from './swarm-session.js';

/** A sub-task in the hands of a worker. */
export interface WorkInHand extends Work {
  readonly swarmId: string;
  /** The agent that the work is done for. */
  readonly creator: string;
  /** Aborted when the sub-task was given to another member, or the swarm has ended. */
  readonly signal: AbortSignal;
  progress(value: unknown): void;
}

export interface ParticipationComponents {
  runtime: Runtime;
  /** Undefined on a node without a store. */
  records: ParticipationRecords | undefined;
  /** Logs at the broker, on a node that has one. */
  logs?: SharedLogs | undefined;
  /** The agent's id on this node. */
  agentId: string;
  send: (to: string, message: SwarmMessage) => void;
  /** The agent's other work. */
  load: () => number;
  /** Does the work by the agent's own handler; undefined if it has none, and `finish` is called from outside. */
  work: (work: WorkInHand) => Promise<unknown> | undefined;
  openDocument: (name: string, admits: NonNullable<DocumentOptions['admits']>) => SharedDocument;
  /** An agent's name in full, as members are known by. */
  inFull: (address: string) => string;
  /** The swarm was never formed, or never let this member in. */
  onAbandoned: (swarmId: string, error: EclipticError) => void;
  /** Reports to the owner of the node. */
  onNews: (news: SwarmNews) => void;
  onEscalation: (escalation: SwarmEscalation) => void;
  callbackFailed: CallbackFailed;
}

export interface SwarmNews {
  readonly swarmId: string;
  readonly status: SwarmStatus;
  readonly escalation?: SwarmEscalation;
}

/** What a result may weigh: it travels in messages with others, and is in the shared document. */
const RESULT_WEIGHT = 65_536;
const MAX_REASON = 2_048;
/** Changes are reported to watchers together: each looks at the whole board. */
const WATCH_MS = 100;
/** Until the swarm's own pace is known. */
const FIRST_BEAT_MS = 1_000;

/**
 * One agent's part in one swarm: the shell of its machine, which stores what must be stored first and then performs the
 * effects in order, with the shared document, the worker and the watchers around it.
 */
export class SwarmParticipation {
  readonly swarmId: string;
  /** The agent that brought this member in. */
  readonly sponsor: string;
  readonly machine: SwarmMachine;
  readonly #components: ParticipationComponents;
  readonly #effects = new Fifo<SwarmEffect>();
  readonly #running = new Map<number, { readonly subTask: string; readonly controller: AbortController }>();
  readonly #watchers: Callbacks<[]>;
  readonly #waiters = new Set<Waiter>();
  /** When each sub-task changed, as far as this run of the node has seen it. */
  readonly #changes = new Map<string, { readonly to: string; readonly at: number }>();
  /** Records of an earlier run, which has seen them change. */
  readonly #restored: number;
  #endedAt: number | undefined;
  #board: BoardDocument | undefined;
  readonly #brokerLog: BrokerLog | undefined;
  /** Length of the log on disk. */
  #storedLength: number;
  #isPerforming = false;
  #tick: Timer | undefined;
  #telling: Timer | undefined;
  #status: SwarmStatus = 'recruiting';
  #closed = false;

  constructor(components: ParticipationComponents, init: Omit<SwarmMachineInit, 'now' | 'run'>) {
    const { runtime, logs } = components;
    this.#components = components;
    this.swarmId = init.swarmId;
    this.sponsor = init.sponsor;
    this.#storedLength = init.memory?.log.length ?? 0;
    this.#restored = this.#storedLength;
    this.#endedAt = init.memory?.endedAt;
    this.#watchers = new Callbacks(`watch of swarm ${init.swarmId}`, components.callbackFailed);
    this.#brokerLog =
      logs && new BrokerLog({ runtime, logs }, this.swarmId, (event) => this.step({ type: 'broker', event }));
    this.machine = new SwarmMachine({ ...init, now: runtime.now(), run: logs && runtime.id() });
    this.#schedule();
    if (this.machine.swarm) this.#changed([]);
  }

  create(swarm: SwarmOpening, plan: readonly SwarmRecord[]): void {
    this.#perform(this.machine.create(swarm, plan, this.#components.runtime.now()));
  }

  step(event: SwarmEvent): void {
    if (this.#closed) return;
    const { runtime, load } = this.#components;
    const now = runtime.now();
    if (event.type === 'message' && event.message.type === 'beat')
      this.#perform(this.machine.step({ type: 'load', load: load() }, now));
    this.#perform(this.machine.step(event, now));
    this.#schedule();
  }

  /** Hands over a finding in place of the worker. False if this member does not work on that sub-task. */
  finish(subTask: string, finding: Finding): boolean {
    const [lease] = [...this.#running].find(([, running]) => running.subTask === subTask) ?? [];
    if (lease === undefined) return false;
    this.#worked(lease, finding);
    return true;
  }

  get document(): SharedDocument | undefined {
    return this.#board?.document;
  }

  /** The swarm as this member sees it; undefined before it knows the swarm. */
  get session(): SwarmSession | undefined {
    const { machine } = this;
    if (!machine.board.swarm) return this.#board?.read(this.swarmId);
    const subTasks = [...machine.board.subTasks].map(([id, { status, result }]) => {
      const progress = this.#board?.progressOf(id);
      const waiting = status === 'running' ? this.#board?.waitingOf(id) : 0;
      return {
        id,
        ...sharedSubTask(machine, id),
        ...(status === 'completed' && { result }),
        ...(machine.unconfirmed(id) && { unconfirmed: true }),
        ...(progress !== undefined && { progress }),
        ...(waiting && { waiting }),
      };
    });
    const { confirmed, stalled } = machine;
    const why = stalled === undefined ? {} : { reason: stalled };
    const sharedState = this.#board?.sharedState ?? {};
    return { id: this.swarmId, ...sharedHeader(machine), ...why, subTasks, confirmed, sharedState };
  }

  get outcome(): SwarmOutcome | undefined {
    const { machine } = this;
    if (!machine.endedAs) return undefined;
    if (machine.seated) return machine.board.outcome();
    const { session } = this;
    const done = session?.subTasks.filter(({ status }) => status === 'completed') ?? [];
    const results = Object.fromEntries(done.map(({ id, result }) => [id, result]));
    return { swarmId: this.swarmId, ...machine.endedAs, results, escalations: session?.escalations ?? [] };
  }

  /** When this member learnt of the end, by its node's clock; null if it does not know. */
  get endedAt(): number | null {
    return this.#endedAt ?? null;
  }

  /** When the sub-task got into its present state, as this member learnt of it; null if it does not know. */
  changedAt(subTask: string): number | null {
    return this.#changes.get(subTask)?.at ?? null;
  }

  get isOver(): boolean {
    return this.machine.endedAs !== undefined;
  }

  /** Is that agent in the swarm, as far as this member knows? */
  includes(address: string): boolean {
    const { swarm, board } = this.machine;
    if (!swarm) return false;
    return (
      board.members.has(address) ||
      swarm.seats.includes(address) ||
      swarm.members.some((member) => member.address === address)
    );
  }

  /** Calls back whenever the board may have changed. */
  watch(handler: () => void): () => void {
    return this.#watchers.add(handler);
  }

  /** Resolves once `done` gives a value. Rejects when nothing can be settled, or this member leaves. */
  reached<T>(done: () => T | undefined): Promise<T> {
    const at = done();
    if (at !== undefined) return Promise.resolve(at);
    const { stalled } = this.machine;
    if (stalled !== undefined) return Promise.reject(this.#unsettled(stalled));
    return new Promise<T>((resolve, reject) => {
      this.#waiters.add({ done, resolve: resolve as (value: unknown) => void, reject });
    });
  }

  /** Ends this participation here: work is aborted, and stored data stays. */
  close(error: EclipticError): Promise<void> {
    this.#stop();
    this.#rejectWaiters(error);
    this.#watchers.clear();
    this.#telling?.cancel();
    return this.#board?.close() ?? Promise.resolve();
  }

  #stop(): void {
    this.#closed = true;
    this.#brokerLog?.close();
    this.#tick?.cancel();
    for (const { controller } of this.#running.values()) controller.abort();
    this.#running.clear();
  }

  #schedule(): void {
    if (!this.#closed) this.#brokerLog?.watch(this.machine.usesBroker);
    if (this.#tick || this.#closed || this.machine.resting) return;
    const { swarm } = this.machine;
    this.#tick = this.#components.runtime.setTimer(
      () => {
        this.#tick = undefined;
        this.step({ type: 'tick' });
      },
      swarm ? beatMs(swarm) : FIRST_BEAT_MS,
    );
  }

  /** Keeps the order: performing one effect may lead to the next step before the rest is performed. */
  #perform(effects: readonly SwarmEffect[]): void {
    for (const effect of effects) this.#effects.push(effect);
    if (!this.#isPerforming) this.#drain();
  }

  #drain(): void {
    this.#isPerforming = true;
    while (!this.#closed && this.#effects.length > 0) {
      if (this.#components.records) {
        const batch = this.#takeAll();
        const keeping = batch.filter(isKeeping);
        if (keeping.length > 0) {
          this.#store(keeping, batch);
          return;
        }
        for (const effect of batch) this.#performOne(effect);
      } else this.#performOne(this.#effects.shift()!);
    }
    this.#isPerforming = false;
  }

  #takeAll(): SwarmEffect[] {
    const batch: SwarmEffect[] = [];
    while (this.#effects.length > 0) batch.push(this.#effects.shift()!);
    return batch;
  }

  /** All writes of a batch go to disk at once, and then the batch is performed. */
  #store(keeping: readonly KeepingEffect[], batch: readonly SwarmEffect[]): void {
    const { records, agentId, runtime } = this.#components;
    records!.keep(agentId, this.swarmId, keeping, this.#storedLength).then(
      () => {
        if (this.#closed) return;
        for (const effect of batch) this.#performOne(effect);
        this.#drain();
      },
      (error: unknown) => {
        // A seat that cannot store its promises must make none: to the others this member has died.
        runtime.logger.error({ swarm: this.swarmId, agent: agentId, err: error }, 'swarm record not stored');
        this.#stop();
      },
    );
  }

  #performOne(effect: SwarmEffect): void {
    switch (effect.type) {
      case 'send':
        this.#components.send(effect.to, effect.message);
        break;
      case 'keep': {
        const { term, from, entries } = effect.keep;
        if (from !== undefined) this.#storedLength = from + entries!.length - 1;
        this.step({ type: 'kept', term, n: this.#storedLength });
        break;
      }
      case 'append':
      case 'read':
        this.#brokerLog?.perform(effect);
        break;
      case 'run':
        this.#run(effect.lease, effect.work);
        break;
      case 'stop':
        this.#running.get(effect.lease)?.controller.abort(effect.reason);
        this.#running.delete(effect.lease);
        break;
      case 'changed':
        this.#changed(effect.subTasks);
        break;
      case 'keep-opening':
        this.#changed([]);
        break;
      case 'escalated':
        this.#escalated(effect.escalation);
        break;
      case 'stalled':
        this.#stalled(effect.reason);
        break;
      case 'ended':
        this.#endedAt ??= this.#components.runtime.now();
        this.#tell();
        break;
      case 'resumed':
        this.#tell();
    }
  }

  #run(lease: number, work: Work): void {
    const controller = new AbortController();
    const { subTask } = work;
    this.#running.set(lease, { subTask, controller });
    const isCurrent = () => this.#running.get(lease)?.controller === controller;
    let used: Usage | undefined;
    // An earlier attempt may have ended while it waited.
    this.#board?.waiting(subTask, 0);
    const progress = (value: unknown) => {
      if (!isCurrent()) return;
      const decisions = waitingIn(value);
      if (decisions !== undefined) return this.#board?.waiting(subTask, decisions);
      const usage = usageIn(value);
      if (!usage) return this.#board?.progress(subTask, value);
      // Usage travels with the finding: the document may be behind when the swarm ends.
      used = addUsage(used ?? NO_USAGE, usage);
    };
    const done = (finding: Finding) => {
      if (isCurrent()) this.#worked(lease, finding, used);
    };
    // Work is taken of seats only, which a member knows from the swarm's opening.
    const { creator } = this.machine.swarm!;
    this.#components.work({ ...work, swarmId: this.swarmId, creator, signal: controller.signal, progress })?.then(
      (value) => done(toFinding({ value })),
      (error: unknown) => done(toFinding({ error })),
    );
  }

  #worked(lease: number, finding: Finding, usage?: Usage): void {
    this.#running.delete(lease);
    this.step({ type: 'worked', lease, finding, usage });
  }

  #note(subTasks: readonly string[]): void {
    const at = this.#components.runtime.now();
    for (const id of subTasks) {
      const known = this.machine.board.subTasks.get(id);
      const to = known && `${known.status} ${known.attempts}`;
      if (to !== undefined && this.#changes.get(id)?.to !== to) this.#changes.set(id, { to, at });
    }
  }

  #changed(subTasks: readonly string[]): void {
    const { machine } = this;
    if (machine.swarm && !this.#board) this.#openBoard();
    this.#board?.changed(subTasks);
    if (machine.settledCount > this.#restored) this.#note(subTasks);
    const { status } = machine.board;
    if (machine.board.swarm && status !== this.#status) {
      this.#status = status;
      this.#components.onNews({ swarmId: this.swarmId, status });
    }
    this.#tell();
  }

  #openBoard(): void {
    const { runtime, openDocument, inFull } = this.#components;
    try {
      const document = openDocument(`swarm-${this.swarmId}`, ({ address }) => this.includes(inFull(address)));
      this.#board = new BoardDocument(runtime, document, this.machine, () => this.#tell());
    } catch (error) {
      // The swarm goes on without: seats have the records, and only members without a seat see less.
      runtime.logger.warn({ swarm: this.swarmId, err: error }, 'swarm document could not be opened');
    }
  }

  #escalated(escalation: SwarmEscalation): void {
    this.#components.onNews({ swarmId: this.swarmId, status: this.machine.board.status, escalation });
    this.#components.onEscalation(escalation);
  }

  #stalled(reason: string): void {
    this.#tell();
    const error = this.#unsettled(reason);
    if (!this.machine.swarm) {
      this.#components.onAbandoned(this.swarmId, error);
      return;
    }
    this.#escalated({ swarmId: this.swarmId, kind: 'no-majority', reason });
    this.#rejectWaiters(error);
  }

  #unsettled(reason: string): EclipticError {
    return new EclipticError('SWARM_STALLED', reason, { swarmId: this.swarmId });
  }

  #rejectWaiters(error: EclipticError): void {
    for (const { reject } of this.#waiters) reject(error);
    this.#waiters.clear();
  }

  #tell(): void {
    for (const waiter of [...this.#waiters]) {
      const value = waiter.done();
      if (value === undefined) continue;
      this.#waiters.delete(waiter);
      waiter.resolve(value);
    }
    if (this.#watchers.size === 0) return;
    this.#telling ??= this.#components.runtime.setTimer(() => {
      this.#telling = undefined;
      this.#watchers.call();
    }, WATCH_MS);
  }
}

interface Waiter {
  readonly done: () => unknown;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: EclipticError) => void;
}

/** A result that is small enough to travel, or the reason why there is none. */
export function toFinding(outcome: { readonly value: unknown } | { readonly error: unknown }): Finding {
  if ('error' in outcome) return { error: cutText(describeError(outcome.error), MAX_REASON) };
  const result = outcome.value ?? null;
  const weight = weighJson(result);
  if (typeof weight !== 'number') return { error: cutText(`the result ${weight.path} ${weight.problem}`, MAX_REASON) };
  if (weight > RESULT_WEIGHT) return { error: `the result is larger than ${RESULT_WEIGHT} bytes` };
  return { result };
}
