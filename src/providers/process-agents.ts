import type { Agent } from '../agent/agent.js';
import type { Message } from '../agent/message.js';
import type { EclipticError } from '../runtime/errors.js';
import type { ActionGate } from '../system/approvals/action-gate.js';
import { type CredentialSource, DEFAULT_WORKSPACE } from '../system/secrets/credential-source.js';
import { ACPClientAdapter, type ACPConfig, type ACPResult, type ACPTask } from './acp/acp-client.js';
import type { AcpDescription } from './acp/description.js';
import type { McpServer } from './acp/sdk.js';
import type { ProviderAdapter } from './adapter/adapter.js';
import { CommandAdapter } from './command/command-adapter.js';
import type { HostComponents } from './host/isolated-provider-host.js';
import type { Lanes } from './host/lanes.js';
import type { ProcessConfig } from './host/process-adapter.js';
import { agentCapability, serveThroughProvider } from './registry/provider-agent.js';
import type { ExecuteRoute, ProviderRegistry } from './registry/registry.js';

interface ProcessAgentsComponents extends HostComponents {
  providers: ProviderRegistry;
  lanes: Lanes;
  gate: ActionGate;
  credentials: CredentialSource;
  meshAccess: (agentId: string, description: AcpDescription) => McpServer;
}

export interface ProcessAgentInit {
  readonly type: 'command' | 'acp';
  readonly config: ProcessConfig | ACPConfig;
  /** Default: a lane named after the agent. */
  readonly lane?: string;
  /** Default 10. */
  readonly concurrency?: number;
  readonly healthMs?: number;
}

const CONCURRENCY = 10;

/** Agents of a node that are programs: each is a provider in a lane. */
export class ProcessAgents {
  readonly #components: ProcessAgentsComponents;
  readonly #pending: { agent: Agent; init: ProcessAgentInit }[] = [];

  constructor(components: ProcessAgentsComponents) {
    this.#components = components;
  }

  /** Lets a program do an agent's work. `start` starts the programs. */
  add(agent: Agent, init: ProcessAgentInit): void {
    const laneId = init.lane ?? agent.id;
    const route = { type: init.type, capabilities: [agentCapability(agent.id)] };
    if (init.type === 'acp') this.#serveAcp(agent, route, laneId);
    else {
      const through = { route, laneId, input: ({ payload }: { payload: unknown }) => payload, answer: same };
      serveThroughProvider(this.#components, agent, through);
    }
    this.#pending.push({ agent, init });
    this.#components.lanes.onReopen(laneId, () => this.#start(agent, init));
  }

  /** A program that cannot be started is tried again by the registry, and delays no other. */
  async start(): Promise<void> {
    await Promise.all(
      this.#pending.splice(0).map(({ agent, init }) =>
        this.#start(agent, init).catch(({ message }: EclipticError) => {
          this.#components.runtime.logger.warn({ agent: agent.id, reason: message }, 'agent program did not start');
        }),
      ),
    );
  }

  async #start(
    { id }: Agent,
    { type, config, lane: laneId = id, concurrency, healthMs }: ProcessAgentInit,
  ): Promise<void> {
    const { providers, lanes } = this.#components;
    const adapter = this.#adapter(id, type, laneId);
    await providers.register(
      {
        id,
        type,
        config,
        workspaceId: DEFAULT_WORKSPACE,
        concurrencyLimit: concurrency ?? CONCURRENCY,
        capabilities: [agentCapability(id)],
        laneId: lanes.open(laneId).id,
        ...(healthMs !== undefined && { healthCheckIntervalMs: healthMs }),
      },
      adapter as ProviderAdapter,
    );
  }

  #adapter(id: string, type: ProcessAgentInit['type'], laneId: string): CommandAdapter | ACPClientAdapter {
    const { lanes, meshAccess, ...components } = this.#components;
    const parts = { ...components, lane: lanes.open(laneId) };
    if (type === 'command') return new CommandAdapter(id, parts, DEFAULT_WORKSPACE);
    const mcpServers = (description: AcpDescription) => [meshAccess(id, description)];
    return new ACPClientAdapter(id, { ...parts, mcpServers }, DEFAULT_WORKSPACE);
  }

  /** Tasks and requests become prompts, and so does mail. */
  #serveAcp(agent: Agent, route: ExecuteRoute, laneId: string): void {
    const { providers, runtime } = this.#components;
    serveThroughProvider(this.#components, agent, {
      route,
      laneId,
      input: ({ text, context, files, conversation }): ACPTask => ({
        prompt: promptOf(text, context),
        files,
        conversation,
      }),
      answer: (output) => (output as ACPResult).text,
    });
    const wake = async ({ from, type, payload, thread }: Message) => {
      const prompt = `A message (${type}) from ${from} has come for you:\n\n${textOf(payload)}`;
      const terms = { caller: agent.id, laneId };
      await providers.execute(route, { prompt }, thread ?? runtime.id(), terms);
    };
    agent.onNotification(wake).onMessage(wake);
  }
}

function promptOf(text: string, context: Readonly<Record<string, unknown>>): string {
  return Object.keys(context).length === 0 ? text : `${text}\n\n${JSON.stringify(context, null, 2)}`;
}

function textOf(payload: unknown): string {
  return typeof payload === 'string' ? payload : JSON.stringify(payload, null, 2);
}

function same(output: unknown): unknown {
  return output;
}
