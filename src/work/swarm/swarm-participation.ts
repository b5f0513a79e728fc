import type { DocumentOptions, SharedDocument } from '../../documents/document.js';
import { weighJson } from '../../mesh/json-value.js';
import { type CallbackFailed, Callbacks } from '../../runtime/callbacks.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Timer } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import { BoardDocument } from './board-document.js';
import { SwarmMember, type SwarmMemberComponents, type SwarmMemberInit } from './swarm-member.js';
import type { Member, SwarmEscalation, SwarmOpening, SwarmOutcome, SwarmRecord, SwarmStatus } from './swarm-records.js';
import { type SwarmSession, sharedHeader, sharedSubTask } from './swarm-session.js';
import type { Finding } from './swarm-wire.js';

/** What a result may weigh: it travels in messages with others, and is in the shared document. */
const RESULT_WEIGHT = 65_536;
const MAX_REASON = 2_048;
/** Changes are told to watchers together: each looks at the whole board. */
const WATCH_MS = 100;

export interface ParticipationComponents
  extends Pick<SwarmMemberComponents, 'runtime' | 'records' | 'agentId' | 'send' | 'load' | 'work'> {
  openDocument: (name: string, admits: NonNullable<DocumentOptions['admits']>) => SharedDocument;
  /** An agent's name in full, as members are known by. */
  inFull: (address: string) => string;
  /** Nothing ever came of it. */
  onAbandoned: (swarmId: string, error: EclipticError) => void;
  /** Something that the node's owner should hear of. */
  onNews: (news: SwarmNews) => void;
  /** What this member cannot mend by itself. */
  onEscalation: (escalation: SwarmEscalation) => void;
  callbackFailed: CallbackFailed;
}

export interface SwarmNews {
  readonly swarmId: string;
  readonly status: SwarmStatus;
  /** What went wrong, if something did. */
  readonly escalation?: SwarmEscalation;
}

/** One agent's part in one swarm, with everything around it: the shared document, and who watches. */
export class SwarmParticipation {
  readonly swarmId: string;
  /** Who brought this member in. */
  readonly sponsor: string;
  readonly member: SwarmMember;
  readonly #components: ParticipationComponents;
  #board: BoardDocument | undefined;
  readonly #watchers: Callbacks<[]>;
  readonly #waiters = new Set<Waiter>();
  #telling: Timer | undefined;
  #status: SwarmStatus = 'recruiting';

  constructor(components: ParticipationComponents, init: SwarmMemberInit) {
    this.#components = components;
    this.swarmId = init.swarmId;
    this.sponsor = init.sponsor;
    this.#watchers = new Callbacks(`watch of swarm ${init.swarmId}`, components.callbackFailed);
    const { runtime, records, agentId, send, load, work } = components;
    this.member = new SwarmMember(
      {
        runtime,
        records,
        agentId,
        send,
        load,
        work,
        toFinding,
        onProgress: (subTask, value) => this.#board?.progress(subTask, value),
        onChange: (subTasks) => this.#changed(subTasks),
        onEscalation: (escalation) => this.#escalated(escalation),
        onStalled: (reason) => this.#stalled(reason),
        onEnd: () => this.#tell(),
      },
      init,
    );
    if (this.member.machine.swarm) this.#changed([]);
  }

  get machine() {
    return this.member.machine;
  }

  create(swarm: SwarmOpening, plan: readonly SwarmRecord[]): void {
    this.member.create(swarm, plan);
  }

  /** Asks the swarm to take this member in. */
  join(member: Member): void {
    this.member.step({ type: 'join', member });
  }

  get document(): SharedDocument | undefined {
    return this.#board?.document;
  }

  /** The swarm as this member sees it; undefined before it was told what it is. */
  get session(): SwarmSession | undefined {
    const { machine } = this.member;
    if (!machine.board.swarm) return this.#board?.read(this.swarmId);
    const subTasks = [...machine.board.subTasks].map(([id, { status, result }]) => {
      const progress = this.#board?.progressOf(id);
      return {
        id,
        ...sharedSubTask(machine, id),
        ...(status === 'completed' && { result }),
        ...(machine.unconfirmed(id) && { unconfirmed: true }),
        ...(progress !== undefined && { progress }),
      };
    });
    const { confirmed, stalled } = machine;
    const why = stalled === undefined ? {} : { reason: stalled };
    const sharedState = this.#board?.sharedState ?? {};
    return { id: this.swarmId, ...sharedHeader(machine), ...why, subTasks, confirmed, sharedState };
  }

  get outcome(): SwarmOutcome | undefined {
    const { machine } = this.member;
    if (!machine.endedAs) return undefined;
    if (machine.seated) return machine.board.outcome();
    const session = this.session;
    const done = session?.subTasks.filter(({ status }) => status === 'completed') ?? [];
    const results = Object.fromEntries(done.map(({ id, result }) => [id, result]));
    return { swarmId: this.swarmId, ...machine.endedAs, results, escalations: session?.escalations ?? [] };
  }

  get isOver(): boolean {
    return this.member.machine.endedAs !== undefined;
  }

  /** Calls back whenever the board may have changed. Returns the way to stop. */
  watch(handler: () => void): () => void {
    return this.#watchers.add(handler);
  }

  /** Resolves when the swarm is that far. Rejects when nothing can be settled, or this member leaves. */
  reached<T>(done: () => T | undefined): Promise<T> {
    const at = done();
    if (at !== undefined) return Promise.resolve(at);
    const { stalled } = this.member.machine;
    if (stalled !== undefined) return Promise.reject(this.#unsettled(stalled));
    return new Promise<T>((resolve, reject) => {
      this.#waiters.add({ done, resolve: resolve as (value: unknown) => void, reject });
    });
  }

  close(error: EclipticError): Promise<void> {
    this.member.close();
    for (const { reject } of this.#waiters) reject(error);
    this.#waiters.clear();
    this.#watchers.clear();
    this.#telling?.cancel();
    return this.#board?.close() ?? Promise.resolve();
  }

  #changed(subTasks: readonly string[]): void {
    const { machine } = this.member;
    if (machine.swarm && !this.#board) this.#openBoard();
    this.#board?.changed(subTasks);
    const { status } = machine.board;
    if (machine.board.swarm && status !== this.#status) {
      this.#status = status;
      this.#components.onNews({ swarmId: this.swarmId, status });
    }
    this.#tell();
  }

  #openBoard(): void {
    const { runtime, openDocument, inFull } = this.#components;
    const { machine } = this.member;
    try {
      const document = openDocument(`swarm-${this.swarmId}`, ({ address }) => this.includes(inFull(address)));
      this.#board = new BoardDocument(runtime, document, machine, () => this.#tell());
    } catch (error) {
      // The swarm goes on without: the records say everything, and only who has no seat sees less.
      runtime.logger.warn({ swarm: this.swarmId, err: error }, 'a swarm’s document could not be opened');
    }
  }

  /** Is that agent in the swarm, as far as this member knows? */
  includes(address: string): boolean {
    const { swarm, board } = this.member.machine;
    if (!swarm) return false;
    return (
      board.members.has(address) ||
      swarm.seats.includes(address) ||
      swarm.members.some((member) => member.address === address)
    );
  }

  #escalated(escalation: SwarmEscalation): void {
    this.#components.onNews({ swarmId: this.swarmId, status: this.member.machine.board.status, escalation });
    this.#components.onEscalation(escalation);
  }

  #stalled(reason: string | undefined): void {
    this.#tell();
    if (reason === undefined) return;
    if (!this.member.machine.swarm) {
      // It said yes, and the swarm was never formed, or nobody let it in.
      this.#components.onAbandoned(this.swarmId, this.#unsettled(reason));
      return;
    }
    this.#escalated({ swarmId: this.swarmId, kind: 'no-majority', reason });
    for (const { reject } of this.#waiters) reject(this.#unsettled(reason));
    this.#waiters.clear();
  }

  #unsettled(reason: string): EclipticError {
    return new EclipticError('SWARM_STALLED', reason, { swarmId: this.swarmId });
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

/** What is told of what the work gave: a result that can travel, or why there is none. */
export function toFinding(outcome: { readonly value: unknown } | { readonly error: unknown }): Finding {
  if ('error' in outcome) return { error: cutText(describeError(outcome.error), MAX_REASON) };
  const result = outcome.value ?? null;
  const weight = weighJson(result);
  if (typeof weight !== 'number') return { error: cutText(`the result ${weight.path} ${weight.problem}`, MAX_REASON) };
  if (weight > RESULT_WEIGHT) return { error: `the result is larger than ${RESULT_WEIGHT} bytes` };
  return { result };
}
