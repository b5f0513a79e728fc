import { createHash } from 'node:crypto';
import type { Agent } from '../agent/agent.js';
import type { AgentInit } from '../agent/agent-init.js';
import { splitAddress } from '../mesh/address.js';
import { CALLER_PROTOCOL, STAND_IN_PROTOCOL } from '../mesh/registry-index.js';
import { EclipticError } from '../runtime/errors.js';

/** Agents of one other node that have tasks here. */
const MAX_OF_NODE = 256;
const DIGITS = 24;

/** The agents of this node that hold the conversations of tasks which agents of other nodes gave over A2A. */
export class StandIns {
  readonly #agent: (init: AgentInit) => Agent;
  readonly #byAddress = new Map<string, Agent>();
  readonly #counts = new Map<string, number>();

  constructor(agent: (init: AgentInit) => Agent) {
    this.#agent = agent;
  }

  /** For an agent of another node, `id@node`, in its sandbox as this node names it. */
  of(address: string, sandbox: string | undefined): Agent {
    const known = this.#byAddress.get(address);
    if (known) return known;
    const { node = '' } = splitAddress(address);
    const count = this.#counts.get(node) ?? 0;
    if (count >= MAX_OF_NODE) {
      throw new EclipticError('QUEUE_FULL', `${MAX_OF_NODE} agents of node ${node} have tasks here already`, { node });
    }
    const digest = createHash('sha256').update(address).digest('hex').slice(0, DIGITS);
    const agent = this.#agent({
      id: `peer-${digest}`,
      name: address,
      description: 'An agent of another node.',
      // What the agent itself may do was decided when its request came.
      tier: 3,
      protocols: [CALLER_PROTOCOL, STAND_IN_PROTOCOL],
      ...(sandbox !== undefined && { sandbox }),
    }).onMessage(() => {});
    this.#byAddress.set(address, agent);
    this.#counts.set(node, count + 1);
    return agent;
  }
}
