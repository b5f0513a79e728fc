import { rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Agent } from './agent/agent.js';
import { Approvals } from './approvals/approvals.js';
import { runAgentModule } from './config/agent-module.js';
import type { LoadedConfig } from './config/load.js';
import { readMcpServers } from './config/mcp-servers.js';
import type { AgentConfig, HttpConfig, NetworkConfig } from './config/schema.js';
import { ControlClient } from './control/client.js';
import { controlPath, prepareDataFolder, unusable } from './control/data-folder.js';
import { controlMethods } from './control/methods.js';
import { NodeLock } from './control/node-lock.js';
import { ControlServer } from './control/server.js';
import type { AgentAbout } from './gateway/a2a/profiles.js';
import type { Gateway } from './gateway/gateway.js';
import { loginCallback, loginCallbackUrl } from './gateway/login-callback.js';
import { Logins } from './mcp/upstream/login/logins.js';
import { Pins } from './mcp/upstream/pins.js';
import { Upstreams } from './mcp/upstream/upstreams.js';
import { EclipticNode, type NodeNetworkInit } from './node.js';
import { gitIdentity } from './onramp/leases/repository.js';
import type { Onramp } from './onramp/onramp.js';
import { clientAdapters } from './onramp/wake/adapter-for.js';
import { Wakes } from './onramp/wake/wakes.js';
import { PLANETARY_ROSTER } from './orchestrator/planetary-roster.js';
import { offerRemoteAgents } from './orchestrator/remote-agent-tools.js';
import { describeItself } from './orchestrator/self-description.js';
import { Children } from './process/children.js';
import { EclipticError, toEclipticError } from './runtime/errors.js';
import type { Runtime } from './runtime/runtime.js';
import { SqliteStore } from './store/sqlite-store.js';
import { VERSION } from './version.js';

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
  readonly #server: ControlServer;
  #onramp: Onramp | undefined;
  #wakes: Wakes | undefined;
  readonly #failures = new Map<string, EclipticError>();
  readonly #runtime: Runtime;
  #stopping = false;
  #resolveStopped!: () => void;

  private constructor(runtime: Runtime, belongings: Belongings, node: EclipticNode, control: string) {
    this.#runtime = runtime;
    this.#belongings = belongings;
    const { children, approvals, pins } = belongings;
    const { mcp: service, observability } = node;
    const redirectUrl = () => loginCallbackUrl(this.gateway.url);
    this.#logins = new Logins(runtime, { folder: belongings.dataFolder, redirectUrl });
    const logins = this.#logins;
    this.#upstreams = new Upstreams({ runtime, service, observability, children, approvals, pins, logins });
    const upstreams = this.#upstreams;
    this.node = node;
    this.control = control;
    this.stopped = new Promise((resolve) => {
      this.#resolveStopped = resolve;
    });
    const shutDown = () => runtime.defer(() => void this.stop());
    const gateway = () => this.gateway;
    const onramp = () => this.onramp;
    const wakes = () => this.wakes;
    const methods = controlMethods({ node, failures: this.#failures, gateway, upstreams, onramp, wakes, shutDown });
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
      await clearStaleSocket(control);
      children = await Children.open(runtime, { folder: join(dataFolder, 'children') });
      const approvals = new Approvals(runtime, { folder: dataFolder });
      const belongings = { lock, children, approvals, pins: new Pins({ folder: dataFolder }), dataFolder };
      const { tiers, sandbox, limits } = loaded.config;
      const network = { ...networkOf(init.network), folder: dataFolder, limits: limits?.peers };
      const store = await SqliteStore.open(dataFolder);
      try {
        const node = new EclipticNode({ runtime, tiers, sandbox, limits, network, store });
        host = new Host(runtime, belongings, node, control);
      } catch (error) {
        await store.close();
        throw error;
      }
      await host.node.openStore();
      await host.#startAgents(loaded);
      const identify = gitIdentity(runtime, children, host.node.key);
      host.#onramp = await host.node.openOnramp(dataFolder, { ...loaded.config.onramp, identify });
      const adapterFor = clientAdapters(runtime, children);
      host.#wakes = new Wakes({ runtime, adapterFor }, loaded.config.onramp?.wake);
      host.#startServers(loaded, env);
      await host.node.start();
      const logins = host.#logins;
      const routes = [loginCallback((query) => logins.finish(query))];
      await host.node.serve({ ...init.http, folder: dataFolder, about: aboutOf(loaded.config.agents), routes });
      await host.#server.listen(control);
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
  get onramp(): Onramp {
    if (this.#onramp) return this.#onramp;
    throw new EclipticError('NODE_STOPPED', 'the node is only starting; try again');
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

  /** Stops accepting, lets what is under way finish within its deadline, closes everything, and lets the folder go. */
  async stop(): Promise<void> {
    if (this.#stopping) return this.stopped;
    this.#stopping = true;
    this.#server.refuse();
    const { children, approvals, lock } = this.#belongings;
    await this.node.stop({ drainMs: DRAIN_MS });
    await this.#upstreams.close();
    await children.close();
    approvals.close();
    await this.#server.close();
    lock.release();
    this.#resolveStopped();
  }

  async #startAgents({ config, folder }: LoadedConfig): Promise<void> {
    const own = config.agents ?? {};
    const roster = config.roster === false ? [] : PLANETARY_ROSTER.filter(({ id }) => !Object.hasOwn(own, id));
    for (const planet of roster) {
      const agent = this.node.agent(planet);
      describeItself(agent);
      if (agent.id === 'sun')
        offerRemoteAgents(agent, { runtime: this.#runtime, allowPrivate: config.http?.allowPrivate });
    }
    for (const [id, agentConfig] of Object.entries(own)) {
      const { module, project: _p, toolPermissions: _t, persona: _a, skillBundles: _s, ...init } = agentConfig;
      await this.#setUp(this.node.agent({ id, ...init }), module && resolve(folder, module));
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
    for (const server of servers) this.#upstreams.add(server);
  }

  /** A module that fails takes down its own agent's behaviour, never the node. */
  async #setUp(agent: Agent, module: AgentConfig['module']): Promise<void> {
    if (module === undefined) return describeItself(agent);
    try {
      await this.#inTime(runAgentModule(agent, module), module);
    } catch (error) {
      const failure = toEclipticError(error, 'MODULE_FAILED');
      this.#failures.set(agent.id, failure);
      this.#runtime.logger.error({ agent: agent.id, err: failure }, 'an agent’s module failed');
      const { code, message: reason } = failure;
      this.node.observability.emit({ type: 'error', sender: agent.id, code, reason, timestamp: this.#runtime.now() });
    }
  }

  #inTime(setUp: Promise<void>, module: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = this.#runtime.setTimer(() => {
        reject(new EclipticError('MODULE_FAILED', `setup in ${module} did not finish within ${SETUP_MS} ms`));
      }, SETUP_MS);
      setUp.finally(() => timer.cancel()).then(resolve, reject);
    });
  }
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
  return Object.fromEntries(said.filter(([, about]) => Object.keys(about as object).length > 0));
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
