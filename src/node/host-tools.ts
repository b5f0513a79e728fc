import { members } from '../coding-agents/mailbox/tables.js';
import type { Gateway } from '../http/gateway.js';
import { loginCallbackUrl } from '../http/server/routes.js';
import { Logins } from '../mcp/upstream/logins.js';
import { Pins } from '../mcp/upstream/pins.js';
import { Upstreams } from '../mcp/upstream/upstreams.js';
import { reportActions, reportCredentials } from '../mesh/audit/audit-log.js';
import type { McpServer } from '../providers/acp/sdk.js';
import { DEFAULT_RULES } from '../providers/adapter/default-rules.js';
import type { Lanes } from '../providers/host/lanes.js';
import { MCPServers } from '../providers/mcp/mcp-servers.js';
import { CredentialConsent, watchCredentials } from '../providers/registry/credentials.js';
import { Workers } from '../providers/workers.js';
import type { Worktrees } from '../providers/worktree/worktrees.js';
import { roleOf, rolePrompt } from '../roster/role-prompts.js';
import { EclipticError } from '../runtime/errors.js';
import { PROGRAM } from '../runtime/package.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Store } from '../store/store.js';
import { ActionGate, type ActionRule } from '../system/approvals/action-gate.js';
import type { Approvals } from '../system/approvals/approvals.js';
import type { Children } from '../system/process/children.js';
import type { Environment } from '../system/process/environment.js';
import { MemoryWatch } from '../system/process/memory-watch.js';
import { Credentials } from '../system/secrets/credentials.js';
import { systemKeychain } from '../system/secrets/keychain.js';
import type { LoadedConfig } from './config/load.js';
import type { EclipticNode } from './node.js';
import { Projects } from './projects/projects.js';

interface ToolsInit {
  readonly runtime: Runtime;
  readonly loaded: LoadedConfig;
  readonly dataFolder: string;
  readonly env: Environment;
}

interface ToolResources {
  readonly children: Children;
  readonly approvals: Approvals;
  readonly lanes: Lanes;
  readonly worktrees: Worktrees;
}

/** How much of the collections a worker gets with a task. */
const CONTEXT_CHARS = 6_000;

/** Credentials, upstream MCP servers and agent programs, with the owner's consent where they need it. */
export function toolsOf(
  init: ToolsInit,
  node: EclipticNode,
  { children, approvals, lanes, worktrees }: ToolResources,
  store: Store,
) {
  const { runtime, dataFolder, env } = init;
  const { config } = init.loaded;
  const { mcp: service, observability, providers, providerEvents: events } = node;
  const { keychain, ...credentialsInit } = config.credentials ?? {};
  const credentials = new Credentials(
    {
      runtime,
      keychain: keychain === false ? undefined : systemKeychain({ runtime, children, env }),
      report: reportCredentials(runtime, observability),
    },
    { folder: dataFolder, ...credentialsInit },
  );
  watchCredentials({ runtime, credentials, providers });
  // An owner's own rules replace all of the built-in ones.
  const { policy: rules = DEFAULT_RULES, limits } = config;
  const gateWith = (rules: readonly ActionRule[]) =>
    new ActionGate(
      { approvals, report: reportActions(runtime, observability) },
      { rules, timeoutMs: limits?.approvalMs },
    );
  const gate = gateWith(rules);
  const memory = new MemoryWatch(runtime);
  const workersOf = (gate: ActionGate, permit?: () => void) =>
    new Workers({
      ...{ runtime, children, memory, providers, events, registry: node.registry, lanes, worktrees, gate, credentials },
      ...{ store, permit },
      allowPrivate: config.http?.allowPrivate,
      reachable: (key) => node.network?.peers.reachable(key) ?? false,
      knowledgeFor: (id, text) =>
        node.collections?.knowledgeFor(id, text, config.collections?.contextChars ?? CONTEXT_CHARS),
      rolePrompt: async ({ id, card }) => (await rolePrompt(id)) ?? roleOf(card),
      meshAccess: (agent, { mcpOverHttp }) => meshAccess(node, agent, mcpOverHttp, dataFolder),
    });
  const workers = workersOf(gate);
  const workersWith = (own: readonly ActionRule[], permit: () => void) => workersOf(gateWith(own), permit);
  const redirectUrl = () => loginCallbackUrl(servedBy(node).url);
  const logins = new Logins(runtime, { folder: dataFolder, redirectUrl });
  const pins = new Pins({ folder: dataFolder });
  const upstreams = new Upstreams({
    ...{ runtime, service, observability, children, approvals, pins, logins, credentials },
  });
  const agent = (id: string) => node.agents.find((one) => one.id === id);
  // A member that may invite is a device of the owner's.
  const isForeign = (peer: string) => node.network?.peers.get(peer)?.grant?.invite !== true;
  const consent = new CredentialConsent({ approvals, isForeign });
  const mcpServers = new MCPServers({
    ...{ runtime, children, memory, providers, events, lanes, upstreams, agent, consent },
  });
  return { logins, credentials, gate, rules, workers, workersWith, upstreams, mcpServers };
}

/** The projects of clients, with what is known of clients of earlier runs. */
export async function openProjects(
  { runtime, dataFolder, env, loaded }: ToolsInit,
  node: EclipticNode,
  { approvals, lanes }: ToolResources,
  { rules, workersWith }: ReturnType<typeof toolsOf>,
  store: Store,
): Promise<Projects> {
  const parts = { runtime, node, approvals, lanes, env, workersWith };
  const projects = new Projects(parts, { folder: dataFolder, own: loaded.file, rules });
  projects.remember(await store.read(members));
  return projects;
}

export function servedBy({ gateway }: EclipticNode): Gateway {
  if (gateway) return gateway;
  throw new EclipticError('NODE_STOPPED', 'the node has no HTTP server at present');
}

/** How an agent's program reaches the mesh's tools: over HTTP in its own name, else over the owner's socket. */
function meshAccess(node: EclipticNode, agent: string, overHttp: boolean, dataFolder: string): McpServer {
  const name = 'ecliptic';
  if (overHttp) {
    const gateway = servedBy(node);
    const token = gateway.tokens.lend(agent, node.registry.ownEntry(agent)?.sandboxId);
    const headers = [{ name: 'Authorization', value: `Bearer ${token}` }];
    return { type: 'http', name, url: gateway.mcpUrl, headers };
  }
  const args = [PROGRAM, 'mcp', '--for', agent, '--data', dataFolder];
  return { name, command: process.execPath, args, env: [] };
}
