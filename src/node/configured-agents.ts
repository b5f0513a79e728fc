import { resolve } from 'node:path';
import type { AgentAbout } from '../a2a/server/profiles.js';
import type { Agent } from '../agent/agent.js';
import type { AgentInit } from '../agent/agent-init.js';
import type { Upstreams } from '../mcp/upstream/upstreams.js';
import type { MCPServers } from '../providers/mcp/mcp-servers.js';
import type { Workers } from '../providers/workers.js';
import { addDefaultBehaviour, PLANETARY_ROSTER, vacancyOf } from '../roster/planetary-roster.js';
import { offerRemoteAgents } from '../roster/remote-agent-tools.js';
import {
  offerRosterTools,
  type RosterToolsComponents,
  toolCapabilities,
  toolVacancy,
  workByRosterTools,
} from '../roster/roster-tools.js';
import { within } from '../runtime/async.js';
import { EclipticError, toEclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import { cardOf } from './config/agent-card.js';
import { runAgentModule } from './config/agent-module.js';
import type { LoadedConfig } from './config/load.js';
import { readMcpServers, readWorkers } from './config/providers.js';
import type { AgentConfig } from './config/schema.js';
import { kindsOf } from './config/worker-schema.js';
import type { EclipticNode } from './node.js';

export interface ConfiguredAgentsComponents {
  runtime: Runtime;
  node: EclipticNode;
  workers: Workers;
  upstreams: Upstreams;
  mcpServers: MCPServers;
  rosterTools: RosterToolsComponents;
  env: Readonly<Record<string, string | undefined>>;
}

const ROLES: ReadonlyMap<string, AgentInit> = new Map(PLANETARY_ROSTER.map((role) => [role.id, role]));
/** Time that an agent's module gets to set itself up. */
const SETUP_MS = 30_000;

/** The agents and MCP servers that a configuration names, on one node. */
export class ConfiguredAgents {
  readonly #components: ConfiguredAgentsComponents;
  readonly #loaded: LoadedConfig;
  readonly #failures = new Map<string, EclipticError>();

  constructor(components: ConfiguredAgentsComponents, loaded: LoadedConfig) {
    this.#components = components;
    this.#loaded = loaded;
  }

  /** Why agents could not be set up, by agent. */
  get failures(): ReadonlyMap<string, EclipticError> {
    return this.#failures;
  }

  /** Makes the agents of the roster and of the configuration, and runs their modules. */
  async startAgents(): Promise<void> {
    const { config, folder } = this.#loaded;
    const { runtime, node } = this.#components;
    const own = config.agents ?? {};
    for (const role of config.roster === false ? [] : ROLES.values()) {
      if (Object.hasOwn(own, role.id)) continue;
      const agent = node.agent({ ...role, vacancy: vacancyOfRole(role.id) });
      addDefaultBehaviour(agent);
      if (agent.id === 'sun') offerRemoteAgents(agent, { runtime, allowPrivate: config.http?.allowPrivate });
      this.#equip(agent, this.#staff(agent, {}));
    }
    for (const [id, agentConfig] of Object.entries(own)) {
      const { module } = agentConfig;
      const role = this.#roleOf(id, agentConfig);
      // A role of the roster that the configuration staffs keeps the fields that the configuration does not set.
      const agent = node.agent({ id, ...role, ...cardOf(agentConfig), vacancy: vacancyOfRole(id, module) });
      const isStaffed = this.#staff(agent, agentConfig);
      // A module may add to what the remote agents do.
      if (module !== undefined) await this.#setUp(agent, resolve(folder, module));
      else if (!isStaffed || role) addDefaultBehaviour(agent);
      if (role) this.#equip(agent, isStaffed || module !== undefined);
    }
  }

  /** Connects the MCP servers in the background. Each is owned by an agent, which is made where it does not exist. */
  startServers(): void {
    const { config, folder } = this.#loaded;
    const { node, upstreams, mcpServers, env } = this.#components;
    const { servers, idle } = readMcpServers(config.mcpServers ?? {}, env, folder, (agent) => {
      return config.agents?.[agent]?.sandbox !== undefined;
    });
    const present = new Set(node.agents.map(({ id }) => id));
    for (const { name, agent } of [...servers, ...idle]) {
      if (present.has(agent)) continue;
      present.add(agent);
      node.agent({ id: agent, description: `Owns what the MCP server "${name}" offers.` });
    }
    for (const server of idle) upstreams.addIdle(server);
    for (const server of servers) {
      try {
        mcpServers.add(server);
      } catch (error) {
        const { name, agent } = server;
        upstreams.addIdle({ name, agent, fault: toEclipticError(error, 'INVALID_CONFIG') });
      }
    }
  }

  /** The project, permissions and persona of each agent, which are not on its card. */
  get about(): Record<string, AgentAbout> {
    const entries = Object.entries(this.#loaded.config.agents ?? {}).map(([id, config]) => {
      const { project, toolPermissions, persona, skillBundles } = config;
      const about: AgentAbout = {
        ...(project !== undefined && { defaultProjectId: project }),
        ...(toolPermissions && { mcpToolPermissions: toolPermissions }),
        ...(persona && { persona }),
        ...(skillBundles && { skillBundles }),
      };
      return [id, about];
    });
    return Object.fromEntries(entries);
  }

  /** Without the roster, an agent that the configuration staffs is its own; one that is only named there is the role. */
  #roleOf(id: string, config: AgentConfig): AgentInit | undefined {
    const isStaffed = config.module !== undefined || config.workers !== undefined || kindsOf(config).length > 0;
    return this.#loaded.config.roster === false && isStaffed ? undefined : ROLES.get(id);
  }

  /** Gives the agent its workers, or the model for all roles without one. Workers are only noted here, and start later. */
  #staff(agent: Agent, config: AgentConfig): boolean {
    const { workers, env } = this.#components;
    const { model } = this.#loaded.config;
    try {
      const own = readWorkers(config, env, this.#loaded.folder);
      const isRole = own.length === 0 && config.module === undefined && ROLES.has(agent.id);
      const inits = isRole && model ? readWorkers({ model }, env, this.#loaded.folder) : own;
      if (inits.length > 0) workers.add(agent, inits);
      return inits.length > 0;
    } catch (error) {
      this.#failed(agent, toEclipticError(error, 'INVALID_CONFIG'));
      return true;
    }
  }

  /** The tools of a role are there for everyone; they do its tasks only where it has no worker. */
  #equip(agent: Agent, isStaffed: boolean): void {
    const { rosterTools } = this.#components;
    offerRosterTools(agent, rosterTools);
    if (!isStaffed) workByRosterTools(agent, rosterTools);
  }

  /** A module that fails leaves its own agent without behaviour; the node goes on. */
  async #setUp(agent: Agent, module: string): Promise<void> {
    try {
      await within(this.#components.runtime, runAgentModule(agent, module), SETUP_MS, () => {
        throw new EclipticError('MODULE_FAILED', `setup in ${module} did not finish within ${SETUP_MS} ms`);
      });
    } catch (error) {
      this.#failed(agent, toEclipticError(error, 'MODULE_FAILED'));
    }
  }

  #failed(agent: Agent, failure: EclipticError): void {
    const { runtime, node } = this.#components;
    this.#failures.set(agent.id, failure);
    agent.workerHealth = { state: 'unavailable', reason: failure.message };
    runtime.logger.error({ agent: agent.id, err: failure }, 'agent set-up failed');
    const { code, message: reason } = failure;
    node.observability.emit({ type: 'error', sender: agent.id, code, reason, timestamp: runtime.now() });
  }
}

function vacancyOfRole(id: string, module?: string): { readonly reason: string; readonly fix: string } {
  const vacancy = vacancyOf(id, module);
  return module === undefined && ROLES.has(id) && toolCapabilities(id).length > 0
    ? toolVacancy(id, vacancy.fix)
    : vacancy;
}
