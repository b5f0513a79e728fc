import { describe, expect, it } from 'vitest';
import { EclipticError } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { Relay } from './relay.js';
import { type Backend, StdioServer } from './stdio-server.js';
import type { Answer } from './tools/tool.js';
import { ALL_TOOLS, INSTRUCTIONS } from './tools/tool-list.js';

interface Call {
  readonly tool: string;
  readonly args: unknown;
  readonly seen: readonly string[];
  readonly signal: AbortSignal;
  answer(answer: Answer): void;
  fail(error: Error): void;
}

/** A server whose mesh is this test. */
class Bench {
  readonly lines: { id: unknown; result?: Record<string, unknown>; error?: { code: number; data?: unknown } }[] = [];
  readonly calls: Call[] = [];
  readonly clients: string[] = [];
  /** Messages that calls of other agents' tools proved. */
  readonly heard: string[] = [];
  readonly server: StdioServer;
  #onCall: (() => void) | undefined;

  constructor(relay?: Relay) {
    const backend: Backend = {
      call: (tool, args, { seen, signal }) =>
        new Promise((answer, fail) => {
          this.calls.push({ tool, args, seen, signal, answer, fail });
          this.#onCall?.();
        }),
      heard: async ({ seen }) => void this.heard.push(...seen),
    };
    this.server = new StdioServer({
      tools: ALL_TOOLS,
      instructions: INSTRUCTIONS,
      version: '1.2.3',
      relay,
      write: (line, written) => {
        this.lines.push(JSON.parse(line));
        written();
      },
      join: async (client) => {
        this.clients.push(client);
        return backend;
      },
    });
  }

  say(message: object): void {
    this.server.take(JSON.stringify({ jsonrpc: '2.0', ...message }));
  }

  async called(id: number, name: string, args = {}): Promise<Call> {
    const arrived = new Promise<void>((resolve) => {
      this.#onCall = resolve;
    });
    this.say({ id, method: 'tools/call', params: { name, arguments: args } });
    await arrived;
    return this.calls.at(-1)!;
  }
}

const MODERN = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' };

describe('MCP over standard input and output', () => {
  it('answers initialize, discover and lists without the mesh, in both eras', () => {
    const bench = new Bench();
    bench.say({ id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', clientInfo: { name: 'x' } } });
    bench.say({ method: 'notifications/initialized' });
    bench.say({ id: 2, method: 'tools/list' });
    bench.say({ id: 3, method: 'server/discover', params: { _meta: MODERN } });
    bench.say({ id: 4, method: 'tools/list', params: { _meta: MODERN } });
    bench.say({ id: 5, method: 'ping' });
    const [initialized, list, discovered, modernList, ping] = bench.lines;
    expect(initialized!.result).toMatchObject({ protocolVersion: '2025-06-18', serverInfo: { version: '1.2.3' } });
    expect(list!.result).toEqual({ tools: JSON.parse(JSON.stringify(ALL_TOOLS)) });
    expect(discovered!.result).toMatchObject({ resultType: 'complete', capabilities: { tools: {} } });
    expect(modernList!.result).toMatchObject({ resultType: 'complete', cacheScope: 'public' });
    expect(ping!.result).toEqual({});
    expect(bench.calls).toEqual([]);
  });

  it('offers its own latest version to a client that asks for one it does not know', () => {
    const bench = new Bench();
    bench.say({ id: 1, method: 'initialize', params: { protocolVersion: '1999-01-01' } });
    expect(bench.lines[0]!.result).toMatchObject({ protocolVersion: '2025-11-25' });
    bench.say({
      id: 2,
      method: 'tools/list',
      params: { _meta: { 'io.modelcontextprotocol/protocolVersion': '2027' } },
    });
    expect(bench.lines[1]!.error).toMatchObject({ code: -32022, data: { requested: '2027' } });
  });

  it('answers malformed lines with JSON-RPC errors, and continues', () => {
    const bench = new Bench();
    for (const line of ['{', '[]', '"x"', '', '{"jsonrpc":"2.0","id":9,"result":{}}']) bench.server.take(line);
    bench.say({ id: 1, method: 'resources/list' });
    bench.say({ id: 2, method: 'tools/call', params: { name: 'rm' } });
    expect(bench.lines.map(({ error }) => error?.code)).toEqual([-32700, -32600, -32600, -32601, -32602]);
    bench.say({ id: 3, method: 'ping' });
    expect(bench.lines.at(-1)!.result).toEqual({});
  });

  it('forwards calls, answers with text alone, and reports with each call which messages the client had received [T-A1]', async () => {
    const bench = new Bench();
    const first = await bench.called(1, 'mesh_inbox', { wait_s: 5 });
    expect(first).toMatchObject({ tool: 'mesh_inbox', args: { wait_s: 5 }, seen: [] });
    const parallel = await bench.called(2, 'mesh_peers');
    expect(parallel.seen).toEqual([]);
    first.answer({ text: 'mail', shown: ['m1'] });
    parallel.answer({ text: 'peers' });
    await bench.server.idle();
    expect(bench.lines.map(({ id }) => id)).toEqual([1, 2]);
    // Text alone: beside structured data, several clients do not show it to their model.
    expect(bench.lines[0]!.result).toEqual({ content: [{ type: 'text', text: 'mail' }] });
    expect(bench.server.unproven).toEqual(['m1']);
    expect((await bench.called(3, 'mesh_peers')).seen).toEqual(['m1']);
    expect(bench.server.unproven).toEqual([]);
  });

  it('writes no answer to a cancelled call, and does not count its messages as seen', async () => {
    const bench = new Bench();
    const call = await bench.called(1, 'mesh_inbox');
    bench.say({ method: 'notifications/cancelled', params: { requestId: 1 } });
    expect(call.signal.aborted).toBe(true);
    call.answer({ text: 'mail', shown: ['m1'] });
    await bench.server.idle();
    expect(bench.lines).toEqual([]);
    expect(bench.server.unproven).toEqual([]);
  });

  it('returns failures as results with the next step, and keeps the messages that the call had proven', async () => {
    const bench = new Bench();
    const first = await bench.called(1, 'mesh_inbox');
    first.answer({ text: 'mail', shown: ['m1'] });
    await bench.server.idle();
    const second = await bench.called(2, 'mesh_peers');
    second.fail(new EclipticError('NO_NODE', 'the mesh cannot be reached'));
    await bench.server.idle();
    expect(bench.lines[1]!.result).toMatchObject({ isError: true });
    expect(bench.server.unproven).toEqual(['m1']);
  });

  it('begins a failure with its code, and refers the model to its user only for faults that the user can repair [T-A7]', async () => {
    const bench = new Bench();
    const failures = [
      new EclipticError('NO_NODE', 'the mesh cannot be reached'),
      new EclipticError('INVALID_ARGUMENTS', 'there is no argument "txt"; there are: text, to'),
      new Error('unforeseen'),
    ];
    for (const [index, failure] of failures.entries()) {
      (await bench.called(index, 'mesh_send')).fail(failure);
      await bench.server.idle();
    }
    const texts = bench.lines.map(({ result }) => (result!.content as { text: string }[])[0]!.text);
    expect(texts).toEqual([
      'Error NO_NODE: the mesh cannot be reached\nIf this goes on, tell your user and carry on with your work.',
      'Error INVALID_ARGUMENTS: there is no argument "txt"; there are: text, to',
      'Error HANDLER_FAILED: unforeseen',
    ]);
  });

  it('returns other agents’ tools and their results as content alone, with all data in it as text [T-A1]', async () => {
    const relay = new Relay(new SimulatedRuntime());
    relay.open(({ id, method }) => {
      const result =
        method === 'tools/list'
          ? { tools: [{ name: 'mars__weigh', outputSchema: { type: 'object' } }] }
          : { content: [{ type: 'text', text: 'Weighed.' }], structuredContent: { kg: 12 }, isError: true };
      queueMicrotask(() => relay.hear({ id, result }));
    });
    const bench = new Bench(relay);
    bench.say({ id: 1, method: 'tools/list' });
    bench.say({ id: 2, method: 'tools/call', params: { name: 'mars__weigh' } });
    await bench.server.idle();
    const [list, called] = [1, 2].map((id) => bench.lines.find((line) => line.id === id)!.result!);
    expect((list!.tools as object[]).at(-1)).toEqual({ name: 'mars__weigh' });
    const texts = ['Error HANDLER_FAILED: the tool reports that it failed', 'Weighed.', '{"kg":12}'];
    expect(called).toEqual({ content: texts.map((text) => ({ type: 'text', text })), isError: true });
  });

  it('joins the mesh once, under the client’s name', async () => {
    const bench = new Bench();
    bench.say({
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-06-18', clientInfo: { name: 'codex' } },
    });
    (await bench.called(2, 'mesh_peers')).answer({ text: '' });
    await bench.server.idle();
    expect(bench.clients).toEqual(['codex']);
  });
});
