import { logCallback } from '../../runtime/callbacks.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { ActionGate } from '../../system/approvals/action-gate.js';
import { Approvals } from '../../system/approvals/approvals.js';
import type { Child } from '../../system/process/child.js';
import { DEFAULT_WORKSPACE } from '../../system/secrets/credential-source.js';
import {
  type ExecuteTerms,
  guardedTerms,
  type ProviderAdapter,
  type ProviderCrash,
  type ProviderHealthStatus,
} from '../adapter/adapter.js';
import { normalizeError } from '../adapter/errors.js';
import { type ProcessComponents, type ProcessConfig, ProviderProcess } from '../host/provider-process.js';
import { HOST_LIMITS, type HostLimits } from '../host/watched-process.js';
import { AcpAgent, type AcpAgentInit } from './acp-agent.js';
import type { AcpDescription, PromptFile } from './description.js';
import { usesOwnFiles } from './probe.js';
import { ACP_RULES } from './requests.js';
import type { MemoryUse } from './sessions.js';
import { Terminals } from './terminals.js';
import type { AcpAnswer } from './turn.js';
import { Workspace } from './workspace.js';

export interface ACPConfig extends ProcessConfig {
  /** The way to log in, by its id, where it wants that. */
  readonly auth?: string | undefined;
  /** The mode that its sessions begin in, by its id, such as Codex's "read-only". Default: the agent's own choice. */
  readonly mode?: string | undefined;
  /** May it read and write files through this node? Default true, but not for Gemini CLI, which fails on it. */
  readonly fs?: boolean | undefined;
}

/** What an agent is asked. What belongs to one conversation is asked in one session. */
export interface ACPTask {
  readonly prompt: string;
  readonly files?: readonly PromptFile[] | undefined;
  readonly conversation?: string | undefined;
}

export type ACPResult = AcpAnswer;

export interface ACPComponents extends ProcessComponents {
  /** Decides what the agent may do. Default: files of its own folder, and nothing else. */
  gate?: ActionGate | undefined;
  /** The MCP servers that it gets to use. Default: none. */
  mcpServers?: AcpAgentInit['mcpServers'] | undefined;
}

/** The conversation of what belongs to none, such as mail. */
const MAIN = 'main';
/** Real agents take seconds to start, on a busy machine many; and they may be lost in thought for a while. */
const LIMITS: Partial<HostLimits> = { startMs: 60_000, executeMs: 1_800_000, heartbeatMs: 15_000, silenceMs: 60_000 };

/** A provider that is a real agent, driven over the Agent Client Protocol in a process of its own. */
export class ACPClientAdapter implements ProviderAdapter<ACPConfig, ACPTask, ACPResult> {
  readonly type = 'acp';
  readonly #components: ACPComponents;
  readonly #process: ProviderProcess<AcpAgent>;
  #about: Omit<AcpAgentInit, 'terminals' | 'memory'> | undefined;
  /** Of the processes that have not ended. */
  readonly #terminals = new Set<Terminals>();
  readonly #id: string;
  #limitBytes = Number.POSITIVE_INFINITY;

  constructor(id: string, components: ACPComponents, workspaceId = DEFAULT_WORKSPACE) {
    this.#id = id;
    this.#components = components;
    this.#process = new ProviderProcess(components, {
      id,
      type: 'acp',
      workspaceId,
      connect: (child) => AcpAgent.open(components.runtime, child, this.#initOf(child)),
    });
  }

  async init({ auth, mode, fs, ...config }: ACPConfig): Promise<void> {
    await this.terminate();
    const { runtime, lane, gate = ownFilesOnly(runtime), mcpServers = () => [] } = this.#components;
    try {
      const workspace = new Workspace(config.cwd ?? lane.folder);
      const files = fs ?? !usesOwnFiles(config.command, config.args ?? []);
      this.#about = { agent: this.#id, workspace, gate, mcpServers, auth, mode, files };
    } catch (error) {
      throw normalizeError(new EclipticError('INVALID_CONFIG', describeError(error), {}, error), 'acp');
    }
    const limits = { ...LIMITS, ...config.limits };
    this.#limitBytes = (limits.memoryMb ?? HOST_LIMITS.memoryMb) * 1_048_576;
    // Codex asks nobody in the mode that it begins in, and takes another one from its environment only.
    const env = mode === undefined ? config.env : { INITIAL_AGENT_MODE: mode, ...config.env };
    await this.#process.start({ ...config, env, limits });
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
      if (isOwnersMatter(error)) return { ...status('degraded'), message: describeError(error), needsOwner: true };
      throw normalizeError(error, 'acp');
    }
  }

  async execute(task: ACPTask, correlationId: string, terms: ExecuteTerms = {}): Promise<ACPResult> {
    const { onUpdate } = guardedTerms(terms, this.#id, logCallback(this.#components.runtime.logger));
    const { conversation = MAIN, ...asked } = checkTask(task, correlationId);
    return this.#process.work(
      (agent, activity) => agent.prompt(conversation, asked, { correlationId, onUpdate, activity }),
      correlationId,
      terms,
    );
  }

  async terminate(): Promise<void> {
    await this.#process.stop();
    await Promise.all([...this.#terminals].map((one) => one.close()));
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

  renew(): Promise<void> {
    return this.#process.renew();
  }

  #initOf(child: Child): AcpAgentInit {
    const { runtime, children } = this.#components;
    const about = this.#about!;
    const terminals = new Terminals(runtime, children, about.workspace);
    this.#terminals.add(terminals);
    // What it ran ends with it.
    void child.exited.then(() => terminals.close()).finally(() => this.#terminals.delete(terminals));
    return { ...about, terminals, memory: () => this.#memoryOf(child) };
  }

  #memoryOf({ pid }: Child): MemoryUse {
    return { usedBytes: this.#components.memory.bytesOf(pid), limitBytes: this.#limitBytes };
  }
}

function ownFilesOnly(runtime: Runtime): ActionGate {
  const rules = ACP_RULES.filter(({ decision }) => decision === 'allow');
  return new ActionGate({ approvals: new Approvals(runtime), report: () => {} }, { rules });
}

/** Only the owner can change that it is not logged in, or set up so that it cannot work. */
function isOwnersMatter(error: unknown): boolean {
  return error instanceof EclipticError && (error.code === 'LOGIN_REQUIRED' || error.code === 'INVALID_CONFIG');
}

function checkTask(task: ACPTask, correlationId: string): ACPTask {
  if (typeof task?.prompt === 'string' && (task.prompt !== '' || task.files?.length)) return task;
  const message = 'an agent is asked with { prompt: text }';
  throw normalizeError(new EclipticError('PROVIDER_INVALID_INPUT', message), 'acp', correlationId);
}
