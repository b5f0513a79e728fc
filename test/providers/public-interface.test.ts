import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, expectTypeOf, it } from 'vitest';
import {
  A2AObservability,
  A2ARouterAdapter,
  ACPClientAdapter,
  ActionGate,
  FailoverRouter,
  HealthCoordinator,
  MCPBridgeAdapter,
  type NormalizedProviderError,
  type ProviderAdapter,
  ProviderRegistry,
  systemRuntime,
} from '../../src/index.js';
import {
  type A2AConfig,
  type A2ADelegation,
  type A2AResult,
  Approvals,
  Children,
  Lanes,
  type MCPServerConnection,
  type MCPToolInvocation,
  type MCPToolResult,
  MemoryWatch,
  normalizeError,
  ProviderEvents,
  type ProviderHealthStatus,
} from '../../src/providers.js';
import { acpAgent } from './process-host.js';
import { until } from './processes.js';
import { ScriptedAdapter } from './scripted-adapter.js';

const folder = mkdtempSync(join(tmpdir(), 'ecliptic-public-'));

afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** The interfaces of the specification, word for word. */
interface SpecifiedAdapter<TConfig, TInput, TOutput> {
  init(config: TConfig): Promise<void>;
  health(): Promise<ProviderHealthStatus>;
  execute(input: TInput, correlationId: string): Promise<TOutput>;
  terminate(): Promise<void>;
}

interface SpecifiedHealthCoordinator {
  register(providerId: string, adapter: ProviderAdapter, intervalMs: number): void;
  unregister(providerId: string): void;
  getStatus(providerId: string): ProviderHealthStatus;
  getAllStatuses(): Map<string, ProviderHealthStatus>;
  getHealthyProviders(type: string): string[];
}

interface SpecifiedFailoverRouter {
  selectProvider(type: string, requiredCapabilities?: string[]): string | null;
}

interface SpecifiedA2AConfig {
  endpoints: { id: string; url: string; priority: number; capabilities: string[] }[];
  timeoutMs: number;
  failoverEnabled: boolean;
}

interface SpecifiedA2ADelegation {
  taskDescription: string;
  requiredCapabilities: string[];
  context: Record<string, unknown>;
}

describe('the provider classes of the package', () => {
  it('have the signatures of the specification', () => {
    expectTypeOf<HealthCoordinator>().toExtend<SpecifiedHealthCoordinator>();
    expectTypeOf<FailoverRouter>().toExtend<SpecifiedFailoverRouter>();
    expectTypeOf<SpecifiedA2AConfig>().toExtend<A2AConfig>();
    expectTypeOf<SpecifiedA2ADelegation>().toExtend<A2ADelegation>();
    expectTypeOf<A2AResult>().toExtend<{
      endpointId: string;
      result: unknown;
      correlationId: string;
      duration: number;
    }>();
    expectTypeOf<A2ARouterAdapter>().toExtend<
      SpecifiedAdapter<SpecifiedA2AConfig, SpecifiedA2ADelegation, A2AResult>
    >();
    expectTypeOf<MCPBridgeAdapter>().toExtend<SpecifiedAdapter<{ server: string }, MCPToolInvocation, MCPToolResult>>();
    expectTypeOf<ACPClientAdapter>().toExtend<
      SpecifiedAdapter<{ command: string }, { prompt: string }, { text: string }>
    >();
    expectTypeOf(normalizeError).toExtend<
      (error: unknown, source: 'acp' | 'mcp' | 'a2a' | 'internal', correlationId?: string) => NormalizedProviderError
    >();
    // Of the specification's `register(registration)`, the adapter is a second argument: a registration is plain data.
    expectTypeOf<ProviderRegistry>().toExtend<{
      unregister(id: string): Promise<void>;
      get(id: string): { id: string };
      listByType(type: string): { id: string }[];
      listByWorkspace(workspaceId: string): { id: string }[];
    }>();
  });

  it('can be constructed and observed with the exports of the package [T-E14]', async () => {
    const runtime = systemRuntime();
    const children = await Children.open(runtime, { folder: join(folder, 'children') });
    const lane = new Lanes(join(folder, 'lanes')).open('one');
    const adapter = new ACPClientAdapter('mars', { runtime, children, memory: new MemoryWatch(runtime), lane });
    await adapter.init(acpAgent());
    const events = new ProviderEvents(runtime, new A2AObservability());
    const health = new HealthCoordinator({ runtime, events });
    health.register('mars', adapter, 30_000);
    await until(() => health.getStatus('mars').lastCheck.getTime() > 0);
    expect(health.getHealthyProviders('acp')).toEqual(['mars']);
    // Without a gate the agent may use its own files, and any question is answered with no.
    const asked = await adapter.execute({ prompt: `do:write ${lane.folder}/a.txt hi\ndo:ask Edit a.txt` }, 'c');
    expect(asked.text).toBe('writtenno');
    health.close();
    await adapter.terminate();
    await children.close();
  });

  it('route work to a healthy provider, and away from one that crashed', async () => {
    const runtime = systemRuntime();
    const events = new ProviderEvents(runtime, new A2AObservability());
    const health = new HealthCoordinator({ runtime, events });
    const router = new FailoverRouter({ events, health });
    const adapters = ['a', 'b'].map((id, priority) => {
      const adapter = new ScriptedAdapter(runtime);
      const about = { type: 'a2a', workspaceId: 'default', capabilities: ['search'] } as const;
      router.add({ id, ...about, priority, state: 'healthy', phase: 'ready' });
      health.register(id, adapter, 30_000, { type: 'a2a' });
      return adapter;
    });
    expect(router.selectProvider('a2a', ['search'])).toBe('a');
    adapters[0]!.crash();
    expect(router.selectProvider('a2a', ['search'])).toBe('b');
    adapters[1]!.crash();
    expect(router.selectProvider('a2a')).toBeNull();
    router.close();
    health.close();
  });

  it('register a provider, and refuse an action without a rule', async () => {
    const runtime = systemRuntime();
    const events = new ProviderEvents(runtime, new A2AObservability());
    const providers = new ProviderRegistry({ runtime, events });
    const registration = { id: 'p', type: 'command', config: {}, workspaceId: 'default', concurrencyLimit: 1 } as const;
    await providers.register(registration, new ScriptedAdapter(runtime));
    expect(providers.listByType('command')).toMatchObject([{ id: 'p', phase: 'ready' }]);
    await providers.close();
    const approvals = new Approvals(runtime);
    const gate = new ActionGate({ approvals, report: () => {} });
    const action = { agent: 'mars', action: 'fs.write', subject: 'a.txt' };
    expect(await gate.check(action)).toMatchObject({ allowed: false, by: 'no-rule' });
    await expect(gate.require(action)).rejects.toMatchObject({ code: 'PROVIDER_POLICY_DENIED' });
    approvals.close();
  });

  it('reach remote agents and MCP servers that their owner connects', async () => {
    const runtime = systemRuntime();
    const events = new ProviderEvents(runtime, new A2AObservability());
    const router = new A2ARouterAdapter('remote', { runtime, events });
    const config = { endpoints: [], timeoutMs: 1_000, failoverEnabled: true };
    await expect(router.init(config)).rejects.toMatchObject({ code: 'PROVIDER_INIT_FAILED' });
    const server: MCPServerConnection = {
      state: { kind: 'running', since: 0 },
      absence: undefined,
      status: {} as MCPServerConnection['status'],
      tools: [],
      start() {},
      stop: async () => {},
      ask: async () => {},
      watch: () => () => {},
    };
    const bridge = new MCPBridgeAdapter('files', { runtime, events, open: () => server });
    await bridge.init({ server: 'files' });
    expect(await bridge.health()).toMatchObject({ state: 'healthy' });
    expect(bridge.listTools()).toEqual([]);
    await bridge.terminate();
  });
});
