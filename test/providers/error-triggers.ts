import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { A2AObservability } from '../../src/mesh/observability.js';
import { A2ARouterAdapter, type A2ARouterComponents } from '../../src/providers/a2a/a2a-router.js';
import type { A2AConfig, A2AEndpoint } from '../../src/providers/a2a/a2a-types.js';
import type { ProviderErrorCode } from '../../src/providers/adapter/errors.js';
import { ProviderEvents } from '../../src/providers/adapter/events.js';
import { CommandAdapter } from '../../src/providers/command/command-adapter.js';
import { Lanes } from '../../src/providers/host/lanes.js';
import { ProviderRegistry } from '../../src/providers/registry/registry.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { Children } from '../../src/system/process/children.js';
import { MemoryWatch } from '../../src/system/process/memory-watch.js';
import { Credentials } from '../../src/system/secrets/credentials.js';
import { type ForeignServer, ForeignServers } from '../foreign-servers.js';
import { delegation, RemoteAgent } from './remote-agent.js';

const runtime = systemRuntime();
const PROGRAM = fileURLToPath(new URL('program.mjs', import.meta.url));
const ROUTE = { type: 'a2a', workspaceId: 'w' };

interface Answer {
  readonly status?: number;
  readonly body: object;
}

/** A real trigger for each error code of providers. `cleanups` stops everything that they start. */
export function providerTriggers(cleanups: (() => unknown)[]): Record<ProviderErrorCode, () => Promise<unknown>> {
  function adapter(more: Partial<A2ARouterComponents> = {}): A2ARouterAdapter {
    const events = new ProviderEvents(runtime, new A2AObservability());
    const made = new A2ARouterAdapter('fleet', { runtime, events, reach: { allowPrivate: true }, ...more });
    cleanups.push(() => made.terminate());
    return made;
  }

  async function remote(): Promise<RemoteAgent> {
    const started = await RemoteAgent.start('mars');
    cleanups.push(() => started.stop());
    return started;
  }

  /** An adapter in front of a real agent. */
  async function ready(more: Partial<A2ARouterComponents> = {}, config: Partial<A2AConfig> = {}) {
    const mars = await remote();
    const made = adapter({ credentials: () => mars.credentials, ...more });
    await made.init(configOf([mars.endpoint(1)], config));
    return { mars, adapter: made, execute: (words: string) => made.execute(delegation(words), 'c') };
  }

  /** A registry in front of that. */
  async function registered(concurrencyLimit: number, waiting = {}) {
    const mars = await remote();
    const made = adapter({ credentials: () => mars.credentials });
    const events = new ProviderEvents(runtime, new A2AObservability());
    const registry = new ProviderRegistry({ runtime, events }, { waiting });
    cleanups.push(() => registry.close());
    const config = configOf([mars.endpoint(1)]);
    const about = { id: 'fleet', type: 'a2a', config, workspaceId: 'w', concurrencyLimit } as const;
    await registry.register(about, made);
    const execute = (words: string, terms = {}) => registry.execute(ROUTE, delegation(words), 'c', terms);
    return { mars, registry, execute, again: () => registry.register(about, made) };
  }

  /** An agent that lets itself be asked about tasks, and does this with every message. */
  async function stranger(answer: (id: unknown) => Answer) {
    const servers = new ForeignServers();
    cleanups.push(() => servers.close());
    const server: ForeignServer = await servers.http(async (request, response) => {
      if (request.url?.endsWith('agent-card.json')) {
        const place = { url: `${server.origin}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' };
        response.end(JSON.stringify({ name: 'Stranger', version: '1', supportedInterfaces: [place] }));
        return;
      }
      const { id, method } = JSON.parse(await text(request));
      const unknown: Answer = { body: { jsonrpc: '2.0', id, error: { code: -32001, message: 'no such task' } } };
      const { status = 200, body } = method === 'GetTask' ? unknown : answer(id);
      response.writeHead(status).end(JSON.stringify(body));
    });
    const made = adapter();
    await made.init(configOf([{ id: 'stranger', url: server.origin, priority: 1, capabilities: [] }]));
    return made.execute(delegation('x'), 'c');
  }

  const rpcError = (code: number) =>
    stranger((id) => ({ body: { jsonrpc: '2.0', id, error: { code, message: 'no' } } }));

  async function begun(mars: RemoteAgent, work: Promise<unknown>): Promise<void> {
    work.catch(() => {});
    await mars.begun('wait');
  }

  function temporaryFolder(): string {
    const folder = mkdtempSync(join(tmpdir(), 'ecliptic-errors-'));
    cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
    return folder;
  }

  async function program(mode: string): Promise<CommandAdapter> {
    const folder = temporaryFolder();
    const children = await Children.open(runtime, { folder: join(folder, 'children') });
    const lanes = new Lanes(join(folder, 'lanes'));
    cleanups.push(
      () => children.close(),
      () => lanes.closeAll(),
    );
    const memory = new MemoryWatch(runtime, 50);
    const credentials = new Credentials({ runtime, report: () => {} }, { folder });
    const components = { runtime, children, memory, credentials, lane: lanes.open('one') };
    const made = new CommandAdapter('worker', components, 'default');
    await made.init({ command: process.execPath, args: [PROGRAM, mode] });
    return made;
  }

  return {
    PROVIDER_INIT_FAILED: () => adapter().init(configOf([])),
    PROVIDER_TIMEOUT: async () => (await ready({}, { timeoutMs: 100 })).execute('wait'),
    PROVIDER_CRASHED: async () => (await program('good')).execute({ do: 'exit' }, 'c'),
    PROVIDER_POLICY_DENIED: async () => {
      const { adapter: made } = await ready({ self: 'fleet@here' });
      return made.execute(delegation('x'), 'c', { chain: ['fleet@here'] });
    },
    PROVIDER_CONCURRENCY_EXCEEDED: async () => {
      const { mars, execute } = await registered(1);
      await begun(mars, execute('wait'));
      return execute('x', { wait: false });
    },
    PROVIDER_UNAVAILABLE: () => adapter().execute(delegation('x'), 'c'),
    PROVIDER_EXECUTE_FAILED: async () => (await ready()).execute('fail'),
    PROVIDER_TERMINATED: async () => {
      const { mars, adapter: made, execute } = await ready();
      const work = execute('wait');
      await begun(mars, work);
      await made.terminate();
      return work;
    },
    PROVIDER_CANCELLED: async () => {
      const { adapter: made } = await ready();
      return made.execute(delegation('x'), 'c', { signal: AbortSignal.abort() });
    },
    PROVIDER_INVALID_INPUT: async () => (await ready()).execute(''),
    PROVIDER_TOOL_NOT_FOUND: () => rpcError(-32601),
    PROVIDER_CREDENTIAL_MISSING: async () => {
      const credentials = new Credentials({ runtime, report: () => {} }, { folder: temporaryFolder() });
      let stored = true;
      const mars = await remote();
      const made = adapter({
        credentials: async () =>
          stored ? mars.credentials : { bearer: (await credentials.resolve('fleet', 'default', 'token')).reveal() },
      });
      await made.init(configOf([mars.endpoint(1)]));
      stored = false;
      return made.execute(delegation('x'), 'c');
    },
    PROVIDER_CREDENTIAL_DENIED: async () => {
      const mars = await remote();
      let { bearer } = mars.credentials;
      const made = adapter({ credentials: () => ({ bearer }) });
      await made.init(configOf([mars.endpoint(1)]));
      bearer = 'another';
      return made.execute(delegation('x'), 'c');
    },
    PROVIDER_PROTOCOL_MISMATCH: () => rpcError(-32009),
    PROVIDER_NO_CAPABLE_ENDPOINT: async () => (await ready()).adapter.execute(delegation('x', 'fly'), 'c'),
    PROVIDER_QUEUE_FULL: async () => {
      const { mars, execute } = await registered(1, { queueLimit: 1 });
      await begun(mars, execute('wait'));
      execute('x').catch(() => {});
      return execute('x');
    },
    PROVIDER_RATE_LIMITED: () => stranger(() => ({ status: 429, body: {} })),
    PROVIDER_NOT_FOUND: async () => (await registered(1)).registry.get('nobody'),
    PROVIDER_EXISTS: async () => (await registered(1)).again(),
  };
}

function configOf(endpoints: readonly A2AEndpoint[], more: Partial<A2AConfig> = {}): A2AConfig {
  return { endpoints, timeoutMs: 20_000, failoverEnabled: true, ...more };
}
