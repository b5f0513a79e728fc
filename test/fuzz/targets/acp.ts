import { answerAgent } from '../../../src/providers/acp/requests.js';
import { type AcpSdk, loadAcpSdk } from '../../../src/providers/acp/sdk.js';
import { Conversation } from '../../../src/providers/acp/sessions.js';
import { Turn } from '../../../src/providers/acp/turn.js';
import { type FuzzTarget, must } from '../fuzz-target.js';
import { jsonOf } from '../shaped-input.js';

const update = (body: object) => ({
  jsonrpc: '2.0',
  method: 'session/update',
  params: { sessionId: 's', update: body },
});
const MESSAGES: readonly unknown[] = [
  update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'hi' } }),
  update({ sessionUpdate: 'agent_thought_chunk', content: { type: 'image', data: 'x', mimeType: 'image/png' } }),
  update({ sessionUpdate: 'plan', entries: [{ content: 'a', priority: 'high', status: 'pending' }] }),
  update({ sessionUpdate: 'tool_call', toolCallId: 't', title: 'x', kind: 'edit', status: 'pending', content: [] }),
  update({ sessionUpdate: 'tool_call_update', toolCallId: 't', status: 'completed' }),
  update({ sessionUpdate: 'usage_update', cost: { currency: 'USD', amount: 1 }, used: 1, size: 2 }),
  {
    jsonrpc: '2.0',
    id: 1,
    method: 'session/request_permission',
    params: {
      sessionId: 's',
      toolCall: {
        toolCallId: 't',
        kind: 'edit',
        title: 'x',
        content: [{ type: 'diff', path: '/a', oldText: 'a', newText: 'b' }],
      },
      options: [{ optionId: 'o', name: 'n', kind: 'allow_once' }],
    },
  },
  { jsonrpc: '2.0', id: 2, method: 'fs/read_text_file', params: { sessionId: 's', path: '/a', line: 1, limit: 2 } },
  {
    jsonrpc: '2.0',
    id: 3,
    method: 'terminal/create',
    params: { sessionId: 's', command: 'x', args: [], env: [{ name: 'a', value: 'b' }] },
  },
  { jsonrpc: '2.0', id: 4, method: 'terminal/output', params: { sessionId: 's', terminalId: 't' } },
  { jsonrpc: '2.0', id: 9, result: {} },
];

const refused = () => Promise.reject(new Error('not here'));
const init = {
  agent: 'fuzz',
  workspace: { folder: '/nowhere', read: refused, write: refused },
  terminals: { create: refused, output: refused, wait: refused, kill: refused, release: refused },
  gate: {
    check: async () => ({ allowed: true, lasting: false, reason: 'x' }),
    require: refused,
  },
};
let sdk: AcpSdk;

/** What a hostile coding agent may send to its client: every request is answered, and nothing is allowed for good. */
export const target: FuzzTarget = {
  name: 'acp',
  about: 'messages of coding agents over ACP',
  seeds: MESSAGES.map((_, index) => Buffer.of(index)),
  maxMs: 250,
  async prepare() {
    sdk = await loadAcpSdk();
    return [];
  },
  async run(input) {
    const message = jsonOf(input, MESSAGES);
    if (typeof message !== 'object' || message === null || Array.isArray(message)) return;
    const turn = new Turn({ onUpdate: (said) => void JSON.stringify(said) });
    const conversation = new Conversation({
      sessionId: 's',
      cancel: () => {},
      prompt: () => new Promise(() => {}),
    } as never);
    void conversation.take([], turn).catch(() => {});
    await new Promise((resolve) => setImmediate(resolve));
    const answers: { id?: unknown; result?: { outcome?: { optionId?: string } } }[] = [];
    let say!: (value: unknown) => void;
    let end!: () => void;
    const readable = new ReadableStream({
      start(controller) {
        say = (value) => controller.enqueue(value);
        end = () => controller.close();
      },
    });
    const writable = new WritableStream({ write: (answer) => void answers.push(answer) });
    const find = (id: string) => (id === 's' ? conversation : undefined);
    answerAgent(sdk, { ...init, find } as never).connect({ readable, writable } as never);
    say({ ...message, jsonrpc: '2.0' });
    for (let count = 0; count < 3; count++) await new Promise((resolve) => setImmediate(resolve));
    end();
    const { id, method } = message as { id?: unknown; method?: unknown };
    if (typeof id === 'number' && typeof method === 'string') {
      must(answers.length === 1, () => `${answers.length} answers to ${JSON.stringify(message)}`);
    }
    await new Promise((resolve) => setImmediate(resolve));
  },
};
