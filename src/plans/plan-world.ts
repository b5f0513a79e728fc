import { readSchema } from '../mcp/schema.js';
import type { Failure } from '../mesh/message-checks.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { A2ARouter } from '../mesh/router.js';
import type { A2AMessageType, AgentCard, AgentTier } from '../mesh/schemas.js';
import { unroutable, vacancyFor, workOf } from '../mesh/staffing.js';
import { wait } from '../runtime/async.js';
import { describeError, EclipticError, toEclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { Assignment } from './dispatcher.js';
import type { PlanWorld } from './plan-check.js';
import type { PlanTask } from './plan-schema.js';

/** How long a task waits for an agent that has not joined yet. */
const ARRIVAL_MS = 30_000;

/** The agents that plans can use at present, as far as policy lets them be given work. */
export class MeshWorld implements PlanWorld {
  readonly #runtime: Runtime;
  readonly #registry: AgentRegistry;
  readonly #router: A2ARouter;

  constructor({ runtime, registry, router }: { runtime: Runtime; registry: AgentRegistry; router: A2ARouter }) {
    this.#runtime = runtime;
    this.#registry = registry;
    this.#router = router;
  }

  /** The default dispatcher: the sun, or else the first L0 agent of this node. */
  get usualDispatcher(): string | undefined {
    const own = this.#registry.getLocalCards().filter(({ tier }) => tier === 0);
    return (own.find(({ id }) => id === 'sun') ?? own[0])?.id;
  }

  dispatcher(agent: string): string | undefined {
    return this.#registry.ownEntry(agent) ? undefined : `this node has no agent "${agent}"`;
  }

  worker(agent: string, as: string | undefined): string | undefined {
    return this.#refusal(agent, as, 'task-proposal');
  }

  adviser(agent: string, as: string | undefined): string | undefined {
    return this.#refusal(agent, as, 'request');
  }

  capable(capabilities: readonly string[], as: string | undefined): string | undefined {
    const all = this.#having(capabilities);
    if (all.length === 0) return `no agent has ${listOf(capabilities)}`;
    const refusals = all.map((card) => this.#refusal(addressOf(card), as, 'task-proposal', capabilities));
    return refusals.every((refusal) => refusal !== undefined) ? refusals[0] : undefined;
  }

  async schema(schema: object): Promise<string | undefined> {
    try {
      await readSchema(schema as Record<string, unknown>, 'output', 'the results').check(null);
      return undefined;
    } catch (error) {
      return describeError(error);
    }
  }

  /**
   * Waits for a while until an agent can do the task. All agents were there when the plan was checked, but a node that
   * restarts knows the agents of other nodes a moment later.
   */
  async untilCapable({ task, run, signal }: Assignment): Promise<void> {
    if (this.#canBeDone(task, run.agent)) return;
    const arrived = new AbortController();
    const stop = this.#registry.onCard(() => {
      if (this.#canBeDone(task, run.agent)) arrived.abort();
    });
    await wait(this.#runtime, ARRIVAL_MS, AbortSignal.any([arrived.signal, signal]));
    stop();
  }

  #canBeDone({ agent, capabilities, swarm }: PlanTask, as: string): boolean {
    if (agent !== undefined) return this.worker(agent, as) === undefined;
    if (capabilities && this.capable(capabilities, as) === undefined) return true;
    return this.#ableTogether(capabilities ?? swarm!.capabilities, as);
  }

  /**
   * The task as it is handed out at present: to a swarm, if it is divisible, or if no agent has all capabilities but
   * several together do.
   */
  handedOut(task: PlanTask, as: string, planner?: string): PlanTask {
    const { capabilities = [], divisible } = task;
    const inParts = capabilities.length > 1 || (task.planner ?? planner) !== undefined;
    const whole = capabilities.length < 2 || this.capable(capabilities, as) === undefined;
    if (capabilities.length === 0 || !inParts || (whole && !divisible)) return task;
    return this.#ableTogether(capabilities, as) ? forSwarm(task, planner) : task;
  }

  /** Can the agent that had the task before take it again? */
  canStill(agent: string | undefined, { capabilities = [] }: PlanTask, as: string): boolean {
    const card = agent === undefined ? undefined : this.#registry.getById(agent);
    if (!card || unroutable(card, 'proposal', capabilities) || this.worker(agent!, as) !== undefined) return false;
    return capabilities.every((wanted) => card.capabilities.some(({ id }) => id === wanted));
  }

  /** The agents that can be given work now, as policy allows. */
  workers(as: string): AgentCard[] {
    return this.#registry
      .listAll(as)
      .filter((card) => !unroutable(card, 'proposal') && this.worker(addressOf(card), as) === undefined);
  }

  /** The agent that makes plans: the one that is named, or the sun, or another L0 agent, with a worker for requests. */
  planner(named: string | undefined, as: string): string {
    const others = this.#registry.findByTier(0).map(addressOf);
    const asked = named === undefined ? [...new Set(['sun', ...others])] : [named];
    const refusals = asked.map((agent) => this.#failure(agent, as, 'request'));
    const found = asked[refusals.indexOf(undefined)];
    if (found !== undefined) return found;
    const at = Math.max(
      0,
      refusals.findIndex((refusal) => refusal?.code === 'NO_WORKER'),
    );
    const { code, reason } = refusals[at]!;
    const hint = named === undefined ? '; or name another planner: --with AGENT' : '';
    throw new EclipticError(code, `${reason}${hint}`, { agentId: asked[at]! });
  }

  /** The tier whose limits apply: that of the agent that would get the task now. */
  tierOf({ agent, capabilities, swarm }: PlanTask, as: string): AgentTier {
    if (agent !== undefined) return this.#registry.requireById(agent).tier;
    const whole = capabilities ? this.#having(capabilities) : [];
    const able = whole.length > 0 ? whole : this.#having([(capabilities ?? swarm!.capabilities)[0]!]);
    return (able.find((card) => this.worker(addressOf(card), as) === undefined) ?? able[0]!).tier;
  }

  #ableTogether(capabilities: readonly string[], as: string): boolean {
    return capabilities.every((one) => this.capable([one], as) === undefined);
  }

  #having(capabilities: readonly string[]): AgentCard[] {
    const has = (card: AgentCard) => capabilities.every((wanted) => card.capabilities.some(({ id }) => id === wanted));
    return this.#registry.findByCapability(capabilities[0]!).filter(has);
  }

  #refusal(agent: string, as: string | undefined, type: A2AMessageType, asked?: readonly string[]): string | undefined {
    const failure = this.#failure(agent, as, type, asked);
    if (failure === undefined) return undefined;
    return failure.named ? `${failure.code}: ${failure.reason}` : failure.reason;
  }

  /** `named`: the reason is shown with its code. */
  #failure(
    agent: string,
    as: string | undefined,
    type: A2AMessageType,
    asked: readonly string[] = [],
  ): (Failure & { named: boolean }) | undefined {
    const sender = as ?? this.usualDispatcher;
    try {
      // A missing dispatcher is one fault of the plan, not one of every task.
      if (sender === undefined || !this.#registry.ownEntry(sender)) this.#registry.requireById(agent);
      else {
        const decision = this.#router.explain(sender, agent, type, 'a task of a plan');
        if (!decision.allowed) return { ...decision, named: true };
      }
      const vacancy = vacancyFor(this.#registry.requireById(agent), workOf(type), asked);
      return vacancy && { ...vacancy, named: true };
    } catch (error) {
      return { code: toEclipticError(error, 'AGENT_NOT_FOUND').code, reason: describeError(error), named: false };
    }
  }
}

/** A task for capable agents as a task for a swarm of them, which the planner splits if there is one. */
export function forSwarm({ capabilities = [], planner, ...task }: PlanTask, otherwise?: string): PlanTask {
  const splitter = planner ?? otherwise;
  const swarm = { capabilities: [...new Set(capabilities)], ...(splitter !== undefined && { planner: splitter }) };
  return { ...task, swarm };
}

export function addressOf({ id, node }: AgentCard): string {
  return node === undefined ? id : `${id}@${node}`;
}

function listOf(capabilities: readonly string[]): string {
  const quoted = capabilities.map((one) => `"${one}"`);
  return quoted.length === 1 ? `the capability ${quoted[0]}` : `all of the capabilities ${quoted.join(', ')}`;
}
