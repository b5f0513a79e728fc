import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { arbJson } from '../../test/generators.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import type { Ask, Call, CallTerms, LogEntry, Progress } from './call.js';
import type { Offer } from './catalogue.js';
import {
  offerPrompt,
  offerResource,
  offerTool,
  type PromptInit,
  type ResourceInit,
  type ResourceLoader,
  type ToolHandler,
  type ToolOptions,
} from './offering.js';
import { RequestState } from './request-state.js';

const seal = new RequestState(new SimulatedRuntime());
const YES = { method: 'elicitation/create', params: { message: 'Sure?', requestedSchema: object() } } as const;

describe('a tool', () => {
  it('is listed with all its options [R5.1]', () => {
    const inputSchema = z.object({ a: z.number() });
    const outputSchema = z.object({ sum: z.number() });
    const said = { title: 'Adds', description: 'adds', annotations: { readOnlyHint: true }, _meta: { a: 1 } };
    const offer = tool(() => null, { ...said, inputSchema, outputSchema, timeoutMs: 5, secrets: ['a'] });
    expect(offer).toMatchObject({
      definition: {
        kind: 'tool',
        name: 'add',
        ...said,
        inputSchema: { type: 'object', properties: { a: { type: 'number' } } },
        outputSchema: { type: 'object', properties: { sum: { type: 'number' } } },
      },
      timeoutMs: 5,
      secrets: ['a'],
    });
    expect(tool(() => null).definition).toEqual({ kind: 'tool', name: 'add', inputSchema: { type: 'object' } });
  });

  it.each<[string, string, ToolOptions, RegExp]>([
    ['a name with a space', 'a b', {}, /name/],
    ['no name', '', {}, /name/],
    ['a name of 129 characters', 'a'.repeat(129), {}, /name/],
    ['arguments that are no object', 'add', { inputSchema: z.string() }, /inputSchema\.type/],
    ['something unknown', 'add', { cost: 5 } as ToolOptions, /cost/],
    ['something that JSON cannot hold', 'add', { _meta: { price: 10n } }, /_meta\.price is a bigint/],
    ['something that refers to itself', 'add', { annotations: circular() }, /refers back to itself/],
    ['a schema as deep as a well', 'add', { inputSchema: { type: 'object', x: nested(1_000) } }, /levels deep/],
    ['a timeout of nothing', 'add', { timeoutMs: 0 }, /timeoutMs/],
    ['a timeout that is no number', 'add', { timeoutMs: Number.NaN }, /timeoutMs/],
  ])('is refused with %s', (_, name, options, reason) => {
    expect(() => offerTool(seal, name, options, () => null)).toThrow(
      expect.objectContaining({ code: 'INVALID_TOOL', message: expect.stringMatching(reason) }),
    );
  });

  it('gets its arguments as its schema parses them', async () => {
    const inputSchema = z.object({ a: z.coerce.number().default(2) });
    const offer = tool((args) => args, { inputSchema });
    expect(await callTool(offer, { a: '40', b: 1 })).toMatchObject({ structuredContent: { a: 40 } });
    expect(await callTool(offer)).toMatchObject({ structuredContent: { a: 2 } });
  });

  it('is not called with invalid arguments, and the error names them', async () => {
    let calls = 0;
    const inputSchema = z.object({ list: z.array(z.object({ n: z.number() })) });
    const offer = tool(() => calls++, { inputSchema });
    await expect(callTool(offer, { list: [{ n: 1 }, { n: 'two' }] })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENTS',
      message: expect.stringContaining('list.1.n'),
      details: { faults: [expect.stringContaining('list.1.n')] },
    });
    expect(calls).toBe(0);
  });

  it.each<[string, unknown, unknown]>([
    ['text', 'hello', { content: [text('hello')] }],
    ['an empty text', '', { content: [text('')] }],
    ['a number', 7, { content: [text('7')] }],
    ['a truth', false, { content: [text('false')] }],
    ['nothing', undefined, { content: [] }],
    ['null', null, { content: [] }],
    ['an object', { a: 1 }, { content: [text('{"a":1}')], structuredContent: { a: 1 } }],
    ['a list', [1], { content: [text('[1]')], structuredContent: [1] }],
    ['a result', { content: [text('a')], isError: true }, { content: [text('a')], isError: true }],
    ['no blocks', { content: ['a'] }, { content: [text('{"content":["a"]}')], structuredContent: { content: ['a'] } }],
    ['a date', { at: new Date(0) }, { content: [text(`{"at":"${EPOCH}"}`)], structuredContent: { at: EPOCH } }],
    ['what JSON leaves out', { a: undefined, b: () => {} }, { content: [text('{}')], structuredContent: {} }],
  ])('may return %s [R5.3]', async (_, returned, result) => {
    expect(await callTool(tool(() => returned))).toEqual(result);
    expect(await callTool(tool(async () => returned))).toEqual(result);
  });

  it.each<[string, () => unknown, RegExp]>([
    ['what refers to itself', circular, /circular/],
    ['a bigint', () => 10n, /BigInt/i],
    ['a bigint inside a result', () => ({ content: [{ type: 'text', text: 'a', _meta: { n: 10n } }] }), /BigInt/i],
    ['a function', () => () => {}, /function/],
    ['a symbol', () => Symbol('x'), /symbol/],
    ['9 MiB of text', () => 'x'.repeat(9 * 1_048_576), /bytes/],
    ['what is as deep as a well', () => nested(100_000), /deep/],
    ['what throws when it is read', () => ({ toJSON: () => nothing() }), /nothing here/],
  ])('cannot return %s', async (_, handler, reason) => {
    await expect(callTool(tool(handler))).rejects.toMatchObject({
      code: 'INVALID_RESULT',
      message: expect.stringMatching(reason),
    });
  });

  it('returns the same value to a local caller as to a remote one', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(arbJson(), arbAnything), async (value) => {
        const outcome = await callTool(tool(() => value)).catch((error) => error.code);
        if (outcome === 'INVALID_RESULT') return;
        expect(JSON.parse(JSON.stringify(outcome))).toEqual(outcome);
      }),
    );
  });

  it('returns only values that fit its output schema', async () => {
    const outputSchema = z.object({ sum: z.number() });
    const offer = tool(({ sum }) => ({ sum, internal: true }), { outputSchema });
    expect(await callTool(offer, { sum: 5 })).toEqual({ content: [text('{"sum":5}')], structuredContent: { sum: 5 } });
    await expect(callTool(offer, { sum: 'five' })).rejects.toMatchObject({
      code: 'INVALID_RESULT',
      details: { faults: [expect.stringContaining('sum')] },
    });
    await expect(callTool(tool(() => undefined, { outputSchema }))).rejects.toMatchObject({ code: 'INVALID_RESULT' });
    const inShape = tool(() => ({ content: [], structuredContent: { sum: 1, more: 1 } }), { outputSchema });
    // Clients that show their model the content alone get the data there too.
    const content = [{ type: 'text', text: '{"sum":1}' }];
    expect(await callTool(inShape)).toEqual({ content, structuredContent: { sum: 1 } });
    const failing = tool(() => ({ content: [], isError: true }), { outputSchema });
    expect(await callTool(failing)).toEqual({ content: [], isError: true });
  });

  it('gets an error for invalid progress or log entries', async () => {
    const told: unknown[] = [];
    const terms = { onProgress: (one: Progress) => told.push(one), onLog: (one: LogEntry) => told.push(one) };
    const telling = (tell: (call: Call) => void) => tool((_, call) => tell(call));
    const wrong: ((call: Call) => void)[] = [
      (call) => call.progress(Number.NaN),
      (call) => call.progress('half' as unknown as number),
      (call) => call.progress(1, Number.POSITIVE_INFINITY),
      (call) => call.log('loud' as 'info', 1),
      (call) => call.log('info', 1, 5 as unknown as string),
    ];
    for (const tell of wrong) {
      await expect(callTool(telling(tell), {}, terms)).rejects.toMatchObject({ code: 'INVALID_RESULT' });
    }
    expect(told).toEqual([]);
    await callTool(
      telling((call) => {
        call.progress(1, 2, 'half');
        call.log('info', undefined);
      }),
      {},
      terms,
    );
    expect(told).toMatchObject([{ progress: 1, total: 2, message: 'half' }, { level: 'info' }]);
  });

  it('may ask the caller, keep state, and continue with the answer', async () => {
    const offer = tool(({ target }, call) => {
      if (call.answers.sure === undefined) return call.ask({ sure: YES }, { asked: target });
      return { answers: call.answers, state: call.state };
    });
    const capabilities = { elicitation: {} };
    const first = await callTool(offer, { target: 'login' }, { capabilities });
    expect(first).toEqual({
      resultType: 'input_required',
      inputRequests: { sure: YES },
      requestState: expect.any(String),
    });
    const { requestState: state } = first as { requestState: string };
    const answers = { sure: { action: 'accept' } };
    expect(await callTool(offer, { target: 'login' }, { capabilities, answers, state })).toMatchObject({
      structuredContent: { answers, state: { asked: 'login' } },
    });
    await expect(callTool(offer, { target: 'billing' }, { capabilities, answers, state })).rejects.toMatchObject({
      code: 'INVALID_REQUEST_STATE',
    });
  });

  it.each<[string, (call: Call) => unknown, string]>([
    ['a client that cannot answer', (call) => call.ask({ sure: YES }), 'CAPABILITY_REQUIRED'],
    ['nothing', (call) => call.ask({}), 'INVALID_RESULT'],
    ['for what nobody knows', (call) => call.ask({ x: { method: 'mind/read' } as never }), 'INVALID_RESULT'],
  ])('cannot ask %s', async (_, ask, code) => {
    await expect(callTool(tool((_args, call) => ask(call)))).rejects.toMatchObject({ code });
  });
});

describe('a resource', () => {
  const init = { uri: 'memory://rules', name: 'Rules', mimeType: 'text/markdown' };
  const known = { uri: 'memory://rules', mimeType: 'text/markdown' };

  it.each<[string, unknown, unknown]>([
    ['text', '# Rules', { contents: [{ ...known, text: '# Rules' }] }],
    ['bytes', Uint8Array.of(1, 2), { contents: [{ ...known, blob: 'AQI=' }] }],
    ['any JSON', { a: 1 }, { contents: [{ ...known, text: '{"a":1}' }] }],
    ['nothing', undefined, { contents: [{ ...known, text: 'null' }] }],
    ['contents', { contents: [{ uri: 'x://y', text: 'z' }] }, { contents: [{ uri: 'x://y', text: 'z' }] }],
    ['no contents', { contents: 5 }, { contents: [{ ...known, text: '{"contents":5}' }] }],
  ])('may hold %s [R6.2]', async (_, loaded, result) => {
    expect(
      await read(
        resource(init, () => loaded),
        init.uri,
      ),
    ).toEqual(result);
  });

  it('is loaded for each read', async () => {
    let count = 0;
    const offer = resource(init, () => String(++count));
    await read(offer, init.uri);
    expect(await read(offer, init.uri)).toMatchObject({ contents: [{ text: '2' }] });
  });

  it('of a template gets the URI and its variables', async () => {
    const offer = resource({ uriTemplate: 'x://{a}/of/{+b}', name: 'X' }, (uri, variables) => ({ uri, variables }));
    const ask: Ask = { kind: 'template', uriTemplate: 'x://{a}/of/{+b}', uri: 'x://1/of/2/3' };
    const text = JSON.stringify({ uri: ask.uri, variables: { a: '1', b: '2/3' } });
    expect(await offer.answer(ask, terms())).toEqual({ contents: [{ uri: ask.uri, text }] });
    await expect(offer.answer({ ...ask, uri: 'y://' }, terms())).rejects.toMatchObject({ code: 'INVALID_ARGUMENTS' });
  });

  it.each<[string, ResourceInit]>([
    ['no URI', { uri: '', name: 'X' }],
    ['no name', { uri: 'x://y', name: '' }],
    ['a template without variables', { uriTemplate: 'x://y', name: 'X' }],
  ])('is refused with %s', (_, wrong) => {
    expect(() => resource(wrong, () => '')).toThrow(expect.objectContaining({ code: 'INVALID_TOOL' }));
  });
});

describe('a prompt', () => {
  const init: PromptInit = {
    name: 'review',
    description: 'reviews a file',
    arguments: [{ name: 'file', required: true }, { name: 'focus' }],
    template: 'Review {{file}}. {{focus}}',
  };

  it('is filled in [R6.4 R6.5]', async () => {
    const offer = offerPrompt(seal, init);
    expect(offer.definition).toEqual({ kind: 'prompt', ...init, template: undefined });
    expect(await get(offer, { file: '{{focus}}', focus: 'Safety.' })).toEqual({
      description: 'reviews a file',
      messages: [{ role: 'user', content: text('Review {{focus}}. Safety.') }],
    });
  });

  it('drops an optional argument that is not given [R6.5]', async () => {
    expect(await get(offerPrompt(seal, init), { file: 'a.ts' })).toMatchObject({
      messages: [{ content: { text: 'Review a.ts. ' } }],
    });
  });

  it('names the argument that is missing', async () => {
    await expect(get(offerPrompt(seal, init), { focus: 'Safety.' })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENTS',
      message: expect.stringContaining('"file"'),
      details: { argument: 'file' },
    });
  });

  it.each<[string, unknown, unknown]>([
    ['text', 'hi', [{ role: 'user', content: text('hi') }]],
    ['messages', [{ role: 'assistant', content: text('hi') }], [{ role: 'assistant', content: text('hi') }]],
    ['a list of something else', ['hi'], [{ role: 'user', content: text('["hi"]') }]],
    ['nothing', undefined, [{ role: 'user', content: text('null') }]],
  ])('may be made of %s', async (_, returned, messages) => {
    const offer = offerPrompt(seal, { name: 'review' }, () => returned);
    expect(await get(offer, {})).toEqual({ messages });
  });

  it('has a template or a handler, and not both', () => {
    for (const act of [() => offerPrompt(seal, { name: 'a' }), () => offerPrompt(seal, init, () => 'b')]) {
      expect(act).toThrow(expect.objectContaining({ code: 'INVALID_TOOL' }));
    }
  });

  it('suggests at most a hundred values, and says how many there are', async () => {
    const complete = { file: (value: string) => Array.from({ length: 150 }, (_, n) => `${value}${n}`) };
    const offer = offerPrompt(seal, { ...init, complete });
    const ask = { kind: 'completion', of: 'prompt', name: 'review', argument: 'file', value: 'a', given: {} } as const;
    const answer = (await offer.answer(ask, terms())) as { completion: { values: string[] } };
    expect(answer.completion).toMatchObject({ total: 150, hasMore: true });
    expect(answer.completion.values).toHaveLength(100);
    const none = { completion: { values: [], total: 0, hasMore: false } };
    expect(await offer.answer({ ...ask, argument: 'toString' }, terms())).toEqual(none);
    expect(await offerPrompt(seal, init).answer(ask, terms())).toEqual(none);
  });
});

/** Whatever JavaScript has, but for -0, which JSON writes as 0. */
const arbAnything = fc.anything({
  values: [fc.string(), fc.integer(), fc.boolean(), fc.constantFrom(null, undefined, Number.NaN)],
  withBigInt: true,
  withDate: true,
  withMap: true,
  withTypedArray: true,
  withObjectString: true,
});

const EPOCH = '1970-01-01T00:00:00.000Z';

function object() {
  return { type: 'object' as const, properties: {} };
}

function text(said: string) {
  return { type: 'text' as const, text: said };
}

function circular(): Record<string, unknown> {
  const value: Record<string, unknown> = {};
  value.self = value;
  return value;
}

function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level++) value = { value };
  return value;
}

function nothing(): never {
  throw new Error('nothing here');
}

function terms(changes: Partial<CallTerms> = {}): CallTerms {
  return {
    caller: { address: 'alice', node: undefined, tier: 3, sandboxId: undefined },
    signal: new AbortController().signal,
    capabilities: {},
    answers: {},
    state: undefined,
    meta: {},
    onProgress() {},
    onLog() {},
    ...changes,
  };
}

function tool(handler: ToolHandler, options: ToolOptions = {}): Offer {
  return offerTool(seal, 'add', options, handler as ToolHandler<unknown>);
}

function callTool(offer: Offer, args: Record<string, unknown> = {}, changes: Partial<CallTerms> = {}) {
  return offer.answer({ kind: 'tool', name: 'add', arguments: args }, terms(changes));
}

function resource(init: ResourceInit, loader: ResourceLoader): Offer {
  return offerResource(seal, init, loader);
}

function read(offer: Offer, uri: string): Promise<unknown> {
  return offer.answer({ kind: 'resource', uri }, terms());
}

function get(offer: Offer, args: Record<string, string>): Promise<unknown> {
  return offer.answer({ kind: 'prompt', name: 'review', arguments: args }, terms());
}
