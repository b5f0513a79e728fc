import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { A2AClient } from '../../src/a2a/client/a2a-client.js';
import type { GatewayInit } from '../../src/http/gateway.js';
import type { A2ALogEvent } from '../../src/mesh/schemas.js';
import type { Config } from '../../src/node/config/schema.js';
import { ControlClient } from '../../src/node/control/client.js';
import { Host } from '../../src/node/host.js';
import type { ProviderRow } from '../../src/providers/registry/registered-provider.js';
import { systemRuntime } from '../../src/runtime/system-runtime.js';
import { ForeignServers } from '../foreign-servers.js';
import { RemoteAgent } from './remote-agent.js';

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function remote(name: string, init: GatewayInit = {}): Promise<RemoteAgent> {
  const started = await RemoteAgent.start(name, init);
  cleanups.push(() => started.stop());
  return started;
}

async function startHost(agents: Config['agents']) {
  const dataFolder = mkdtempSync(join(tmpdir(), 'ecliptic-'));
  cleanups.push(() => rmSync(dataFolder, { recursive: true, force: true }));
  const config: Config = { roster: false, network: { dht: false }, agents: { sun: {}, ...agents } };
  const loaded = { config, file: undefined, folder: dataFolder };
  const host = await Host.start({ runtime: systemRuntime(), loaded, dataFolder, env: {}, http: { port: 0 } });
  cleanups.push(() => host.stop());
  const events: A2ALogEvent[] = [];
  host.node.observability.subscribe((event) => events.push(event));
  const control = await ControlClient.connect(host.control);
  cleanups.push(() => control.close());
  return { host, events, control, sun: host.node.agentById('sun') };
}

function reached({ url, credentials, name }: RemoteAgent, more = {}) {
  return { url, id: name, headers: { authorization: `Bearer ${credentials.bearer}` }, ...more };
}

describe('an agent with remote agents behind its name', () => {
  it('answers requests and tasks through the first available remote agent [T-E9]', async () => {
    const [mars, moon] = [await remote('mars'), await remote('moon')];
    const { sun, host, events } = await startHost({ fleet: { a2a: [reached(mars), reached(moon)] } });
    expect(await sun.request('fleet', 'dig')).toBe('mars did dig');
    expect(await sun.request('fleet', { text: 'data', ticket: 7 })).toEqual({ from: 'mars', context: { ticket: 7 } });
    const { bearer } = { bearer: host.gateway.tokens.owners };
    const client = await A2AClient.connect(
      { runtime: systemRuntime() },
      { url: `${host.gateway.url}/api/agents/fleet/agent-card`, credentials: { bearer }, allowPrivate: true },
    );
    cleanups.push(() => client.close());
    const told: string[] = [];
    for await (const event of client.stream({ message: 'tell' })) told.push(JSON.stringify(event));
    expect(told.some((event) => event.includes('half way'))).toBe(true);
    expect(told.join()).toContain('one ');
    const asked = await client.send({ message: 'ask' });
    if (!('task' in asked)) throw new Error('no task');
    expect(asked.task.status.state).toBe('TASK_STATE_INPUT_REQUIRED');
    const answered = await client.send({ message: 'that one', taskId: asked.task.id });
    expect(JSON.stringify(answered)).toContain('you said that one');
    await mars.stop();
    expect(await sun.request('fleet', 'dig')).toBe('moon did dig');
    expect(events.filter(({ details }) => details?.state === 'down')).toMatchObject([
      { topic: 'provider.a2a.endpoint.changed', provider: 'fleet', details: { endpointId: 'mars' } },
    ]);
  });

  it('emits events under the thread’s id [T020.6b]', async () => {
    const mars = await remote('mars');
    const { sun, events, control } = await startHost({ fleet: { a2a: [reached(mars)] } });
    await sun.request('fleet', 'dig');
    await sun.request('fleet', 'fail').catch(() => {});
    const [good, bad] = events.filter(({ type, sender }) => type === 'message-sent' && sender === 'sun');
    expect(await control.call('thread.events', { id: good!.correlationId! })).toMatchObject([
      { topic: 'provider.a2a.delegation.completed', details: { endpointId: 'mars' } },
      { topic: 'provider.execute.completed', provider: 'fleet', sender: 'fleet', success: true },
    ]);
    expect(await control.call('thread.events', { id: bad!.correlationId! })).toMatchObject([
      { topic: 'provider.a2a.delegation.failed', code: 'PROVIDER_EXECUTE_FAILED' },
      { topic: 'provider.execute.failed', code: 'PROVIDER_EXECUTE_FAILED' },
    ]);
    expect(mars.tasks[0]!.metadata).toMatchObject({ correlationId: good!.correlationId });
  });

  it('is shown, drained and restarted by its owner', async () => {
    const mars = await remote('mars');
    const { sun, control } = await startHost({ fleet: { a2a: { endpoints: [reached(mars)], concurrency: 3 } } });
    await sun.request('fleet', 'dig');
    expect(await control.call('providers')).toMatchObject([
      { id: 'fleet', type: 'a2a', state: 'healthy', phase: 'ready', completed: 1, concurrencyLimit: 3 },
    ]);
    const view = await control.call('provider.show', { id: 'fleet' });
    expect(view.about).toMatchObject({ endpoints: [{ id: 'mars', down: null }] });
    expect(JSON.stringify(view)).not.toContain(mars.credentials.bearer);
    expect(await control.call('provider.drain', { id: 'fleet' })).toMatchObject({ phase: 'drained' });
    await expect(sun.request('fleet', 'meanwhile')).rejects.toMatchObject({ code: 'PROVIDER_UNAVAILABLE' });
    expect(await control.call('provider.restart', { id: 'fleet' })).toMatchObject({ phase: 'ready' });
    expect(await sun.request('fleet', 'later')).toBe('mars did later');
    await expect(control.call('provider.show', { id: 'x' })).rejects.toMatchObject({ code: 'PROVIDER_NOT_FOUND' });
  });

  it('finds agents in a catalogue, and sends them none of its secrets [T016.10 T016.V3]', async () => {
    const [mars, moon] = [await remote('mars'), await remote('moon')];
    const servers = new ForeignServers();
    cleanups.push(() => servers.close());
    const list = await servers.http((_, response) => {
      const entries = [
        { mediaType: 'application/a2a-agent-card+json', url: moon.url },
        { mediaType: 'text/html', url: '/' },
      ];
      response.end(JSON.stringify({ entries }));
    });
    const { control } = await startHost({
      fleet: { a2a: { endpoints: [reached(mars)], catalogues: [`${list.origin}/catalogue.json`] } },
    });
    await until(async () => (await rows(control))[0]?.phase === 'ready');
    const { about } = await control.call('provider.show', { id: 'fleet' });
    // Without a token it is refused there, and private addresses in the catalogue are not called.
    expect(about).toMatchObject({
      endpoints: [
        { id: 'mars', down: null },
        { url: `${moon.url}/`, down: expect.any(String) },
      ],
    });
    expect(moon.tasks).toEqual([]);
  });

  it('is reached by localhost as well as by the address of this machine [T-C16]', async () => {
    const mars = await remote('mars');
    const url = mars.url.replace('127.0.0.1', 'localhost');
    const { sun } = await startHost({ fleet: { a2a: [reached(mars, { url })] } });
    expect(await sun.request('fleet', 'dig')).toBe('mars did dig');
  });

  it('that cannot be reached says why: a proposal is refused at once, a request when its time is over [T-E7]', async () => {
    const { sun, host, control } = await startHost({ gone: { a2a: ['http://127.0.0.1:9'] } });
    await until(async () => (await rows(control))[0]?.phase === 'failed');
    const asked = sun.request('gone', 'dig', { timeoutMs: 300 });
    await expect(asked).rejects.toMatchObject({
      code: 'REQUEST_TIMEOUT',
      message: expect.stringMatching(/^no answer within 300 ms; gone is unavailable: .*ECONNREFUSED/),
    });
    const { result } = sun.propose({ to: 'gone', taskDescription: 'dig' });
    await expect(result).rejects.toMatchObject({
      message: expect.stringMatching(/gone has no worker for a proposal: .*ECONNREFUSED/),
    });
    const client = await A2AClient.connect(
      { runtime: systemRuntime() },
      {
        url: `${host.gateway.url}/api/agents/gone/agent-card`,
        credentials: { bearer: host.gateway.tokens.owners },
        allowPrivate: true,
      },
    );
    cleanups.push(() => client.close());
    await expect(client.send({ message: 'dig' })).rejects.toMatchObject({
      message: expect.stringMatching(/no worker/),
    });
  });

  it('that stopped answering is degraded from the first work that failed, and works again once it is back [T-B5]', async () => {
    const mars = await remote('mars', { open: true });
    const { port, url } = mars;
    const { sun, host, control } = await startHost({ fleet: { a2a: [url] } });
    expect(await sun.request('fleet', 'dig')).toBe('mars did dig');
    await mars.stop();
    await expect(sun.request('fleet', 'dig')).rejects.toMatchObject({ code: 'PROVIDER_UNAVAILABLE' });
    expect((await rows(control))[0]).toMatchObject({ state: 'degraded' });
    expect(host.node.registry.requireById('fleet').status).toMatchObject({ state: 'degraded' });
    await mars.start(port);
    expect(await sun.request('fleet', 'dig')).toBe('mars did dig');
  });

  it('queues work until its remote agents are available', async () => {
    const mars = await remote('mars', { open: true });
    const { port, url } = mars;
    await mars.stop();
    const { sun, control } = await startHost({ fleet: { a2a: [url] } });
    const waiting = sun.request('fleet', 'dig');
    await until(async () => (await rows(control))[0]?.phase === 'failed');
    await mars.start(port);
    expect(await control.call('provider.restart', { id: 'fleet' })).toMatchObject({ phase: 'ready' });
    expect(await waiting).toBe('mars did dig');
  });
});

function rows(control: ControlClient): Promise<ProviderRow[]> {
  return control.call('providers');
}

async function until(done: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    if (await done()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error('it did not come to that');
}
