import { addUsage, NO_USAGE, type Usage } from '../../agent/usage.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { MemoryStore } from '../../store/memory-store.js';
import type { Store } from '../../store/store.js';
import { ActionGate } from '../../system/approvals/action-gate.js';
import { Approvals } from '../../system/approvals/approvals.js';
import { Workspace } from '../../system/files/workspace.js';
import type { Child } from '../../system/process/child.js';
import type { JailRequest } from '../../system/process/jail-settings.js';
import type { ExecuteTerms, ProviderHealthStatus, ProviderUpdate } from '../adapter/adapter.js';
import { DEFAULT_RULES } from '../adapter/default-rules.js';
import { normalizeError } from '../adapter/errors.js';
import { ProcessAdapter, type ProcessComponents, type ProcessConfig } from '../host/process-adapter.js';
import { HOST_LIMITS, type HostLimits } from '../host/watched-process.js';
import { AcpAgent, type AcpAgentInit } from './acp-agent.js';
import type { SessionChoices } from './choices.js';
import type { AcpDescription, PromptFile } from './description.js';
import { KeptConversations } from './kept-conversations.js';
import { usesOwnFiles } from './probe.js';
import { Terminals } from './terminals.js';
import type { AcpAnswer } from './turn.js';

export interface ACPConfig extends ProcessConfig, SessionChoices {
  /** Id of the login method to use where the agent requires a login. */
  readonly auth?: string | undefined;
  /** May the agent read and write files through this node? Default true, except for Gemini CLI, which fails on it. */
  readonly fs?: boolean | undefined;
}

export interface ACPTask {
  readonly prompt: string;
  readonly files?: readonly PromptFile[] | undefined;
  /** Prompts of one conversation share a session of the agent. */
  readonly conversation?: string | undefined;
}

export type ACPResult = AcpAnswer;

export interface ACPComponents extends ProcessComponents {
  /** Decides what the agent may do. Default: files of its own folder, and nothing else. */
  gate?: ActionGate | undefined;
  /** Keeps the conversations across restarts of the agent. Default: in memory. */
  store?: Store | undefined;
  /** The MCP servers that the agent gets. Default: none. */
  mcpServers?: AcpAgentInit['mcpServers'] | undefined;
}

/** The conversation of prompts that name none, such as mail. */
const MAIN = 'main';
/** Real agents take seconds to start, many on a busy machine, and may think for long without a word. */
const LIMITS: Partial<HostLimits> = { startMs: 60_000, executeMs: 1_800_000, heartbeatMs: 15_000, silenceMs: 60_000 };

/** A provider that is a coding agent, driven over the Agent Client Protocol in a process of its own. */
export class ACPClientAdapter extends ProcessAdapter<AcpAgent, ACPConfig, ACPTask, ACPResult, ACPComponents> {
  readonly type = 'acp';
  declare protected readonly components: ACPComponents;
  #about: Omit<AcpAgentInit, 'terminals' | 'memory'> | undefined;
  /** Of the processes that have not ended. */
  readonly #terminals = new Set<Terminals>();
  readonly #kept: KeptConversations;
  #limitBytes = Number.POSITIVE_INFINITY;
  #jail: JailRequest | undefined;
  #usage: Usage = NO_USAGE;

  constructor(id: string, components: ACPComponents, workspaceId?: string) {
    super(id, components, workspaceId);
    const { runtime, store = new MemoryStore() } = components;
    this.#kept = new KeptConversations(runtime, store, id);
  }

  async init({ auth, mode, model, options, fs, ...config }: ACPConfig): Promise<void> {
    await this.terminate();
    const { runtime, lane, gate = ownFilesOnly(runtime), mcpServers = () => [] } = this.components;
    try {
      const workspace = new Workspace(config.cwd ?? lane.folder);
      const choices = { mode, model, options };
      const files = fs ?? !usesOwnFiles(config.command, config.args ?? []);
      this.#about = { agent: this.id, workspace, gate, kept: this.#kept, mcpServers, auth, files, choices };
    } catch (error) {
      throw normalizeError(new EclipticError('INVALID_CONFIG', describeError(error), {}, error), 'acp');
    }
    this.#jail = this.jailOf(config);
    const limits = { ...LIMITS, ...config.limits };
    this.#limitBytes = (limits.memoryMb ?? HOST_LIMITS.memoryMb) * 1_048_576;
    // Codex begins in a mode that asks for no permission, and reads another mode from its environment only.
    const env = mode === undefined ? config.env : { INITIAL_AGENT_MODE: mode, ...config.env };
    await this.start({ ...config, env, limits });
  }

  /** The agent's own description, while it runs. */
  get description(): AcpDescription | undefined {
    return this.session?.description;
  }

  describe(): Readonly<Record<string, unknown>> {
    const { session, status } = this;
    const agent = session && { agent: session.description, needsLogin: session.needsLogin };
    return { ...status, ...agent, usage: this.#usage };
  }

  /** Pings the agent, and opens a session where none is open: only that shows whether the agent requires a login. */
  async health(): Promise<ProviderHealthStatus> {
    const status = (state: ProviderHealthStatus['state']) => {
      return { state, lastCheck: new Date(this.components.runtime.now()), failureCount: 0 };
    };
    try {
      await this.check(async (agent) => {
        await agent.ping();
        await agent.prepare();
      });
      return status('healthy');
    } catch (error) {
      if (needsOwner(error)) return { ...status('degraded'), message: describeError(error), needsOwner: true };
      throw normalizeError(error, 'acp');
    }
  }

  async execute(task: ACPTask, correlationId: string, terms: ExecuteTerms = {}): Promise<ACPResult> {
    const { conversation = MAIN, ...asked } = checkTask(task, correlationId);
    const add = (update: ProviderUpdate) => {
      if (update.kind === 'usage') this.#usage = addUsage(this.#usage, update.data as Usage);
      terms.onUpdate?.(update);
    };
    return this.work(
      (agent, activity, onUpdate) =>
        agent.prompt(conversation, { ...asked, folder: terms.folder }, { correlationId, onUpdate, activity }),
      correlationId,
      { ...terms, onUpdate: add },
    );
  }

  override async terminate(): Promise<void> {
    await super.terminate();
    await Promise.all([...this.#terminals].map((one) => one.close()));
  }

  protected connect(child: Child): Promise<AcpAgent> {
    const { runtime, children, memory } = this.components;
    const about = this.#about!;
    const terminals = new Terminals(runtime, children, about.workspace, this.#jail);
    this.#terminals.add(terminals);
    void child.exited.then(() => terminals.close()).finally(() => this.#terminals.delete(terminals));
    const memoryUse = () => ({ usedBytes: memory.bytesOf(child.pid), limitBytes: this.#limitBytes });
    return AcpAgent.open(runtime, child, { ...about, terminals, memory: memoryUse });
  }
}

function ownFilesOnly(runtime: Runtime): ActionGate {
  const rules = DEFAULT_RULES.filter(({ decision }) => decision === 'allow');
  return new ActionGate({ approvals: new Approvals(runtime), report: () => {} }, { rules });
}

/** A missing login or a wrong configuration is the agent's answer, not a failure: only its owner can change it. */
function needsOwner(error: unknown): boolean {
  return error instanceof EclipticError && (error.code === 'LOGIN_REQUIRED' || error.code === 'INVALID_CONFIG');
}

function checkTask(task: ACPTask, correlationId: string): ACPTask {
  if (typeof task?.prompt === 'string' && (task.prompt !== '' || task.files?.length)) return task;
  const message = 'an agent is asked with { prompt: text }';
  throw normalizeError(new EclipticError('PROVIDER_INVALID_INPUT', message), 'acp', correlationId);
}
