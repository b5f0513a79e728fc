import { rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { AgentAbout } from '../a2a/server/profiles.js';
import type { Agent } from '../agent/agent.js';
import type { CodingAgents } from '../coding-agents/coding-agents.js';
import { gitIdentity } from '../coding-agents/leases/repository.js';
import { clientAdapters } from '../coding-agents/wake/adapter-for.js';
import { Wakes } from '../coding-agents/wake/wakes.js';
import type { Gateway } from '../http/gateway.js';
import { loginCallback, loginCallbackUrl } from '../http/server/routes.js';
import { Logins } from '../mcp/upstream/login/logins.js';
import { Pins } from '../mcp/upstream/pins.js';
import { Upstreams } from '../mcp/upstream/upstreams.js';
import { reportActions, reportCredentials } from '../mesh/audit/guarded-events.js';
import { RalphLoop } from '../plans/ralph-loop.js';
import { serveRemoteAgents } from '../providers/a2a/a2a-agent.js';
import { ACP_RULES } from '../providers/acp/permission.js';
import type { McpServer } from '../providers/acp/sdk.js';
import { Lanes } from '../providers/host/lanes.js';
import { MCPServers } from '../providers/mcp/mcp-servers.js';
import { ProcessAgents } from '../providers/process-agents.js';
import { CredentialConsent } from '../providers/registry/credential-consent.js';
import { watchCredentials } from '../providers/registry/credential-watch.js';
import type { ProviderRegistry } from '../providers/registry/provider-registry.js';
import { PLANETARY_ROSTER } from '../roster/planetary-roster.js';
import { offerRemoteAgents } from '../roster/remote-agent-tools.js';
import { addDefaultBehaviour, vacancyOf } from '../roster/self-description.js';
import { within } from '../runtime/async.js';
import { EclipticError, toEclipticError } from '../runtime/errors.js';
import { PROGRAM, VERSION } from '../runtime/package.js';
import type { Runtime } from '../runtime/runtime.js';
import { lacksMark } from '../store/files.js';
import { SqliteStore } from '../store/sqlite-store.js';
import { ActionGate } from '../system/approvals/action-gate.js';
import { Approvals } from '../system/approvals/approvals.js';
import { Children } from '../system/process/children.js';
import { MemoryWatch } from '../system/process/memory-watch.js';
import { Credentials } from '../system/secrets/credentials.js';
import { systemKeychain } from '../system/secrets/keychain.js';
import { EclipticNode, type NodeNetworkInit } from './compose.js';
import { runAgentModule } from './config/agent-module.js';
import type { LoadedConfig } from './config/load.js';
import { readMcpServers } from './config/mcp-servers.js';
import { readProcessAgent } from './config/process-agents.js';
import { readRemoteAgents } from './config/remote-agents.js';
import type { AgentConfig, HttpConfig, NetworkConfig } from './config/schema.js';
import { agentFindings } from './control/agent-findings.js';
import { ControlClient } from './control/client.js';
import { controlPath, forgetStopped, noteStopped, prepareDataFolder, unusable } from './control/data-folder.js';
import { controlMethods } from './control/methods.js';
import { NodeLock } from './control/node-lock.js';
import { ControlServer } from './control/server.js';

export interface HostInit {
  runtime: Runtime;
  loaded: LoadedConfig;
  dataFolder: string;
  env: Readonly<Record<string, string | undefined>>;
  /** How the node meets others. */
  network?: NetworkConfig;
  /** How it is reached over HTTP. */
  http?: HttpConfig;
}

/** Time that work under way gets when the node is told to stop. */
const DRAIN_MS = 5_000;
/** Time that an agent's module gets to set itself up. */
const SETUP_MS = 30_000;

/** What a host keeps besides its node. */
interface Belongings {
  readonly lock: NodeLock;
  readonly children: Children;
  readonly approvals: Approvals;
  readonly pins: Pins;
  readonly dataFolder: string;
  readonly config: LoadedConfig['config'];
  readonly env: HostInit['env'];
}

/**
 * A node as a program: its data folder, its agents and its control socket, started in that order and ended in the
 * reverse, also when a step of the start fails.
 */
export class Host {
  readonly node: EclipticNode;
  readonly control: string;
  /** Resolves when the host has stopped, whoever asked for it. */
  readonly stopped: Promise<void>;
  readonly #belongings: Belongings;
  readonly #upstreams: Upstreams;
  readonly #logins: Logins;
  /** Secrets of providers. */
  readonly credentials: Credentials;
  /** What agents must pass before they do something by themselves. */
  readonly gate: ActionGate;
  readonly providers: ProviderRegistry;
  readonly #lanes: Lanes;
  readonly #processAgents: ProcessAgents;
  readonly #mcpServers: MCPServers;
  readonly #server: ControlServer;
  #codingAgents: CodingAgents | undefined;
  #wakes: Wakes | undefined;
  readonly #failures = new Map<string, EclipticError>();
  readonly #runtime: Runtime;
  #loop: RalphLoop | undefined;
  #stopping = false;
  #resolveStopped!: () => void;

  private constructor(runtime: Runtime, belongings: Belongings, node: EclipticNode, control: string) {
    this.#runtime = runtime;
    this.#belongings = belongings;
    const { children, approvals, pins, config, env } = belongings;
    const { mcp: service, observability } = node;
    const redirectUrl = () => loginCallbackUrl(this.gateway.url);
    this.#logins = new Logins(runtime, { folder: belongings.dataFolder, redirectUrl });
    const logins = this.#logins;
    const { keychain, ...credentialsInit } = config.credentials ?? {};
    this.credentials = new Credentials(
      {
        runtime,
        keychain: keychain === false ? undefined : systemKeychain({ runtime, children, env }),
        report: reportCredentials(runtime, observability),
      },
      { folder: belongings.dataFolder, ...credentialsInit },
    );
    const { credentials } = this;
    // Whoever writes rules has all of them in their own hands.
    const { policy: rules = ACP_RULES, limits } = config;
    this.gate = new ActionGate(
      { approvals, report: reportActions(runtime, observability) },
      { rules, timeoutMs: limits?.approvalMs },
    );
    const { gate } = this;
    this.providers = node.providers;
    this.#lanes = new Lanes(join(belongings.dataFolder, 'lanes'));
    const { providers } = this;
    watchCredentials({ runtime, credentials, providers });
    const lanes = this.#lanes;
    const memory = new MemoryWatch(runtime);
    this.#processAgents = new ProcessAgents({
      ...{ runtime, children, memory, providers, lanes, gate, credentials },
      meshAccess: (agent, { mcpOverHttp }) => meshAccess(this, agent, mcpOverHttp, belongings.dataFolder),
    });
    this.#upstreams = new Upstreams({
      runtime,
      service,
      observability,
      children,
      approvals,
      pins,
      logins,
      credentials,
    });
    const upstreams = this.#upstreams;
    const { providerEvents: events } = node;
    const agent = (id: string) => node.agents.find((one) => one.id === id);
    // A member that may invite is a device of the owner's.
    const isForeign = (peer: string) => node.network?.peers.get(peer)?.grant?.invite !== true;
    const consent = new CredentialConsent({ approvals, isForeign });
    this.#mcpServers = new MCPServers({
      ...{ runtime, children, memory, providers, events, lanes, upstreams, agent, consent },
    });
    this.node = node;
    this.control = control;
    this.stopped = new Promise((resolve) => {
      this.#resolveStopped = resolve;
    });
    const shutDown = () => runtime.defer(() => void this.stopForOwner());
    const gateway = () => this.gateway;
    const findAgents = () => agentFindings({ runtime, children, env });
    const loop = () => this.loop;
    const codingAgents = () => this.codingAgents;
    const wakes = () => this.wakes;
    const parts = {
      node,
      failures: this.#failures,
      gateway,
      upstreams,
      credentials,
      approvals,
      lanes,
      codingAgents,
      loop,
      wakes,
    };
    const methods = controlMethods({ ...parts, agentFindings: findAgents, shutDown });
    const identity = { node: node.key, pid: process.pid, version: VERSION };
    this.#server = new ControlServer({ runtime, methods, identity });
  }

  static async start(init: HostInit): Promise<Host> {
    const { runtime, loaded, dataFolder, env } = init;
    prepareDataFolder(dataFolder);
    const control = controlPath(dataFolder, env);
    const lock = NodeLock.acquire(dataFolder, runtime);
    let children: Children | undefined;
    let host: Host | undefined;
    try {
      forgetStopped(dataFolder);
      await clearStaleSocket(control);
      children = await Children.open(runtime, { folder: join(dataFolder, 'children') });
      const approvals = new Approvals(runtime, { folder: dataFolder });
      const { config } = loaded;
      const belongings = { lock, children, approvals, pins: new Pins({ folder: dataFolder }), dataFolder, config, env };
      const { tiers, sandbox, state, limits } = config;
      const network = { ...networkOf(init.network), folder: dataFolder, limits: limits?.peers };
      if (lacksMark(dataFolder)) {
        runtime.logger.warn(
          { folder: dataFolder },
          'store.mark is missing: losses before this start cannot be detected',
        );
      }
      const store = await SqliteStore.open(dataFolder);
      try {
        const node = new EclipticNode({ runtime, tiers, sandbox, state, limits, network, store });
        host = new Host(runtime, belongings, node, control);
      } catch (error) {
        await store.close();
        throw error;
      }
      await host.node.openStore();
      await host.#startAgents(loaded);
      const identify = gitIdentity(runtime, children, host.node.key);
      host.#codingAgents = await host.node.openCodingAgents(dataFolder, { ...loaded.config.onramp, identify });
      const adapterFor = clientAdapters(runtime, children);
      host.#wakes = new Wakes({ runtime, adapterFor }, loaded.config.onramp?.wake);
      host.#startServers(loaded, env);
      await host.node.start();
      const logins = host.#logins;
      const routes = [loginCallback((query) => logins.finish(query))];
      const { grpcPort, ...http } = init.http ?? {};
      const grpc = grpcPort === undefined ? undefined : { port: grpcPort };
      await host.node.serve({
        ...http,
        grpc,
        tasks: loaded.config.limits?.tasks,
        folder: dataFolder,
        about: aboutOf(loaded.config.agents),
        routes,
      });
      const { registry, router } = host.node;
      const agent = (id: string) => host!.node.agentById(id);
      const parts = { runtime, store, registry, router, agent, children };
      host.#loop = new RalphLoop(parts, loaded.config.hierarchy);
      await host.#loop.resume();
      await host.#server.listen(control);
      void host.#processAgents.start();
      return host;
    } catch (error) {
      if (host) await host.stop();
      else {
        await children?.close();
        lock.release();
      }
      throw error;
    }
  }

  /** The HTTP edge. */
  get gateway(): Gateway {
    if (this.node.gateway) return this.node.gateway;
    throw new EclipticError('NODE_STOPPED', 'the node has no HTTP edge at present');
  }

  /** Where coding agents come in. */
  get codingAgents(): CodingAgents {
    if (this.#codingAgents) return this.#codingAgents;
    throw new EclipticError('NODE_STOPPED', 'the node is only starting; try again');
  }

  /** What works through plans. */
  get loop(): RalphLoop {
    if (this.#loop) return this.#loop;
    throw new EclipticError('NODE_STOPPED', 'the node is not ready for plans yet');
  }

  /** What wakes coding agents. */
  get wakes(): Wakes {
    if (this.#wakes) return this.#wakes;
    throw new EclipticError('NODE_STOPPED', 'the node is only starting; try again');
  }

  /** Agents whose modules failed, and why. */
  get failures(): ReadonlyMap<string, EclipticError> {
    return this.#failures;
  }

  /** Stops on the owner's word: programs that are connected do not start the node again. */
  async stopForOwner(): Promise<void> {
    noteStopped(this.#belongings.dataFolder, this.#runtime.now());
    await this.stop();
  }

  /** Stops accepting, lets what is under way finish within its deadline, closes everything, and lets the folder go. */
  async stop(): Promise<void> {
    if (this.#stopping) return this.stopped;
    this.#stopping = true;
    this.#server.refuse();
    const { children, approvals, lock } = this.#belongings;
    await this.#loop?.close();
    await this.node.stop({ drainMs: DRAIN_MS });
    await this.#lanes.closeAll();
    await this.#upstreams.close();
    await children.close();
    approvals.close();
    await this.#server.close();
    lock.release();
    this.#resolveStopped();
  }

  async #startAgents({ config, folder }: LoadedConfig): Promise<void> {
    const own = config.agents ?? {};
    const roster = new Map(config.roster === false ? [] : PLANETARY_ROSTER.map((planet) => [planet.id, planet]));
    for (const planet of roster.values()) {
      if (Object.hasOwn(own, planet.id)) continue;
      const agent = this.node.agent({ ...planet, vacancy: vacancyOf(planet.id) });
      addDefaultBehaviour(agent);
      if (agent.id === 'sun')
        offerRemoteAgents(agent, { runtime: this.#runtime, allowPrivate: config.http?.allowPrivate });
    }
    for (const [id, agentConfig] of Object.entries(own)) {
      const { module, a2a, project: _p, toolPermissions: _t, persona: _a, skillBundles: _s, ...rest } = agentConfig;
      const { command: _c, acp: _acp, lane: _l, ...init } = rest;
      // A role of the roster that the configuration staffs keeps what the configuration does not change.
      const agent = this.node.agent({ id, ...roster.get(id), ...init, vacancy: vacancyOf(id, module) });
      if (this.#isProcess(agent, agentConfig, folder)) continue;
      if (a2a) this.#serveRemotely(agent, a2a, config.http);
      // A module may add what it likes to what remote agents do.
      if (!a2a || module !== undefined) await this.#setUp(agent, module && resolve(folder, module));
    }
  }

  /** Is the agent a program? It is then started when there is an endpoint to hand to it. */
  #isProcess(agent: Agent, config: AgentConfig, folder: string): boolean {
    try {
      const init = readProcessAgent(config, this.#belongings.env, folder);
      if (init) this.#processAgents.add(agent, init);
      return init !== undefined;
    } catch (error) {
      this.#failed(agent, toEclipticError(error, 'INVALID_CONFIG'));
      return true;
    }
  }

  /** MCP servers of the configuration, each owned by an agent, which is made where there is none. Nobody waits for them. */
  #startServers({ config, folder }: LoadedConfig, env: HostInit['env']): void {
    const { servers, idle } = readMcpServers(config.mcpServers ?? {}, env, folder);
    const present = new Set(this.node.agents.map(({ id }) => id));
    for (const { name, agent } of [...servers, ...idle]) {
      if (present.has(agent)) continue;
      present.add(agent);
      this.node.agent({ id: agent, description: `Owns what the MCP server "${name}" offers.` });
    }
    for (const server of idle) this.#upstreams.addIdle(server);
    for (const server of servers) {
      try {
        this.#mcpServers.add(server);
      } catch (error) {
        const { name, agent } = server;
        this.#upstreams.addIdle({ name, agent, fault: toEclipticError(error, 'INVALID_CONFIG') });
      }
    }
  }

  #serveRemotely(agent: Agent, a2a: NonNullable<AgentConfig['a2a']>, http: HttpConfig | undefined): void {
    const { registry, providers, providerEvents: events, network } = this.node;
    const reachable = (node: string) => network?.peers.reachable(node) ?? false;
    const components = {
      runtime: this.#runtime,
      registry,
      providers,
      events,
      credentials: this.credentials,
      reachable,
    };
    serveRemoteAgents({ ...components, allowPrivate: http?.allowPrivate }, agent, readRemoteAgents(a2a));
  }

  /** A module that fails takes down its own agent's behaviour, never the node. */
  async #setUp(agent: Agent, module: AgentConfig['module']): Promise<void> {
    if (module === undefined) return addDefaultBehaviour(agent);
    try {
      await this.#inTime(runAgentModule(agent, module), module);
    } catch (error) {
      this.#failed(agent, toEclipticError(error, 'MODULE_FAILED'));
    }
  }

  #failed(agent: Agent, failure: EclipticError): void {
    this.#failures.set(agent.id, failure);
    agent.workerHealth = { state: 'unavailable', reason: failure.message };
    this.#runtime.logger.error({ agent: agent.id, err: failure }, 'an agent could not be set up');
    const { code, message: reason } = failure;
    this.node.observability.emit({ type: 'error', sender: agent.id, code, reason, timestamp: this.#runtime.now() });
  }

  #inTime(setUp: Promise<void>, module: string): Promise<void> {
    return within(this.#runtime, setUp, SETUP_MS, () => {
      throw new EclipticError('MODULE_FAILED', `setup in ${module} did not finish within ${SETUP_MS} ms`);
    });
  }
}

/** How an agent's program reaches the mesh's tools: over HTTP in its own name, or where it cannot, over the owner's socket. */
function meshAccess({ gateway, node }: Host, agent: string, overHttp: boolean, dataFolder: string): McpServer {
  const name = 'ecliptic';
  if (overHttp) {
    const token = gateway.tokens.lend(agent, node.registry.ownEntry(agent)?.sandboxId);
    const headers = [{ name: 'Authorization', value: `Bearer ${token}` }];
    return { type: 'http', name, url: gateway.mcpUrl, headers };
  }
  const args = [PROGRAM, 'mcp', '--for', agent, '--data', dataFolder];
  return { name, command: process.execPath, args, env: [] };
}

/** What the configuration says of agents besides their cards. */
function aboutOf(agents: LoadedConfig['config']['agents'] = {}): Record<string, AgentAbout> {
  const said = Object.entries(agents).map(([id, { project, toolPermissions, persona, skillBundles }]) => [
    id,
    {
      ...(project !== undefined && { defaultProjectId: project }),
      ...(toolPermissions && { mcpToolPermissions: toolPermissions }),
      ...(persona && { persona }),
      ...(skillBundles && { skillBundles }),
    },
  ]);
  return Object.fromEntries(said);
}

function networkOf({ listen, ...rest }: NetworkConfig = {}): NodeNetworkInit {
  if (listen === undefined) return rest;
  const at = listen.lastIndexOf(':');
  const host = at < 0 ? '127.0.0.1' : listen.slice(0, at).replace(/^\[|\]$/g, '');
  return { ...rest, listen: { host, port: Number(listen.slice(at + 1)) } };
}

/** A socket that a killed node left behind is removed; one that answers is somebody's. */
async function clearStaleSocket(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  const other = await ControlClient.connect(path).catch((error: EclipticError) => error);
  if (other instanceof ControlClient) {
    other.close();
    throw new EclipticError('NODE_EXISTS', `process ${other.server.pid} already listens on ${path}`, {
      pid: other.server.pid,
    });
  }
  try {
    rmSync(path, { force: true });
  } catch (error) {
    throw unusable(path, error);
  }
}
