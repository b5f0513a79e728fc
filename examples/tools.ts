/** Tools, resources and prompts: one agent offers them, another one uses them, and so can any MCP client. */
import assert from 'node:assert/strict';
import { createNode, EclipticError } from 'ecliptic';
import { z } from 'zod';

const node = await createNode();
const mars = node.agent({ id: 'mars' });
const sun = node.agent({ id: 'sun' });

mars.tool(
  'add',
  { description: 'Adds two numbers.', inputSchema: z.object({ a: z.number(), b: z.number() }) },
  ({ a, b }, call) => {
    call.progress(1, 1);
    return a + b;
  },
);
mars.resource({ uri: 'memory://rules', name: 'rules', mimeType: 'text/plain' }, () => 'Be kind.');
mars.prompt({ name: 'greet', arguments: [{ name: 'who', required: true }], template: 'Say hello to {{who}}.' });
// A long call is a task for MCP clients that know tasks; for agents it is a call like any other.
mars.tool('report', { description: 'Writes the report.', tasks: 'optional', timeoutMs: 3_600_000 }, (_, call) => {
  call.progress(1, 3, 'reading');
  return 'All is well.';
});

assert.deepEqual(
  sun.mcp.tools.map(({ name, agent }) => [name, agent]),
  [
    ['mars.add', 'mars'],
    ['mars.report', 'mars'],
  ],
);

const { content } = await sun.mcp.call('mars.add', { a: 2, b: 3 });
assert.deepEqual(content, [{ type: 'text', text: '5' }]);

// With a schema, the result is checked and has the schema's type.
const sum = await sun.mcp.call('mars.add', { a: 2, b: 3 }, { output: z.number() });
assert.equal(sum - 1, 4);

const report = await sun.mcp.call('mars.report', {});
assert.deepEqual(report.content, [{ type: 'text', text: 'All is well.' }]);

const { contents } = await sun.mcp.read('memory://rules');
assert.equal(contents[0]?.mimeType, 'text/plain');

const { messages } = await sun.mcp.prompt('mars.greet', { who: 'Venus' });
assert.deepEqual(messages[0]?.content, { type: 'text', text: 'Say hello to Venus.' });

await assert.rejects(sun.mcp.call('mars.add', { a: 'two', b: 3 }), (error) => {
  return error instanceof EclipticError && error.code === 'INVALID_ARGUMENTS' && error.details.agent === 'mars';
});

// The same over HTTP, for callers with a token.
const { mcpUrl, tokens } = await node.serve({ port: 0 });
const refused = await fetch(mcpUrl, { method: 'POST', body: '{}' });
assert.equal(refused.status, 401);
const known = await fetch(mcpUrl, {
  method: 'POST',
  body: '{}',
  headers: { Authorization: `Bearer ${tokens.owners}` },
});
assert.notEqual(known.status, 401);

console.log(`sun used what mars offers; MCP clients find it at ${new URL(mcpUrl).pathname}`);
await node.stop();
