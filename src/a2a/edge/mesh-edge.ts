import { hash } from 'node:crypto';
import { z } from 'zod';
import { GUEST, OPERATOR } from '../../http/auth/caller-auth.js';
import { joinAddress, splitAddress } from '../../mesh/address.js';
import type { Party } from '../../mesh/policy.js';
import type { Network } from '../../network/peers/network.js';
import { EclipticError, toEclipticError } from '../../runtime/errors.js';
import { type Amount, FairShares } from '../../runtime/fair-shares.js';
import type { Runtime } from '../../runtime/runtime.js';
import { METHODS } from '../protocol/json-rpc.js';
import { readListTasksRequest, readSendMessageRequest } from '../protocol/read-requests.js';
import { readTaskSend } from '../protocol/simple.js';
import { splitTaskId } from '../protocol/task-id.js';
import { sendFacts, taskNotFound } from '../protocol/task-rules.js';
import type { ListTasksResponse } from '../protocol/types.js';
import type { EventStream } from '../server/event-stream.js';
import type { Operation, OtherNodes, Outcome, RequestTerms } from '../server/operations.js';
import type { AgentRequest } from '../server/task-service.js';
import { edgeProtocol, type Question } from './edge-question.js';
import { fitList, mergeLists } from './merge-lists.js';
import { OperationExchange, unreachable } from './operation-exchange.js';

export interface MeshEdgeComponents {
  runtime: Runtime;
  network: Network;
  nodeKey: string;
}

/** The A2A server of this node. */
export interface OwnTasks {
  performHere(operation: Operation, params: unknown, terms: RequestTerms): Promise<Outcome>;
  /** Throws if this node does not offer what a send asks for. */
  requireOffered(operation: Operation, params: unknown): void;
  /** The agents, here and on other nodes, that could take such a task. */
  agentsFor(wanted: AgentRequest): readonly string[];
  /** The full address of an agent that a request names. */
  addressOf(agent: string): string;
  /** Is it an agent of this node, and no outside caller? */
  isAgent(name: string): boolean;
  /** The sandbox of a caller that is known here; undefined if it is in none, null if the caller is not known. */
  sandboxOf(caller: string): string | undefined | null;
  /** Create tasks at the nodes of their agents, and keep none. */
  readonly stateless: boolean;
}

/** Names the nodes whose tasks a list lacks: `KEY CODE, KEY CODE`. */
export const MISSING_HEADER = 'Ecliptic-Missing-Nodes';
const MAX_NAMED = 64;
const ANSWER_MS = 5_000;
/** A list waits less: the answers of the other nodes are there already. */
const LIST_MS = 3_000;
/** Characters of one node's part of a list. */
const LIST_CHARS = 1_048_576;
/** Operations under way at other nodes, and the characters of their parameters, shared among callers. */
const UNDER_WAY: Amount = { items: 5_000, bytes: 32 * 1_048_576 };

const OPERATIONS: ReadonlySet<string> = new Set([...METHODS, 'GetSimpleTask', 'SendSimpleTask']);
const SENDS: ReadonlySet<Operation> = new Set(['SendMessage', 'SendStreamingMessage', 'SendSimpleTask']);
const PUSHES: ReadonlySet<Operation> = new Set(METHODS.filter((method) => method.includes('PushNotification')));
/** The extended card is this node's own; lists are merged. */
const LOCAL: ReadonlySet<string> = new Set(['GetExtendedAgentCard']);

const ListSchema = z.object({
  tasks: z.array(z.looseObject({ id: z.string(), status: z.looseObject({ timestamp: z.string().optional() }) })),
  nextPageToken: z.string(),
  pageSize: z.number(),
  totalSize: z.number(),
});

/**
 * Makes the tasks of all of the owner's devices available at each of them. A task id names the node that keeps the task,
 * and operations on it are performed there, for the caller that the first node has authenticated. A caller is known by the
 * name of its token; an agent's name means that agent on its own node only, so its tasks are not available elsewhere.
 */
export class MeshEdge implements OtherNodes {
  readonly #components: MeshEdgeComponents;
  readonly #exchange: OperationExchange<Question>;
  readonly #shares = new FairShares(UNDER_WAY);
  #own: OwnTasks | undefined;

  constructor(components: MeshEdgeComponents) {
    this.#components = components;
    const answer = (question: Question, onGone: RequestTerms['onGone']) => this.#answer(question, onGone);
    this.#exchange = new OperationExchange({ ...components, answer }, edgeProtocol(components.network));
    components.network.handle(this.#exchange);
  }

  /** Begins to answer other nodes. */
  serve(own: OwnTasks): void {
    this.#own = own;
  }

  /** The node takes no more requests over HTTP. */
  unserve(): void {
    this.#own = undefined;
  }

  close(): void {
    this.#exchange.close();
  }

  perform(operation: Operation, params: unknown, terms: RequestTerms): Promise<Outcome> | undefined {
    if (LOCAL.has(operation)) return undefined;
    if (operation === 'ListTasks') return this.#list(params, terms);
    const id = taskIdIn(operation, params);
    if (id === undefined) return SENDS.has(operation) ? this.#sendToAgent(operation, params, terms) : undefined;
    const { node } = splitTaskId(id);
    const { network, nodeKey } = this.#components;
    if (node === undefined || node === nodeKey) return undefined;
    // A node that is none of the owner's has no tasks that could be shown; nothing tells the two cases apart.
    const known = network.isOwnerDevice(node) && !this.#isAgent(terms.principal);
    if (!known) return Promise.reject(taskNotFound(id));
    if (SENDS.has(operation)) this.#own?.requireOffered(operation, params);
    const after = operation === 'SubscribeToTask' ? terms.after?.(id) : undefined;
    return this.#ask(node, { operation, params, after }, terms);
  }

  async #ask(
    node: string,
    asked: Pick<Question, 'operation' | 'params' | 'after' | 'agent'>,
    { principal, key, chain, onGone }: RequestTerms,
    answerMs = SENDS.has(asked.operation as Operation) ? undefined : ANSWER_MS,
  ): Promise<Outcome> {
    const { address: caller, sandboxId } = principal;
    if (!this.#shares.hasRoom(caller)) {
      throw new EclipticError('QUEUE_FULL', 'this caller has its share of the requests to other nodes');
    }
    const question = { ...asked, caller, sandbox: sandboxId ?? null, key, ...(chain?.length && { chain: [...chain] }) };
    const chars = JSON.stringify(asked.params ?? null).length;
    this.#shares.add(caller, chars);
    let open = true;
    const end = () => {
      if (open) this.#shares.remove(caller, chars);
      open = false;
    };
    let outcome: Outcome | undefined;
    try {
      outcome = await this.#exchange.ask(node, question, { answerMs, onGone });
    } finally {
      if (!outcome || 'result' in outcome) end();
    }
    // A stream counts until it is read to its end, or left.
    return 'result' in outcome ? outcome : { stream: { ...outcome.stream, events: endingWith(outcome.stream, end) } };
  }

  // Lists

  #list(params: unknown, terms: RequestTerms): Promise<Outcome> | undefined {
    const { network } = this.#components;
    const own = this.#own;
    const { principal } = terms;
    if (!own || principal.address === GUEST.address || own.isAgent(principal.address)) return undefined;
    const nodes = network.peers.all.map(({ node }) => node).filter((node) => network.isOwnerDevice(node));
    return nodes.length === 0 ? undefined : this.#merged(own, nodes, params, terms);
  }

  async #merged(own: OwnTasks, nodes: readonly string[], params: unknown, terms: RequestTerms): Promise<Outcome> {
    const { nodeKey } = this.#components;
    const request = readListTasksRequest(params);
    const agent = request.tenant === undefined ? undefined : splitAddress(own.addressOf(request.tenant));
    // On its own node an agent is known by its id alone.
    const paramsFor = (node: string) =>
      agent?.node === undefined
        ? params
        : { ...request, tenant: agent.node === node ? agent.id : joinAddress(agent.id, agent.node) };
    const missing: string[] = [];
    const asked = nodes.map(async (node) => {
      try {
        const outcome = await this.#ask(node, { operation: 'ListTasks', params: paramsFor(node) }, terms, LIST_MS);
        return [readList(outcome)];
      } catch (error) {
        const { code } = toEclipticError(error, 'PEER_UNREACHABLE');
        if (code === 'CANCELLED') throw error;
        missing.push(`${node} ${code}`);
        return [];
      }
    });
    const here = own.performHere('ListTasks', paramsFor(nodeKey), terms).then((outcome) => [readList(outcome)]);
    const lists = await Promise.all([here, ...asked]);
    if (missing.length > 0) terms.announce?.(MISSING_HEADER, missing.sort().slice(0, MAX_NAMED).join(', '));
    return { result: mergeLists(lists.flat(), request) };
  }

  // New tasks of a stateless node

  #sendToAgent(operation: Operation, params: unknown, terms: RequestTerms): Promise<Outcome> | undefined {
    const { network } = this.#components;
    if (!this.#own?.stateless || this.#isAgent(terms.principal)) return undefined;
    const { wanted, messageId } = readSend(operation, params);
    const key = `${terms.principal.address} ${terms.key ?? messageId}`;
    const { id: agent, node } = splitAddress(
      choose(this.#own.agentsFor({ ...wanted, caller: terms.principal.address }), key),
    );
    // Tasks for agents of other owners are kept here: their nodes do not take the word of this one.
    if (node === undefined || !network.isOwnerDevice(node)) return undefined;
    this.#own.requireOffered(operation, params);
    return this.#ask(node, { operation, params, agent }, terms);
  }

  // Questions of other nodes

  async #answer(question: Question, onGone: RequestTerms['onGone']): Promise<Outcome> {
    const own = this.#own;
    if (!own) throw unreachable(this.#components.nodeKey, 'it serves no tasks at present', 'not-delivered');
    const { params, caller, sandbox, key, chain, agent, after } = question;
    const operation = question.operation as Operation;
    if (!OPERATIONS.has(operation) || LOCAL.has(operation)) {
      throw new EclipticError('METHOD_NOT_FOUND', 'other nodes cannot ask for that operation');
    }
    const id = taskIdIn(operation, params);
    const isNew = SENDS.has(operation) && id === undefined;
    if (!isSameCaller(own, caller, sandbox ?? undefined)) {
      if (isNew) throw new EclipticError('SENDER_REFUSED', `"${caller}" is another principal at the agent’s node`);
      if (id !== undefined) throw taskNotFound(id);
      return { result: { tasks: [], nextPageToken: '', pageSize: 0, totalSize: 0 } satisfies ListTasksResponse };
    }
    const terms = { principal: partyOf(caller, sandbox ?? undefined), onGone, key, chain, agent, after: () => after };
    const outcome = await own.performHere(operation, params, terms);
    if (operation !== 'ListTasks' || !('result' in outcome)) return outcome;
    return { result: fitList(outcome.result as ListTasksResponse, LIST_CHARS) };
  }

  #isAgent({ address }: Party): boolean {
    return this.#own?.isAgent(address) === true;
  }
}

/** The id of the task that an operation is about. A malformed one is refused by the readers of this node. */
function taskIdIn(operation: Operation, params: unknown): string | undefined {
  const { id, taskId, message } = (params ?? {}) as { id?: unknown; taskId?: unknown; message?: { taskId?: unknown } };
  const named = SENDS.has(operation) ? message?.taskId : PUSHES.has(operation) ? taskId : id;
  return typeof named === 'string' && named !== '' ? named : undefined;
}

function readSend(operation: Operation, params: unknown): { wanted: AgentRequest; messageId: string } {
  if (operation === 'SendSimpleTask') {
    return { wanted: { agent: undefined, skill: readTaskSend(params).skill }, messageId: '' };
  }
  const request = readSendMessageRequest(params);
  const { tenant: agent, skill } = sendFacts(request, request.tenant);
  return { wanted: { agent, skill }, messageId: request.message.messageId };
}

/** By rendezvous hashing: tasks spread over the agents, and a repeated send finds the same one, at whichever node it arrives. */
function choose(agents: readonly string[], key: string): string {
  const weight = (agent: string) => hash('sha256', `${key} ${agent}`, 'hex');
  return agents.length < 2
    ? (agents[0] ?? '')
    : agents.reduce((best, agent) => (weight(agent) > weight(best) ? agent : best));
}

/** One name is one principal: not an agent here, and not in another sandbox. */
function isSameCaller(own: OwnTasks, caller: string, sandbox: string | undefined): boolean {
  const known = own.sandboxOf(caller);
  return !own.isAgent(caller) && (known === null || known === sandbox);
}

function partyOf(address: string, sandboxId: string | undefined): Party {
  if (address === OPERATOR.address) return OPERATOR;
  return address === GUEST.address ? GUEST : { address, node: undefined, tier: 3, sandboxId };
}

function readList(outcome: Outcome): ListTasksResponse {
  const list = 'result' in outcome ? ListSchema.safeParse(outcome.result) : undefined;
  if (list?.success) return list.data as unknown as ListTasksResponse;
  throw new EclipticError('INVALID_FRAME', 'the node’s list of tasks is malformed');
}

/** The same stream, which calls back once when it has ended or its reader has left. */
function endingWith({ events }: EventStream, end: () => void): EventStream['events'] {
  return {
    async next() {
      try {
        const next = await events.next();
        if (next.done) end();
        return next;
      } catch (error) {
        end();
        throw error;
      }
    },
    async return() {
      end();
      return (await events.return?.()) ?? { value: undefined, done: true };
    },
  };
}
