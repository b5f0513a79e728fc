import type { z } from 'zod';
import type { A2AClient } from '../../a2a/client/a2a-client.js';
import type { MeshClientInit } from '../../a2a/mesh/mesh-client.js';
import type { Agent } from '../../agent/agent.js';
import type { AgentInit } from '../../agent/agent-init.js';
import type { CodingAgents } from '../../coding-agents/coding-agents.js';
import type { Wakes } from '../../coding-agents/wake/wakes.js';
import type { Collections } from '../../collections/collections.js';
import type { Documents } from '../../documents/documents.js';
import type { Dashboard } from '../../http/dashboard/dashboard.js';
import type { Gateway } from '../../http/gateway.js';
import type { Mail } from '../../mail/mail.js';
import type { McpService } from '../../mcp/service.js';
import type { ToolTasks } from '../../mcp/tool-tasks.js';
import type { Upstreams } from '../../mcp/upstream/upstreams.js';
import { joinAddress, splitAddress } from '../../mesh/address.js';
import type { AuditLog } from '../../mesh/audit/audit-log.js';
import type { JournalLog } from '../../mesh/audit/journal-log.js';
import type { A2AObservability } from '../../mesh/observability.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import type { A2ARouter } from '../../mesh/router.js';
import type { A2AEnvelope } from '../../mesh/schemas.js';
import type { BrokerAccess } from '../../nats/broker.js';
import { NODE_KEY } from '../../network/membership/identity.js';
import { type Finding, MIN_KEY_PREFIX, type Network } from '../../network/peers/network.js';
import type { Objects } from '../../objects/objects.js';
import type { RalphLoop } from '../../plans/ralph-loop.js';
import type { ProviderEvents } from '../../providers/adapter/events.js';
import type { Lanes } from '../../providers/host/lanes.js';
import type { ProviderRegistry } from '../../providers/registry/registry.js';
import type { Worktrees } from '../../providers/worktree/worktrees.js';
import { EclipticError } from '../../runtime/errors.js';
import { ambiguousId } from '../../runtime/short-ids.js';
import type { Approvals } from '../../system/approvals/approvals.js';
import type { Git } from '../../system/git/git.js';
import type { Credentials } from '../../system/secrets/credentials.js';
import type { Readiness } from '../../telemetry/readiness.js';
import type { Telemetry } from '../../telemetry/telemetry.js';
import type { Swarms } from '../../work/swarm/swarms.js';
import type { AnswerRecord } from '../devices/answer-record.js';
import type { OwnerDevices } from '../devices/owner-devices.js';
import type { RadarReports } from '../devices/radar-reports.js';
import type { WaitingElsewhere } from '../devices/waiting-elsewhere.js';
import type { OwnerNotifier } from '../notify/owner-notifier.js';
import type { Projects } from '../projects/projects.js';
import type { ControlApi, EventOf, Method, ResultOf } from './api.js';
import type { Replayed } from './rows.js';
import type { CallContext } from './server.js';
import type { StoreOperations } from './store-operations.js';

/** The parts of a node that the owner's operations work on. */
interface ControlledNode {
  a2a(agent: string, options?: MeshClientInit & { readonly as?: string }): Promise<A2AClient>;
  readonly registry: AgentRegistry;
  readonly router: A2ARouter;
  readonly observability: A2AObservability;
  readonly network: Network | undefined;
  /** Present on a node that uses NATS. */
  readonly brokerAccess: BrokerAccess | undefined;
  readonly mail: Mail | undefined;
  readonly mcp: McpService;
  readonly toolTasks: ToolTasks;
  readonly documents: Documents;
  readonly collections: Collections | undefined;
  readonly objects: Objects;
  readonly swarms: Swarms;
  /** Present on a node with a store. */
  readonly records:
    | {
        readonly journal: JournalLog;
        readonly audit: AuditLog;
        replay(rows: readonly unknown[]): Replayed;
      }
    | undefined;
  readonly providers: ProviderRegistry;
  readonly providerEvents: ProviderEvents;
  readonly agents: readonly Agent[];
  agent(init: AgentInit): Agent;
  agentById(id: string): Agent;
  /** The owner, as an agent of this node. */
  operator(): Agent;
  /** The messages of a thread, from the journal if memory no longer has them. */
  thread(correlationId: string): Promise<A2AEnvelope[]>;
  metricsText(): Promise<string>;
  readiness(): Promise<Readiness>;
}

/** Everything that the methods of the control socket use. */
export interface ControlContext {
  readonly node: ControlledNode;
  /** Agents whose modules failed, with the error. */
  readonly failures: ReadonlyMap<string, EclipticError>;
  readonly gateway: Gateway;
  readonly dashboard: Dashboard;
  readonly upstreams: Upstreams;
  readonly approvals: Approvals;
  readonly lanes: Lanes;
  readonly git: Git;
  readonly worktrees: Worktrees;
  /** Probes of the coding agents that are installed on this machine. */
  readonly agentFindings: () => readonly Promise<Finding>[];
  readonly credentials: Credentials;
  readonly codingAgents: CodingAgents;
  readonly loop: RalphLoop;
  /** The answers that this node took. */
  readonly answers: AnswerRecord;
  /** The owner's other devices, and what waits on them. Absent on a node without a network. */
  readonly devices: OwnerDevices | undefined;
  readonly elsewhere: WaitingElsewhere | undefined;
  /** The projects that clients work in. Absent on a node with a configuration of its own. */
  readonly projects: Projects | undefined;
  /** Tells the owner of what begins to wait. */
  readonly notifier: OwnerNotifier;
  readonly radarReports: RadarReports | undefined;
  readonly store: StoreOperations;
  readonly wakes: Wakes;
  readonly telemetry: Pick<Telemetry, 'history'>;
  readonly shutDown: () => void;
}

/** The implementation of each operation of the API. */
export type Handlers = {
  readonly [M in Method]: (
    params: z.output<ControlApi[M]['params']>,
    context: CallContext<EventOf<M>>,
  ) => ResultOf<M> | Promise<ResultOf<M>>;
};

/** Completes `agent@NODE`, where NODE is a node's name or the beginning of its key. */
export function inFull(address: string, { network, mail, registry }: ControlledNode): string {
  const { id, node } = splitAddress(address);
  if (node === undefined || NODE_KEY.test(node) || !network) return address;
  const found = network.matching(node);
  if (found.length === 1 && found[0] === registry.nodeKey) return id;
  // A node that is no longer a peer may still have mail addressed to it.
  const noted = found.length === 0 && node.length >= MIN_KEY_PREFIX ? mail?.complete(address) : undefined;
  return noted ?? joinAddress(id, network.find(node).node);
}

export function storeRequired(): EclipticError {
  return new EclipticError('STORE_REQUIRED', 'this node was started without a store');
}

/** The full id of a shortened one; unchanged if no candidate begins with it, `AMBIGUOUS_ID` if several do. */
export function completeId(given: string, known: Iterable<string | { readonly id: string }>): string {
  const ids = [...known].map((one) => (typeof one === 'string' ? one : one.id));
  const candidates = [...new Set(ids)].filter((id) => id.startsWith(given)).sort();
  if (candidates.length === 0 || candidates.includes(given)) return given;
  if (candidates.length === 1) return candidates[0]!;
  throw ambiguousId(given, candidates);
}
