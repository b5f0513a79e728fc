import { resolve } from 'node:path';
import type { Agent } from '../agent/agent.js';
import type { Message } from '../agent/message.js';
import type { Knowledge } from '../collections/collections.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { EclipticError } from '../runtime/errors.js';
import { jsonIn } from '../runtime/json-text.js';
import type { Store } from '../store/store.js';
import type { ActionGate } from '../system/approvals/action-gate.js';
import { isWithin } from '../system/jail/mounts.js';
import type { JailSettings } from '../system/process/jail-settings.js';
import { type CredentialSource, DEFAULT_WORKSPACE } from '../system/secrets/credential-source.js';
import { a2aConfig, type RemoteAgentsSettings, remoteAgents } from './a2a/remote-agents.js';
import { ACPClientAdapter, type ACPConfig, type ACPResult, type ACPTask } from './acp/acp-client.js';
import type { AcpDescription } from './acp/description.js';
import type { McpServer } from './acp/sdk.js';
import type { ProviderAdapter, ProviderRegistration } from './adapter/adapter.js';
import type { ProviderEvents } from './adapter/events.js';
import type { WorkerTask } from './adapter/worker-task.js';
import { CommandAdapter } from './command/command-adapter.js';
import { ExecAdapter, type ExecConfig } from './exec/exec-adapter.js';
import type { HostComponents } from './host/isolated-provider-host.js';
import type { Lanes } from './host/lanes.js';
import type { ProcessConfig } from './host/process-adapter.js';
import { ModelAdapter, type ModelConfig } from './model/model-adapter.js';
import { PermittedWorker } from './registry/permitted-worker.js';
import { agentCapability, serveThroughProvider } from './registry/provider-agent.js';
import type { ExecuteRoute, ProviderRegistry } from './registry/registry.js';
import { Worker, type WorkerLanguage } from './registry/worker.js';
import { WorktreeWorker } from './worktree/worktree-worker.js';
import type { WorktreeSettings, Worktrees } from './worktree/worktrees.js';

interface WorkersComponents extends HostComponents {
  registry: AgentRegistry;
  providers: ProviderRegistry;
  events: ProviderEvents;
  lanes: Lanes;
  worktrees: Worktrees;
  gate: ActionGate;
  credentials: CredentialSource;
  /** Keeps the conversations of coding agents. Default: in memory. */
  store?: Store | undefined;
  meshAccess: (agentId: string, description: AcpDescription) => McpServer;
  knowledgeFor: (agentId: string, text: string) => Knowledge | undefined;
  /** Can this node talk to that one now? */
  reachable: (node: string) => boolean;
  /** The role of an agent, in words for a model. */
  rolePrompt: (agent: Agent) => Promise<string>;
  allowPrivate?: readonly string[] | undefined;
}

/** One worker of an agent, with the settings that all kinds of workers have. */
export type WorkerInit = WorkerKind & {
  /** Default: a lane named after the agent. */
  readonly lane?: string;
  /** Default 10. */
  readonly concurrency?: number;
  readonly healthMs?: number | undefined;
  /** Each task runs in a git worktree of its own. */
  readonly worktree?: WorktreeSettings | undefined;
};

type WorkerKind =
  | { readonly type: 'command'; readonly config: ProcessConfig }
  | { readonly type: 'acp'; readonly config: ACPConfig }
  | { readonly type: 'exec'; readonly config: ExecConfig }
  | { readonly type: 'model'; readonly config: ModelConfig }
  | { readonly type: 'a2a'; readonly config: RemoteAgentsSettings };

type WorkerPlace = Required<Pick<ProviderRegistration, 'id' | 'priority' | 'pool' | 'capabilities'>>;

const CONCURRENCY = 10;

/** The workers of a node's agents: each is a provider in the pool of its agent. */
export class Workers {
  readonly #components: WorkersComponents;
  readonly #pending: (() => Promise<void>)[] = [];

  constructor(components: WorkersComponents) {
    this.#components = components;
  }

  /** Lets workers do an agent's work, the first healthy one at a time. `start` starts them. */
  add(agent: Agent, inits: readonly WorkerInit[]): void {
    const [first] = inits;
    if (!first) return;
    const capability = agentCapability(agent.id);
    // Several workers of any type stand in for each other; a single one belongs to the providers of its type.
    const pool = inits.length > 1 ? capability : first.type;
    const route = { type: pool, capabilities: [capability] };
    serveThroughProvider(this.#components, agent, { route, laneId: first.lane ?? agent.id });
    for (const [priority, init] of inits.entries()) {
      const id = inits.length > 1 ? `${agent.id}/${priority + 1}` : agent.id;
      const start = () => this.#start(agent, init, { id, priority, pool, capabilities: [capability] });
      this.#pending.push(start);
      if (usesLane(init)) this.#components.lanes.onReopen(init.lane ?? agent.id, start);
    }
    if (inits.some(({ type }) => type === 'acp')) this.#wakeByMail(agent, route);
  }

  /** A worker that cannot be started is tried again by the registry, and delays no other. */
  async start(): Promise<void> {
    await Promise.all(
      this.#pending.splice(0).map((start) =>
        start().catch(({ message }: EclipticError) => {
          this.#components.runtime.logger.warn({ reason: message }, 'worker did not start');
        }),
      ),
    );
  }

  async #start(agent: Agent, init: WorkerInit, place: WorkerPlace): Promise<void> {
    const { providers, lanes } = this.#components;
    const { type, lane: laneId = agent.id, concurrency = CONCURRENCY, healthMs } = init;
    const config = this.#configOf(agent, init);
    // Without a repository to look for, a provider is registered at once: work may come in the same turn.
    await providers.register(
      {
        ...place,
        type,
        config: config instanceof Promise ? await config : config,
        workspaceId: DEFAULT_WORKSPACE,
        concurrencyLimit: concurrency,
        ...(usesLane(init) && { laneId: lanes.open(laneId).id }),
        ...(healthMs !== undefined && { healthCheckIntervalMs: healthMs }),
      },
      this.#permitted(this.#worker(agent, init, laneId) as ProviderAdapter<unknown, WorkerTask>),
    );
  }

  /** A jailed program that runs on works in the worktrees of its agent, and may read their repository. */
  #configOf(agent: Agent, init: WorkerInit) {
    const { type, config, worktree } = init;
    if (type === 'a2a') return a2aConfig(config);
    if ((type !== 'acp' && type !== 'command') || !config.jail || !worktree) return config;
    return this.#jailedConfigOf(agent, init.lane ?? agent.id, { ...config, jail: config.jail });
  }

  async #jailedConfigOf<Config extends { jail: JailSettings; cwd?: string | undefined }>(
    agent: Agent,
    laneId: string,
    config: Config,
  ) {
    const { worktrees, lanes } = this.#components;
    const { jail, cwd = lanes.open(laneId).folder } = config;
    const write = [...(jail.write ?? []), worktrees.folderOf(agent.id)];
    // A folder without a repository is refused when the worker starts.
    const repository = await worktrees.repositoryOf(cwd).catch(() => undefined);
    const isThere = repository === undefined || isWithin(repository, resolve(cwd));
    const read = [...(jail.read ?? []), ...(isThere ? [] : [repository])];
    return { ...config, jail: { ...jail, read, write } };
  }

  #permitted(worker: ProviderAdapter<unknown, WorkerTask>): ProviderAdapter {
    const { permit } = this.#components;
    return (permit ? new PermittedWorker(worker, permit) : worker) as ProviderAdapter;
  }

  #worker(agent: Agent, init: WorkerInit, laneId: string) {
    const worker = this.#plainWorker(agent, init, laneId);
    const { worktree: settings, type, config } = init;
    if (settings === undefined || type === 'a2a') return worker;
    const { worktrees, lanes } = this.#components;
    const cwd = config.cwd ?? lanes.open(laneId).folder;
    return new WorktreeWorker(worker as ProviderAdapter<unknown, WorkerTask>, {
      ...{ agent: agent.id, cwd, settings, worktrees },
    });
  }

  #plainWorker(agent: Agent, { type, config }: WorkerInit, laneId: string) {
    const { lanes, meshAccess, rolePrompt, worktrees: _, ...components } = this.#components;
    if (type === 'a2a') return remoteAgents({ ...components, agent }, config);
    const parts = { ...components, lane: lanes.open(laneId) };
    // Credentials belong to the agent, whichever of its workers uses them.
    const { id } = agent;
    switch (type) {
      case 'command':
        return new Worker(new CommandAdapter(id, parts, DEFAULT_WORKSPACE), COMMAND);
      case 'acp': {
        const mcpServers = (description: AcpDescription) => [meshAccess(id, description)];
        return new Worker(new ACPClientAdapter(id, { ...parts, mcpServers }, DEFAULT_WORKSPACE), ACP);
      }
      case 'exec':
        return new ExecAdapter(id, parts, DEFAULT_WORKSPACE);
      case 'model':
        return new ModelAdapter(agent, { ...parts, rolePrompt }, DEFAULT_WORKSPACE);
    }
  }

  /** A coding agent gets mail as a prompt. */
  #wakeByMail(agent: Agent, route: ExecuteRoute): void {
    const { providers, runtime } = this.#components;
    const wake = async ({ from, type, payload, thread }: Message) => {
      const said = typeof payload === 'string' ? payload : JSON.stringify(payload, null, 2);
      const text = `A message (${type}) from ${from} has come for you:\n\n${said}`;
      const task: WorkerTask = { text, context: {}, payload, from };
      await providers.execute(route, task, thread ?? runtime.id(), { caller: agent.id });
    };
    agent.onNotification(wake).onMessage(wake);
  }
}

const COMMAND: WorkerLanguage<unknown, unknown> = { input: ({ payload }) => payload, answer: (output) => output };

const ACP: WorkerLanguage<ACPTask, ACPResult> = {
  input: ({ from, conversation = from, files, ...task }) => ({ prompt: promptOf(task), files, conversation }),
  answer: ({ text }, { outputSchema }) => (outputSchema ? (jsonIn(text) ?? text) : text),
};

function promptOf({ text, context, outputSchema, knowledge }: Omit<WorkerTask, 'from' | 'files'>): string {
  const parts = [
    ...(knowledge?.sections ?? []),
    text,
    ...(Object.keys(context).length === 0 ? [] : [JSON.stringify(context, null, 2)]),
    ...(outputSchema ? [`Answer with JSON only, as this schema says:\n${JSON.stringify(outputSchema)}`] : []),
  ];
  return parts.join('\n\n');
}

/** Remote agents run nothing here. */
function usesLane({ type }: WorkerInit): boolean {
  return type !== 'a2a';
}
