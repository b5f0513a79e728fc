import type { Agent } from '../../agent/agent.js';
import { TaskCall } from '../../agent/task-call.js';
import type { TaskOpening } from '../../agent/task-messages.js';
import { OPERATOR } from '../../http/auth/caller-auth.js';
import type { Route } from '../../http/server/http-server.js';
import type { McpService } from '../../mcp/service.js';
import type { Failure } from '../../mesh/message-checks.js';
import type { Party } from '../../mesh/policy.js';
import { type AgentRegistry, notFound } from '../../mesh/registry.js';
import type { RegistryEntry } from '../../mesh/registry-index.js';
import { vacancyFor, vacancyForWords } from '../../mesh/staffing.js';
import { byPreference } from '../../mesh/targets.js';
import type { Identity } from '../../network/membership/identity.js';
import type { DeadlineQueue } from '../../runtime/deadlines.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import { Connections } from '../../system/fetch/exchange.js';
import type { AllowPrivate } from '../../system/fetch/target.js';
import { NotFoundError } from '../protocol/errors.js';
import { Cards, cardRoutes, serveCards } from './cards.js';
import { HttpBinding } from './http-binding.js';
import { type BindingComponents, JsonRpcBinding } from './json-rpc-binding.js';
import { type A2AOffersInit, Offers } from './offer.js';
import { Operations, type OtherNodes } from './operations.js';
import { OperatorTasks } from './operator-tasks.js';
import { AgentProcesses } from './process-manager.js';
import type { Profiles } from './profiles.js';
import { PushSender } from './push-sender.js';
import { SimpleRoutes } from './simple-routes.js';
import type { A2ATaskDeps } from './task-handler.js';
import type { TaskRecords } from './task-records.js';
import { type AgentRequest, TaskService } from './task-service.js';
import type { TaskTimeLimits } from './task-terms.js';

type ChoiceComponents = Pick<A2AServerComponents, 'registry' | 'mcp' | 'profiles'>;

/** The agent that a task names, one with its skill, or the first with a project that takes tasks. */
function chooseAgent(components: ChoiceComponents, wanted: AgentRequest): string {
  const { registry } = components;
  const chosen = choose(components, wanted);
  const { caller } = wanted;
  if (caller === undefined || !isPeers(caller)) return chosen;
  const source = registry.entry(caller);
  if (!source) throw new EclipticError('SENDER_REFUSED', `${caller} is not known at this node`, { agentId: caller });
  const target = registry.entry(chosen)!;
  // An agent in a sandbox that could not answer is hidden from callers outside.
  if (!registry.policy.judgeAnswer(target, source).allowed) throw notFound(wanted.agent ?? wanted.skill ?? '');
  const decision = registry.policy.ask(source, target, 'request');
  if (decision.allowed) return chosen;
  throw new EclipticError(decision.code, decision.reason);
}

/** An agent of another node asks by itself. This node lends it its name with none of the others. */
function isPeers(caller: string | undefined): boolean {
  return caller?.includes('@') === true;
}

function choose(components: ChoiceComponents, { agent, skill, caller }: AgentRequest): string {
  const { profiles, registry } = components;
  if (agent !== undefined) {
    const found = isPeers(caller) ? registry.ownEntry(agent) : registry.candidate(agent);
    if (!found || isHidden(registry, found.address, caller)) throw notFound(agent);
    return staffed(found, skill === undefined ? [] : [skill]);
  }
  if (skill !== undefined) return agentsWithSkill(components, skill, caller)[0]!;
  let vacancy: Failure | undefined;
  for (const known of profiles.withProject) {
    const entry = registry.ownEntry(known);
    if (!entry || isHidden(registry, known, caller)) continue;
    const refusal = vacancyForWords(entry.card);
    if (!refusal) return known;
    vacancy ??= refusal;
  }
  if (vacancy) throw new EclipticError(vacancy.code, vacancy.reason);
  throw new NotFoundError('Agent with default project');
}

/** As if it did not exist: an agent of a project in which the caller does not work. */
function isHidden(registry: AgentRegistry, address: string, caller: string | undefined): boolean {
  return caller !== undefined && registry.policy.isConfinedFrom(address, caller);
}

function agentsFor(components: ChoiceComponents, wanted: AgentRequest): readonly string[] {
  const { agent, skill, caller } = wanted;
  const bySkill = agent === undefined && skill !== undefined;
  return bySkill ? agentsWithSkill(components, skill, caller) : [chooseAgent(components, wanted)];
}

/** The agents with a skill that take tasks. A skill is a tool, by full or plain name, or a capability. */
function agentsWithSkill(
  { mcp, registry }: ChoiceComponents,
  skill: string,
  caller: string | undefined,
): readonly string[] {
  const isOpen = (name: string) => {
    const entry = isPeers(caller) ? registry.ownEntry(name) : registry.entry(name);
    return entry !== undefined && !isHidden(registry, name, caller);
  };
  // The node's own tools have no agent that could take a task.
  const tools = mcp.list('tool', OPERATOR).filter(({ owner }) => isOpen(owner));
  const tool = tools.find((entry) => entry.fullName === skill || entry.key === skill);
  const owner = tool && registry.entry(tool.owner);
  if (owner) return [staffed(owner, [tool.fullName], `"${tool.fullName}" is a tool, which is called over MCP; `)];
  const able = [...registry.entriesWithCapability(skill)].filter(({ address }) => isOpen(address));
  const open = able.filter(({ card }) => !vacancyFor(card, 'task', [skill]));
  if (open.length > 0) return open.toSorted(byPreference).map(({ address }) => address);
  if (able[0]) return [staffed(able[0], [skill])];
  throw new EclipticError('CAPABILITY_NOT_FOUND', `no agent has the skill "${cutText(skill, 128)}"`, { skill });
}

/** The worker learns which agent of another node asks: the caller here only stands for it. */
function askedBy(owner: string, opening: TaskOpening): TaskOpening {
  return owner.includes('@') ? { ...opening, asker: owner } : opening;
}

/** Throws `NO_WORKER` for an agent that takes no tasks. */
function staffed({ address, card }: RegistryEntry, skills: readonly string[], hint = ''): string {
  const vacancy = vacancyFor(card, 'task', skills);
  if (vacancy) throw new EclipticError(vacancy.code, `${hint}${vacancy.reason}`, { agentId: address });
  return address;
}

export interface A2AServerComponents {
  runtime: Runtime;
  deadlines: DeadlineQueue;
  registry: AgentRegistry;
  mcp: McpService;
  identity: Identity;
  records: TaskRecords;
  profiles: Profiles;
  callerAgent: (owner: string, sandbox?: string) => Agent;
  otherNodes?: OtherNodes | undefined;
}

export interface A2AServerInit {
  baseUrl: () => string;
  grpcAddress: () => string | undefined;
  /** Private addresses that webhooks may have. */
  allowPrivate?: AllowPrivate;
  /** The issuer whose JSON Web Tokens are accepted. */
  issuer?: string;
  limits?: TaskTimeLimits;
  offer?: A2AOffersInit;
}

/** The A2A server: every binding over one task service. */
export class A2AServer {
  readonly tasks: TaskService;
  readonly cards: Cards;
  readonly operatorTasks: OperatorTasks;
  readonly routes: readonly Route[];
  readonly binding: BindingComponents;
  readonly operations: Operations;
  /** The agents, here and on other nodes, that could take such a task. */
  readonly agentsFor: (wanted: AgentRequest) => readonly string[];
  readonly #pushes: PushSender;
  readonly #connections: Connections;
  readonly #stopCards: () => void;
  readonly #offers: Offers;
  /** For `handleTaskSend` with this node's agents. */
  readonly taskDeps: A2ATaskDeps;

  constructor(components: A2AServerComponents, init: A2AServerInit) {
    const { baseUrl, grpcAddress, allowPrivate, issuer, limits } = init;
    const { runtime, records } = components;
    const offers = new Offers(init.offer);
    this.#offers = offers;
    this.#connections = new Connections();
    this.#pushes = new PushSender({ runtime, records, connections: this.#connections }, { allowPrivate });
    this.cards = new Cards({ ...components, issuer, grpcAddress, offers });
    this.#stopCards = serveCards(this.cards, baseUrl);
    this.taskDeps = taskDeps(components);
    this.tasks = new TaskService({
      ...components,
      nodeKey: components.registry.nodeKey,
      startCall: ({ owner, agent, asked }, opening, listener) =>
        new TaskCall(runtime, components.callerAgent(owner, asked?.sandbox), agent, askedBy(owner, opening), listener),
      limits,
      chooseAgent: (wanted) => chooseAgent(components, wanted),
      onTask: (stored, resumed) =>
        offers.of(stored.record.agent).capabilities.pushNotifications
          ? this.#pushes.follow(stored, resumed)
          : undefined,
    });
    this.operatorTasks = new OperatorTasks({ tasks: this.tasks, records });
    const extendedCard = (agent: string | undefined, viewer: Party) => this.cards.extended(agent, viewer, baseUrl());
    const operations = new Operations({
      runtime,
      tasks: this.tasks,
      records,
      pushes: this.#pushes,
      extendedCard,
      offers,
      chooseAgent: (wanted) => chooseAgent(components, wanted),
      otherNodes: components.otherNodes,
    });
    this.operations = operations;
    this.agentsFor = (wanted) => agentsFor(components, wanted);
    this.binding = { runtime, operations, extensionsOf: (agent) => offers.of(agent).capabilities.extensions };
    this.routes = [
      new JsonRpcBinding(this.binding),
      new HttpBinding(this.binding),
      new SimpleRoutes(this.binding),
      ...cardRoutes(this.cards, baseUrl),
    ];
  }

  /** Resumes the tasks and webhooks of an earlier run. */
  async recover(): Promise<void> {
    if (this.#offers.sendsPushes) await this.#pushes.recover();
    await this.tasks.recover();
  }

  close(): void {
    this.#stopCards();
    this.tasks.close();
    this.#pushes.close();
    this.#connections.close();
  }
}

function taskDeps({ runtime, records, profiles, callerAgent }: A2AServerComponents): A2ATaskDeps {
  return {
    runtime,
    processManager: new AgentProcesses(runtime, () => callerAgent('operator')),
    db: {
      listAgents: () => profiles.all.map(({ agent: id, defaultProjectId }) => ({ id, defaultProjectId })),
      createSession: (init) => {
        const session = { ...init, id: runtime.id() };
        records.saveSession(session, runtime.now()).catch((err) => {
          runtime.logger.error({ err, session: session.id }, 'session not saved');
        });
        return session;
      },
    },
  };
}
