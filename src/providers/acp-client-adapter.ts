import { AcpAgent, type AcpAgentInit } from '../acp/acp-agent.js';
import type { AcpDescription } from '../acp/description.js';
import { Terminals } from '../acp/terminals.js';
import type { AcpAnswer } from '../acp/turn.js';
import { Workspace } from '../acp/workspace.js';
import type { ActionGate } from '../approvals/action-gate.js';
import type { Program } from '../process/children.js';
import type { RestartPolicy } from '../process/supervision.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import { type HostComponents, IsolatedProviderHost } from './host/isolated-provider-host.js';
import type { HostLimits } from './host/limits.js';
import { Listeners } from './host/listeners.js';
import type { Lane } from './lanes.js';
import type { ExecuteTerms, ProviderAdapter, ProviderCrash, ProviderHealthStatus } from './provider-adapter.js';
import { normalizeError } from './provider-errors.js';

export interface ACPConfig extends Program {
  /** The folder that it works in, and does not leave. Default: its lane's. */
  readonly workspace?: string | undefined;
  /** The way to log in, by its id, where it wants that. */
  readonly auth?: string | undefined;
  readonly limits?: Partial<HostLimits> | undefined;
  readonly restart?: Partial<RestartPolicy> | undefined;
}

/** What an agent is asked. What belongs to one conversation is asked in one session. */
export interface ACPTask {
  readonly prompt: string;
  readonly conversation?: string | undefined;
}

export type ACPResult = AcpAnswer;

export interface ACPComponents extends HostComponents, Pick<AcpAgentInit, 'gate' | 'mcpServers'> {
  lane: Lane;
  gate: ActionGate;
}

/** The conversation of what belongs to none, such as mail. */
const MAIN = 'main';
/** Agents take their time to start; the registry's patience is 5 s. */
const START_MS = 5_000;

/** A provider that is a real agent, driven over the Agent Client Protocol in a process of its own. */
export class ACPClientAdapter implements ProviderAdapter<ACPConfig, ACPTask, ACPResult> {
  readonly #id: string;
  readonly #components: ACPComponents;
  readonly #crashed = new Listeners<ProviderCrash>();
  readonly #ready = new Listeners<void>();
  #host: IsolatedProviderHost<AcpAgent> | undefined;
  #leaveLane: (() => void) | undefined;
  #terminals: Terminals | undefined;

  constructor(id: string, components: ACPComponents) {
    this.#id = id;
    this.#components = components;
  }

  async init({ workspace: folder, auth, limits, restart, ...program }: ACPConfig): Promise<void> {
    await this.terminate();
    const { runtime, lane, children, gate, mcpServers } = this.#components;
    try {
      const workspace = new Workspace(folder ?? lane.folder);
      const terminals = new Terminals(runtime, children, workspace);
      const about = { agent: this.#id, workspace, terminals, gate, mcpServers, auth };
      this.#terminals = terminals;
      this.#host = new IsolatedProviderHost<AcpAgent>(this.#components, {
        provider: this.#id,
        lane: lane.id,
        program: { cwd: workspace.folder, ...program },
        connect: (child) => AcpAgent.open(runtime, child, about),
        limits: { startMs: START_MS, ...limits },
        restart,
        onCrash: (crash) => void this.#afterCrash(crash),
        onReady: () => this.#ready.tell(),
      });
      this.#leaveLane = lane.bind(this.#host);
      await this.#host.start();
    } catch (error) {
      await this.terminate();
      throw normalizeError(error, 'acp');
    }
  }

  /** What the agent said of itself. */
  get description(): AcpDescription | undefined {
    return this.#host?.status.state === 'running' ? this.#host.session.description : undefined;
  }

  /** Asks for a sign of life, and for a session where it is not known whether it gives one. */
  async health(): Promise<ProviderHealthStatus> {
    const lastCheck = () => new Date(this.#components.runtime.now());
    try {
      const host = this.#require();
      const check = async (agent: AcpAgent) => {
        await agent.ping();
        await agent.prepare(MAIN);
      };
      const { silenceMs: timeoutMs } = host.limits;
      await host.run((agent) => ({ done: check(agent), cancel() {} }), { timeoutMs });
      return { state: 'healthy', lastCheck: lastCheck(), failureCount: 0 };
    } catch (error) {
      if (error instanceof EclipticError && error.code === 'LOGIN_REQUIRED') {
        // It lives, and says what it lacks: nothing has failed.
        return { state: 'degraded', lastCheck: lastCheck(), failureCount: 0, message: describeError(error) };
      }
      throw normalizeError(error, 'acp');
    }
  }

  async execute(task: ACPTask, correlationId: string, { signal, onUpdate }: ExecuteTerms = {}): Promise<ACPResult> {
    try {
      const { prompt, conversation = MAIN } = checkTask(task);
      const host = this.#require();
      const terms = { timeoutMs: host.limits.executeMs, signal };
      return await host.run((agent) => agent.prompt(conversation, prompt, { correlationId, onUpdate }), terms);
    } catch (error) {
      throw normalizeError(error, 'acp', correlationId);
    }
  }

  async terminate(): Promise<void> {
    const host = this.#host;
    this.#host = undefined;
    await host?.stop();
    await this.#terminals?.close();
    this.#terminals = undefined;
    this.#leaveLane?.();
    this.#leaveLane = undefined;
  }

  onCrash(listener: (crash: ProviderCrash) => void): () => void {
    return this.#crashed.add(listener);
  }

  onReady(listener: () => void): () => void {
    return this.#ready.add(listener);
  }

  /** What it ran ends with it. */
  async #afterCrash({ error, ...rest }: ProviderCrash): Promise<void> {
    this.#crashed.tell({ error: normalizeError(error, 'acp'), ...rest });
    await this.#terminals?.close();
  }

  #require(): IsolatedProviderHost<AcpAgent> {
    if (this.#host) return this.#host;
    throw new EclipticError('PROVIDER_UNAVAILABLE', `${this.#id} has not been started`, { provider: this.#id });
  }
}

function checkTask(task: ACPTask): ACPTask {
  if (typeof task?.prompt === 'string' && task.prompt !== '') return task;
  throw new EclipticError('PROVIDER_INVALID_INPUT', 'an agent is asked with { prompt: text }');
}
