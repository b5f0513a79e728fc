import type { Documents } from '../../documents/documents.js';
import { fullAddress, splitAddress } from '../../mesh/address.js';
import type { ValidEnvelope } from '../../mesh/envelope.js';
import type { Sender } from '../../mesh/message-sender.js';
import { type A2AObservability, callbackReport } from '../../mesh/observability.js';
import type { Party } from '../../mesh/policy.js';
import type { SharedThreads } from '../../mesh/ports.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import type { SharedLogs } from '../../store/shared/record-log.js';
import type { Store } from '../../store/store.js';
import { ParticipationRecords, type StoredParticipation } from './participation-records.js';
import { type SwarmAgent, SwarmCoordinator } from './swarm-coordinator.js';
import { readSwarmMessage, type SwarmMessage } from './swarm-messages.js';
import type { SwarmNews } from './swarm-participation.js';
import type { SwarmSession } from './swarm-session.js';

export interface SwarmsComponents {
  runtime: Runtime;
  registry: AgentRegistry;
  observability: A2AObservability;
  documents: Documents;
  nodeKey: string;
  /** Logs at the broker, if the node has one: swarms have their records there. */
  logs?: SharedLogs | undefined;
}

/** Participations of one node's agents at most. */
const MAX_PARTICIPATIONS = 2_000;
const THREAD = 'swarm:';

/** The swarms of one node: routes messages between members, and opens the swarms' threads to them. */
export class Swarms implements SharedThreads {
  readonly #components: SwarmsComponents;
  readonly #coordinators = new Map<string, SwarmCoordinator>();
  readonly #closing = new Set<Promise<void>>();
  readonly #records: ParticipationRecords | undefined;
  readonly #left = new Map<string, readonly StoredParticipation[]>();

  private constructor(components: SwarmsComponents, records: ParticipationRecords | undefined) {
    this.#components = components;
    this.#records = records;
  }

  /** Loads the memberships that an earlier process stored, if there is a store. */
  static async open(components: SwarmsComponents, store: Store | undefined): Promise<Swarms> {
    const records = store && new ParticipationRecords(components.runtime, store);
    const swarms = new Swarms(components, records);
    for (const agent of (await records?.agents()) ?? []) swarms.#left.set(agent, await records!.of(agent));
    return swarms;
  }

  /** Was that agent in a swarm when its node stopped? */
  has(agentId: string): boolean {
    return this.#left.has(agentId);
  }

  /** An agent's coordinator; participations of an earlier run go on. */
  coordinator(sender: Sender, agent: Omit<SwarmAgent, 'agentId' | 'address'>): SwarmCoordinator {
    const { agentId, address } = sender;
    const known = this.#coordinators.get(agentId);
    if (known) return known;
    const { runtime, registry, documents, observability, logs } = this.#components;
    const kept = this.#left.get(agentId) ?? [];
    this.#left.delete(agentId);
    const coordinator = new SwarmCoordinator(
      {
        runtime,
        registry,
        records: this.#records,
        logs,
        agent: { ...agent, agentId, address },
        send: (swarmId, to, message) => this.#send(sender, swarmId, to, message),
        openDocument: (name, admits) => documents.open(sender, name, { admits }),
        onNews: (news) => this.#report(agentId, news),
        memberOf: (swarmId) => this.memberOf(swarmId),
        assertRoom: (sponsor) => this.#assertRoom(sponsor),
        callbackFailed: callbackReport(runtime, observability),
      },
      kept,
    );
    this.#coordinators.set(agentId, coordinator);
    return coordinator;
  }

  get coordinators(): ReadonlyMap<string, SwarmCoordinator> {
    return this.#coordinators;
  }

  /** The agent of this node that knows the swarm best: its creator, else one with a seat. */
  find(swarmId: string): SwarmCoordinator | undefined {
    const having = [...this.#coordinators.values()].filter(({ participations }) => participations.has(swarmId));
    const creator = having.find(({ participations, address }) => participations.get(swarmId)!.sponsor === address);
    const seated = having.find(({ participations }) => participations.get(swarmId)!.machine.seated);
    return creator ?? seated ?? having[0];
  }

  memberOf(swarmId: string): string | undefined {
    return this.find(swarmId)?.address;
  }

  /** The swarms that agents of this node take part in, each once. */
  get sessions(): SwarmSession[] {
    const ids = new Set([...this.#coordinators.values()].flatMap(({ participations }) => [...participations.keys()]));
    return [...ids].flatMap((id) => this.find(id)!.getSwarm(id) ?? []);
  }

  /** Takes an envelope about a swarm; false for any other. */
  take(agentId: string, { correlationId, sender, payload }: ValidEnvelope): boolean {
    if (!correlationId?.startsWith(THREAD)) return false;
    const participation = this.#coordinators.get(agentId)?.participations.get(correlationId.slice(THREAD.length));
    const message = participation && this.#read(sender, payload);
    if (message) participation.step({ type: 'message', from: this.#inFull(sender), message });
    return true;
  }

  /** The message, if it is valid. A new member's capabilities are those of its card. */
  #read(sender: string, payload: unknown): SwarmMessage | undefined {
    const message = readSwarmMessage(payload);
    if (message?.type !== 'join') return message;
    const card = this.#components.registry.entry(sender)?.card;
    return card && { ...message, member: { ...message.member, capabilities: card.capabilities.map(({ id }) => id) } };
  }

  /** The thread of a swarm is open between its members. */
  admits(thread: string, source: Party, target: Party): boolean {
    if (!thread.startsWith(THREAD)) return false;
    const [own, other] = source.node === undefined ? [source, target] : [target, source];
    const participation = this.#coordinators.get(own.address)?.participations.get(thread.slice(THREAD.length));
    if (!participation) return false;
    return participation.includes(this.#inFull(other.address)) || participation.sponsor === this.#inFull(other.address);
  }

  leave(agentId: string): void {
    const coordinator = this.#coordinators.get(agentId);
    this.#coordinators.delete(agentId);
    const closed = coordinator?.end(new EclipticError('NODE_STOPPED', `agent "${agentId}" has left`));
    if (!closed) return;
    this.#closing.add(closed);
    const forget = () => this.#closing.delete(closed);
    closed.then(forget, forget);
  }

  async close(): Promise<void> {
    for (const agentId of [...this.#coordinators.keys()]) this.leave(agentId);
    await Promise.allSettled([...this.#closing]);
    await this.#records?.flush();
  }

  #send(sender: Sender, swarmId: string, to: string, message: SwarmMessage): void {
    if (to === sender.address) {
      // A message to the sender itself is delivered on the next turn, like any other.
      this.#components.runtime.defer(() => {
        const participation = this.#coordinators.get(sender.agentId)?.participations.get(swarmId);
        participation?.step({ type: 'message', from: to, message });
      });
      return;
    }
    try {
      const routed = sender.route(this.#localName(to), 'stream-data', message, { thread: `${THREAD}${swarmId}` });
      // A lost message is sent again with the next beat, or its recipient counts as gone.
      if (routed instanceof Promise) routed.catch(() => {});
    } catch {
      // The agent has left.
    }
  }

  /** Where the places are used up, an agent of this node, or another node, with less than an equal part still gets one. */
  #assertRoom(sponsor: string): void {
    const owners = [...this.#coordinators.values()]
      .flatMap(({ sponsors }) => sponsors)
      .map((one) => this.#ownerOf(one));
    if (owners.length < MAX_PARTICIPATIONS) return;
    const owner = this.#ownerOf(sponsor);
    const held = owners.filter((other) => other === owner).length;
    if (held < MAX_PARTICIPATIONS / new Set([...owners, owner]).size) return;
    const message = `the agents of this node take part in ${owners.length} swarms, ${held} of them of ${owner}`;
    throw new EclipticError('SWARMS_FULL', message);
  }

  #ownerOf(sponsor: string): string {
    const { id, node = this.#components.nodeKey } = splitAddress(sponsor);
    return node === this.#components.nodeKey ? id : node;
  }

  #report(agentId: string, { swarmId, status, escalation }: SwarmNews): void {
    const { runtime, observability } = this.#components;
    const about = { swarmId, swarmStatus: status, recipient: agentId, timestamp: runtime.now() };
    observability.emit({ type: 'swarm', ...about, ...(escalation && { reason: escalationText(escalation) }) });
  }

  #inFull(name: string): string {
    return fullAddress(name, this.#components.nodeKey);
  }

  #localName(address: string): string {
    const { id, node } = splitAddress(address);
    return node === this.#components.nodeKey ? id : address;
  }
}

function escalationText({ kind, subTask, reason }: NonNullable<SwarmNews['escalation']>): string {
  return `${kind}${subTask === undefined ? '' : ` (${subTask})`}: ${reason}`;
}
