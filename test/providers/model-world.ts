import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { Agent } from '../../src/agent/agent.js';
import { createNode, type EclipticNode } from '../../src/index.js';
import type { ExecuteTerms, ProviderUpdate } from '../../src/providers/adapter/adapter.js';
import { DEFAULT_RULES } from '../../src/providers/adapter/default-rules.js';
import { NormalizedProviderError } from '../../src/providers/adapter/errors.js';
import type { WorkerTask } from '../../src/providers/adapter/worker-task.js';
import { Lanes } from '../../src/providers/host/lanes.js';
import { ModelAdapter, type ModelConfig } from '../../src/providers/model/model-adapter.js';
import type { Runtime } from '../../src/runtime/runtime.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { type Action, ActionGate, type ActionRule, type ActionRuling } from '../../src/system/approvals/action-gate.js';
import { Approvals } from '../../src/system/approvals/approvals.js';
import { Secret } from '../../src/system/secrets/secret.js';
import { type Completion, type Script, ScriptedModel } from '../scripted-model.js';

interface WorldInit {
  readonly config?: Partial<ModelConfig>;
  readonly rules?: readonly ActionRule[];
  readonly runtime?: Runtime;
}

/** A model of the agent `mars` behind a scripted server, with a folder, a gate and a node with other agents. */
export class ModelWorld {
  readonly node: EclipticNode;
  readonly mars: Agent;
  readonly model: ScriptedModel;
  readonly adapter: ModelAdapter;
  readonly config: ModelConfig;
  readonly approvals: Approvals;
  readonly rulings: (Action & ActionRuling)[] = [];
  readonly updates: ProviderUpdate[] = [];
  /** The folder of its tools, and one beside it. */
  readonly folder: string;
  readonly outside: string;
  readonly #root: string;

  private constructor(node: EclipticNode, model: ScriptedModel, { config, rules = [], runtime }: WorldInit) {
    this.node = node;
    this.model = model;
    this.mars = node.agent({ id: 'mars' });
    this.#root = mkdtempSync(join(tmpdir(), 'ecliptic-model-'));
    this.outside = join(this.#root, 'outside');
    mkdirSync(this.outside);
    const clock = runtime ?? systemRuntime();
    this.approvals = new Approvals(clock);
    const report = (action: Action, ruling: ActionRuling) => this.rulings.push({ ...action, ...ruling });
    const gate = new ActionGate({ approvals: this.approvals, report }, { rules: [...rules, ...DEFAULT_RULES] });
    const lane = new Lanes(join(this.#root, 'lanes')).open('mars');
    this.folder = lane.folder;
    const credentials = { resolve: async () => new Secret('sk-credential-123') };
    const rolePrompt = async () => 'You are Mars.';
    const parts = { runtime: clock, registry: node.registry, gate, credentials, lane, rolePrompt };
    this.adapter = new ModelAdapter(this.mars, parts, 'default');
    this.config = { ...model.config, ...config };
  }

  static async start(script: Script, init: WorldInit = {}): Promise<ModelWorld> {
    const world = await ModelWorld.make(script, init);
    await world.adapter.init(world.config);
    return world;
  }

  /** Without starting the adapter. */
  static async make(script: Script, init: WorldInit = {}): Promise<ModelWorld> {
    return new ModelWorld(await createNode({ sandbox: { enforced: true } }), await ScriptedModel.start(script), init);
  }

  run(text: string | Partial<WorkerTask>, terms: ExecuteTerms = {}): Promise<unknown> {
    const asked = typeof text === 'string' ? { text } : text;
    const task = { text: 'do it', context: {}, payload: null, from: 'sun', ...asked };
    return this.adapter.execute(task, 'c-1', { onUpdate: (update) => this.updates.push(update), ...terms });
  }

  /** The error of a task that must fail. */
  async fails(text: string | Partial<WorkerTask>, terms: ExecuteTerms = {}): Promise<NormalizedProviderError> {
    const error = await this.run(text, terms).then(
      (value) => expect.unreachable(`it should have failed, and gave ${JSON.stringify(value)?.slice(0, 200)}`),
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(NormalizedProviderError);
    expect(error).toMatchObject({ providerSource: 'model', correlationId: 'c-1' });
    return error as NormalizedProviderError;
  }

  texts(kind: ProviderUpdate['kind']): string[] {
    return this.updates.filter((update) => update.kind === kind).map(({ text }) => text);
  }

  async stop(): Promise<void> {
    await this.adapter.terminate();
    await this.model.stop();
    await this.node.stop();
    this.approvals.close();
    rmSync(this.#root, { recursive: true, force: true });
  }
}

/** A clock whose timers become that many times as fast with `speed`. */
export function fastRuntime(): Runtime & { speed: number } {
  const runtime = systemRuntime();
  const timer = runtime.setTimer.bind(runtime);
  const setTimer: Runtime['setTimer'] = (task, ms) => timer(task, ms / fast.speed);
  const fast = Object.assign(runtime, { speed: 1, setTimer });
  return fast;
}

/** The last result of a tool that the model has seen. */
export function lastResult({ messages }: Completion): string {
  return messages.findLast(({ role }) => role === 'tool')?.content ?? '';
}

/** Throws where an API would refuse the messages: each result of a tool follows its call, and each call has a result. */
export function checkSequence({ messages }: Completion): void {
  expect(messages[0]?.role).toBe('system');
  let open: string[] = [];
  for (const message of messages.slice(1) as (Completion['messages'][number] & { tool_call_id?: string })[]) {
    if (message.role === 'tool') {
      expect(open).toContain(message.tool_call_id);
      open = open.filter((id) => id !== message.tool_call_id);
      continue;
    }
    expect(open).toEqual([]);
    expect(message.role).not.toBe('system');
    open = (message.tool_calls ?? []).map(({ id }) => id);
  }
  expect(open).toEqual([]);
  expect(messages.at(-1)?.role).not.toBe('assistant');
}
