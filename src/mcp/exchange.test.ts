import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { triesSeeds } from '../../test/evidence.js';
import { type NetworkedNode, Nodes, type NodesInit } from '../../test/nodes-fixture.js';
import { Rogue, type RogueLink } from '../../test/rogue-peer.js';
import type { Party } from '../mesh/policy.js';
import type { NodeInit } from '../node/compose.js';
import { EclipticError } from '../runtime/errors.js';
import type { Call } from './call.js';

const OPERATOR: Party = { address: 'operator', node: undefined, tier: 0, sandboxId: undefined };

const { ECLIPTIC_SEED, ECLIPTIC_SEEDS } = process.env;
/** With seed 3 and those from 64 on, calls timed out when lost greetings and frames were retried too late. */
const KNOWN = [1, 2, 3, 4, 5, 6, 64, 80, 85, 123, 253, 268, 280, 284];
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);
const SEEDS = ECLIPTIC_SEED ? [Number(ECLIPTIC_SEED)] : ECLIPTIC_SEEDS ? upTo(Number(ECLIPTIC_SEEDS)) : KNOWN;

/** Everything that went wrong where nobody was looking. */
const accidents: unknown[] = [];
const noteAccident = (error: unknown) => {
  accidents.push(error);
};

beforeAll(() => {
  process.on('uncaughtException', noteAccident);
  process.on('unhandledRejection', noteAccident);
});

afterAll(() => {
  process.off('uncaughtException', noteAccident);
  process.off('unhandledRejection', noteAccident);
});

afterEach(() => {
  expect(accidents.splice(0)).toEqual([]);
});

describe('offers of other nodes’ agents', () => {
  it('appear everywhere, and disappear when they are withdrawn and when the agents leave [R5.2]', async () => {
    const nodes = new Nodes();
    const [one, two, three] = (await nodes.startMesh(3)) as [NetworkedNode, NetworkedNode, NetworkedNode];
    const mars = two.agent({ id: 'mars' });
    mars.tool('build', { description: 'builds' }, () => 1).prompt({ name: 'plan', template: 'x' });
    mars
      .resource({ uri: 'memory://a', name: 'A' }, () => 'a')
      .resource({ uriTemplate: 'b://{x}', name: 'B' }, () => 'b');
    await nodes.until(() => [one, three].every((node) => offered(node).length === 4));
    const full = `mars@${two.key}`;
    expect(offered(one)).toEqual([`${full}.build`, `${full}.plan`, `${full}.memory://a`, `${full}.b://{x}`]);
    expect(offered(two)).toEqual(['mars.build', 'mars.plan', 'mars.memory://a', 'mars.b://{x}']);
    mars.tool('test', {}, () => 1).withdraw('prompt', 'plan');
    await nodes.until(() => offered(three).includes(`${full}.test`));
    await nodes.until(() => !offered(three).includes(`${full}.plan`));
    mars.leave();
    await nodes.until(() => offered(one).length === 0 && offered(three).length === 0);
    two.agent({ id: 'mars' }).tool('again', {}, () => 1);
    await nodes.until(() => offered(one).includes(`${full}.again`));
    expect(offered(one)).toEqual([`${full}.again`]);
  });

  it('disappear with their node, and return with it', async () => {
    const { nodes, here, there } = await pair({ faults: {} });
    there.agent({ id: 'mars' }).tool('build', {}, () => 1);
    await nodes.until(() => offered(here).length === 1);
    nodes.network.cut(here.key, there.key);
    await nodes.until(() => offered(here).length === 0);
    nodes.network.healAll();
    await nodes.until(() => offered(here).length === 1);
    expect((await nodes.settled(call(here, 'mars.build'))) as object).toMatchObject({ content: [{ text: '1' }] });
    await there.stop();
    await nodes.until(() => offered(here).length === 0);
  });

  it('reach a node that joins later', async () => {
    const nodes = new Nodes();
    const [first, late] = [await nodes.start(), await nodes.start()];
    const tools = Array.from({ length: 500 }, (_, n) => ({
      name: `t${n}`,
      description: 'x'.repeat(2_000),
      handler: () => n,
    }));
    first.agent({ id: 'mars' }).tools(tools);
    await nodes.join(late, first);
    await nodes.until(() => offered(late).length === 500);
    expect(await nodes.settled(call(late, 'mars.t321'))).toMatchObject({ content: [{ text: '321' }] });
  });

  it('are not told to a node that may not know the agent, and are withdrawn when it may no longer', async () => {
    const nodes = new Nodes();
    const sandbox = { enforced: true, shared: ['lab'], allow: { lab: ['helper'] } };
    const [host, guest] = [await nodes.start({ sandbox }), await nodes.start({ sandbox })];
    for (const id of ['open', 'helper']) host.agent({ id }).tool('t', {}, () => id);
    const mouse = host.agent({ id: 'mouse', sandbox: 'lab' }).tool('t', {}, () => 'mouse');
    await nodes.join(guest, host, { sandboxes: ['lab'] });
    await nodes.until(() => offered(guest).length === 2);
    expect(offered(guest)).toEqual([`helper@${host.key}.t`, `mouse@${host.key}.t`]);
    mouse.update({ sandbox: 'secret' });
    await nodes.until(() => guest.mcp.catalogue.of(`mouse@${host.key}`).length === 0);
    mouse.tool('more', {}, () => 1);
    await nodes.runtime.advance(1_000);
    expect(offered(guest)).toEqual([`helper@${host.key}.t`]);
    mouse.update({ sandbox: 'lab' });
    await nodes.until(() => offered(guest).length === 3);
    expect(nodes.events(guest, 'security')).toEqual([]);
    expect(nodes.events(host, 'security')).toEqual([]);
  });

  it('include notifications of changed resources', async () => {
    const { nodes, here, there } = await pair();
    const mars = there.agent({ id: 'mars' }).resource({ uri: 'memory://a', name: 'A' }, () => 'a');
    await nodes.until(() => offered(here).length === 1);
    const heard: unknown[] = [];
    here.mcp.onResourceUpdate((...update) => heard.push(update));
    mars.resourceUpdated('memory://a');
    await nodes.until(() => heard.length > 0);
    expect(heard).toEqual([[`mars@${there.key}`, 'memory://a']]);
  });
});

describe('a call to another node', () => {
  it('carries arguments, result, progress, logs and the caller’s identity [R5.3]', async () => {
    const { nodes, here, there } = await pair();
    const inputSchema = z.object({ text: z.string() });
    there.agent({ id: 'mars' }).tool('echo', { inputSchema }, ({ text }, { ...call }) => ({ text, ...call }));
    there.agentById('mars').tool('tell', { inputSchema }, ({ text }, call) => {
      call.progress(1, 3, 'one');
      call.log('warning', { text }, 'teller');
      call.progress(3);
      return { caller: call.caller, meta: call.meta, capabilities: call.capabilities };
    });
    await nodes.until(() => offered(here).length === 2);
    const told: unknown[] = [];
    const sun = here.agent({ id: 'sun' });
    const result = await nodes.settled(
      sun.mcp.call(
        'mars.tell',
        { text: 'hi' },
        {
          meta: { traceparent: '00-1' },
          onProgress: (one) => told.push(one),
          onLog: (one) => told.push(one),
        },
      ),
    );
    expect(result.structuredContent).toEqual({
      caller: `sun@${here.key}`,
      meta: { traceparent: '00-1' },
      capabilities: {},
    });
    expect(told).toEqual([
      { progress: 1, total: 3, message: 'one' },
      { level: 'warning', data: { text: 'hi' }, logger: 'teller' },
      { progress: 3 },
    ]);
    expect(await nodes.settled(call(here, 'mars.echo', { text: 'é\u0000"' }))).toMatchObject({
      structuredContent: { text: 'é\u0000"' },
    });
  });

  it('carries resources, templates, prompts and suggestions [R6.2 R6.5]', async () => {
    const { nodes, here, there } = await pair();
    const mars = there.agent({ id: 'mars' });
    mars.resource({ uri: 'memory://a', name: 'A', mimeType: 'image/png' }, () => Uint8Array.of(1));
    mars.resource({ uriTemplate: 'b://{x}', name: 'B', complete: { x: (v) => [`${v}!`] } }, (_, { x }) => `x is ${x}`);
    mars.prompt({ name: 'plan', arguments: [{ name: 'who', required: true }], template: 'for {{who}}' });
    await nodes.until(() => offered(here).length === 3);
    const caller = OPERATOR;
    const { mcp } = here;
    expect(await nodes.settled(mcp.readResource('memory://a', { caller }))).toEqual({
      contents: [{ uri: 'memory://a', mimeType: 'image/png', blob: 'AQ==' }],
    });
    expect(await nodes.settled(mcp.readResource('b://7', { caller }))).toEqual({
      contents: [{ uri: 'b://7', text: 'x is 7' }],
    });
    expect(await nodes.settled(mcp.getPrompt('mars.plan', { who: 'you' }, { caller }))).toMatchObject({
      messages: [{ content: { text: 'for you' } }],
    });
    expect(await ended(nodes, mcp.getPrompt('mars.plan', {}, { caller }))).toMatchObject({
      code: 'INVALID_ARGUMENTS',
      details: { argument: 'who', agent: `mars@${there.key}` },
    });
    const completion = mcp.complete(
      { kind: 'template', uriTemplate: 'b://{x}' },
      { name: 'x', value: 'a' },
      { caller },
    );
    expect(await nodes.settled(completion)).toMatchObject({ completion: { values: ['a!'] } });
  });

  it.each<[string, () => unknown, string]>([
    ['an error', () => thrown(new Error('no fuel')), 'HANDLER_FAILED'],
    ['a typed error', () => thrown(new EclipticError('STORE_FAILED', 'no fuel', { disk: 'sda' })), 'STORE_FAILED'],
    ['rubbish', () => 10n, 'INVALID_RESULT'],
    ['what is too long', () => 'x'.repeat(17 * 1_048_576), 'INVALID_RESULT'],
  ])('that ends in %s says so with its code and the source agent [R5.4]', async (_, handler, code) => {
    const { nodes, here, there } = await pair();
    there.agent({ id: 'mars' }).tool('build', {}, handler);
    await nodes.until(() => offered(here).length === 1);
    expect(await ended(nodes, call(here, 'mars.build'))).toMatchObject({
      code,
      details: { agent: `mars@${there.key}`, from: there.key },
    });
    const record = { tool: `mars@${there.key}.build`, error: { code, agent: `mars@${there.key}` } };
    expect(here.mcp.invocations.recent()).toMatchObject([record]);
    expect(there.mcp.invocations.recent()).toMatchObject([{ tool: 'mars.build', error: { code, agent: 'mars' } }]);
  });

  it('is cancelled there when it is cancelled here, also while it is on its way in parts', async () => {
    const { nodes, here, there } = await pair();
    const seen: Call[] = [];
    there.agent({ id: 'mars' }).tool('hang', {}, (_, given) => {
      seen.push(given);
      void given.signal;
      return new Promise(() => {});
    });
    await nodes.until(() => offered(here).length === 1);
    for (const text of ['short', 'long'.repeat(500_000)]) {
      const controller = new AbortController();
      const pending = ended(nodes, call(here, 'mars.hang', { text }, { signal: controller.signal }));
      if (text === 'short') await nodes.until(() => seen.length === 1);
      controller.abort();
      expect(await pending).toMatchObject({ code: 'CANCELLED' });
      await nodes.runtime.advance(5_000);
      expect(seen.every(({ signal }) => signal.aborted)).toBe(true);
    }
    expect(there.mcp.invocations.recent().length).toBe(seen.length);
  });

  it('has a deadline on both nodes, and the owner’s comes first', async () => {
    const { nodes, here, there } = await pair();
    there.agent({ id: 'mars' }).tool('hang', { timeoutMs: 2_000 }, () => new Promise(() => {}));
    await nodes.until(() => offered(here).length === 1);
    const begun = nodes.runtime.now();
    expect(await ended(nodes, call(here, 'mars.hang'))).toMatchObject({
      code: 'REQUEST_TIMEOUT',
      details: { from: there.key },
    });
    expect(nodes.runtime.now() - begun).toBeLessThan(2_200);
    expect(await ended(nodes, call(here, 'mars.hang', {}, { timeoutMs: 500 }))).toMatchObject({
      code: 'REQUEST_TIMEOUT',
    });
    await nodes.runtime.advance(100);
    expect(there.mcp.invocations.recent()).toMatchObject([{ error: {} }, { error: { code: 'CANCELLED' } }]);
  });

  it('is not executed by a node that comes back after the caller gave up [T-C3]', async () => {
    const { nodes, here, there } = await pair({ faults: {} });
    let runs = 0;
    there.agent({ id: 'mars' }).tool('build', {}, () => ++runs);
    await nodes.until(() => offered(here).length === 1);
    nodes.network.cut(here.key, there.key);
    const sent = ended(nodes, call(here, 'mars.build', {}, { timeoutMs: 500 }));
    expect(await sent).toMatchObject({ code: 'REQUEST_TIMEOUT', retryable: false, details: { outcome: 'unknown' } });
    const controller = new AbortController();
    const cancelled = ended(nodes, call(here, 'mars.build', {}, { signal: controller.signal }));
    controller.abort();
    expect(await cancelled).toMatchObject({ code: 'CANCELLED', details: { outcome: 'not-delivered' } });
    nodes.network.healAll();
    await nodes.until(() => here.network.peers.get(there.key)?.status === 'connected');
    expect(await nodes.settled(call(here, 'mars.build'))).toMatchObject({ content: [{ text: '1' }] });
  });

  it('that arrives late is executed only if the caller’s node confirms that it is still wanted [T-C3]', async () => {
    const siege = await Siege.begin();
    const { link } = siege;
    const deadlineAt = siege.nodes.runtime.now() - 1;
    link.give(['e', ...callItem(1, { deadlineAt })], ['e', 'stop', 1], ['e', ...callItem(2, { deadlineAt })]);
    await siege.pass();
    expect(siege.calls).toBe(0);
    expect(link.items.filter(([, verb]) => verb === 'wanted')).toEqual([
      ['e', 'wanted', 1],
      ['e', 'wanted', 2],
    ]);
    link.give(['e', 'go', 1], ['e', 'go', 2]);
    await siege.pass();
    expect(siege.answers).toMatchObject([['done', { content: [{ text: '1' }] }]]);
    // A node that is asked about a call that it never made says so.
    link.give(['e', 'wanted', 7]);
    await siege.pass();
    expect(link.items.filter(([, verb]) => verb === 'stop')).toEqual([['e', 'stop', 7]]);
  });

  it('fails, with an unknown outcome, when the agent leaves before it answers', async () => {
    const { nodes, here, there } = await pair();
    const mars = there.agent({ id: 'mars' });
    let calls = 0;
    mars.tool('hang', {}, () => {
      calls++;
      return new Promise(() => {});
    });
    await nodes.until(() => offered(here).length === 1);
    const pending = ended(nodes, call(here, 'mars.hang'));
    await nodes.until(() => calls === 1);
    mars.leave();
    expect(await pending).toMatchObject({ code: 'AGENT_UNAVAILABLE', details: { outcome: 'unknown' } });
    expect(calls).toBe(1);
  });

  it('fails, with an unknown outcome, when its node is lost, and is never made again [MC3]', async () => {
    const { nodes, here, there } = await pair({ faults: {} });
    let calls = 0;
    there.agent({ id: 'mars' }).tool('hang', { timeoutMs: 600_000 }, () => {
      calls++;
      return new Promise(() => {});
    });
    await nodes.until(() => offered(here).length === 1);
    const pending = ended(nodes, call(here, 'mars.hang'));
    await nodes.until(() => calls === 1);
    nodes.network.cut(here.key, there.key);
    expect(await pending).toMatchObject({ details: { outcome: 'unknown' } });
    nodes.network.healAll();
    await nodes.until(() => offered(here).length === 1);
    await nodes.runtime.advance(120_000);
    expect(calls).toBe(1);
  });

  it('survives an interruption shorter than the grace time, and is made once [MC3]', async () => {
    const { nodes, here, there } = await pair({ faults: {} });
    let calls = 0;
    there.agent({ id: 'mars' }).tool('build', {}, async () => {
      calls++;
      await new Promise<void>((resolve) => void nodes.runtime.setTimer(resolve, 5_000));
      return 'built';
    });
    await nodes.until(() => offered(here).length === 1);
    const pending = ended(nodes, call(here, 'mars.build'));
    await nodes.until(() => calls === 1);
    nodes.network.cut(here.key, there.key);
    await nodes.runtime.advance(20_000);
    nodes.network.healAll();
    expect(await pending).toMatchObject({ content: [{ text: 'built' }] });
    expect(calls).toBe(1);
  });

  it.each(SEEDS)('is executed once by a network that loses, repeats and reorders (seed %i) [MC3]', async (seed) => {
    triesSeeds([seed]);
    const faults = { loss: 0.15, duplication: 0.15, latencyMs: [1, 80] } as const;
    const { nodes, here, there } = await pair({ seed, faults });
    const executed = new Map<number, number>();
    const inputSchema = z.object({ n: z.number(), size: z.number() });
    there.agent({ id: 'mars' }).tool('count', { inputSchema }, ({ n, size }, given) => {
      executed.set(n, (executed.get(n) ?? 0) + 1);
      given.progress(n);
      return `${n}:${'x'.repeat(size)}`;
    });
    await nodes.until(() => offered(here).length === 1);
    const results = await nodes.settled(
      Promise.all(
        Array.from({ length: 60 }, async (_, n) => {
          const size = n % 10 === 0 ? 400_000 : 10;
          const result = (await call(here, 'mars.count', { n, size })) as { content: [{ text: string }] };
          expect(result.content[0].text).toBe(`${n}:${'x'.repeat(size)}`);
          return n;
        }),
      ),
    );
    expect(results).toHaveLength(60);
    expect([...executed.values()].filter((count) => count !== 1)).toEqual([]);
    expect(executed.size).toBe(60);
  });

  it('carries large arguments and results in parts, without delaying small ones', async () => {
    const { nodes, here, there } = await pair();
    there.agent({ id: 'mars' }).tool('echo', {}, (args) => args);
    await nodes.until(() => offered(here).length === 1);
    const large = Array.from({ length: 40 }, (_, n) => `${n}`.repeat(350_000));
    const sent = large.map(
      (text) => call(here, 'mars.echo', { text }) as Promise<{ structuredContent: { text: string } }>,
    );
    const small = nodes.settled(call(here, 'mars.echo', { n: 1 }));
    expect(await small).toMatchObject({ structuredContent: { n: 1 } });
    const results = await nodes.settled(Promise.all(sent));
    expect(results.every(({ structuredContent }, n) => structuredContent.text === large[n])).toBe(true);
    const tooLong = call(here, 'mars.echo', { text: 'x'.repeat(17 * 1_048_576) });
    expect(await ended(nodes, tooLong)).toMatchObject({ code: 'PAYLOAD_TOO_LARGE' });
    for (const node of [here, there]) expect(nodes.events(node, 'security')).toEqual([]);
  });

  it('asks the caller across the link, and accepts its sealed state from that caller only', async () => {
    const { nodes, here, there } = await pair();
    const question = {
      method: 'elicitation/create',
      params: { message: '?', requestedSchema: { type: 'object', properties: {} } },
    };
    there
      .agent({ id: 'mars' })
      .tool('ask', {}, (_, given) =>
        given.answers.a === undefined
          ? given.ask({ a: question as never }, 7)
          : { answers: given.answers, state: given.state },
      );
    await nodes.until(() => offered(here).length === 1);
    const capabilities = { elicitation: {} };
    const first = (await nodes.settled(call(here, 'mars.ask', {}, { capabilities }))) as { requestState: string };
    expect(first).toMatchObject({ resultType: 'input_required', inputRequests: { a: question } });
    expect(here.mcp.invocations.recent()).toEqual([]);
    const again = { capabilities, answers: { a: { action: 'accept' } }, state: first.requestState };
    expect(await nodes.settled(call(here, 'mars.ask', {}, again))).toMatchObject({ structuredContent: { state: 7 } });
    const other = { ...again, caller: { ...OPERATOR, address: 'mallory' } };
    expect(await ended(nodes, call(here, 'mars.ask', {}, other))).toMatchObject({ code: 'INVALID_REQUEST_STATE' });
    expect(await ended(nodes, here.agent({ id: 'sun' }).mcp.call('mars.ask'))).toMatchObject({
      code: 'CAPABILITY_REQUIRED',
    });
  });

  it('leaves no secret in the records of either node', async () => {
    const { nodes, here, there } = await pair();
    there.agent({ id: 'mars' }).tool('login', { secrets: ['password'] }, () => 'welcome');
    await nodes.until(() => offered(here).length === 1);
    await nodes.settled(call(here, 'mars.login', { user: 'ada', password: 'opensesame' }));
    for (const node of [here, there]) {
      expect(node.mcp.invocations.recent()).toMatchObject([{ arguments: { user: 'ada', password: '[redacted]' } }]);
      expect(JSON.stringify(nodes.events(node, 'tool-invocation'))).not.toContain('sesame');
    }
  });
});

describe('the owner’s node', () => {
  it('applies its own policy by the caller’s card: a forged sandbox claim changes nothing [MC4]', async () => {
    const siege = await Siege.begin();
    siege.link.announce({ id: 'rat', sandbox: 'lab' }, { id: 'free' });
    siege.call('rat', null);
    siege.call('rat', 'other');
    siege.call('made-up', 'lab');
    await siege.pass();
    expect(siege.answers.map(([verb, error]) => [verb, (error as { code: string }).code])).toEqual([
      ['failed', 'TOOL_NOT_FOUND'],
      ['failed', 'TOOL_NOT_FOUND'],
      ['failed', 'TOOL_NOT_FOUND'],
    ]);
    expect(siege.security).toMatchObject([
      { code: 'SANDBOX_VIOLATION', sender: `rat@${siege.rogue.key}`, recipient: 'sun' },
      { code: 'SANDBOX_VIOLATION', sender: `rat@${siege.rogue.key}` },
      { code: 'SANDBOX_VIOLATION', sender: `made-up@${siege.rogue.key}` },
    ]);
    expect(siege.calls).toBe(0);
    siege.call('free', 'lab');
    await siege.pass();
    expect(siege.calls).toBe(1);
  });

  it('lets a node that is confined to sandboxes call from these only, and reports other attempts [MC4]', async () => {
    const siege = await Siege.begin(
      { sandboxes: ['lab'] },
      { sandbox: { enforced: true, shared: ['lab'], allow: { lab: ['sun'] } } },
    );
    siege.call('operator', null);
    siege.call('somebody', 'elsewhere');
    await siege.pass();
    expect(siege.answers).toMatchObject([
      ['failed', { code: 'NOT_GRANTED' }],
      ['failed', { code: 'NOT_GRANTED' }],
    ]);
    expect(siege.security).toMatchObject([{ code: 'NOT_GRANTED' }, { code: 'NOT_GRANTED' }]);
    siege.call('somebody', 'lab');
    await siege.pass();
    expect([siege.calls, siege.answers[2]?.[0]]).toEqual([1, 'done']);
  });

  it('does not forward calls to a third node [MC4]', async () => {
    const siege = await Siege.begin();
    siege.call('operator', null, {
      agent: `europa@${siege.bystander.key}`,
      ask: { kind: 'tool', name: 't', arguments: {} },
    });
    await siege.pass();
    expect(siege.bystander.mcp.invocations.recent()).toEqual([]);
    await siege.expectRefused(/another node/);
  });

  it('answers no more than a thousand calls of one node at a time', async () => {
    const siege = await Siege.begin();
    for (let n = 0; n < 1_001; n++)
      siege.call('operator', null, { ask: { kind: 'tool', name: 'hang', arguments: {} } });
    await siege.pass();
    expect(siege.answers).toMatchObject([['failed', { code: 'QUEUE_FULL' }]]);
    expect(siege.security).toEqual([]);
    siege.link.close();
    await siege.nodes.runtime.advance(61_000);
    expect(siege.victim.mcp.invocations.recent(1)).toMatchObject([{ error: { code: 'CANCELLED' } }]);
  });
});

describe('a node that breaks the rules', () => {
  const tool = (changes: object = {}) => ({
    definition: { kind: 'tool', name: 'x', inputSchema: { type: 'object' }, ...changes },
    timeoutMs: null,
    secrets: [],
  });

  it.each<[string, unknown[]]>([
    ['no verb', []],
    ['an unknown verb', ['steal', 1]],
    ['an offer of nobody', ['offer', 7, [tool()]]],
    ['an offer of nothing', ['offer', 'io', []]],
    ['an offer of rubbish', ['offer', 'io', [7]]],
    ['an offer for a third node', ['offer', 'io@abc', [tool()]]],
    ['a tool with a bad name', ['offer', 'io', [tool({ name: 'a b' })]]],
    ['a tool with more than there is', ['offer', 'io', [tool({ run: 'rm' })]]],
    ['a tool as deep as a well', ['offer', 'io', [tool({ inputSchema: deep(500) })]]],
    [
      'a tool that poisons',
      [
        'offer',
        'io',
        [
          JSON.parse(
            '{"definition":{"kind":"tool","name":"x","inputSchema":{"type":"object","properties":{"__proto__":{}}}},"timeoutMs":null,"secrets":[]}',
          ),
        ],
      ],
    ],
    ['a tool without time', ['offer', 'io', [{ ...tool(), timeoutMs: 0 }]]],
    ['a farewell of no kind', ['gone', 'io', 'weird', ['x']]],
    ['a farewell of no names', ['gone', 'io', 'tool', 'x']],
    ['a change of nothing', ['updated', 'io', null]],
    ['a call without a number', ['call', 'one', {}]],
    ['a call of nothing', ['call', 1, {}]],
    ['progress of no call', ['progress', -1, { progress: 1 }]],
    ['a log of no call', ['log', 1.5, { level: 'info', data: 1 }]],
    ['an answer to nothing', ['done', null, {}]],
    ['a failure of nothing', ['failed', 'x', {}]],
    ['the end of nothing', ['stop']],
    ['a part of nothing', ['part', 1, 7]],
    ['a part that is too long', ['part', 1, 'x'.repeat(262_145)]],
    ['a whole of no parts', ['whole', 9]],
  ])('is refused, and reported once, for %s [MC5]', async (_, item) => {
    const siege = await Siege.begin();
    siege.link.give(['e', ...item]);
    await siege.expectRefused(/malformed/);
  });

  it.each<[string, unknown[][]]>([
    ['a call twice', [callItem(1, {}), callItem(1, {})]],
    [
      'parts that make nothing',
      [
        ['part', 1, '["e","off'],
        ['whole', 1],
      ],
    ],
    [
      'parts within parts',
      [
        ['part', 1, '["e","whole",1]'],
        ['whole', 1],
      ],
    ],
    [
      'parts of something else',
      [
        ['part', 1, '["m"]'],
        ['whole', 1],
      ],
    ],
    [
      'a tool as deep as a well, in parts',
      [
        ['part', 1, JSON.stringify(['e', 'offer', 'io', [tool({ inputSchema: deep(500) })]])],
        ['whole', 1],
      ],
    ],
    ['too many parts', Array.from({ length: 65 }, () => ['part', 1, 'x'])],
    ['too much in parts', Array.from({ length: 17 }, (_, n) => ['part', n, 'x'])],
    [
      'too many offers',
      Array.from({ length: 21 }, (_, n) => [
        'offer',
        'io',
        Array.from({ length: 1_000 }, (__, m) => tool({ name: `t${n}.${m}` })),
      ]),
    ],
  ])('is refused, and reported once, for %s [MC5]', async (_, items) => {
    const siege = await Siege.begin();
    for (const item of items) siege.link.give(['e', ...item]);
    await siege.expectRefused(/malformed/);
  });

  it('cannot offer a tool of an agent without a card', async () => {
    const siege = await Siege.begin();
    siege.link.give(['e', 'offer', 'ghost', [tool()]]);
    await siege.pass();
    expect(offered(siege.victim)).not.toContain(`ghost@${siege.rogue.key}.x`);
    expect(siege.link.closed).toBe(false);
    await siege.expectServing();
  });

  it('cannot make room for more offers by withdrawing ones that it never made [MC5]', async () => {
    const siege = await Siege.begin();
    for (let n = 0; n < 20; n++) {
      const names = Array.from({ length: 1_000 }, (_, m) => `t${n}.${m}`);
      siege.link.give(['e', 'offer', 'io', names.map((name) => tool({ name }))]);
      siege.link.give(['e', 'gone', 'io', 'tool', names.map((name) => `${name}?`)]);
    }
    siege.link.give(['e', 'offer', 'io', [tool()]]);
    await siege.expectRefused(/malformed/);
  });

  it.each<[string, unknown]>([
    ['nothing', null],
    ['a number', 7],
    ['no blocks', { content: 'hello' }],
    ['blocks of nothing', { content: [null] }],
  ])('that answers a call with %s is no reason to fail otherwise than with a typed error', async (_, answer) => {
    const siege = await Siege.begin();
    siege.link.give(['e', 'offer', 'io', [tool()]]);
    await siege.pass();
    const pending = ended(siege.nodes, call(siege.victim, 'io.x'));
    await siege.pass();
    const asked = siege.link.items.find(([kind, verb]) => kind === 'e' && verb === 'call')!;
    siege.link.give(['e', 'done', asked[2], answer]);
    siege.link.give(['e', 'done', asked[2], answer]);
    expect(await pending).toMatchObject({ code: 'INVALID_RESULT', details: { agent: `io@${siege.rogue.key}` } });
    await siege.expectServing();
  });

  it('cannot answer calls that were made to other nodes', async () => {
    const siege = await Siege.begin();
    const pending = ended(siege.nodes, call(siege.victim, 'europa.hang', {}, { timeoutMs: 1_000 }));
    for (let n = 0; n < 20; n++) siege.link.give(['e', 'done', n, { content: [] }]);
    expect(await pending).toMatchObject({ code: 'REQUEST_TIMEOUT' });
  });
});

async function pair(init: NodesInit = {}) {
  const nodes = new Nodes(init);
  const [here, there] = (await nodes.startMesh(2)) as [NetworkedNode, NetworkedNode];
  return { nodes, here, there };
}

/** A founder under attack by a genuine member, and another member that does nothing wrong. */
class Siege {
  readonly nodes = new Nodes();
  victim!: NetworkedNode;
  bystander!: NetworkedNode;
  rogue!: Rogue;
  link!: RogueLink;
  calls = 0;
  #next = 0;
  #before: string[] = [];

  static async begin(
    invite: Parameters<typeof Rogue.join>[2] = {},
    init: Omit<NodeInit, 'runtime'> = {},
  ): Promise<Siege> {
    const siege = new Siege();
    const { nodes } = siege;
    siege.victim = await nodes.start(init);
    siege.bystander = await nodes.start();
    siege.victim.agent({ id: 'sun' }).tool('shine', {}, () => String(++siege.calls));
    siege.victim.agentById('sun').tool('hang', { timeoutMs: 600_000 }, () => new Promise(() => {}));
    siege.bystander.agent({ id: 'europa' }).tool('t', {}, () => 'bystander');
    siege.bystander.agentById('europa').tool('hang', {}, () => new Promise(() => {}));
    await nodes.join(siege.bystander, siege.victim);
    siege.rogue = await Rogue.join(nodes, siege.victim, invite);
    siege.link = await siege.rogue.meet(siege.victim);
    if (!invite.sandboxes) siege.link.announce({ id: 'io' });
    await nodes.until(() => offered(siege.victim).length === 4 && offered(siege.bystander).length === 4);
    siege.#before = offered(siege.victim);
    return siege;
  }

  /** What was answered to the rogue's calls. */
  get answers(): unknown[][] {
    const verbs: unknown[] = ['done', 'failed'];
    return this.link.items
      .filter(([kind, verb]) => kind === 'e' && verbs.includes(verb))
      .map(([, verb, , value]) => [verb, value]);
  }

  get security() {
    return this.nodes.events(this.victim, 'security');
  }

  call(caller: string, sandbox: string | null, changes: object = {}): void {
    this.link.give(['e', ...callItem(this.#next++, { caller, sandbox, ...changes })]);
  }

  pass(): Promise<void> {
    return this.nodes.runtime.advance(200);
  }

  /** Exactly one security event; the rogue is out, with all that it offered, and everybody else is served. */
  async expectRefused(reason: RegExp): Promise<void> {
    await this.pass();
    expect(this.security).toMatchObject([{ code: 'INVALID_FRAME', reason: expect.stringMatching(reason) }]);
    expect(this.link.closed).toBe(true);
    expect(offered(this.victim)).toEqual(this.#before);
    await this.expectServing();
  }

  async expectServing(): Promise<void> {
    const answer = await this.nodes.settled(call(this.bystander, 'sun.shine'));
    expect(answer).toMatchObject({ content: [{ text: String(this.calls) }] });
    expect(await this.nodes.settled(call(this.victim, 'europa.t'))).toMatchObject({ content: [{ text: 'bystander' }] });
    expect(this.nodes.events(this.bystander, 'security')).toEqual([]);
  }
}

function callItem(id: number, changes: object): unknown[] {
  const ask = { kind: 'tool', name: 'shine', arguments: {} };
  const empty = { capabilities: {}, answers: {}, state: null, meta: {} };
  return ['call', id, { agent: 'sun', ask, caller: 'operator', sandbox: null, ...empty, ...changes }];
}

/** The full names of everything that the operator of a node can see, its own included. */
function offered({ mcp }: NetworkedNode): string[] {
  const kinds = ['tool', 'prompt', 'resource', 'template'] as const;
  return kinds.flatMap((kind) => mcp.list(kind, OPERATOR).map(({ fullName }) => fullName));
}

function call(node: NetworkedNode, name: string, args: Record<string, unknown> = {}, options: object = {}) {
  return node.mcp.callTool(name, args, { caller: OPERATOR, ...options }) as Promise<unknown>;
}

/** What a call came to: its result, or its error. */
function ended(nodes: Nodes, promise: Promise<unknown>): Promise<unknown> {
  return nodes.settled(promise.catch((error: unknown) => error));
}

function deep(levels: number): unknown {
  let value: object = {};
  for (let level = 0; level < levels; level++) value = { a: value };
  return { type: 'object', value };
}

function thrown(error: unknown): never {
  throw error;
}
