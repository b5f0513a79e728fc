import { getEventListeners } from 'node:events';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { arbAgentId, arbJson } from '../../test/generators.js';
import type { Party } from '../mesh/policy.js';
import type { A2ALogEvent } from '../mesh/schemas.js';
import { createNode, type EclipticNode, type NodeInit } from '../node/compose.js';
import { EclipticError } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import type { CallOptions, LogEntry, Progress } from './call.js';
import { deserializeInvocation, serializeInvocation } from './invocations.js';

const OPERATOR = party('operator');
const BOXED = party('visitor', 'lab');

const arbToolName = fc.stringMatching(/^[a-z][a-z0-9_.-]{0,12}$/);
/** Which agent offers which tools. */
const arbOffers = fc.uniqueArray(
  fc.record({ agent: arbAgentId(), tools: fc.uniqueArray(arbToolName, { minLength: 1, maxLength: 5 }) }),
  { selector: ({ agent }) => agent, minLength: 1, maxLength: 6 },
);

describe('listing', () => {
  it('Feature: a2a-mcp-protocols, Property 18: MCP tool registration and listing [P18 R5.1 R5.2 R5.6]', async () => {
    await fc.assert(
      fc.asyncProperty(arbOffers, fc.string(), async (offers, description) => {
        const { node } = await start();
        const inputSchema = { type: 'object', properties: { a: { type: 'number' } } };
        const outputSchema = { type: 'object' };
        for (const { agent, tools } of offers) {
          const options = { description, inputSchema, outputSchema };
          node.agent({ id: agent }).tools(tools.map((name) => ({ name, ...options, handler: () => ({}) })));
        }
        const expected = offers.flatMap(({ agent, tools }) =>
          tools.map((name) => ({ fullName: `${agent}.${name}`, owner: agent, name })),
        );
        const listed = node.mcp.list('tool', OPERATOR);
        const shown = listed.map(({ fullName, owner, definition }) => ({ fullName, owner, name: definition.name }));
        const byName = (a: { fullName: string }, b: { fullName: string }) => (a.fullName < b.fullName ? -1 : 1);
        expect(shown.sort(byName)).toEqual(expected.sort(byName));
        for (const { definition } of listed)
          expect(definition).toMatchObject({ description, inputSchema, outputSchema });
        await node.stop();
      }),
      { numRuns: 100 },
    );
  });

  it('shows all offers to an unsandboxed principal, and to a sandboxed one its own sandbox and what is allowed to it', async () => {
    const { node } = await start({ sandbox: { enforced: true, crossSandboxAllowList: [], allow: { lab: ['sun'] } } });
    node.agent({ id: 'rat', sandbox: 'lab' });
    node.agent({ id: 'cat', sandbox: 'home' });
    for (const agent of node.agents) {
      agent.tool('t', {}, () => 1).prompt({ name: 'p', template: 'x' });
      agent.resource({ uri: `memory://${agent.id}`, name: agent.id }, () => agent.id);
      agent.resource({ uriTemplate: `${agent.id}://{x}`, name: agent.id }, () => agent.id);
    }
    const owners = (viewer: Party) =>
      (['tool', 'prompt', 'resource', 'template'] as const).map((kind) =>
        node.mcp.list(kind, viewer).map(({ owner }) => owner),
      );
    const all = ['cat', 'mars', 'rat', 'sun', 'venus'];
    expect(owners(OPERATOR)).toEqual([all, all, all, all]);
    const some = ['rat', 'sun'];
    expect(owners(BOXED)).toEqual([some, some, some, some]);
    expect(node.agentById('rat').mcp.tools.map(({ name }) => name)).toEqual(['rat.t', 'sun.t']);
    node.agentById('rat').update({ sandbox: 'home' });
    expect(node.agentById('rat').mcp.tools.map(({ name }) => name)).toEqual(['cat.t', 'rat.t']);
  });

  it('no longer shows offers that were withdrawn, or whose agent left', async () => {
    const { node, mars, sun } = await start();
    mars.tool('build', {}, () => 1).tool('test', {}, () => 1);
    sun.tool('shine', {}, () => 1);
    mars.withdraw('tool', 'test');
    expect(names(node)).toEqual(['mars.build', 'sun.shine']);
    mars.leave();
    expect(names(node)).toEqual(['sun.shine']);
    expect(() => mars.tool('late', {}, () => 1)).toThrow(expect.objectContaining({ code: 'NODE_STOPPED' }));
    node.agent({ id: 'mars' }).tool('build', {}, () => 2);
    expect(names(node)).toEqual(['mars.build', 'sun.shine']);
  });
});

describe('offering', () => {
  it('Feature: a2a-mcp-protocols, Property 20: MCP tool name uniqueness [P20 R5.5 E.DUPLICATE_TOOL]', async () => {
    await fc.assert(
      fc.asyncProperty(arbOffers, async (offers) => {
        const { node } = await start();
        for (const { agent: id, tools } of offers) {
          const agent = node.agent({ id });
          for (const name of tools) agent.tool(name, {}, () => 'first');
          for (const name of tools) {
            expect(() => agent.tool(name, {}, () => 'second')).toThrow(
              expect.objectContaining({
                code: 'DUPLICATE_TOOL',
                message: expect.stringContaining(`"${id}.${name}"`),
              }),
            );
            expect(await node.mcp.callTool(`${id}.${name}`, {}, { caller: OPERATOR })).toEqual(said('first'));
          }
        }
        await node.stop();
      }),
      { numRuns: 100 },
    );
  });

  it('accepts all of several offers, or none', async () => {
    const { node, mars } = await start();
    const offer = (name: string) => ({ name, handler: () => 1 });
    mars.tool('build', {}, () => 1);
    expect(() => mars.tools([offer('test'), offer('build')])).toThrow(coded('DUPLICATE_TOOL'));
    expect(() => mars.tools([offer('test'), offer('not a name')])).toThrow(coded('INVALID_TOOL'));
    expect(names(node)).toEqual(['mars.build']);
  });
});

describe('calling', () => {
  it('Feature: a2a-mcp-protocols, Property 19: MCP tool invocation routing [P19 R5.3]', async () => {
    await fc.assert(
      fc.asyncProperty(arbOffers, fc.dictionary(fc.stringMatching(/^[a-z]{1,8}$/), arbJson()), async (offers, args) => {
        const { node } = await start();
        const calls: unknown[] = [];
        for (const { agent, tools } of offers) {
          const handlers = tools.map((name) => ({
            name,
            handler: (given: unknown) => {
              calls.push([agent, name, given]);
              return { agent, name };
            },
          }));
          node.agent({ id: agent }).tools(handlers);
        }
        for (const { agent, tools } of offers) {
          for (const name of tools) {
            const wire = node.mcp.names.nameOf(node.mcp.catalogue.get(agent, 'tool', name)!, 'safe');
            for (const called of [`${agent}.${name}`, wire, `${agent}@${node.key}.${name}`]) {
              const result = await node.mcp.callTool(called, args, { caller: OPERATOR });
              expect(result).toMatchObject({ structuredContent: { agent, name } });
              expect(calls.pop()).toEqual([agent, name, args]);
            }
          }
        }
        expect(calls).toEqual([]);
        await node.stop();
      }),
      { numRuns: 100 },
    );
  });

  it('tells the handler who calls, and passes its progress and logs to the caller', async () => {
    const { node, mars, sun } = await start();
    mars.tool('build', {}, (_, call) => {
      call.progress(1, 2, 'half');
      call.log('info', { step: 1 }, 'builder');
      return { caller: call.caller, meta: call.meta };
    });
    const told: unknown[] = [];
    const onProgress = (one: Progress) => told.push(one);
    const onLog = (one: LogEntry) => told.push(one);
    const result = await sun.mcp.call('mars.build', {}, { onProgress, onLog, meta: { traceparent: 'x' } });
    expect(result.structuredContent).toEqual({ caller: 'sun', meta: { traceparent: 'x' } });
    expect(told).toEqual([
      { progress: 1, total: 2, message: 'half' },
      { level: 'info', data: { step: 1 }, logger: 'builder' },
    ]);
    await node.stop();
  });

  it.each<[string, () => unknown, string, RegExp]>([
    ['throws', () => thrown(new Error('no fuel')), 'HANDLER_FAILED', /^no fuel$/],
    ['throws later', () => Promise.reject(new Error('no fuel')), 'HANDLER_FAILED', /^no fuel$/],
    ['throws no error', () => thrown('no fuel'), 'HANDLER_FAILED', /^no fuel$/],
    ['throws nothing', () => thrown(undefined), 'HANDLER_FAILED', /^undefined$/],
    ['throws a typed error', () => thrown(new EclipticError('STORE_FAILED', 'full')), 'STORE_FAILED', /^full$/],
    ['returns a bigint', () => 1n, 'INVALID_RESULT', /BigInt/i],
  ])(
    'a handler that %s is a typed error with its code, its message and the source agent [R5.4 UT9]',
    async (_, handler, code, message) => {
      const { node, mars } = await start();
      mars.tool('build', {}, handler);
      const failure = await outcome(node.mcp.callTool('mars.build', {}, { caller: OPERATOR }));
      expect(failure).toMatchObject({ code, message: expect.stringMatching(message), details: { agent: 'mars' } });
      expect(node.mcp.invocations.recent()).toMatchObject([
        { tool: 'mars.build', error: { code, message: expect.stringMatching(message), agent: 'mars' } },
      ]);
      await node.stop();
    },
  );

  it.each([
    [
      'tool',
      (node: EclipticNode) => node.mcp.callTool('mars.fly', {}, { caller: OPERATOR }),
      'TOOL_NOT_FOUND',
      'mars.fly',
    ],
    ['prompt', (node: EclipticNode) => node.mcp.getPrompt('fly', {}, { caller: OPERATOR }), 'PROMPT_NOT_FOUND', 'fly'],
    [
      'resource',
      (node: EclipticNode) => node.mcp.readResource('memory://none', { caller: OPERATOR }),
      'RESOURCE_NOT_FOUND',
      'memory://none',
    ],
  ])('a %s that is not there is named [R6.3 UT1]', async (_, call, code, name) => {
    const { node } = await start();
    expect(await outcome(call(node))).toMatchObject({ code, message: expect.stringContaining(name) });
    expect(node.observability.getMetrics().totalToolInvocations).toBe(0);
    await node.stop();
  });

  it('is refused for a name that several nodes have, with all candidates, unless one of them is of this node', async () => {
    const { node, mars } = await start();
    for (const key of ['far', 'farther']) {
      node.registry.mergeRemote({ ...mars.card, id: 'rhea', origin: 'remote', node: key }, key);
      node.mcp.catalogue.add('rhea', key, [remoteTool('build', key)]);
    }
    const call = (name: string) => outcome(node.mcp.callTool(name, {}, { caller: OPERATOR }));
    expect(await call('rhea.build')).toMatchObject({
      code: 'AMBIGUOUS_AGENT',
      details: { candidates: ['rhea@far.build', 'rhea@farther.build'] },
    });
    expect(await call('rhea@far.build')).toEqual({ content: ['far'] });
    node.agent({ id: 'rhea' }).tool('build', {}, () => 'here');
    expect(await call('rhea.build')).toEqual(said('here'));
    await node.stop();
  });
});

describe('policy', () => {
  it('hides a tool that a principal may not use, with exactly one security event [MC2]', async () => {
    const { node, mars, security } = await start();
    mars.tool('build', {}, () => 'secret').prompt({ name: 'plan', template: 'secret' });
    mars.resource({ uri: 'memory://secret', name: 's' }, () => 'secret');
    mars.resource({ uriTemplate: 'vault://{x}', name: 's' }, () => 'secret');
    node.registry.mergeRemote({ ...mars.card, id: 'rhea', origin: 'remote', node: 'far' }, 'far');
    node.mcp.catalogue.add('rhea', 'far', [remoteTool('build', 'far')]);
    const { mcp } = node;
    const caller = BOXED;
    const attempts: [string, string, () => Promise<unknown>][] = [
      ['mars.build', 'mars', () => mcp.callTool('mars.build', {}, { caller })],
      ['mars__build', 'mars', () => mcp.callTool('mars__build', {}, { caller })],
      ['build', 'mars', () => mcp.callTool('build', {}, { caller }, 'bare')],
      [`mars@${node.key}.build`, 'mars', () => mcp.callTool(`mars@${node.key}.build`, {}, { caller })],
      ['rhea.build', 'rhea@far', () => mcp.callTool('rhea.build', {}, { caller })],
      ['rhea@far.build', 'rhea@far', () => mcp.callTool('rhea@far.build', {}, { caller })],
      ['mars.plan', 'mars', () => mcp.getPrompt('mars.plan', {}, { caller })],
      ['memory://secret', 'mars', () => mcp.readResource('memory://secret', { caller })],
      ['vault://1', 'mars', () => mcp.readResource('vault://1', { caller })],
      [
        'vault://{x}',
        'mars',
        () => mcp.complete({ kind: 'template', uriTemplate: 'vault://{x}' }, { name: 'x', value: '' }, { caller }),
      ],
    ];
    node.mcp.catalogue.remove('rhea@far', 'tool', []);
    for (const [name, owner, attempt] of attempts) {
      const bare = name === 'build';
      if (bare) node.mcp.catalogue.removeOwner('rhea@far');
      const refused = (await outcome(attempt())) as EclipticError;
      if (bare) node.mcp.catalogue.add('rhea', 'far', [remoteTool('build', 'far')]);
      expect([name, refused.code]).toEqual([name, expect.stringMatching(/NOT_FOUND$/)]);
      expect(refused.message).not.toContain('sandbox');
      expect(JSON.stringify(refused.details)).not.toContain('mars"');
      expect(security.splice(0)).toMatchObject([
        { sender: 'visitor', recipient: owner, code: 'SANDBOX_VIOLATION', toolName: expect.any(String) },
      ]);
    }
    const unknown = (await outcome(mcp.callTool('mars.none', {}, { caller }))) as EclipticError;
    const hidden = (await outcome(mcp.callTool('mars.build', {}, { caller }))) as EclipticError;
    expect(hidden.message.replaceAll('build', 'none')).toBe(unknown.message);
    expect(node.mcp.invocations.recent()).toEqual([]);
    await node.stop();
  });

  it('is applied at every call', async () => {
    const { node, mars } = await start();
    const rat = node.agent({ id: 'rat' });
    mars.tool('build', {}, () => 'built');
    expect(await rat.mcp.call('mars.build')).toEqual(said('built'));
    const kept = rat.mcp;
    rat.update({ sandbox: 'lab' });
    expect(await outcome(kept.call('mars.build'))).toMatchObject({ code: 'TOOL_NOT_FOUND' });
    node.router.setSandboxConfig({ enforced: true, crossSandboxAllowList: ['mars'] });
    expect(await kept.call('mars.build')).toEqual(said('built'));
    rat.leave();
    expect(await outcome(kept.call('mars.build'))).toMatchObject({ code: 'NODE_STOPPED' });
    expect(() => rat.mcp.tools).toThrow(coded('NODE_STOPPED'));
    await node.stop();
  });
});

describe('the end of a call', () => {
  it('is its deadline: the tool’s own, or the caller’s if that is shorter', async () => {
    const { node, mars, runtime } = await start();
    const signals: AbortSignal[] = [];
    const hang = (_: unknown, call: { signal: AbortSignal }) => {
      signals.push(call.signal);
      return new Promise(() => {});
    };
    mars.tool('slow', { timeoutMs: 5_000 }, hang).tool('default', {}, hang);
    const { mcp } = node;
    const cases: [string, number, CallOptions][] = [
      ['mars.slow', 5_000, { caller: OPERATOR }],
      ['mars.slow', 1_000, { caller: OPERATOR, timeoutMs: 1_000 }],
      ['mars.slow', 5_000, { caller: OPERATOR, timeoutMs: 90_000 }],
      ['mars.default', 50_000, { caller: OPERATOR }],
    ];
    for (const [tool, ms, options] of cases) {
      let ended: unknown;
      void outcome(mcp.callTool(tool, {}, options)).then((end) => {
        ended = end;
      });
      await runtime.advance(ms - 1);
      expect([tool, ended]).toEqual([tool, undefined]);
      await runtime.advance(40);
      expect(ended).toMatchObject({ code: 'REQUEST_TIMEOUT', details: { agent: 'mars' } });
      expect(signals.pop()?.aborted).toBe(true);
    }
    await node.stop();
  });

  it('is its cancellation, before or during the call, and leaves nothing behind', async () => {
    const { node, mars } = await start();
    let seen: AbortSignal | undefined;
    let calls = 0;
    mars.tool('slow', {}, (_, call) => {
      calls++;
      seen = call.signal;
      return new Promise(() => {});
    });
    const controller = new AbortController();
    const { signal } = controller;
    const call = outcome(node.mcp.callTool('mars.slow', {}, { caller: OPERATOR, signal }));
    await Promise.resolve();
    controller.abort();
    expect(await call).toMatchObject({ code: 'CANCELLED' });
    expect(seen).toMatchObject({ aborted: true, reason: { code: 'CANCELLED' } });
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    expect(await outcome(node.mcp.callTool('mars.slow', {}, { caller: OPERATOR, signal }))).toMatchObject({
      code: 'CANCELLED',
    });
    expect(calls).toBe(1);
    await node.stop();
  });

  it('comes before the handler starts when the arguments take long to validate', async () => {
    const { node, mars } = await start();
    let calls = 0;
    mars.tool('build', { inputSchema: { type: 'object', required: ['a'] } }, () => calls++);
    const controller = new AbortController();
    const options = { caller: OPERATOR, signal: controller.signal };
    const call = outcome(node.mcp.callTool('mars.build', { a: 1 }, options));
    controller.abort();
    expect(await call).toMatchObject({ code: 'CANCELLED' });
    expect(await outcome(node.mcp.callTool('mars.build', {}, { caller: OPERATOR }))).toMatchObject({
      code: 'INVALID_ARGUMENTS',
    });
    expect(calls).toBe(0);
    await node.stop();
  });

  it('is its owner’s departure, or the withdrawal of the tool', async () => {
    const { node, mars } = await start();
    const wait = () => new Promise(() => {});
    mars.tool('one', {}, wait).tool('other', {}, wait);
    const { mcp } = node;
    const [one, other] = ['mars.one', 'mars.other'].map((name) =>
      outcome(mcp.callTool(name, {}, { caller: OPERATOR })),
    );
    await Promise.resolve();
    mars.withdraw('tool', 'one');
    const unavailable = { code: 'AGENT_UNAVAILABLE', details: { agent: 'mars', outcome: 'unknown' } };
    expect(await one).toMatchObject(unavailable);
    mars.leave();
    expect(await other).toMatchObject(unavailable);
    await node.stop();
  });

  it('comes once: later progress and results of the handler are dropped', async () => {
    const { node, mars, runtime } = await start();
    const told: unknown[] = [];
    mars.tool('late', { timeoutMs: 1_000 }, async (_, call) => {
      await new Promise<void>((resolve) => void runtime.setTimer(resolve, 2_000));
      call.progress(1);
      call.log('info', 'late');
      return 'late';
    });
    const options = { caller: OPERATOR, onProgress: (p: unknown) => told.push(p), onLog: (l: unknown) => told.push(l) };
    const call = outcome(node.mcp.callTool('mars.late', {}, options));
    await runtime.advance(3_000);
    expect(await call).toMatchObject({ code: 'REQUEST_TIMEOUT' });
    expect(told).toEqual([]);
    expect(node.observability.getMetrics()).toMatchObject({ totalToolInvocations: 1, toolErrorCount: 1 });
    await node.stop();
  });

  it('is a refusal when ten thousand calls are in progress', async () => {
    const { node, mars } = await start();
    mars.tool('slow', {}, () => new Promise(() => {}));
    const call = () => outcome(node.mcp.callTool('mars.slow', {}, { caller: OPERATOR }));
    const waiting = Array.from({ length: 10_000 }, call);
    await Promise.resolve();
    expect(await call()).toMatchObject({ code: 'QUEUE_FULL' });
    mars.leave();
    expect(new Set((await Promise.all(waiting)).map((end) => (end as EclipticError).code))).toEqual(
      new Set(['AGENT_UNAVAILABLE']),
    );
    node.agent({ id: 'mars' }).tool('slow', {}, () => 'quick now');
    expect(await call()).toEqual(said('quick now'));
    await node.stop();
  });
});

describe('resources and prompts', () => {
  it('Feature: a2a-mcp-protocols, Property 21: MCP resource registration and read round trip [P21 R6.1 R6.2]', async () => {
    const arbMime = fc.constantFrom('text/plain', 'application/json', 'image/png', undefined);
    const arbContent = fc.oneof(fc.string(), fc.uint8Array());
    const arbResource = fc.record({ path: fc.webPath().filter(Boolean), mimeType: arbMime, content: arbContent });
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(arbResource, { selector: ({ path }) => path, minLength: 1 }),
        async (resources) => {
          const { node, mars } = await start();
          for (const { path, mimeType, content } of resources) {
            mars.resource({ uri: `memory://x${path}`, name: 'x', ...(mimeType && { mimeType }) }, () => content);
          }
          expect(node.mcp.list('resource', OPERATOR)).toHaveLength(resources.length);
          for (const { path, mimeType, content } of resources) {
            const uri = `memory://x${path}`;
            const body =
              typeof content === 'string' ? { text: content } : { blob: Buffer.from(content).toString('base64') };
            expect(await node.mcp.readResource(uri, { caller: OPERATOR })).toEqual({
              contents: [{ uri, ...(mimeType && { mimeType }), ...body }],
            });
          }
          await node.stop();
        },
      ),
      { numRuns: 100 },
    );
  });

  it('Feature: a2a-mcp-protocols, Property 22: MCP prompt template substitution [P22 R6.4 R6.5]', async () => {
    const arbText = fc.string().map((text) => text.replaceAll(/[{}]/g, ''));
    const arbPart = fc.record({
      before: arbText,
      name: fc.stringMatching(/^[a-z][a-z0-9_]{0,8}$/),
      value: fc.string(),
    });
    const arbParts = fc.uniqueArray(arbPart, { selector: ({ name }) => name, maxLength: 8 });
    const { node, mars } = await start();
    let count = 0;
    await fc.assert(
      fc.asyncProperty(arbParts, arbText, async (parts, end) => {
        const name = `p${count++}`;
        const template = parts.map((part) => `${part.before}{{${part.name}}}`).join('') + end;
        const declared = parts.map((part) => ({ name: part.name, description: 'x', required: true }));
        mars.prompt({ name, description: 'says something', arguments: declared, template });
        const given = Object.fromEntries(parts.map((part) => [part.name, part.value]));
        const text = parts.map(({ before, value }) => before + value).join('') + end;
        const rendered = await node.mcp.getPrompt(`mars.${name}`, given, { caller: OPERATOR });
        expect(rendered).toMatchObject({ messages: [{ content: { text } }] });
      }),
      { numRuns: 100 },
    );
    await node.stop();
  });

  it('are filled in by name [R6.4 R6.5]', async () => {
    const { node, mars } = await start();
    mars.prompt({ name: 'greet', arguments: [{ name: 'who', required: true }], template: 'Hello {{who}}' });
    for (const name of ['mars.greet', 'mars__greet']) {
      expect(await node.mcp.getPrompt(name, { who: '{{who}}' }, { caller: OPERATOR })).toMatchObject({
        messages: [{ content: { text: 'Hello {{who}}' } }],
      });
    }
    expect(await outcome(node.mcp.getPrompt('mars.greet', {}, { caller: OPERATOR }))).toMatchObject({
      code: 'INVALID_ARGUMENTS',
      details: { argument: 'who', agent: 'mars' },
    });
    await node.stop();
  });

  it('of two nodes with the same URI each have a URI of their own', async () => {
    const { node, mars, sun } = await start();
    const uri = 'memory://rules';
    sun.resource({ uri, name: 'Rules' }, () => 'here');
    node.registry.mergeRemote({ ...mars.card, id: 'rhea', origin: 'remote', node: 'far' }, 'far');
    const definition = { kind: 'resource', uri, name: 'Rules' } as const;
    node.mcp.catalogue.add('rhea', 'far', [{ definition, answer: async (ask) => ask }]);
    const uris = node.mcp.list('resource', OPERATOR).map((entry) => node.mcp.uriOf(entry));
    expect(uris).toEqual(['ecliptic://rhea@far/memory://rules', uri]);
    expect(await node.mcp.readResource(uris[0]!, { caller: OPERATOR })).toEqual({ kind: 'resource', uri });
    expect(await node.mcp.readResource(uri, { caller: OPERATOR })).toMatchObject({ contents: [{ text: 'here' }] });
    const told: unknown[] = [];
    node.mcp.onResourceUpdate((...update) => told.push(update));
    node.mcp.resourceUpdated('rhea@far', uri);
    sun.resourceUpdated(uri);
    expect(told).toEqual([
      ['rhea@far', uris[0]],
      ['sun', uri],
    ]);
    await node.stop();
  });
});

describe('the invocation log', () => {
  it('Feature: a2a-mcp-protocols, Property 33: MCP tool invocation metrics accuracy [P33 R12.2 R12.5]', async () => {
    const arbCall = fc.record({
      tool: fc.constantFrom('mars.a', 'mars.b', 'sun.a'),
      fails: fc.boolean(),
      ms: fc.integer({ min: 0, max: 500 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(arbCall, { maxLength: 25 }), async (calls) => {
        const { node, mars, sun, runtime, events } = await start();
        const inputSchema = z.object({ ms: z.number(), fails: z.boolean() });
        const handler = async ({ ms, fails }: z.infer<typeof inputSchema>) => {
          await new Promise<void>((resolve) => void runtime.setTimer(resolve, ms));
          if (fails) throw new Error('no');
        };
        for (const agent of [mars, sun]) for (const name of ['a', 'b']) agent.tool(name, { inputSchema }, handler);
        for (const { tool, ms, fails } of calls) {
          const end = outcome(node.mcp.callTool(tool, { ms, fails }, { caller: OPERATOR }));
          await runtime.advance(ms);
          await end;
        }
        const byTool: Record<string, number> = {};
        for (const { tool } of calls) byTool[tool] = (byTool[tool] ?? 0) + 1;
        const total = calls.reduce((sum, { ms }) => sum + ms, 0);
        expect(node.observability.getMetrics()).toMatchObject({
          totalToolInvocations: calls.length,
          toolInvocationsByTool: byTool,
          toolErrorCount: calls.filter(({ fails }) => fails).length,
          averageToolDurationMs: calls.length === 0 ? 0 : total / calls.length,
        });
        const logged = events.filter(({ type }) => type === 'tool-invocation');
        expect(
          logged.map(({ toolName, recipient, duration, success }) => [toolName, recipient, duration, success]),
        ).toEqual(calls.map(({ tool, ms, fails }) => [tool, tool.split('.')[0], ms, !fails]));
        await node.stop();
      }),
      { numRuns: 100 },
    );
  });

  it('has one record for each call, which survives JSON unchanged [P34 R13.4 R13.5]', async () => {
    const { node, mars, runtime } = await start();
    mars.tool('echo', {}, (args) => args);
    mars.tool('fail', {}, () => thrown(new Error('no')));
    mars.tool('own', {}, () => ({ content: [{ type: 'text', text: 'out of fuel' }], isError: true }));
    for (const name of ['echo', 'fail', 'own']) {
      await outcome(node.mcp.callTool(`mars.${name}`, { a: [1, { b: null }] }, { caller: OPERATOR }));
    }
    const records = node.mcp.invocations.recent();
    const common = { agent: 'mars', caller: 'operator', arguments: { a: [1, { b: null }] }, startedAt: runtime.now() };
    expect(records).toMatchObject([
      { ...common, tool: 'mars.echo', result: { structuredContent: { a: [1, { b: null }] } } },
      { ...common, tool: 'mars.fail', error: { code: 'HANDLER_FAILED', message: 'no', agent: 'mars' } },
      { ...common, tool: 'mars.own', error: { code: 'HANDLER_FAILED', message: 'out of fuel', agent: 'mars' } },
    ]);
    for (const record of records) expect(deserializeInvocation(serializeInvocation(record))).toEqual(record);
    expect(new Set(records.map(({ id }) => id)).size).toBe(3);
    await node.stop();
  });

  it('contains no secret, in records or events', async () => {
    const { node, mars, events } = await start();
    const inputSchema = z.object({ user: z.string(), password: z.string().min(8) });
    mars.tool('login', { inputSchema, secrets: ['password'] }, () => 'welcome');
    await node.mcp.callTool('mars.login', { user: 'ada', password: 'opensesame' }, { caller: OPERATOR });
    await outcome(node.mcp.callTool('mars.login', { user: 'ada', password: 'sesame' }, { caller: OPERATOR }));
    expect(node.mcp.invocations.recent().map((record) => record.arguments)).toEqual([
      { user: 'ada', password: '[redacted]' },
      { user: 'ada', password: '[redacted]' },
    ]);
    expect(JSON.stringify([events, node.mcp.invocations.recent()])).not.toContain('sesame');
    await node.stop();
  });

  it('is bounded, in number and in size', async () => {
    const { node, mars } = await start();
    mars.tool('echo', {}, (args) => (args as { x: unknown }).x);
    await node.mcp.callTool('mars.echo', { x: 'y'.repeat(70_000) }, { caller: OPERATOR });
    const [large] = node.mcp.invocations.recent();
    expect(serializeInvocation(large!).length).toBeLessThan(1_000);
    for (let n = 0; n < 1_100; n++) await node.mcp.callTool('mars.echo', { x: n }, { caller: OPERATOR });
    expect(node.mcp.invocations.recent()).toHaveLength(1_024);
    expect(node.mcp.invocations.recent(2).map((record) => record.arguments)).toEqual([{ x: 1_098 }, { x: 1_099 }]);
    await node.stop();
  });
});

async function start(init: NodeInit = {}) {
  const runtime = new SimulatedRuntime();
  const node = await createNode({ runtime, nodeKey: 'here', ...init });
  const events: A2ALogEvent[] = [];
  const security: A2ALogEvent[] = [];
  node.observability.subscribe((event) => (event.type === 'security' ? security : events).push(event));
  const [sun, mars, venus] = ['sun', 'mars', 'venus'].map((id) => node.agent({ id }));
  return { runtime, node, events, security, sun: sun!, mars: mars!, venus: venus! };
}

function party(address: string, sandboxId?: string): Party {
  return { address, node: undefined, tier: 3, sandboxId };
}

function names({ mcp }: EclipticNode): string[] {
  return mcp.list('tool', OPERATOR).map(({ fullName }) => fullName);
}

function said(text: string) {
  return { content: [{ type: 'text', text }] };
}

/** A tool of an agent of another node, which answers with the node's key. */
function remoteTool(name: string, key: string) {
  const definition = { kind: 'tool', name, inputSchema: { type: 'object' } } as const;
  return { definition, answer: async () => ({ content: [key] }) };
}

function thrown(error: unknown): never {
  throw error;
}

function coded(code: string) {
  return expect.objectContaining({ code });
}

/** What a promise came to: its value, or its error. */
function outcome(promise: Promise<unknown>): Promise<unknown> {
  return promise.catch((error: unknown) => error);
}
