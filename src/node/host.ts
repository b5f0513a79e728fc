import { realpathSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { CodingAgents } from '../coding-agents/coding-agents.js';
import { gitIdentity } from '../coding-agents/leases/repository.js';
import { clientAdapters } from '../coding-agents/wake/adapters.js';
import { Wakes } from '../coding-agents/wake/wakes.js';
import { offerMemoryTools } from '../collections/offers.js';
import { Dashboard } from '../http/dashboard/dashboard.js';
import { DocPages } from '../http/docs/doc-pages.js';
import type { Gateway } from '../http/gateway.js';
import { loginCallback } from '../http/server/routes.js';
import type { Upstreams } from '../mcp/upstream/upstreams.js';
import { RalphLoop } from '../plans/ralph-loop.js';
import { Lanes } from '../providers/host/lanes.js';
import type { ProviderRegistry } from '../providers/registry/registry.js';
import { Worktrees } from '../providers/worktree/worktrees.js';
import { EclipticError } from '../runtime/errors.js';
import { DOCS_FOLDER, VERSION } from '../runtime/package.js';
import { Parts } from '../runtime/part.js';
import type { Runtime } from '../runtime/runtime.js';
import type { ActionGate } from '../system/approvals/action-gate.js';
import { Approvals } from '../system/approvals/approvals.js';
import { Git } from '../system/git/git.js';
import { Jails } from '../system/jail/jails.js';
import type { LocalEndpoint } from '../system/jail/proxy.js';
import { Children } from '../system/process/children.js';
import type { Credentials } from '../system/secrets/credentials.js';
import type { OtlpExporter } from '../telemetry/otlp-exporter.js';
import type { OtlpSettings } from '../telemetry/otlp-settings.js';
import { Telemetry } from '../telemetry/telemetry.js';
import { composeNode, type NodeNetworkInit } from './compose.js';
import type { HttpConfig, NatsConfig, NetworkConfig } from './config/edge-schema.js';
import type { LoadedConfig } from './config/load.js';
import { ConfiguredAgents } from './configured-agents.js';
import { ControlClient } from './control/client.js';
import {
  controlPath,
  forgetStopped,
  lockNode,
  noteStopped,
  prepareDataFolder,
  unusable,
} from './control/data-folder.js';
import { agentFindings, jailFinding } from './control/findings.js';
import { controlMethods } from './control/methods.js';
import { PAGE_OPERATIONS } from './control/page-operations.js';
import { ControlServer } from './control/server.js';
import { StoreOperations } from './control/store-operations.js';
import { AnswerRecord } from './devices/answer-record.js';
import { RadarReports } from './devices/radar-reports.js';
import { WaitingElsewhere } from './devices/waiting-elsewhere.js';
import { readTls } from './grpc-tls.js';
import { openProjects, servedBy, toolsOf } from './host-tools.js';
import type { EclipticNode } from './node.js';
import { openNotifier } from './notify/open-notifier.js';
import { otlpExporter } from './otlp-export.js';
import { rosterWork } from './roster-work.js';
import { openStore, TABLES } from './tables.js';

export interface HostInit {
  runtime: Runtime;
  loaded: LoadedConfig;
  dataFolder: string;
  env: Readonly<Record<string, string | undefined>>;
  /** How the node meets others. */
  network?: NetworkConfig;
  /** The NATS servers over which it does. */
  nats?: NatsConfig | undefined;
  /** How it is reached over HTTP. */
  http?: HttpConfig;
  /** Does it also run the agents of the projects that its clients work in? */
  projects?: boolean;
  /** Rings the terminal of this process, where it has one. */
  ring?: (() => void) | undefined;
  /** The collector that gets spans and metrics. */
  otlp?: OtlpSettings | undefined;
}

/** Time that work under way gets when the node is told to stop. */
const DRAIN_MS = 5_000;

/** The data folder, and the parts that outlive the node. */
interface HostResources {
  readonly children: Children;
  readonly jails: Jails;
  readonly approvals: Approvals;
  readonly lanes: Lanes;
  readonly git: Git;
  readonly worktrees: Worktrees;
  readonly control: string;
}

type HostComponents = Pick<
  Host,
  'node' | 'control' | 'gateway' | 'dashboard' | 'credentials' | 'gate' | 'codingAgents' | 'failures'
>;

/** A node as a program: its data folder, its agents and its control socket, in one list of parts with the node's own. */
export class Host {
  readonly node: EclipticNode;
  readonly control: string;
  readonly gateway: Gateway;
  readonly dashboard: Dashboard;
  readonly credentials: Credentials;
  /** Decides which actions of agents need the owner's consent. */
  readonly gate: ActionGate;
  readonly codingAgents: CodingAgents;
  /** Why agents could not be set up, by agent. */
  readonly failures: ReadonlyMap<string, EclipticError>;
  readonly #init: HostInit;
  readonly #parts: Parts;
  #server!: ControlServer;
  #loop!: RalphLoop;

  private constructor(init: HostInit, parts: Parts, components: HostComponents) {
    this.#init = init;
    this.#parts = parts;
    this.node = components.node;
    this.control = components.control;
    this.gateway = components.gateway;
    this.dashboard = components.dashboard;
    this.credentials = components.credentials;
    this.gate = components.gate;
    this.codingAgents = components.codingAgents;
    this.failures = components.failures;
  }

  static async start(init: HostInit): Promise<Host> {
    prepareDataFolder(init.dataFolder);
    const parts = new Parts();
    try {
      return await Host.#assemble(init, parts);
    } catch (error) {
      await parts.stop();
      throw error;
    }
  }

  static async #assemble(init: HostInit, parts: Parts): Promise<Host> {
    const { runtime, loaded, dataFolder, env } = init;
    const { tiers, sandbox, state, limits, onramp, hierarchy } = loaded.config;
    let server: ControlServer | undefined;
    let upstreams: Upstreams | undefined;
    let mcp: LocalEndpoint | undefined;
    const resources = await openResources(init, parts, { closeServer: () => server?.close(), mesh: () => mcp });
    const { children, control } = resources;
    // Upstream servers stop after the node, whose last tool calls use them.
    parts.add({ name: 'upstream servers', stop: () => upstreams?.close() });
    parts.add({ name: 'lanes', stop: () => resources.lanes.closeAll() });
    // Before the node's own parts, so that the spans of its last work are exported too.
    let exporter: OtlpExporter | undefined;
    parts.add({ name: 'OTLP exporter', stop: () => exporter?.stop() });
    const store = await openStore(dataFolder, { runtime });
    const network = { ...networkOf(init.network), nats: init.nats, folder: dataFolder, limits: limits?.peers };
    const node = await composeNode({ runtime, tiers, sandbox, state, limits, network, store }, parts);

    exporter = otlpExporter(init, node);
    const telemetry = new Telemetry({ runtime, node, store, approvals: resources.approvals, folder: dataFolder });
    node.addMetrics(() => telemetry.families());
    parts.add({ name: 'telemetry', stop: () => telemetry.stop() });
    parts.add({ name: 'OTLP metrics', stop: () => exporter?.closeMetrics() });
    await telemetry.start();
    const tools = toolsOf(init, node, resources, store);
    const { logins, credentials, gate, workers } = tools;
    upstreams = tools.upstreams;
    let present: CodingAgents | undefined;
    const checkoutOf = (agent: string) => present?.present.find(({ name }) => name === agent)?.checkout;
    const rosterTools = rosterWork(
      { runtime, node, children, gate, parts, checkoutOf },
      loaded,
      realpathSync(dataFolder),
    );
    const configured = new ConfiguredAgents({ runtime, node, env, rosterTools, ...tools }, loaded);
    await configured.startAgents();
    await openCollections(node, runtime);
    const identify = gitIdentity(resources.git, node.key);
    const radar = { git: resources.git, work: resources.worktrees };
    const codingAgents = await node.openCodingAgents(dataFolder, { ...onramp, identify, radar });
    present = codingAgents;
    const wakes = new Wakes({ runtime, adapterFor: clientAdapters(runtime, children) }, onramp?.wake);
    configured.startServers();
    const projects = init.projects ? await openProjects(init, node, resources, tools, store) : undefined;
    parts.add({ name: 'projects', stop: () => projects?.close() });
    const devices = node.openDevices();
    const elsewhere = devices && new WaitingElsewhere({ runtime, devices }, { folder: dataFolder });
    parts.add({ name: 'answers to other devices', stop: () => elsewhere?.close() });
    const radarReports = devices && new RadarReports({ runtime, devices, radar: codingAgents.radar! });
    parts.add({ name: 'radar reports', stop: () => radarReports?.close() });
    const { approvals } = resources;
    const ownName = devices?.ownName ?? '';
    const answers = new AnswerRecord(
      { runtime, observability: node.observability, approvals, ownName },
      { folder: dataFolder },
    );
    const { observability } = node;
    const self = { name: ownName, key: node.key };
    const notifier = openNotifier(
      { runtime, children, approvals, observability, credentials, env, ring: init.ring, node: self },
      loaded,
      { folder: dataFolder },
    );
    parts.add({ name: 'notifications', stop: () => notifier.close() });
    await node.start();
    elsewhere?.start();

    const { grpcPort, grpcTls, ...http } = init.http ?? {};
    const url = () => servedBy(node).url;
    const dismiss = (session: string) => servedBy(node).dismiss(session);
    const dashboard = new Dashboard(
      { runtime, url, dismiss },
      { folder: dataFolder, node: node.key, operations: PAGE_OPERATIONS },
    );
    const gateway = await node.serve({
      ...http,
      grpc:
        grpcPort === undefined
          ? undefined
          : { port: grpcPort, tls: grpcTls && (await readTls(loaded.folder, grpcTls)) },
      tasks: limits?.tasks,
      folder: dataFolder,
      about: configured.about,
      routes: [loginCallback((query) => logins.finish(query)), ...dashboard.routes, new DocPages(DOCS_FOLDER).route],
    });
    const { port, pathname: path } = new URL(gateway.mcpUrl);
    mcp = { port: Number(port), path };
    // Stops before the server, so that open pages learn that the node stops.
    parts.add({ name: 'dashboard', stop: () => dashboard.close() });
    const agent = (id: string) => node.agentById(id);
    const { registry, router } = node;
    const loop = new RalphLoop({ runtime, store, registry, router, agent, children }, hierarchy);
    parts.add({ name: 'plans', stop: () => loop.close() });
    // Registered before runs continue, so that their tasks wait for workers that are being started.
    void workers.start();
    await loop.resume();

    const { failures } = configured;
    const host: Host = new Host(init, parts, {
      node,
      control,
      gateway,
      dashboard,
      credentials,
      gate,
      codingAgents,
      failures,
    });
    const methods = controlMethods({
      ...{ node, upstreams, credentials, ...resources, failures },
      ...{ gateway, dashboard, codingAgents, loop, wakes, answers, devices, elsewhere, radarReports, notifier },
      ...{ telemetry, projects },
      store: new StoreOperations(store, TABLES, dataFolder),
      agentFindings: () => [
        jailFinding(resources.jails, resources.lanes),
        ...agentFindings({ runtime, children, env }),
      ],
      shutDown: () => runtime.defer(() => void host.stopForOwner()),
    });
    server = new ControlServer({ runtime, methods, identity: { node: node.key, pid: process.pid, version: VERSION } });
    parts.add({ name: 'control socket', stop: () => server.refuse() });
    await server.listen(control);
    host.#server = server;
    host.#loop = loop;
    node.markReady();
    return host;
  }

  get providers(): ProviderRegistry {
    return this.node.providers;
  }

  /** Resolves when the host has stopped, by its own `stop` or by the owner's command. */
  get stopped(): Promise<void> {
    return this.#parts.stopped;
  }

  /** Does a client use the node, or does it work for anyone? */
  async busy(): Promise<boolean> {
    const { registry } = this.node;
    const mailboxes = registry.getLocalCards().flatMap(({ id }) => registry.entry(id)?.mailbox ?? []);
    if (mailboxes.some(({ waiting, inHand }) => waiting + inHand > 0)) return true;
    return this.#server.clients > 0 || this.#loop.busy || (await this.gateway.openConnections()) > 0;
  }

  /** Stops on the owner's command: programs that are connected do not start the node again. */
  async stopForOwner(): Promise<void> {
    noteStopped(this.#init.dataFolder, this.#init.runtime.now());
    await this.stop();
  }

  /** Stops accepting, lets work under way finish within its deadline, closes everything and unlocks the folder. */
  async stop(): Promise<void> {
    await this.node.stop({ drainMs: DRAIN_MS });
    await this.stopped;
  }
}

async function openResources(
  init: HostInit,
  parts: Parts,
  { closeServer, mesh }: { closeServer: () => unknown; mesh: () => LocalEndpoint | undefined },
): Promise<HostResources> {
  const { runtime, dataFolder, env } = init;
  const control = controlPath(dataFolder, env);
  const lock = lockNode(dataFolder, runtime);
  parts.add({ name: 'data folder', stop: () => lock.release() });
  // Answers under way are still sent while everything else stops.
  parts.add({ name: 'control connections', stop: closeServer });
  forgetStopped(dataFolder);
  await clearStaleSocket(control);
  const jails = new Jails(runtime, {
    folder: join(dataFolder, 'jails'),
    hidden: [dataFolder, dirname(control)].map((path) => realpathSync(path)),
    fixed: init.loaded.file === undefined ? [] : [init.loaded.file],
    mesh,
  });
  const children = await Children.open(runtime, { folder: join(dataFolder, 'children'), jails });
  const approvals = new Approvals(runtime, { folder: dataFolder });
  parts.add({ name: 'approvals', stop: () => approvals.close() });
  parts.add({ name: 'child processes', stop: () => children.close() });
  const git = new Git({ runtime, children }, { folder: join(dataFolder, 'git') });
  const worktrees = new Worktrees({ runtime, git }, { folder: dataFolder });
  return { children, jails, approvals, lanes: new Lanes(join(dataFolder, 'lanes')), git, worktrees, control };
}

/** ATLAS keeps them and has their tools. Without it the owner's agent keeps them, and there are no tools. */
async function openCollections(node: EclipticNode, runtime: Runtime): Promise<void> {
  const entry = node.registry.ownEntry('atlas');
  const keeper = entry && entry.sandboxId === undefined ? node.agentById('atlas') : undefined;
  const collections = await node.openCollections(keeper?.id);
  if (keeper) offerMemoryTools(keeper, { runtime, mcp: node.mcp, nodeKey: node.key, collections });
}

function networkOf({ listen, ...rest }: NetworkConfig = {}): NodeNetworkInit {
  if (listen === undefined) return rest;
  const at = listen.lastIndexOf(':');
  const host = at < 0 ? '127.0.0.1' : listen.slice(0, at).replace(/^\[|\]$/g, '');
  return { ...rest, listen: { host, port: Number(listen.slice(at + 1)) } };
}

/** Removes the socket that a killed node left behind; one that answers belongs to a running node. */
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
