import type { SharedDocument } from '../../documents/document.js';
import { fullAddress } from '../../mesh/address.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import { vacancyFor } from '../../mesh/staffing.js';
import { within } from '../../runtime/async.js';
import { type CallbackFailed, Callbacks, callGuarded, logCallback } from '../../runtime/callbacks.js';
import { EclipticError } from '../../runtime/errors.js';
import { cutText } from '../../runtime/text.js';
import type { Bid, Engagement, Negotiation, ProposalInit } from '../proposals/proposal.js';
import { assignPlan } from './assignment.js';
import { reservation, reservationIn } from './claimed-log.js';
import type { StoredParticipation } from './participation-records.js';
import { candidates, type Invitation, invitationIn, nodeOf, recruit, seatsOf, vacancies } from './recruiting.js';
import type { SwarmMessage } from './swarm-messages.js';
import { type ParticipationComponents, SwarmParticipation, toFinding, type WorkInHand } from './swarm-participation.js';
import { capabilitiesOf, planByCapability, planRecords, readPlan, type SwarmPlan } from './swarm-plan.js';
import type { SubTaskPlan, SwarmEscalation, SwarmOpening, SwarmOutcome } from './swarm-records.js';
import type { SwarmSession } from './swarm-session.js';

/** The agent that a coordinator belongs to. */
export interface SwarmAgent {
  /** The id on this node; `address` is `id@node`. */
  readonly agentId: string;
  readonly address: string;
  capabilities(): readonly string[];
  /** Its work outside swarms. */
  load(): number;
  /** Does a sub-task by the agent's handler; undefined if it has none. */
  work(work: WorkInHand): Promise<unknown> | undefined;
  propose(init: ProposalInit): Negotiation;
  ask(to: string, payload: unknown, timeoutMs: number): Promise<unknown>;
}

export interface SwarmOptions {
  /** Default: the planner's plan, else one sub-task for each capability. */
  plan?: SwarmPlan;
  /** An agent that is asked for the plan. */
  planner?: string;
  /** An agent that gets all results at the end, and makes one of them. */
  aggregator?: string;
  /** How long agents have to answer the invitation. Default 5 s. */
  recruitMs?: number;
  /** A member that is silent for this long loses its leases. Default 10 s. */
  leaseMs?: number;
  /** Leases of one sub-task before it counts as failed. Default 4. */
  attempts?: number;
  /** How long a sub-task waits for a capable member. Default: three leases. */
  patienceMs?: number;
  /** How long the planner has. Default 60 s. */
  planMs?: number;
  /** Why the invitations may go over the recipients' rank. Default: the task. */
  justification?: string;
  /** The swarm's id. Default: a fresh one. */
  id?: string;
}

export interface CoordinatorComponents
  extends Pick<ParticipationComponents, 'runtime' | 'openDocument'>,
    Partial<Pick<ParticipationComponents, 'records' | 'logs' | 'onNews' | 'callbackFailed'>> {
  registry: AgentRegistry;
  agent: SwarmAgent;
  /** Sends to another member, in the swarm's thread. */
  send: (swarmId: string, to: string, message: SwarmMessage) => void;
  /** The address of an agent of this node that takes part. */
  memberOf?: (swarmId: string) => string | undefined;
  /** Throws if there is no room for another participation. */
  assertRoom?: (sponsor: string) => void;
}

/** Without a settled record for this long, waiting callers get `SWARM_STALLED`. */
const STALL_MS = 60_000;
/** How long the broker has to answer before a swarm does without. */
const BROKER_MS = 1_000;
/** Ended swarms that stay in memory. */
const MAX_OVER = 100;

/** The specification's coordinator of one agent: swarms that it created, and swarms that it takes part in. */
export class SwarmCoordinator {
  /** How many sub-tasks this agent takes at once, in swarms that it joins from now on. */
  capacity = 1;
  readonly #components: CoordinatorComponents;
  readonly #participations = new Map<string, SwarmParticipation>();
  /** Participations that are being written to disk. */
  readonly #entering = new Map<string, Promise<SwarmParticipation>>();
  readonly #enteringFor = new Map<string, string>();
  readonly #callbackFailed: CallbackFailed;
  readonly #escalationHandlers: Callbacks<[escalation: SwarmEscalation]>;

  constructor(components: CoordinatorComponents, stored: readonly StoredParticipation[] = []) {
    this.#components = components;
    const { agent, callbackFailed = logCallback(components.runtime.logger) } = components;
    this.#callbackFailed = callbackFailed;
    this.#escalationHandlers = new Callbacks(`swarm.onEscalation of ${agent.agentId}`, callbackFailed);
    for (const { swarmId, sponsor, seat, memory } of stored) this.#add(swarmId, sponsor, seat, memory);
  }

  get address(): string {
    return this.#components.agent.address;
  }

  /** For each participation in a swarm that has not ended, the agent by whose word this one takes part. */
  get sponsors(): string[] {
    const open = [...this.#participations.values()].filter(({ isOver }) => !isOver);
    return [...this.#enteringFor.values(), ...open.map(({ sponsor }) => sponsor)];
  }

  get participations(): ReadonlyMap<string, SwarmParticipation> {
    return this.#participations;
  }

  /** Resolves when the swarm is active, which is then a settled record. */
  async createSwarm(
    taskDescription: string,
    requiredCapabilities: readonly string[],
    options: SwarmOptions = {},
  ): Promise<SwarmSession> {
    const { runtime, registry, agent } = this.#components;
    const plan = await this.#plan(taskDescription, requiredCapabilities, options);
    const capabilities = [...new Set([...requiredCapabilities, ...capabilitiesOf(plan)])];
    const { recruitMs = 5_000, leaseMs = 10_000, attempts = 4, aggregator, id = runtime.id() } = options;
    const { patienceMs = 3 * leaseMs, justification = cutText(taskDescription, 1_000) } = options;
    if (this.#participations.has(id)) throw new EclipticError('SWARM_EXISTS', `there is a swarm ${id} already`);
    const invited = candidates(registry, agent.agentId, capabilities, (name) => this.#inFull(name));
    if (aggregator !== undefined) this.#inviteToo(invited, aggregator, plan);
    const wanted = await this.#reserveLog(id);
    const about = { id, task: taskDescription, capabilities, log: wanted, recruitMs, justification };
    const { members, refusals, log } = await recruit(runtime, (init) => agent.propose(init), invited, about);
    const assigned = assignPlan(plan, members);
    const unserved = plan.filter((subTask) => assigned.get(subTask) === undefined);
    if (unserved.length > 0) throw noMemberFor(id, unserved, refusals, vacancies(registry, agent.agentId, unserved));
    const busy = new Set(assigned.values());
    const participants = members.map(({ address }) => address).filter((address) => busy.has(address));
    const standby = members.map(({ address }) => address).filter((address) => !busy.has(address));
    const swarm: SwarmOpening = {
      id,
      task: taskDescription,
      capabilities,
      creator: agent.address,
      createdAt: runtime.now(),
      rules: { leaseMs, attempts, patienceMs },
      members,
      seats: seatsOf(agent.address, participants, standby, log),
      ...(log && { log }),
      ...(aggregator !== undefined && { aggregate: AGGREGATE }),
    };
    const participation = await this.#enter(id, agent.address, true);
    participation.create(swarm, planRecords(plan.map((subTask) => ({ ...subTask, assigned: assigned.get(subTask)! }))));
    return participation.reached(() => (participation.machine.board.begun ? participation.session : undefined));
  }

  /** Takes part in a swarm later. `via` is one of its members; default: one on this node. */
  async joinSwarm(swarmId: string, agentId: string, via?: string): Promise<void> {
    const { agent, memberOf } = this.#components;
    if (agentId !== agent.agentId && agentId !== agent.address)
      throw new EclipticError('SENDER_REFUSED', `${agent.agentId} does not join swarms for ${agentId}`);
    const known = this.#participations.get(swarmId);
    const sponsor = via ?? memberOf?.(swarmId);
    if (!known && sponsor === undefined) throw notFound(swarmId);
    const participation = known ?? (await this.#enter(swarmId, this.#inFull(sponsor!), false));
    const { address } = agent;
    const member = { address, capabilities: agent.capabilities(), load: agent.load(), capacity: this.capacity };
    participation.step({ type: 'join', member });
    await participation.reached(() => (participation.includes(address) || participation.isOver ? true : undefined));
  }

  async completeSubTask(swarmId: string, subTaskId: string, result: unknown): Promise<void> {
    this.#finish(swarmId, subTaskId, { value: result });
    await this.#settled(swarmId, subTaskId);
  }

  async failSubTask(swarmId: string, subTaskId: string, error: string): Promise<void> {
    this.#finish(swarmId, subTaskId, { error });
  }

  /** Does this agent take part in a swarm that was formed? After a restart, its session is known only a little later. */
  isIn(swarmId: string): boolean {
    return this.#participations.get(swarmId)?.machine.swarm !== undefined;
  }

  getSwarm(swarmId: string): SwarmSession | undefined {
    return this.#participations.get(swarmId)?.session;
  }

  listActiveSwarms(): SwarmSession[] {
    const open = [...this.#participations.values()].filter(({ isOver }) => !isOver);
    return open.flatMap(({ session }) => session ?? []);
  }

  /** Ends a swarm that this agent created, as failed for that reason. Work under way is aborted. */
  cancelSwarm(swarmId: string, reason: string): void {
    const participation = this.#require(swarmId);
    const { agent } = this.#components;
    if (participation.machine.swarm?.creator !== agent.address)
      throw new EclipticError('SENDER_REFUSED', `${agent.agentId} did not create the swarm ${swarmId}`);
    participation.step({ type: 'cancel', reason: cutText(reason, 1_000) });
  }

  /** Resolves when it has completed or failed; rejects with `SWARM_STALLED` while nothing can be settled. */
  finished(swarmId: string): Promise<SwarmOutcome> {
    const participation = this.#participations.get(swarmId);
    if (!participation) return Promise.reject(notFound(swarmId));
    return participation.reached(() => participation.outcome);
  }

  /** Calls back with the swarm at once, and whenever it has changed. Returns the function that unsubscribes. */
  watch(swarmId: string, handler: (session: SwarmSession) => void): () => void {
    const participation = this.#require(swarmId);
    const tell = () => {
      const { session } = participation;
      return session && handler(session);
    };
    callGuarded(tell, [], (error) => this.#callbackFailed(`watch of swarm ${swarmId}`, error));
    return participation.watch(tell);
  }

  /** Calls back with problems that the agent's swarms cannot solve on their own. */
  onEscalation(handler: (escalation: SwarmEscalation) => void): () => void {
    return this.#escalationHandlers.add(handler);
  }

  /** The document that the members share. They may write to its map `shared`. */
  document(swarmId: string): SharedDocument | undefined {
    return this.#participations.get(swarmId)?.document;
  }

  /** Takes part in a swarm, if the accepted proposal was an invitation; false for any other. */
  enter(engagement: Engagement, from: string, bid: Bid = {}): boolean {
    const invitation = invitationIn(engagement.input);
    if (!invitation) return false;
    const { agent } = this.#components;
    const load = bid.load ?? agent.load();
    const creator = this.#inFull(from);
    this.#enter(invitation.id, creator, true)
      .then(() => this.#usableLog(invitation, creator))
      .then((log) => engagement.complete({ load, capacity: this.capacity, ...(log && { log }) }))
      .catch((error: unknown) => engagement.fail(error).catch(() => {}));
    return true;
  }

  /** Begins a log at the broker, if there is one that answers. Members that find the result there use the same broker. */
  async #reserveLog(swarmId: string): Promise<string | undefined> {
    const { logs, runtime } = this.#components;
    const id = runtime.id();
    const reserved = logs?.append(swarmId, 0, reservation(id)).catch(() => undefined);
    const sequence = reserved && (await within(runtime, reserved, BROKER_MS, () => undefined));
    return sequence === undefined ? undefined : id;
  }

  async #usableLog({ id, log }: Invitation, creator: string): Promise<string | undefined> {
    const { logs, runtime } = this.#components;
    const reading = log === undefined ? undefined : logs?.read(id, 0).catch(() => undefined);
    const tail = reading && (await within(runtime, reading, BROKER_MS, () => undefined));
    const [first] = tail?.values.filter(({ writer }) => writer === nodeOf(creator)) ?? [];
    return first && reservationIn(first.value) === log ? log : undefined;
  }

  /** Closes all participations; stored ones go on when the agent joins again. */
  async end(error: EclipticError): Promise<void> {
    await Promise.all([...this.#participations.values()].map((participation) => participation.close(error)));
    this.#participations.clear();
  }

  async #plan(task: string, capabilities: readonly string[], options: SwarmOptions): Promise<SubTaskPlan[]> {
    const { agent } = this.#components;
    const { planner, planMs = 60_000, aggregator } = options;
    const said =
      options.plan ??
      (planner === undefined
        ? undefined
        : await agent.ask(planner, { task, requiredCapabilities: capabilities }, planMs));
    const plan = said === undefined ? planByCapability(task, capabilities) : readPlan(said, task);
    if (plan.length === 0) throw new EclipticError('INVALID_PLAN', 'a swarm needs a plan, or capabilities');
    if (aggregator === undefined) return plan;
    if (plan.some(({ id }) => id === AGGREGATE))
      throw new EclipticError('INVALID_PLAN', `"${AGGREGATE}" is the name of what the aggregator does`);
    const last = { id: AGGREGATE, description: cutText(`Make one of all results: ${task}`, 4_096) };
    const who = this.#components.registry.requireById(aggregator, agent.agentId);
    // A handler may have been attached since another node sent its card; only its owner staffs a role.
    const current = who.node === undefined || who.status?.fix !== undefined;
    const vacancy = current ? vacancyFor(who, 'proposal') : undefined;
    if (vacancy) throw new EclipticError(vacancy.code, vacancy.reason, { agentId: aggregator });
    const only = this.#inFull(who.node === undefined ? who.id : `${who.id}@${who.node}`);
    return [...plan, { ...last, requiredCapabilities: [], dependsOn: [], only }];
  }

  /** The aggregator is invited regardless of its capabilities. */
  #inviteToo(invited: ReturnType<typeof candidates>, name: string, plan: readonly SubTaskPlan[]): void {
    const { only } = plan.at(-1)!;
    if (invited.some(({ address }) => address === only)) return;
    const { capabilities } = this.#components.registry.requireById(name, this.#components.agent.agentId);
    invited.push({ name, address: only!, capabilities: capabilities.map(({ id }) => id) });
  }

  /** Begins a participation once it is on disk. */
  async #enter(swarmId: string, sponsor: string, seat: boolean): Promise<SwarmParticipation> {
    const known = this.#participations.get(swarmId) ?? this.#entering.get(swarmId);
    if (known) return known;
    this.#components.assertRoom?.(sponsor);
    const entering = this.#begin(swarmId, sponsor, seat);
    this.#entering.set(swarmId, entering);
    this.#enteringFor.set(swarmId, sponsor);
    return entering.finally(() => {
      this.#entering.delete(swarmId);
      this.#enteringFor.delete(swarmId);
    });
  }

  async #begin(swarmId: string, sponsor: string, seat: boolean): Promise<SwarmParticipation> {
    const { agent, records } = this.#components;
    await records?.begin(agent.agentId, swarmId, sponsor, seat);
    this.#forgetOld();
    return this.#add(swarmId, sponsor, seat);
  }

  #add(swarmId: string, sponsor: string, seat: boolean, memory?: StoredParticipation['memory']): SwarmParticipation {
    const { agent, runtime, records, logs, send, openDocument, onNews = () => {} } = this.#components;
    const participation = new SwarmParticipation(
      {
        runtime,
        records,
        logs,
        agentId: agent.agentId,
        send: (to, message) => send(swarmId, to, message),
        load: () => agent.load(),
        work: (work) => agent.work(work),
        openDocument,
        inFull: (name) => this.#inFull(name),
        onAbandoned: (id, error) => this.#forget(id, error),
        onNews,
        onEscalation: (escalation) => this.#escalationHandlers.call(escalation),
        callbackFailed: this.#callbackFailed,
      },
      { me: agent.address, swarmId, sponsor, seat, stallMs: STALL_MS, ...(memory && { memory }) },
    );
    this.#participations.set(swarmId, participation);
    return participation;
  }

  #forgetOld(): void {
    const over = [...this.#participations].filter(([, { isOver }]) => isOver);
    for (const [swarmId] of over.slice(0, Math.max(0, over.length - MAX_OVER)))
      this.#forget(swarmId, notFound(swarmId));
  }

  #forget(swarmId: string, error: EclipticError): void {
    const { agent, records, runtime } = this.#components;
    const failed = (err: unknown) => runtime.logger.warn({ swarm: swarmId, err }, 'swarm not deleted');
    void this.#participations.get(swarmId)?.close(error).catch(failed);
    this.#participations.delete(swarmId);
    void records?.forget(agent.agentId, swarmId).catch(failed);
  }

  #finish(swarmId: string, subTaskId: string, outcome: Parameters<typeof toFinding>[0]): void {
    if (this.#require(swarmId).finish(subTaskId, toFinding(outcome))) return;
    const { agentId } = this.#components.agent;
    throw new EclipticError('SUB_TASK_NOT_HELD', `${agentId} does not hold "${subTaskId}"`, { swarmId, subTaskId });
  }

  /** Resolves when this agent's result is settled. */
  async #settled(swarmId: string, subTaskId: string): Promise<void> {
    const participation = this.#require(swarmId);
    await participation.reached(() => {
      const row = participation.session?.subTasks.find(({ id }) => id === subTaskId);
      return row?.status === 'completed' || participation.isOver ? true : undefined;
    });
  }

  #inFull(name: string): string {
    return fullAddress(name, this.#components.registry.nodeKey);
  }

  #require(swarmId: string): SwarmParticipation {
    const participation = this.#participations.get(swarmId);
    if (participation) return participation;
    throw notFound(swarmId);
  }
}

/** The id of the aggregator's sub-task. */
const AGGREGATE = 'aggregate';

function notFound(swarmId: string): EclipticError {
  return new EclipticError('SWARM_NOT_FOUND', `there is no swarm ${swarmId} here`, { swarmId });
}

function noMemberFor(
  swarmId: string,
  unserved: readonly SubTaskPlan[],
  invited: readonly string[],
  vacant: readonly string[],
): EclipticError {
  const refusals = [...invited, ...vacant];
  const [{ id, requiredCapabilities, only }] = unserved as [SubTaskPlan, ...SubTaskPlan[]];
  const needs = only ?? requiredCapabilities.join(', ');
  const why = refusals.length > 0 ? `; ${refusals.slice(0, 3).join('; ')}` : '';
  const text = `no member of the swarm can do "${id}" (it takes ${needs})${why}`;
  const subTasks = unserved.map((subTask) => subTask.id).slice(0, 20);
  const code = invited.length === 0 && vacant.length > 0 ? 'NO_WORKER' : 'CAPABILITY_NOT_FOUND';
  return new EclipticError(code, text, { swarmId, subTasks, refusals: refusals.slice(0, 20) });
}
