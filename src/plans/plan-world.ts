import { readSchema } from '../mcp/schema.js';
import type { AgentRegistry } from '../mesh/registry.js';
import type { A2ARouter } from '../mesh/router.js';
import type { A2AMessageType, AgentCard, AgentTier } from '../mesh/schemas.js';
import { vacancyFor, workOf } from '../mesh/staffing.js';
import { describeError } from '../runtime/errors.js';
import type { PlanWorld } from './plan-check.js';
import type { PlanTask } from './plan-schema.js';

export interface MeshWorldComponents {
  readonly registry: AgentRegistry;
  readonly router: A2ARouter;
}

/** What plans may count on in this mesh, at present: its agents, as far as policy lets them be given work. */
export class MeshWorld implements PlanWorld {
  readonly #registry: AgentRegistry;
  readonly #router: A2ARouter;

  constructor({ registry, router }: MeshWorldComponents) {
    this.#registry = registry;
    this.#router = router;
  }

  /** Who hands out tasks unless somebody is named: the sun, or else the first L0 agent of this node. */
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
    const refusals = all.map((card) => this.worker(addressOf(card), as));
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

  /** Is there at present somebody to give it to? */
  canBeDone({ agent, capabilities, swarm }: PlanTask, as: string): boolean {
    if (agent !== undefined) return this.worker(agent, as) === undefined;
    if (capabilities && this.capable(capabilities, as) === undefined) return true;
    return this.#ableTogether(capabilities ?? swarm!.capabilities, as);
  }

  /**
   * The task as it is handed out at present: where no agent has all of the capabilities that it needs, and several have
   * them between them, it is one for a swarm.
   */
  handedOut(task: PlanTask, as: string): PlanTask {
    const { capabilities = [] } = task;
    if (capabilities.length < 2 || this.capable(capabilities, as) === undefined) return task;
    return this.#ableTogether(capabilities, as) ? forSwarm(task) : task;
  }

  /** The tier whose limits a task is under: that of the agent that would get it now. */
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

  #refusal(agent: string, as: string | undefined, type: A2AMessageType): string | undefined {
    const sender = as ?? this.usualDispatcher;
    try {
      // Who is not there is one fault, and not one of every task.
      if (sender === undefined || !this.#registry.ownEntry(sender)) this.#registry.requireById(agent);
      else {
        const decision = this.#router.explain(sender, agent, type, 'a task of a plan');
        if (!decision.allowed) return `${decision.code}: ${decision.reason}`;
      }
      const vacancy = vacancyFor(this.#registry.requireById(agent), workOf(type));
      return vacancy && `${vacancy.code}: ${vacancy.reason}`;
    } catch (error) {
      return describeError(error);
    }
  }
}

/** A task for whoever has its capabilities, as one for a swarm of agents that have them between them. */
export function forSwarm({ capabilities = [], ...task }: PlanTask): PlanTask {
  return { ...task, swarm: { capabilities: [...new Set(capabilities)] } };
}

function addressOf({ id, node }: AgentCard): string {
  return node === undefined ? id : `${id}@${node}`;
}

function listOf(capabilities: readonly string[]): string {
  const quoted = capabilities.map((one) => `"${one}"`);
  return quoted.length === 1 ? `the capability ${quoted[0]}` : `all of the capabilities ${quoted.join(', ')}`;
}
