import { Fifo } from '../../runtime/fifo.js';
import type { Runtime, Timer } from '../../runtime/runtime.js';
import type { KeepingEffect, ParticipationRecords } from './participation-records.js';
import type { SwarmEffect } from './swarm-effects.js';
import { beatMs, type SwarmEvent, SwarmMachine, type SwarmMemory } from './swarm-machine.js';
import type { SwarmEscalation, SwarmOpening, SwarmRecord } from './swarm-records.js';
import type { Finding, SwarmMessage, Work } from './swarm-wire.js';

/** A sub-task in the hands of a worker. */
export interface WorkInHand extends Work {
  readonly swarmId: string;
  /** Aborted when the sub-task was given to another, or the swarm has ended. */
  readonly signal: AbortSignal;
  progress(value: unknown): void;
}

export interface SwarmMemberComponents {
  runtime: Runtime;
  /** Where it is kept; undefined on a node without a store. */
  records: ParticipationRecords | undefined;
  /** The agent's id on this node. */
  agentId: string;
  send: (to: string, message: SwarmMessage) => void;
  /** What the agent has to do besides. */
  load: () => number;
  /** Does the work, if the agent does any by itself; without it, somebody calls `finish`. */
  work: (work: WorkInHand) => Promise<unknown> | undefined;
  onProgress: (subTask: string, value: unknown) => void;
  /** The board changed: these sub-tasks, and perhaps the rest of it. */
  onChange: (subTasks: readonly string[]) => void;
  onEscalation: (escalation: SwarmEscalation) => void;
  onStalled: (reason: string | undefined) => void;
  onEnd: () => void;
  /** Turns what work gave into what is told of it. */
  toFinding: (outcome: { readonly value: unknown } | { readonly error: unknown }) => Finding;
}

export interface SwarmMemberInit {
  readonly swarmId: string;
  /** `id@node`. */
  readonly address: string;
  readonly sponsor: string;
  readonly seat: boolean;
  readonly memory?: SwarmMemory;
  readonly stallMs: number;
}

/** Until it knows the swarm's own pace. */
const FIRST_BEAT_MS = 1_000;

/** One agent's part in one swarm: performs what its machine decides, and keeps first what must be kept first. */
export class SwarmMember {
  readonly swarmId: string;
  readonly machine: SwarmMachine;
  readonly #components: SwarmMemberComponents;
  readonly #effects = new Fifo<SwarmEffect>();
  readonly #running = new Map<number, { readonly subTask: string; readonly controller: AbortController }>();
  /** Length of the log on disk. */
  #length: number;
  #performing = false;
  #timer: Timer | undefined;
  #closed = false;

  constructor(components: SwarmMemberComponents, init: SwarmMemberInit) {
    this.#components = components;
    this.swarmId = init.swarmId;
    this.#length = init.memory?.log.length ?? 0;
    const { address: me, swarmId, sponsor, seat, stallMs, memory } = init;
    const now = components.runtime.now();
    this.machine = new SwarmMachine({ me, swarmId, sponsor, seat, now, stallMs, ...(memory && { memory }) });
    this.#schedule();
  }

  create(swarm: SwarmOpening, plan: readonly SwarmRecord[]): void {
    this.#perform(this.machine.create(swarm, plan, this.#components.runtime.now()));
  }

  step(event: SwarmEvent): void {
    if (this.#closed) return;
    const { runtime, load } = this.#components;
    const now = runtime.now();
    if (event.type === 'message' && event.message.type === 'beat')
      this.machine.step({ type: 'load', load: load() }, now);
    this.#perform(this.machine.step(event, now));
    this.#schedule();
  }

  /** Hands over what was found, as if the worker had. False where this member is not at that sub-task. */
  finish(subTask: string, finding: Finding): boolean {
    const [lease] = [...this.#running].find(([, running]) => running.subTask === subTask) ?? [];
    if (lease === undefined) return false;
    this.#worked(lease, finding);
    return true;
  }

  /** Ends its part here; what is kept stays, and work is aborted. */
  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    for (const { controller } of this.#running.values()) controller.abort();
    this.#running.clear();
  }

  #schedule(): void {
    if (this.#timer || this.#closed || this.machine.resting) return;
    const { swarm } = this.machine;
    this.#timer = this.#components.runtime.setTimer(
      () => {
        this.#timer = undefined;
        this.step({ type: 'tick' });
      },
      swarm ? beatMs(swarm) : FIRST_BEAT_MS,
    );
  }

  /** In order, however it comes about: performing one effect may lead to the next step before the rest is done. */
  #perform(effects: readonly SwarmEffect[]): void {
    for (const effect of effects) this.#effects.push(effect);
    if (!this.#performing) this.#drain();
  }

  #drain(): void {
    this.#performing = true;
    while (!this.#closed && this.#effects.length > 0) {
      if (this.#components.records) {
        const batch = this.#takeAll();
        const keeping = batch.filter(isKeeping);
        if (keeping.length > 0) {
          this.#keep(keeping, batch);
          return;
        }
        for (const effect of batch) this.#one(effect);
      } else this.#one(this.#effects.shift()!);
    }
    this.#performing = false;
  }

  #takeAll(): SwarmEffect[] {
    const batch: SwarmEffect[] = [];
    while (this.#effects.length > 0) batch.push(this.#effects.shift()!);
    return batch;
  }

  /** Everything of a batch that is to be kept goes to disk in one write, and then the batch happens. */
  #keep(keeping: readonly KeepingEffect[], batch: readonly SwarmEffect[]): void {
    const { records, agentId, runtime } = this.#components;
    records!.keep(agentId, this.swarmId, keeping, this.#length).then(
      () => {
        if (this.#closed) return;
        for (const effect of batch) this.#one(effect);
        this.#drain();
      },
      (error: unknown) => {
        // Who cannot keep its word gives none: to the others it is as if this member had died.
        runtime.logger.error({ swarm: this.swarmId, agent: agentId, err: error }, 'a swarm’s record was not kept');
        this.close();
      },
    );
  }

  #one(effect: SwarmEffect): void {
    const { send, onChange, onEscalation, onStalled, onEnd } = this.#components;
    switch (effect.type) {
      case 'send':
        send(effect.to, effect.message);
        break;
      case 'keep': {
        const { epoch, from, entries } = effect.keep;
        if (from !== undefined) this.#length = from + entries!.length - 1;
        this.step({ type: 'kept', epoch, n: this.#length });
        break;
      }
      case 'run':
        this.#run(effect.lease, effect.work);
        break;
      case 'stop':
        this.#running.get(effect.lease)?.controller.abort(effect.reason);
        this.#running.delete(effect.lease);
        break;
      case 'changed':
      case 'keep-opening':
        onChange(effect.type === 'changed' ? effect.subTasks : []);
        break;
      case 'escalated':
        onEscalation(effect.escalation);
        break;
      case 'stalled':
        onStalled(effect.reason);
        break;
      case 'resumed':
        onStalled(undefined);
        break;
      case 'ended':
        onEnd();
    }
  }

  #run(lease: number, work: Work): void {
    const { onProgress, toFinding } = this.#components;
    const controller = new AbortController();
    const { subTask } = work;
    this.#running.set(lease, { subTask, controller });
    const progress = (value: unknown) => {
      if (this.#running.get(lease)?.controller === controller) onProgress(subTask, value);
    };
    const done = (finding: Finding) => {
      if (this.#running.get(lease)?.controller === controller) this.#worked(lease, finding);
    };
    this.#components.work({ ...work, swarmId: this.swarmId, signal: controller.signal, progress })?.then(
      (value) => done(toFinding({ value })),
      (error: unknown) => done(toFinding({ error })),
    );
  }

  #worked(lease: number, finding: Finding): void {
    this.#running.delete(lease);
    this.step({ type: 'worked', lease, finding });
  }
}

function isKeeping(effect: SwarmEffect): effect is KeepingEffect {
  return KEEPING.has(effect.type);
}

const KEEPING: ReadonlySet<string> = new Set<KeepingEffect['type']>([
  'keep',
  'keep-opening',
  'keep-finding',
  'drop-finding',
  'ended',
]);
