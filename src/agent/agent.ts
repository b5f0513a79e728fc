import type { DocumentOptions, SharedDocument } from '../documents/document.js';
import type { Documents } from '../documents/documents.js';
import type { Offer } from '../mcp/catalogue.js';
import type { Kind } from '../mcp/definitions.js';
import {
  offerPrompt,
  offerResource,
  offerTool,
  type PromptHandler,
  type PromptInit,
  type ResourceInit,
  type ResourceLoader,
  type ToolHandler,
  type ToolInit,
  type ToolOptions,
} from '../mcp/offering.js';
import type { RequestState } from '../mcp/request-state.js';
import type { CheckedBy, OutputOf, Schema } from '../mcp/schema.js';
import type { McpService } from '../mcp/service.js';
import type { ValidEnvelope } from '../mesh/envelope.js';
import type { A2AObservability, TaskKind } from '../mesh/observability.js';
import type { Objects } from '../objects/objects.js';
import { attachmentsIn } from '../objects/reference.js';
import type { EclipticError } from '../runtime/errors.js';
import { namedSpan, spanUntilResult } from '../runtime/tracing.js';
import type { Negotiation, ProposalHandler, ProposalInit } from '../work/proposals/proposal.js';
import type { ProposalRecords } from '../work/proposals/proposal-records.js';
import type { ProposalSide } from '../work/proposals/proposal-side.js';
import { isOfProposal, PROPOSAL } from '../work/proposals/proposal-wire.js';
import type { TaskNegotiator } from '../work/proposals/task-negotiator.js';
import type { SwarmCoordinator } from '../work/swarm/swarm-coordinator.js';
import type { Swarms } from '../work/swarm/swarms.js';
import { AgentCore, type AgentCoreComponents, type RequestHandler } from './agent-core.js';
import type { AgentInit } from './agent-init.js';
import { AgentObjects } from './agent-objects.js';
import { AgentProposals } from './agent-proposals.js';
import { AgentSwarms, type SwarmInit, type SwarmRun } from './agent-swarms.js';
import { AgentTasks, plainAnswer, plainPayload, type TaskHandler, type TaskOptions } from './agent-tasks.js';
import { AgentTools } from './agent-tools.js';
import { type GivenWork, undertake } from './given-work.js';
import type { WorkerHealth } from './staffing.js';
import { TASK, type TaskNews, type TaskOpening, taskIn } from './task-messages.js';
import { TimedTask } from './timed-task.js';

export interface AgentComponents extends AgentCoreComponents {
  /** Undefined on a node without a store. */
  proposals: ProposalRecords | undefined;
  observability: A2AObservability;
  mcp: McpService;
  documents: Documents;
  objects: Objects;
  swarms: Swarms;
}

/**
 * A live agent: what its author writes against. Made by `node.agent()`. It adds the features to the core: one more is its
 * typed methods here, a line in `takeFeature` if it has messages, and a line in `endFeatures`.
 */
export class Agent extends AgentCore {
  readonly #components: AgentComponents;
  #tasks: AgentTasks | undefined;
  /** Made with the first proposal: most agents never have one. */
  #proposals: AgentProposals | undefined;
  #swarms: AgentSwarms | undefined;

  /** @internal */
  constructor(components: AgentComponents, init: AgentInit, onLeave: (agent: { readonly id: string }) => void) {
    super(components, init, onLeave);
    this.#components = components;
    if (components.proposals?.has(this.id)) this.#negotiating();
    if (components.swarms.has(this.id)) this.#swarming();
  }

  override onRequest(handler: RequestHandler): this {
    super.onRequest(handler);
    this.#proposals?.resume();
    return this;
  }

  /** Works on tasks, as A2A knows them: with progress, artifacts and questions. */
  onTask(handler: TaskHandler, options: TaskOptions = {}): this {
    return this.#worksOn(new AgentTasks(this.#components.runtime, this.address, handler, options));
  }

  /**
   * As `onTask`, for tasks whose `task.input` matches the schema and has its type. A task whose input does not match is
   * rejected with `INVALID_ARGUMENTS`, and the handler does not see it. A method of its own: were `onTask` generic,
   * TypeScript would refuse `const mars = node.agent(…).onTask(() => mars.request(…))` as circular.
   */
  onTypedTask<S extends Schema>(input: S, handler: TaskHandler<CheckedBy<S>>, options: TaskOptions = {}): this {
    const { runtime } = this.#components;
    return this.#worksOn(new AgentTasks(runtime, this.address, handler as TaskHandler, options, input));
  }

  /** Proposes work to another agent, or to one that has the capabilities it needs. */
  propose(init: ProposalInit): Negotiation {
    return this.#tracing('propose', () => this.#negotiating().propose(init));
  }

  /** Proposes work to every agent that has the capabilities it needs; the best bid gets it, and the others are told. */
  proposeToAll(init: Omit<ProposalInit, 'to'>): Negotiation {
    return this.#tracing('propose', () => this.#negotiating().proposeToAll(init));
  }

  /** Decides about proposals to this agent. Without this, its task or request handler takes what it is able to do. */
  onProposal(handler: ProposalHandler): this {
    this.#negotiating().handle(handler);
    this.staffing.add('proposal');
    return this;
  }

  /** This agent's proposals by their ids. */
  get negotiator(): TaskNegotiator {
    return this.#negotiating().negotiator;
  }

  /** Proposals that this agent made, those of an earlier run of a durable one too. */
  get negotiations(): readonly Negotiation[] {
    return this.#proposals?.negotiator.negotiations ?? [];
  }

  /** @internal Proposals that this agent made and got, as far as they are remembered. */
  get proposalSides(): readonly ProposalSide[] {
    return this.#proposals?.negotiator.sides ?? [];
  }

  /** Offers a tool under `agent.name` to everyone who may use this agent's tools. */
  tool<I extends Schema = Schema, O extends Schema = Schema>(
    name: string,
    options: ToolOptions<I, O>,
    handler: ToolHandler<OutputOf<I>>,
  ): this {
    return this.#offer([offerTool(this.#seal, name, options, handler)]);
  }

  /** Offers several tools at once: all of them, or, if one is refused, none. */
  tools(list: readonly ToolInit[]): this {
    const seal = this.#seal;
    return this.#offer(
      list.map(({ name, handler, ...options }) => offerTool(seal, name, options, handler as ToolHandler<unknown>)),
    );
  }

  /** Offers a resource, or with a `uriTemplate` all that it describes; the loader is asked at every reading. */
  resource(init: ResourceInit, loader: ResourceLoader): this {
    return this.#offer([offerResource(this.#seal, init, loader)]);
  }

  /** Offers a prompt: a template with `{{argument}}` in it, or a handler that makes the messages. */
  prompt(init: PromptInit, handler?: PromptHandler): this {
    return this.#offer([offerPrompt(this.#seal, init, handler)]);
  }

  /** Takes back a tool or a prompt by its name, or a resource by its URI. */
  withdraw(kind: Kind, ...names: string[]): this {
    this.#components.mcp.catalogue.remove(this.id, kind, names);
    return this;
  }

  /** @internal Tools of this agent came or went, its own or those of a server that it owns. */
  toolsChanged(names: Iterable<string>, gone: boolean): void {
    this.staffing.toolsChanged(names, gone);
  }

  /** @internal The health of a tool server that this agent owns. */
  setServerHealth(server: string, health: WorkerHealth): void {
    this.staffing.setServerHealth(server, health);
  }

  /** Tells subscribers of a resource of this agent that its content has changed. */
  resourceUpdated(uri: string): void {
    this.#components.mcp.resourceUpdated(this.id, uri);
  }

  /** Tools, resources and prompts of other agents, as this one may use them. */
  get mcp(): AgentTools {
    return new AgentTools(this.#components.mcp, () => {
      this.assertPresent();
      return this.#components.registry.entry(this.id)!;
    });
  }

  /** Files and other bytes that are too large for a message. */
  get objects(): AgentObjects {
    return new AgentObjects(this.#components.objects, () => {
      this.assertPresent();
      return this.#components.registry.entry(this.id)!;
    });
  }

  /** This agent's replica of a document that it shares with every agent that opens the same name and may. */
  state(name: string, options?: DocumentOptions): SharedDocument {
    this.assertPresent();
    return this.#components.documents.open(this.sender, name, options);
  }

  /** The shared documents that this agent has open. */
  get documents(): SharedDocument[] {
    return this.#components.documents.list.flatMap(({ agentId, document }) => (agentId === this.id ? [document] : []));
  }

  /** Forms a swarm of agents that have the capabilities, which do the task between them, and reports the outcome. */
  swarm(task: string, init: SwarmInit): SwarmRun {
    return this.#tracing('swarm', () => this.#swarming().run(task, init));
  }

  /** This agent's swarms by their ids: those it formed, and those it takes part in. */
  get swarms(): SwarmCoordinator {
    return this.#swarming().coordinator;
  }

  #worksOn(tasks: AgentTasks): this {
    this.#tasks = tasks;
    this.staffing.limitTo(tasks.capabilities);
    this.staffing.add('task', 'proposal');
    this.#proposals?.resume();
    return this;
  }

  /** @internal */
  protected takeFeature(envelope: ValidEnvelope): boolean | Promise<void> {
    switch (envelope.type) {
      case 'request':
        return this.#takeTask(envelope);
      case 'notification':
        return this.#takeProposal(envelope) || this.#takeTask(envelope);
      case 'stream-data':
        return (
          this.#takeProposal(envelope) ||
          this.#components.swarms.take(this.id, envelope) ||
          this.#components.documents.take(this.id, envelope)
        );
      default:
        return this.#takeProposal(envelope);
    }
  }

  /** @internal */
  protected isOrdinary(payload: unknown): boolean {
    if (typeof payload !== 'object' || payload === null) return true;
    try {
      return !(TASK in payload || PROPOSAL in payload);
    } catch {
      // A proxy that throws.
      return false;
    }
  }

  /** @internal Its handler may forget the reference: the owner can still name the object by its id. */
  protected takeAttachments({ payload }: ValidEnvelope): void {
    for (const ref of attachmentsIn(payload)) this.#components.objects.note(ref, this.address);
  }

  /** @internal */
  protected endFeatures(error: EclipticError): void {
    const { swarms, documents, mcp } = this.#components;
    this.#tasks?.end(error);
    this.#proposals?.negotiator.end(error);
    swarms.leave(this.id);
    documents.leave(this.id);
    mcp.catalogue.removeOwner(this.id);
  }

  get #seal(): RequestState {
    return this.#components.mcp.requestState.of(this.id);
  }

  #offer(offers: readonly Offer[]): this {
    this.assertPresent();
    this.#components.mcp.catalogue.add(this.id, undefined, offers);
    return this;
  }

  /** A message about a task is never for another handler, even if no handler works on that task any more. */
  #takeTask(envelope: ValidEnvelope): boolean | Promise<void> {
    const said = taskIn<TaskOpening & TaskNews>(envelope.payload);
    if (said === undefined) return false;
    if (envelope.type === 'request') return this.#work(envelope, said) ?? true;
    this.#tasks?.take(envelope.sender, said);
    return true;
  }

  /** An agent that only answers requests is asked what the task asks. */
  #work(envelope: ValidEnvelope, opening: TaskOpening): void | Promise<void> {
    const tasks = this.#tasks;
    const handler = this.requestHandler;
    if (!tasks && !handler) this.replyError(envelope, this.staffing.refusal('task'));
    return this.#timed('task', opening.id).during(() =>
      this.answer(envelope, (message) => {
        if (tasks) return tasks.run(message, opening);
        const answer = handler!(message.withPayload(plainPayload(opening)));
        return answer instanceof Promise ? plainAnswer(answer) : answer;
      }),
    );
  }

  #takeProposal(envelope: ValidEnvelope): boolean {
    return isOfProposal(envelope) && this.#negotiating().negotiator.take(envelope);
  }

  #negotiating(): AgentProposals {
    if (this.#proposals) return this.#proposals;
    this.assertPresent();
    const { registry, mail, proposals, ...rest } = this.#components;
    this.#proposals = new AgentProposals({
      ...rest,
      registry,
      sender: this.sender,
      records: proposals,
      knows: (address) => registry.entry(address) !== undefined || mail?.find(address) !== undefined,
      card: () => this.card,
      undertake: (work) => this.#undertake(work, 'proposal'),
      isStaffed: () => this.#tasks !== undefined || this.requestHandler !== undefined,
      refusal: () => this.staffing.refusal('proposal'),
      onObserved: () => this.staffing.add('proposal'),
      enterSwarm: (engagement, from, bid) => this.#swarming().coordinator.enter(engagement, from, bid),
    });
    return this.#proposals;
  }

  #swarming(): AgentSwarms {
    if (this.#swarms) return this.#swarms;
    this.assertPresent();
    this.#swarms = new AgentSwarms({
      runtime: this.#components.runtime,
      swarms: this.#components.swarms,
      sender: this.sender,
      card: () => this.card,
      proposals: () => this.#negotiating(),
      undertake: (work) => this.#undertake(work, 'sub-task'),
      ask: (to, payload, timeoutMs) => this.request(to, payload, { timeoutMs }),
    });
    return this.#swarms;
  }

  /** Gives work to the agent's task or request handler. False where it has neither. */
  #undertake(work: GivenWork, kind: TaskKind): boolean {
    if (!this.#tasks && !this.requestHandler) return false;
    const timed = this.#timed(kind, work.id);
    const { factory } = this.#components;
    return timed.run(() => undertake(work, this.#tasks, this.requestHandler, factory, this.context, timed.end));
  }

  #tracing<T extends { readonly result: Promise<unknown> }>(name: string, begin: () => T): T {
    const { tracer } = this.#components.runtime;
    const own = { 'ecliptic.agent': this.id };
    if (!tracer || name !== 'swarm') return spanUntilResult(tracer, name, own, begin);
    const span = namedSpan(tracer, name, 'invoke_workflow', name);
    return spanUntilResult(tracer, span.name, { ...own, ...span.attributes }, begin);
  }

  #timed(kind: TaskKind, id: string): TimedTask {
    return new TimedTask(this.#components, kind, { agent: this.id, id });
  }
}
