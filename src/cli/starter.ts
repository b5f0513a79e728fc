/** The texts of a starter: what callers get at first is real and small, so that the test has something to check. */
export interface Starter {
  readonly module: string;
  readonly test: string;
  /** Commands that use it on a running node. */
  readonly use: string;
}

export function agentStarter(id: string): Starter {
  return {
    module: `import type { Agent } from 'ecliptic';

/** The work itself. Without the mesh in it, it is easy to test. */
export function summarize(text: string): string {
  const words = text.split(/\\s+/).filter((word) => word !== '');
  return \`\${words.length} \${words.length === 1 ? 'word' : 'words'}: \${words.slice(0, 5).join(' ')}\`;
}

export function setup(agent: Agent): void {
  // Tasks, proposals, tasks of plans and sub-tasks of swarms all come here.
  agent.onTask((task) => {
    task.progress('counting …');
    if (task.signal.aborted) throw task.signal.reason;
    return summarize(task.text);
  });
}
`,
    test: testOf(
      id,
      'does a task that another agent proposes',
      `  const caller = node.agent({ id: 'caller' });
  const answer = await caller.propose({ to: '${id}', taskDescription: 'Fix the login page' }).result;
  assert.equal(answer, '4 words: Fix the login page');`,
    ),
    use: `npx ecliptic task send ${id} "Fix the login page"`,
  };
}

export function toolStarter(id: string): Starter {
  return {
    module: `import type { Agent } from 'ecliptic';

/** JSON Schema; any Standard Schema, such as zod's, works too, and also gives the handler its types. */
const inputSchema = {
  type: 'object',
  properties: { text: { type: 'string', description: 'The text whose words are counted.' } },
  required: ['text'],
  additionalProperties: false,
} as const;

export function countWords(text: string): number {
  return text.split(/\\s+/).filter((word) => word !== '').length;
}

export function setup(agent: Agent): void {
  agent.tool('run', { description: 'Counts the words of a text.', inputSchema, annotations: { readOnlyHint: true } }, (input) => {
    // The schema has been checked before.
    const { text } = input as { text: string };
    return { words: countWords(text) };
  });
}
`,
    test: testOf(
      id,
      'counts, and refuses other input',
      `  const caller = node.agent({ id: 'caller' });
  const { structuredContent } = await caller.mcp.call('${id}.run', { text: 'Fix the login page' });
  assert.deepEqual(structuredContent, { words: 4 });
  await assert.rejects(caller.mcp.call('${id}.run', { text: 4 }), { code: 'INVALID_ARGUMENTS' });`,
    ),
    use: `npx ecliptic tool call ${id}.run '{"text":"Fix the login page"}'`,
  };
}

function testOf(id: string, title: string, body: string): string {
  return `import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createNode } from 'ecliptic';
import { setup } from './${id}.ts';

test('${id} ${title}', async (context) => {
  const node = await createNode();
  context.after(() => node.stop());
  setup(node.agent({ id: '${id}' }));
${body}
});
`;
}
