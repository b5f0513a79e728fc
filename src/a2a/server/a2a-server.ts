import type { Agent } from '../../agent/agent.js';
import type { Route } from '../../http/server/http-server.js';
import type { McpService } from '../../mcp/service.js';
import type { Party } from '../../mesh/policy.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import type { Identity } from '../../network/membership/identity.js';
import type { DeadlineQueue } from '../../runtime/deadlines.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { AllowPrivate } from '../../system/fetch/allow-list.js';
import { Connections } from '../../system/fetch/connections.js';
import { AgentChoice } from './agent-choice.js';
import { cardRoutes } from './card-routes.js';
import { Cards } from './cards.js';
import { HttpBinding } from './http-binding.js';
import { serveCards } from './instance-card.js';
import { type BindingComponents, JsonRpcBinding } from './json-rpc-binding.js';
import { type A2AOffer, type A2AOfferInit, offerOf } from './offer.js';
import { Operations } from './operations.js';
import { OperatorTasks } from './operator-tasks.js';
import { AgentProcesses } from './process-manager.js';
import type { Profiles } from './profiles.js';
import { PushSender } from './push-sender.js';
import { SimpleRoutes } from './simple-routes.js';
import type { TaskTimeLimits } from './task-execution.js';
import type { A2ATaskDeps } from './task-handler.js';
import type { TaskRecords } from './task-records.js';
import { TaskService } from './task-service.js';

export interface A2AServerComponents {
  runtime: Runtime;
  deadlines: DeadlineQueue;
  registry: AgentRegistry;
  mcp: McpService;
  identity: Identity;
  records: TaskRecords;
  profiles: Profiles;
  callerAgent: (owner: string) => Agent;
}

export interface A2AServerInit {
  /** Where this node is reached. */
  baseUrl: () => string;
  /** Where it is reached over gRPC, if it is. */
  grpcAddress: () => string | undefined;
  /** Private addresses that webhooks may have. */
  allowPrivate?: AllowPrivate | undefined;
  /** Whose JSON Web Tokens are taken. */
  issuer?: string | undefined;
  limits?: TaskTimeLimits | undefined;
  /** What clients are offered. */
  offer?: A2AOfferInit | undefined;
}

/** Tasks for A2A clients: every binding over one tasks. */
export class A2AServer {
  readonly tasks: TaskService;
  readonly cards: Cards;
  readonly operatorTasks: OperatorTasks;
  readonly routes: readonly Route[];
  /** What every binding is made of. */
  readonly binding: BindingComponents;
  readonly #pushes: PushSender;
  readonly #connections: Connections;
  readonly #stopCards: () => void;
  readonly #offer: A2AOffer;
  /** What `handleTaskSend` needs to give tasks to this node's agents. */
  readonly taskDeps: A2ATaskDeps;

  constructor(components: A2AServerComponents, init: A2AServerInit) {
    const { baseUrl, grpcAddress, allowPrivate, issuer, limits } = init;
    const { runtime, records } = components;
    const offer = offerOf(init.offer);
    this.#offer = offer;
    this.#connections = new Connections();
    this.#pushes = new PushSender({ runtime, records, connections: this.#connections }, { allowPrivate });
    this.cards = new Cards({ ...components, issuer, grpcAddress, offer });
    this.#stopCards = serveCards(this.cards);
    this.taskDeps = taskDeps(components);
    const choice = new AgentChoice(components);
    this.tasks = new TaskService({
      ...components,
      nodeKey: components.registry.nodeKey,
      limits,
      chooseAgent: (wanted) => choice.choose(wanted),
      onTask: (stored, resumed) =>
        offer.capabilities.pushNotifications ? this.#pushes.follow(stored, resumed) : undefined,
    });
    this.operatorTasks = new OperatorTasks({ tasks: this.tasks, records });
    const extendedCard = (agent: string | undefined, viewer: Party) => this.cards.extended(agent, viewer, baseUrl());
    const operations = new Operations({
      runtime,
      tasks: this.tasks,
      records,
      pushes: this.#pushes,
      extendedCard,
      offer,
    });
    this.binding = { runtime, operations, extensions: offer.capabilities.extensions };
    this.routes = [
      new JsonRpcBinding(this.binding),
      new HttpBinding(this.binding),
      new SimpleRoutes(runtime, this.tasks),
      ...cardRoutes(this.cards, baseUrl),
    ];
  }

  /** Goes on with the tasks and webhooks of an earlier run. */
  async recover(): Promise<void> {
    if (this.#offer.capabilities.pushNotifications) await this.#pushes.recover();
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
          runtime.logger.error({ err, session: session.id }, 'a session could not be kept');
        });
        return session;
      },
    },
  };
}
