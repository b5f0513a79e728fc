import type { AgentRegistry } from '../mesh/registry.js';
import type { AgentStatus, WorkKind } from '../mesh/schemas.js';
import { noWorker } from '../mesh/staffing.js';
import { EclipticError } from '../runtime/errors.js';
import type { Runtime } from '../runtime/runtime.js';
import type { AgentInit } from './agent-init.js';

/** The health of the program, remote agent or tool server behind an agent. */
export interface WorkerHealth {
  readonly state: 'ready' | 'starting' | 'degraded' | 'unavailable';
  readonly reason?: string | undefined;
  /** Does it take no work until its owner acts? */
  readonly blocked?: boolean;
}

const KINDS = ['request', 'task', 'proposal'] as const satisfies readonly WorkKind[];
/** A tool that describes the agent and does no work. */
export const SELF_DESCRIPTION = 'describe';
const READY: WorkerHealth = { state: 'ready' };

/**
 * The kinds of work that one agent has a worker for. They follow from its handlers, its tools and the health of the worker
 * behind it, and are published on the agent's card, which everything else reads.
 */
export class Staffing {
  readonly #runtime: Runtime;
  readonly #registry: AgentRegistry;
  readonly #agentId: string;
  readonly #vacancy: AgentInit['vacancy'];
  readonly #takes = new Set<WorkKind>();
  #listens = false;
  #capabilities: readonly string[] | undefined;
  #tools = false;
  #health = READY;
  readonly #servers = new Map<string, WorkerHealth>();
  #published: string | undefined;
  #scheduled = false;
  #closed = false;

  constructor(runtime: Runtime, registry: AgentRegistry, agentId: string, vacancy: AgentInit['vacancy']) {
    this.#runtime = runtime;
    this.#registry = registry;
    this.#agentId = agentId;
    this.#vacancy = vacancy;
    this.#publishSoon();
  }

  add(...kinds: readonly WorkKind[]): void {
    for (const kind of kinds) this.#takes.add(kind);
    this.#changed();
  }

  /** The capabilities that tasks and proposals may ask for; undefined: all of the card. */
  limitTo(capabilities: readonly string[] | undefined): void {
    this.#capabilities = capabilities;
    this.#changed();
  }

  /** A handler for messages that ask for no work. */
  addListener(): void {
    this.#listens = true;
    this.#changed();
  }

  /** Some tools that the agent offers, or, with `gone`, all that it still offers. */
  toolsChanged(names: Iterable<string>, gone: boolean): void {
    const before = this.#tools;
    this.#tools = (before && !gone) || [...names].some((name) => name !== SELF_DESCRIPTION);
    if (this.#tools !== before) this.#changed();
  }

  get health(): WorkerHealth {
    return this.#health;
  }

  set health(health: WorkerHealth) {
    this.#health = health;
    this.#changed();
  }

  setServerHealth(server: string, health: WorkerHealth): void {
    this.#servers.set(server, health);
    this.#changed();
  }

  /** Does the agent take notifications silently although it has no handler? */
  get ignoresNotifications(): boolean {
    return this.#vacancy !== undefined;
  }

  /** For the agent's card; undefined where the agent takes every kind of work. */
  get status(): AgentStatus | undefined {
    const { state, reason, blocked } = this.#health;
    // A request may wait for its worker to come back; a task or proposal would look as if it were being worked on.
    const cannot = (kind: WorkKind) => blocked || (kind !== 'request' && state === 'unavailable');
    const takes = KINDS.filter((kind) => this.#takes.has(kind) && !cannot(kind));
    const limits = takes.length === KINDS.length ? {} : { takes };
    if (state !== 'ready') return { state, ...limits, ...(reason !== undefined && { reason }) };
    if (this.#capabilities) return { state: 'tools', takes, capabilities: [...this.#capabilities], ...this.#vacancy };
    if (takes.length > 0) return takes.length === KINDS.length ? undefined : { state, takes };
    const server = [...this.#servers.values()].find((one) => one.state !== 'ready');
    if (server) return { state: server.state, takes, ...(server.reason !== undefined && { reason: server.reason }) };
    if (this.#tools) return { state: 'tools', takes, ...this.#vacancy };
    if (this.#listens) return { state, takes };
    return { state: 'unstaffed', takes, ...(this.#vacancy ?? { reason: 'no handler for it is attached' }) };
  }

  /** The answer to work that the agent has no worker for. */
  refusal(kind: WorkKind): EclipticError {
    const { code, reason } = noWorker(this.#agentId, kind, this.status);
    return new EclipticError(code, reason, { agentId: this.#agentId, kind });
  }

  close(): void {
    this.#closed = true;
  }

  /**
   * The first status is published after the current turn, when the author has attached all handlers: usually it is empty.
   * A later change is published at once, since the card must not deny a handler that is attached.
   */
  #changed(): void {
    if (this.#published !== undefined) this.#publish();
    else this.#publishSoon();
  }

  #publishSoon(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#runtime.defer(() => {
      this.#scheduled = false;
      this.#publish();
    });
  }

  #publish(): void {
    const { status } = this;
    const said = status && JSON.stringify(status);
    if (this.#closed || said === this.#published) return;
    this.#published = said;
    this.#registry.setStatus(this.#agentId, status);
  }
}
