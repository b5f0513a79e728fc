import { readFile } from 'node:fs/promises';
import type { Agent } from '../../agent/agent.js';
import type { TaskActivity } from '../../agent/task-activity.js';
import { addUsage, NO_USAGE, type Usage } from '../../agent/usage.js';
import { fenceMark } from '../../mcp/fence.js';
import type { AgentRegistry } from '../../mesh/registry.js';
import { describeError, EclipticError } from '../../runtime/errors.js';
import type { Runtime } from '../../runtime/runtime.js';
import { WorkTimer } from '../../runtime/work-timer.js';
import type { ActionGate } from '../../system/approvals/action-gate.js';
import type { Approval } from '../../system/approvals/approval-queue.js';
import { Workspace } from '../../system/files/workspace.js';
import {
  type CredentialSource,
  plainSecrets,
  resolveHeaders,
  type SecretSettings,
} from '../../system/secrets/credential-source.js';
import { Redactor } from '../../system/secrets/secret.js';
import type { ExecuteTerms, ProviderAdapter, ProviderHealthStatus, ProviderUpdate } from '../adapter/adapter.js';
import { NormalizedProviderError, normalizeAbort, normalizeError, redactedError } from '../adapter/errors.js';
import type { WorkerTask } from '../adapter/worker-task.js';
import type { Lane } from '../host/lanes.js';
import { ChatClient } from './chat-client.js';
import type { ChatMessage } from './chat-types.js';
import { bytesOf } from './context-budget.js';
import { fileTools } from './file-tools.js';
import { askTool, meshTools } from './mesh-tools.js';
import { type LoopLimits, ModelLoop, type Price } from './model-loop.js';
import { systemPrompt, taskPrompt } from './task-prompt.js';
import { giveUpTool, type ModelTool } from './tools.js';

export interface ModelConfig {
  readonly baseUrl: string;
  readonly model: string;
  readonly headers?: SecretSettings | undefined;
  /** Values to remove from logs and errors. */
  readonly secrets?: readonly string[] | undefined;
  /** The folder of its file tools. Default: the folder of the lane. */
  readonly cwd?: string | undefined;
  /** A file with its role. Default: the role of its agent. */
  readonly promptFile?: string | undefined;
  /** Default: all. */
  readonly tools?: readonly ('files' | 'mesh' | 'ask')[] | undefined;
  readonly temperature?: number | undefined;
  readonly price?: Price | undefined;
  readonly limits?: Partial<ModelLimits> | undefined;
}

interface ModelLimits extends LoopLimits {
  readonly answerTokens: number;
  readonly executeMs: number;
  readonly silenceMs: number;
}

export interface ModelComponents {
  runtime: Runtime;
  registry: AgentRegistry;
  gate: ActionGate;
  credentials: CredentialSource;
  lane: Lane;
  rolePrompt: (agent: Agent) => Promise<string>;
}

const LIMITS = { steps: 40, tokens: 1_000_000, contextTokens: 32_000, executeMs: 1_800_000, silenceMs: 120_000 };
/** Conversations that a later task may continue. */
const MAX_CONVERSATIONS = 64;
/** Of all of them together. */
const MAX_CONVERSATION_BYTES = 16 * 1_048_576;
const MAX_PROMPT_CHARS = 32_768;

type RunTerms = ExecuteTerms & {
  readonly signal: AbortSignal;
  /** The time limit of the work, which stands still while the owner decides. */
  readonly timer?: WorkTimer | undefined;
};

/** What an initialised adapter works with. */
interface Ready {
  readonly config: ModelConfig;
  readonly limits: typeof LIMITS;
  readonly client: ChatClient;
  readonly system: string;
  readonly tools: readonly ModelTool[];
  /** The same tools for another folder. */
  readonly toolsIn: (folder: string) => readonly ModelTool[];
}

/** A provider that is a model behind an OpenAI-compatible API, with tools for files, other agents and questions. */
export class ModelAdapter implements ProviderAdapter<ModelConfig, WorkerTask, unknown> {
  readonly type = 'model';
  readonly #agent: Agent;
  readonly #components: ModelComponents;
  readonly #workspaceId: string;
  /** The latest are last. */
  readonly #conversations = new Map<string, readonly ChatMessage[]>();
  #ready: Ready | undefined;
  #redactor = new Redactor();
  #usage: Usage = NO_USAGE;
  /** The start and the work in flight. */
  readonly #working = new Map<AbortController, Promise<unknown>>();

  constructor(agent: Agent, components: ModelComponents, workspaceId: string) {
    this.#agent = agent;
    this.#components = components;
    this.#workspaceId = workspaceId;
  }

  async init(config: ModelConfig): Promise<void> {
    const ended = this.terminate();
    this.#redactor = new Redactor([...(config.secrets ?? []), ...plainSecrets(config.headers ?? {})]);
    const ready = await this.#during(undefined, async (signal) => {
      await ended;
      const prepared = await this.#prepare(config);
      await this.#check(prepared, signal);
      return prepared;
    });
    this.#ready = ready;
  }

  /** Asks the endpoint for its models, with the credentials of real traffic. */
  async health(): Promise<ProviderHealthStatus> {
    const lastCheck = new Date(this.#components.runtime.now());
    try {
      const ready = this.#require();
      await this.#during(undefined, (signal) => this.#check(ready, signal));
      return { state: 'healthy', lastCheck, failureCount: 0 };
    } catch (error) {
      const failure = this.#failure(error);
      if (!OWNER_CAN_HELP.has(failure.code)) throw failure;
      return { state: 'degraded', lastCheck, failureCount: 0, message: failure.message, needsOwner: true };
    }
  }

  async execute(task: WorkerTask, correlationId: string, terms: ExecuteTerms = {}): Promise<unknown> {
    const ready = this.#require(correlationId);
    const { executeMs } = ready.limits;
    const work = (signal: AbortSignal, timer?: WorkTimer) =>
      this.#run(ready, task, { ...terms, signal, timer }, correlationId);
    return this.#during(terms.signal, work, { executeMs, correlationId });
  }

  async terminate(): Promise<void> {
    this.#ready?.client.close();
    this.#ready = undefined;
    this.#conversations.clear();
    const reason = new EclipticError('PROVIDER_TERMINATED', 'the model was terminated');
    for (const end of this.#working.keys()) end.abort(reason);
    await Promise.allSettled(this.#working.values());
  }

  describe(): Readonly<Record<string, unknown>> {
    const { baseUrl, model } = this.#ready?.config ?? {};
    return { baseUrl, model, usage: this.#usage };
  }

  /** Runs work until it is done, its caller cancels, its time is over or the provider is terminated. */
  async #during<T>(
    caller: AbortSignal | undefined,
    run: (signal: AbortSignal, timer?: WorkTimer) => Promise<T>,
    { executeMs, correlationId }: { executeMs?: number; correlationId?: string } = {},
  ): Promise<T> {
    const end = new AbortController();
    const { signal } = end;
    const cancel = () => end.abort(caller?.reason);
    const late = () =>
      end.abort(new EclipticError('REQUEST_TIMEOUT', `the model did not finish within ${executeMs} ms`));
    const timer = executeMs === undefined ? undefined : new WorkTimer(this.#components.runtime, executeMs, late);
    if (caller?.aborted) cancel();
    caller?.addEventListener('abort', cancel);
    const work = run(signal, timer);
    this.#working.set(end, work);
    try {
      const result = await work;
      if (signal.aborted) throw signal.reason;
      return result;
    } catch (error) {
      throw signal.aborted ? normalizeAbort(signal, 'model', correlationId) : this.#failure(error, correlationId);
    } finally {
      timer?.cancel();
      caller?.removeEventListener('abort', cancel);
      this.#working.delete(end);
    }
  }

  async #run(
    { client, system, tools: own, toolsIn, limits, config }: Ready,
    task: WorkerTask,
    { signal, timer, onUpdate = () => {}, onQuestion, folder }: RunTerms,
    correlationId: string,
  ): Promise<unknown> {
    const mark = () => fenceMark(this.#components.runtime);
    const ask = onQuestion && ((text: string) => onQuestion({ kind: 'question', text }));
    const all = folder === undefined ? own : toolsIn(folder);
    const tools = ask ? all : all.filter((tool) => tool !== askTool);
    const earlier = this.#conversations.get(task.conversation ?? '') ?? [];
    const messages: ChatMessage[] = [
      { role: 'system', content: system },
      ...earlier,
      { role: 'user', content: taskPrompt(task, mark) },
    ];
    let id = '';
    const onDecision = (approval: Approval | undefined) => {
      id = approval?.id ?? id;
      timer?.hold(approval ? 1 : 0);
      const text = approval ? `waits for its owner’s approval: ${approval.summary} (${id})` : `${id}: decided`;
      const activity: TaskActivity = { kind: 'approval', id, open: approval !== undefined };
      if (!signal.aborted) this.#tell({ kind: 'waiting', text, data: approval ? 1 : 0, activity }, onUpdate);
    };
    const loop = new ModelLoop(
      {
        ...{ client, limits, tools, mark, price: config.price, outputSchema: task.outputSchema },
        context: { correlationId, signal, ask, onDecision },
        onUpdate: (update) => this.#tell(update, onUpdate),
      },
      messages,
    );
    const result = await loop.run();
    if (!signal.aborted) this.#remember(task.conversation, loop.messages.slice(1));
    return result;
  }

  #tell(update: ProviderUpdate, onUpdate: NonNullable<ExecuteTerms['onUpdate']>): void {
    if (update.kind === 'usage') this.#usage = addUsage(this.#usage, update.data as Usage);
    // The endpoint may quote a key in an error.
    onUpdate(update.kind === 'progress' ? { ...update, text: this.#redactor.clean(update.text) } : update);
  }

  #remember(conversation: string | undefined, messages: readonly ChatMessage[]): void {
    if (conversation === undefined) return;
    this.#conversations.delete(conversation);
    this.#conversations.set(conversation, messages);
    const size = (one: readonly ChatMessage[]) => one.reduce((sum, message) => sum + bytesOf(message), 0);
    let bytes = [...this.#conversations.values()].reduce((sum, one) => sum + size(one), 0);
    for (const [oldest, held] of this.#conversations) {
      if (this.#conversations.size <= MAX_CONVERSATIONS && bytes <= MAX_CONVERSATION_BYTES) return;
      this.#conversations.delete(oldest);
      bytes -= size(held);
    }
  }

  async #prepare(config: ModelConfig): Promise<Ready> {
    const { runtime, rolePrompt, lane, credentials: source, gate, registry } = this.#components;
    const { baseUrl, model, temperature, promptFile, headers = {}, tools: wanted = ['files', 'mesh', 'ask'] } = config;
    const limits = { ...LIMITS, ...config.limits };
    const owner = { source, provider: this.#agent.id, workspace: this.#workspaceId, redactor: this.#redactor };
    const client = new ChatClient(runtime, {
      ...{ baseUrl, model, temperature, silenceMs: limits.silenceMs, answerTokens: config.limits?.answerTokens },
      headers: () => resolveHeaders(owner, headers),
    });
    const agent = this.#agent;
    const toolsIn = (folder: string) => [
      ...(wanted.includes('files') ? fileTools({ agent: agent.id, gate, workspace: open(folder) }) : []),
      ...(wanted.includes('mesh') ? meshTools({ agent, registry, gate }) : []),
      ...(wanted.includes('ask') ? [askTool] : []),
      ...(wanted.length > 0 ? [giveUpTool] : []),
    ];
    const role = promptFile === undefined ? await rolePrompt(agent) : await readPrompt(promptFile);
    const tools = toolsIn(config.cwd ?? lane.folder);
    return { config, limits, client, tools, toolsIn, system: systemPrompt(role, wanted.includes('files')) };
  }

  async #check({ client, config }: Ready, signal: AbortSignal): Promise<void> {
    const { model, baseUrl } = config;
    const models = await client.models(signal);
    // Ollama names a model with its tag.
    if (models.length === 0 || models.some((one) => one === model || one === `${model}:latest`)) return;
    const some = models.slice(0, 10).join(', ');
    const message = `${baseUrl} has no model "${model}"; it has: ${some}`;
    throw new EclipticError('INVALID_CONFIG', message, { model, models: models.slice(0, 100) });
  }

  #require(correlationId?: string): Ready {
    if (this.#ready) return this.#ready;
    const message = `the model of ${this.#agent.id} has not been started`;
    throw new NormalizedProviderError('PROVIDER_UNAVAILABLE', message, 'model', { correlationId });
  }

  #failure(error: unknown, correlationId?: string): NormalizedProviderError {
    return redactedError(normalizeError(error, 'model', correlationId), this.#redactor);
  }
}

/** Failures that last until the owner changes a credential or the configuration. */
const OWNER_CAN_HELP: ReadonlySet<string> = new Set([
  'PROVIDER_CREDENTIAL_MISSING',
  'PROVIDER_CREDENTIAL_DENIED',
  'PROVIDER_INIT_FAILED',
]);

function open(folder: string): Workspace {
  try {
    return new Workspace(folder);
  } catch (error) {
    throw new EclipticError(
      'INVALID_CONFIG',
      `the folder ${folder} cannot be used: ${describeError(error)}`,
      {},
      error,
    );
  }
}

async function readPrompt(file: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).slice(0, MAX_PROMPT_CHARS);
  } catch (error) {
    throw new EclipticError('INVALID_CONFIG', `the prompt ${file} cannot be read: ${describeError(error)}`, {}, error);
  }
}
