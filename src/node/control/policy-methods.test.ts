import { expect, it } from 'vitest';
import { reportActions } from '../../mesh/audit/audit-log.js';
import { SimulatedRuntime } from '../../runtime/simulated-runtime.js';
import { MemoryStore } from '../../store/memory-store.js';
import { createNode } from '../compose.js';
import type { ControlContext } from './context.js';
import { policyMethods } from './policy-methods.js';

it('audited events say which action on what was denied [FC.59]', async () => {
  const runtime = new SimulatedRuntime();
  const node = await createNode({ runtime, store: new MemoryStore() });
  const about = { agent: 'mars', provider: 'model', action: 'fs.write', subject: 'login.js' } as const;
  reportActions(runtime, node.observability)?.(
    about as never,
    { allowed: false, by: 'no-rule', lasting: false, reason: 'no rule allows it' } as never,
    'c-1',
  );
  node.observability.emit({ type: 'security', success: false, timestamp: 1 });
  const rows = await policyMethods({ node } as unknown as ControlContext)['audit.events']({});
  expect(rows.map(({ about: said, event }) => [event.topic ?? event.type, said])).toEqual([
    ['security', null],
    ['action.denied', 'fs.write login.js'],
  ]);
  await node.stop();
});
