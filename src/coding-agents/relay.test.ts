import { describe, expect, it } from 'vitest';
import { EclipticError } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { Relay, type RpcMessage } from './relay.js';

/** A relay, and what its present node was sent. */
function bench(greeting?: Record<string, unknown>) {
  const runtime = new SimulatedRuntime();
  const relay = new Relay(runtime);
  relay.greeting = greeting;
  const readied: boolean[] = [];
  relay.onReady = (again) => readied.push(again);
  const open = () => {
    const sent: RpcMessage[] = [];
    relay.open((message) => sent.push(message));
    return sent;
  };
  return { runtime, relay, open, readied };
}

const methods = (sent: readonly RpcMessage[]) => sent.map(({ method }) => method);

describe('the relay of a client’s MCP conversation', () => {
  it('waits for a node, initialises it as the client did, and carries answers back', async () => {
    const { relay, open, readied } = bench({ protocolVersion: '2025-11-25' });
    const answer = relay.ask({ id: 7, method: 'prompts/list' });
    const sent = open();
    expect(sent).toMatchObject([{ method: 'initialize', params: { protocolVersion: '2025-11-25' } }]);
    relay.hear({ id: sent[0]!.id, result: {} });
    expect(methods(sent)).toEqual(['initialize', 'notifications/initialized', 'prompts/list']);
    relay.hear({ id: 7, result: { prompts: [] } });
    expect(await answer).toEqual({ id: 7, result: { prompts: [] } });
    expect(readied).toEqual([false]);
  });

  it('needs no initialize in the newer era, and forwards requests and notifications of the node', () => {
    const { relay, open } = bench();
    const told: RpcMessage[] = [];
    relay.onMessage = (message) => told.push(message);
    const sent = open();
    relay.hear({ id: 0, method: 'elicitation/create', params: {} });
    relay.tell({ id: 0, result: { action: 'accept' } });
    expect(told).toMatchObject([{ method: 'elicitation/create' }]);
    expect(sent).toMatchObject([{ result: { action: 'accept' } }]);
  });

  it('reports sent requests of a lost node as uncertain, and sends the others to the next node', async () => {
    const { relay, open, readied } = bench();
    open();
    const under = relay.ask({ id: 1, method: 'tools/call' });
    relay.lost();
    expect((await under).error).toMatchObject({
      message: expect.stringContaining('may or may not have been carried out'),
    });
    const later = relay.ask({ id: 2, method: 'tools/call' });
    expect(methods(open())).toEqual(['tools/call']);
    relay.hear({ id: 2, result: {} });
    expect(await later).toEqual({ id: 2, result: {} });
    expect(readied).toEqual([false, true]);
  });

  it('repeats the client’s subscriptions and log level for the next node', () => {
    const { relay, open } = bench();
    open();
    for (const [id, uri] of ['a://1', 'a://2'].entries()) {
      void relay.ask({ id, method: 'resources/subscribe', params: { uri } });
    }
    void relay.ask({ id: 8, method: 'resources/unsubscribe', params: { uri: 'a://1' } });
    void relay.ask({ id: 9, method: 'logging/setLevel', params: { level: 'error' } });
    relay.lost();
    expect(open().map(({ method, params }) => [method, params])).toEqual([
      ['resources/subscribe', { uri: 'a://2' }],
      ['logging/setLevel', { level: 'error' }],
    ]);
  });

  it('gives up on a node that does not come in time, at once on one that never will, and limits open requests', async () => {
    const { runtime, relay } = bench();
    const patient = relay.ask({ id: 1, method: 'ping' });
    const hurried = relay.askWithin({ id: 2, method: 'ping' }, 500);
    await runtime.advance(500);
    expect(await hurried).toBeUndefined();
    await runtime.advance(20_000);
    expect((await patient).error?.data).toEqual({ code: 'NO_NODE' });
    const hopeless = relay.ask({ id: 3, method: 'ping' });
    relay.failed(new EclipticError('AGENT_NOT_FOUND', 'this node has no agent "x"'));
    expect((await hopeless).error?.message).toContain('no agent "x"');
    expect((await relay.ask({ id: 4, method: 'ping' })).error?.message).toContain('no agent "x"');
    relay.open(() => {});
    for (let id = 0; id < 1_000; id++) void relay.ask({ id, method: 'ping' });
    expect((await relay.ask({ id: 1_000, method: 'ping' })).error?.data).toEqual({ code: 'QUEUE_FULL' });
  });
});
