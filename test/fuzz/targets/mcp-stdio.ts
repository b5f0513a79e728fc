import { Relay } from '../../../src/coding-agents/relay.js';
import { StdioServer } from '../../../src/coding-agents/stdio-server.js';
import { SimulatedRuntime } from '../../../src/runtime/simulated-runtime.js';
import { type FuzzTarget, must } from '../fuzz-target.js';
import { jsonOf } from '../shaped-input.js';

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'c', version: '1' },
};
const LINES: readonly unknown[] = [
  {
    jsonrpc: '2.0',
    id: 1,
    method: 'initialize',
    params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'c', version: '1' } },
  },
  { jsonrpc: '2.0', id: 2, method: 'tools/list', params: { _meta: META } },
  {
    jsonrpc: '2.0',
    id: 3,
    method: 'tools/call',
    params: { name: 'mesh_send', arguments: { to: 'a' }, _meta: { ...META, threadId: 't' } },
  },
  { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 3 } },
  { jsonrpc: '2.0', id: 'x', method: 'resources/read', params: { uri: 'a:b' } },
  { jsonrpc: '2.0', id: 5, result: {} },
  { jsonrpc: '2.0', id: 6, method: 'server/discover', params: { _meta: META } },
];

/** Lines of an MCP client: each request is answered in JSON-RPC, and no line ends the process. */
export const target: FuzzTarget = {
  name: 'mcp-stdio',
  about: 'MCP of coding agents, on standard input',
  seeds: [
    ...LINES.map((_, index) => Buffer.of(index)),
    ...LINES.map((line) => JSON.stringify(line)),
    '{"id":1,"method":"ping","params":null}',
  ],
  words: ['"id"', '"method"', '"params"', '"tools/call"', 'null', '"_meta"', '"arguments"'],
  async run(input) {
    const raw = input[0] === 0x7b;
    const value = raw ? undefined : jsonOf(input, LINES);
    const line = raw ? input.toString('utf8').replaceAll('\n', ' ') : (JSON.stringify(value) ?? 'null');
    for (const relay of [undefined, new Relay(new SimulatedRuntime())]) {
      const answers: string[] = [];
      const server = new StdioServer({
        tools: [{ name: 'mesh_send' }],
        instructions: 'i',
        version: '1',
        write: (text, written) => {
          answers.push(text);
          written();
        },
        join: async () => ({ call: async () => ({ text: 'done', shown: ['m1'] }), heard: async () => {} }),
        relay,
      });
      server.take(line);
      for (let turn = 0; turn < 4; turn++) await Promise.resolve();
      for (const answer of answers) {
        must(
          JSON.parse(answer).jsonrpc === '2.0' && answer.indexOf('\n') === answer.length - 1,
          () => `no answer: ${answer}`,
        );
      }
      if (!relay && asks(line)) must(answers.length === 1, () => `${answers.length} answers to ${line}`);
    }
  },
};

/** A complete request that does not wait for anything. */
function asks(line: string): boolean {
  try {
    const { id, method } = JSON.parse(line) as { id?: unknown; method?: unknown };
    return (typeof id === 'number' || typeof id === 'string') && typeof method === 'string' && method !== 'tools/call';
  } catch {
    return false;
  }
}
