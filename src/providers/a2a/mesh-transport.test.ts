import { expect, it } from 'vitest';
import { createNode } from '../../node/compose.js';
import { systemRuntime } from '../../runtime/system-runtime.js';
import type { ProviderUpdate } from '../adapter/adapter.js';
import { MeshTransport } from './mesh-transport.js';

it('an agent of the mesh passes its usage on to the caller of the provider [WK.A5]', async () => {
  const runtime = systemRuntime();
  const node = await createNode({ runtime });
  node.agent({ id: 'mars' }).onTask(async (task) => {
    task.progress('digging');
    task.usage({ inputTokens: 10, outputTokens: 2, modelCalls: 1 });
    return 'done';
  });
  const transport = new MeshTransport({ runtime, agent: node.agent({ id: 'sun' }), look: () => ['dig'] }, 'mars');
  const updates: ProviderUpdate[] = [];
  const onUpdate = (update: ProviderUpdate) => void updates.push(update);
  const { signal } = new AbortController();
  const terms = { signal, timeoutMs: 10_000, onUpdate, self: 'sun', chain: [] };
  expect(await transport.delegate({ taskDescription: 'dig', requiredCapabilities: [], context: {} }, 'c', terms)).toBe(
    'done',
  );
  expect(updates.map(({ kind }) => kind)).toEqual(['progress', 'usage', expect.any(String)]);
  expect(updates[1]).toEqual({
    kind: 'usage',
    text: '',
    data: { inputTokens: 10, outputTokens: 2, modelCalls: 1 },
  });
  await node.stop();
});
