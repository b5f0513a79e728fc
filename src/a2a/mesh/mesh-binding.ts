import { OPERATOR, RateLimiter } from '../../http/auth/caller-auth.js';
import { joinAddress } from '../../mesh/address.js';
import type { Party } from '../../mesh/policy.js';
import { type AgentRegistry, notFound } from '../../mesh/registry.js';
import type { RegistryEntry } from '../../mesh/registry-index.js';
import type { Network } from '../../network/peers/network.js';
import { EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { cutText } from '../../runtime/text.js';
import { OperationExchange, type Patience, unreachable } from '../edge/operation-exchange.js';
import { readCursor } from '../protocol/headers.js';
import type { Method } from '../protocol/json-rpc.js';
import { withJsonNames } from '../protocol/reading.js';
import type { AgentCard, AgentExtension } from '../protocol/types.js';
import { metadataIn } from '../server/json-rpc-binding.js';
import { type Operation, type Outcome, type RequestTerms, tenantIn } from '../server/operations.js';
import { readEnvelope, requireNewest, VERSION } from '../server/request-context.js';
import { MESH_METHODS, type MeshQuestion, meshProtocol } from './mesh-protocol.js';

export interface MeshBindingComponents {
  runtime: Runtime;
  registry: AgentRegistry;
  nodeKey: string;
  network: Network | undefined;
}

/** The A2A server of this node. */
export interface MeshTasks {
  performHere(operation: Operation, params: unknown, terms: RequestTerms): Promise<Outcome>;
  extensionsOf(agent: string | undefined): readonly AgentExtension[];
  /** For each other node. */
  readonly requestsPerMinute: number;
  /** The card of an agent, or of the node, as it is served over the mesh. */
  card(agent: string | undefined, viewer: Party): AgentCard;
}

const SENDS: ReadonlySet<string> = new Set(['SendMessage', 'SendStreamingMessage']);
const CARDS: ReadonlySet<string> = new Set(['GetAgentCard', 'GetExtendedAgentCard']);

/**
 * A2A requests of agents to agents, on this node and on others: docs/a2a-mesh-binding.md. The asking node is known by the
 * key of its link, and its agent by the card that this node registered for it. Policy is decided at both ends.
 */
export class MeshBinding {
  readonly #components: MeshBindingComponents;
  readonly #exchange: OperationExchange<MeshQuestion> | undefined;
  #rate: RateLimiter | undefined;
  #own: MeshTasks | undefined;

  constructor(components: MeshBindingComponents) {
    const { runtime, network } = components;
    this.#components = components;
    if (!network) return;
    const answer = (question: MeshQuestion, onGone: RequestTerms['onGone'], node: string) =>
      this.#answer(question, onGone, node);
    this.#exchange = new OperationExchange({ runtime, network, answer }, meshProtocol(network));
    network.handle(this.#exchange);
  }

  /** Begins to answer other nodes. */
  serve(own: MeshTasks): void {
    this.#own = own;
    this.#rate = new RateLimiter(this.#components.runtime, own.requestsPerMinute);
  }

  unserve(): void {
    this.#own = undefined;
  }

  close(): void {
    this.#exchange?.close();
  }

  /** Asks a node, which may be this one. Fails with `PEER_UNREACHABLE` while it is away. */
  async ask(node: string, question: MeshQuestion, patience: Patience): Promise<Outcome> {
    const { nodeKey } = this.#components;
    this.#requireMayAsk(node, question);
    if (node === nodeKey) return this.#answer(question, patience.onGone ?? (() => () => {}), undefined);
    if (this.#exchange) return this.#exchange.ask(node, question, patience);
    throw unreachable(node, 'this node has no network', 'not-delivered');
  }

  /** Calls back once when that node is there again. Returns a function that ends the wait. */
  onAvailable(node: string, callback: () => void): () => void {
    return this.#exchange?.onAvailable(node, callback) ?? (() => {});
  }

  /** This node's own rules; the other node decides by its own. */
  #requireMayAsk(node: string, { method, params, caller }: MeshQuestion): void {
    const { registry, nodeKey } = this.#components;
    const source = registry.ownEntry(caller);
    if (!source) throw notFound(caller);
    if (taskIdIn(method, params) !== undefined || !(SENDS.has(method) || CARDS.has(method))) return;
    const address = joinAddress(tenantIn(params) ?? '', node === nodeKey ? undefined : node);
    const known = registry.entry(address);
    if (node === nodeKey && !known) return;
    if (known && SENDS.has(method)) requireMayOpen(registry, source, known);
    else if (!registry.policy.mayUse(source, known ?? { address, node, tier: 3, sandboxId: undefined })) {
      const message = `${caller} is in sandbox "${source.sandboxId}", which does not include agents of node ${node}`;
      throw new EclipticError('SANDBOX_VIOLATION', message);
    }
  }

  // Requests of agents. Without a node, the agent is one of this node.

  async #answer(question: MeshQuestion, onGone: RequestTerms['onGone'], node: string | undefined): Promise<Outcome> {
    const { registry, nodeKey } = this.#components;
    const own = this.#own;
    if (!own) throw unreachable(nodeKey, 'it serves no tasks at present', 'not-delivered');
    const { method, caller, service = {} } = question;
    const source = registry.entry(joinAddress(caller, node));
    if (!source)
      throw new EclipticError('SENDER_REFUSED', `"${caller}" is not known at this node`, { agentId: caller });
    if (node !== undefined) this.#rate?.take(node);
    if (!MESH_METHODS.has(method)) {
      throw new EclipticError('METHOD_NOT_FOUND', `the mesh binding has no method "${cutText(method, 64)}"`, {
        method,
      });
    }
    requireNewest(service[VERSION], 'the mesh binding');
    const params = withJsonNames(question.params);
    if (CARDS.has(method)) return { result: this.#card(own, method, tenantIn(params), source) };
    const principal = this.#principalOf(source);
    const header = (name: string) => service[name];
    const { terms } = readEnvelope(
      { header, principal, onGone },
      own.extensionsOf(tenantIn(params)),
      metadataIn(params),
    );
    const after = (taskId: string) => readCursor(service['last-event-id'], taskId);
    return own.performHere(method as Method, params, { ...terms, after });
  }

  #card(own: MeshTasks, method: string, tenant: string | undefined, source: RegistryEntry): AgentCard {
    const { registry } = this.#components;
    const entry = tenant === undefined ? undefined : registry.ownEntry(tenant);
    if (tenant !== undefined && (!entry || isHidden(registry, entry, source))) throw notFound(tenant);
    const card = own.card(entry?.address, source);
    if (method === 'GetAgentCard' || card.capabilities.extendedAgentCard) return card;
    throw new EclipticError('OPERATION_NOT_SUPPORTED', 'the agent has no extended card');
  }

  /** As whom this node performs the request: the agent, in its sandbox as this node names it. */
  #principalOf({ address, node, tier, sandboxId }: RegistryEntry): Party {
    if (address === OPERATOR.address) return OPERATOR;
    const isShared = sandboxId === undefined || this.#components.registry.policy.isShared(sandboxId);
    return { address, node: undefined, tier, sandboxId: isShared ? sandboxId : joinAddress(sandboxId, node) };
  }
}

function taskIdIn(method: string, params: unknown): string | undefined {
  if (!SENDS.has(method)) return undefined;
  const { message } = (params ?? {}) as { message?: { taskId?: unknown } };
  return typeof message?.taskId === 'string' && message.taskId !== '' ? message.taskId : undefined;
}

function requireMayOpen({ policy }: AgentRegistry, source: RegistryEntry, target: RegistryEntry): void {
  const decision = policy.ask(source, target, 'request');
  if (!decision.allowed) throw new EclipticError(decision.code, decision.reason);
}

/** Outside the project of the agent, and outside a sandbox from which it could not answer, there is no such agent. */
function isHidden({ policy }: AgentRegistry, entry: RegistryEntry, source: RegistryEntry): boolean {
  if (policy.isConfinedFrom(entry.address, source.address)) return true;
  return !policy.mayDiscover(source, entry) || !policy.judgeAnswer(entry, source).allowed;
}
