import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import {
  A2AObservability,
  ACPClientAdapter,
  Children,
  HealthCoordinator,
  Lanes,
  MCPBridgeAdapter,
  MemoryWatch,
  ProviderEvents,
  systemRuntime,
} from '../../src/index.js';
import { acpAgent } from './process-host.js';
import { until } from './processes.js';

const folder = mkdtempSync(join(tmpdir(), 'ecliptic-public-'));

afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('the providers of the package', () => {
  it('are made and watched with what the package exports, as the specification says [T-E14]', async () => {
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
    // Without a gate it gets at its own files, and is asked about nothing else.
    const asked = await adapter.execute({ prompt: `do:write ${lane.folder}/a.txt hi\ndo:ask Edit a.txt` }, 'c');
    expect(asked.text).toBe('writtenno');
    health.close();
    await adapter.terminate();
    await children.close();
    const open = () => expect.unreachable('it is not started');
    expect(new MCPBridgeAdapter('files', { runtime, events, open }).type).toBe('mcp');
  });
});
