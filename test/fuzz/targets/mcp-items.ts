import { AskSchema, LogEntrySchema, ProgressSchema } from '../../../src/mcp/call.js';
import { DefinitionSchema } from '../../../src/mcp/definitions.js';
import { deserializeInvocation } from '../../../src/mcp/invocations.js';
import { neutralise } from '../../../src/mcp/neutral-text.js';
import { headerFault } from '../../../src/mcp/param-headers.js';
import { textsOf, withStructuredText, withWordsSeen } from '../../../src/mcp/result-text.js';
import { answers } from '../../../src/mcp/results.js';
import { readSchema } from '../../../src/mcp/schema.js';
import { CallSchema, OffersSchema } from '../../../src/mcp/tool-items.js';
import { readDefinition } from '../../../src/mcp/upstream/lists.js';
import { UriPattern } from '../../../src/mcp/uri-pattern.js';
import { EclipticError } from '../../../src/runtime/errors.js';
import { type FuzzTarget, must, mustEqual, unlessRefused } from '../fuzz-target.js';
import { jsonOf } from '../shaped-input.js';

const tool = {
  kind: 'tool',
  name: 'run',
  description: 'Runs',
  inputSchema: { type: 'object', properties: { a: { type: 'string', 'x-mcp-header': 'X-A' } } },
};
const ITEMS: readonly unknown[] = [
  tool,
  { kind: 'template', uriTemplate: 'file:///{a}/{+b}{?c,d}', name: 't' },
  { kind: 'prompt', name: 'p', arguments: [{ name: 'a', required: true }] },
  { kind: 'resource', uri: 'a:b', name: 'r', mimeType: 'text/plain', icons: [{ src: 'https://x/i.png' }] },
  {
    agent: 'mars',
    ask: { kind: 'tool', name: 'run', arguments: { a: 1 } },
    caller: 'sun',
    sandbox: null,
    capabilities: {},
    answers: {},
    state: null,
    meta: {},
  },
  [{ definition: tool, timeoutMs: 1, secrets: ['a'] }],
  {
    content: [
      { type: 'text', text: 'x' },
      { type: 'image', data: 'aGk=', mimeType: 'image/png' },
    ],
    structuredContent: { a: 1 },
    isError: false,
  },
  { contents: [{ uri: 'a:b', text: 'x' }] },
  { messages: [{ role: 'user', content: { type: 'text', text: 'x' } }] },
  {
    type: 'object',
    properties: { a: { type: 'array', items: { $ref: '#/$defs/x' } } },
    $defs: { x: { type: 'integer', minimum: 1 } },
    required: ['a'],
  },
  { type: 'object', '~standard': { version: 1 } },
];

/** What a tool server or another node says of its tools, and what its calls return. */
export const target: FuzzTarget = {
  name: 'mcp-items',
  about: 'definitions, calls and results of MCP servers and other nodes',
  seeds: [...ITEMS.map((_, index) => Buffer.of(index)), ...ITEMS.map((one) => JSON.stringify(one))],
  words: ['{+', '{?', '}', '"$ref"', '"kind"', '\u202e', '\u200b', '\\u0000'],
  async run(input) {
    const value = jsonOf(input, ITEMS);
    for (const schema of [AskSchema, LogEntrySchema, ProgressSchema, CallSchema, OffersSchema]) schema.safeParse(value);
    for (const kind of ['tool', 'resource', 'template', 'prompt'] as const) {
      const read = readDefinition(kind, value);
      if (typeof read === 'string') must(read.length < 2_000, () => 'a reason without an end');
      else mustEqual(readDefinition(kind, JSON.parse(JSON.stringify(read))), read, 'a definition read twice');
      answers(kind === 'template' ? 'resource' : kind, value);
    }
    const definition = DefinitionSchema.safeParse(value);
    if (definition.success) {
      const neutral = neutralise(definition.data);
      mustEqual(neutralise(neutral.value).value, neutral.value, 'a neutral text is neutral');
      if (definition.data.kind === 'template') {
        const pattern = unlessRefused(() => new UriPattern((definition.data as { uriTemplate: string }).uriTemplate));
        pattern?.match('file:///a/b?c=d');
      }
    }
    headerFault(value);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      const result = value as { content?: unknown };
      if (answers('tool', value)) {
        withWordsSeen(withStructuredText(value), { outputSchema: {} });
        textsOf(result.content as object[]);
      }
      const shape = unlessRefused(() => readSchema(value as never, 'output', 'x'));
      try {
        await shape?.check({ a: [1] });
      } catch (error) {
        if (!(error instanceof EclipticError)) throw error;
      }
    }
    unlessRefused(() => deserializeInvocation(JSON.stringify(value) ?? ''));
  },
};
