import { AcpAgent, type AcpAgentInit } from '../acp/acp-agent.js';
import type { AcpDescription } from '../acp/description.js';
import type { MemoryUse } from '../acp/session-pool.js';
import { Terminals } from '../acp/terminals.js';
import type { AcpAnswer } from '../acp/turn.js';
import { Workspace } from '../acp/workspace.js';
import type { Child } from '../process/child.js';
import { logCallback } from '../runtime/callbacks.js';
import { describeError, EclipticError } from '../runtime/errors.js';
import { guardedTerms } from './guarded-terms.js';
import { HOST_LIMITS, type HostLimits } from './host/limits.js';
import { type ProcessComponents, type ProcessConfig, ProviderProcess } from './host/provider-process.js';
import type { ExecuteTerms, ProviderAdapter, ProviderCrash, ProviderHealthStatus } from './provider-adapter.js';
import { normalizeError } from './provider-errors.js';

export interface ACPConfig extends ProcessConfig {
  /** The way to log in, by its id, where it wants that. */
  readonly auth?: string | undefined;
}

/** What an agent is asked. What belongs to one conversation is asked in one session. */
export interface ACPTask {
  readonly prompt: string;
  readonly conversation?: string | undefined;
}

export type ACPResult = AcpAnswer;

export type ACPComponents = ProcessComponents & Pick<AcpAgentInit, 'gate' | 'mcpServers'>;

/** The conversation of what belongs to none, such as mail. */
const MAIN = 'main';
/** Real agents take seconds to start, on a busy machine many; and they may be lost in thought for a while. */
const LIMITS: Partial<HostLimits> = { startMs: 60_000, heartbeatMs: 15_000, silenceMs: 60_000 };

/** A provider that is a real agent, driven over the Agent Client Protocol in a process of its own. */
export class ACPClientAdapter implements ProviderAdapter<ACPConfig, ACPTask, ACPResult> {
  readonly #components: ACPComponents;
  readonly #process: ProviderProcess<AcpAgent>;
  #about: AcpAgentInit | undefined;
  readonly #id: string;
  #limitBytes = Number.POSITIVE_INFINITY;

  constructor(id: string, components: ACPComponents, workspaceId: string) {
    this.#id = id;
    this.#components = components;
    this.#process = new ProviderProcess(components, {
      id,
      type: 'acp',
      workspaceId,
      connect: (child) =>
        AcpAgent.open(components.runtime, child, { ...this.#about!, memory: () => this.#memoryOf(child) }),
      // What it ran ends with it.
      onEnd: () => void this.#about?.terminals.close(),
    });
  }

  async init({ auth, ...config }: ACPConfig): Promise<void> {
    await this.terminate();
    const { runtime, lane, children, gate, mcpServers } = this.#components;
    try {
      const workspace = new Workspace(config.cwd ?? lane.folder);
      const terminals = new Terminals(runtime, children, workspace);
      this.#about = { agent: this.#id, workspace, terminals, gate, mcpServers, auth };
    } catch (error) {
      throw normalizeError(new EclipticError('INVALID_CONFIG', describeError(error), {}, error), 'acp');
    }
    const limits = { ...LIMITS, ...config.limits };
    this.#limitBytes = (limits.memoryMb ?? HOST_LIMITS.memoryMb) * 1_048_576;
    await this.#process.start({ ...config, limits });
  }

  /** What the agent said of itself. */
  get description(): AcpDescription | undefined {
    return this.#process.session?.description;
  }

  describe(): Readonly<Record<string, unknown>> {
    const { session, status } = this.#process;
    return { ...status, ...(session && { agent: session.description, needsLogin: session.needsLogin }) };
  }

  /** Asks for a sign of life, and for a session where it is not known whether it gives one. */
  async health(): Promise<ProviderHealthStatus> {
    const status = (state: ProviderHealthStatus['state']) => {
      return { state, lastCheck: new Date(this.#components.runtime.now()), failureCount: 0 };
    };
    try {
      await this.#process.check(async (agent) => {
        await agent.ping();
        await agent.prepare();
      });
      return status('healthy');
    } catch (error) {
      // It lives, and says what it lacks: nothing has failed.
      if (isLoginWanted(error)) return { ...status('degraded'), message: describeError(error), needsOwner: true };
      throw normalizeError(error, 'acp');
    }
  }

  async execute(task: ACPTask, correlationId: string, terms: ExecuteTerms = {}): Promise<ACPResult> {
    const { onUpdate } = guardedTerms(terms, this.#id, logCallback(this.#components.runtime.logger));
    const { prompt, conversation = MAIN } = checkTask(task, correlationId);
    return this.#process.work(
      (agent) => agent.prompt(conversation, prompt, { correlationId, onUpdate }),
      correlationId,
      terms,
    );
  }

  async terminate(): Promise<void> {
    await this.#process.stop();
    await this.#about?.terminals.close();
  }

  get starting(): boolean {
    return this.#process.starting;
  }

  onCrash(listener: (crash: ProviderCrash) => void): () => void {
    return this.#process.onCrash(listener);
  }

  onReady(listener: () => void): () => void {
    return this.#process.onReady(listener);
  }

  #memoryOf({ pid }: Child): MemoryUse {
    return { usedBytes: this.#components.memory.bytesOf(pid), limitBytes: this.#limitBytes };
  }
}

function isLoginWanted(error: unknown): boolean {
  return error instanceof EclipticError && error.code === 'LOGIN_REQUIRED';
}

function checkTask(task: ACPTask, correlationId: string): ACPTask {
  if (typeof task?.prompt === 'string' && task.prompt !== '') return task;
  const message = 'an agent is asked with { prompt: text }';
  throw normalizeError(new EclipticError('PROVIDER_INVALID_INPUT', message), 'acp', correlationId);
}
