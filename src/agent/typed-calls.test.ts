import { afterEach, describe, expect, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import type { StandardSchema } from '../mcp/schema.js';
import { createNode, type EclipticNode } from '../node/compose.js';

const nodes: EclipticNode[] = [];
afterEach(async () => {
  await Promise.all(nodes.splice(0).map((node) => node.stop()));
});

async function start() {
  const node = await createNode();
  nodes.push(node);
  return { alice: node.agent({ id: 'alice' }), bob: node.agent({ id: 'bob', capabilities: ['count'] }) };
}

const Count = z.object({ count: z.number(), unit: z.string().default('pieces') });
const countJson = { type: 'object', properties: { count: { type: 'number' } }, required: ['count'] } as const;

/** A schema of a library of one's own, which checks asynchronously and cannot be expressed as JSON Schema. */
const Length: StandardSchema<number> = {
  '~standard': {
    version: 1,
    vendor: 'own',
    validate: async (value) =>
      typeof value === 'string'
        ? { value: value.length }
        : { issues: [{ message: 'no text', path: ['at', { key: 0 }] }] },
  },
};

describe('a request with a reply schema', () => {
  it('resolves with the schema’s output, in its type [WK.A1]', async () => {
    const { alice, bob } = await start();
    bob.onRequest(({ payload }) => payload);
    const counted = await alice.request('bob', { count: 3 }, { reply: Count });
    expectTypeOf(counted).toEqualTypeOf<{ count: number; unit: string }>();
    expect(counted).toEqual({ count: 3, unit: 'pieces' });
    const length = await alice.request({ capability: 'count' }, 'four', { reply: Length, timeoutMs: 1_000 });
    expectTypeOf(length).toEqualTypeOf<number>();
    expect(length).toBe(4);
    const day = await alice.request('bob', '2026-01-02', { reply: z.coerce.date() });
    expectTypeOf(day).toEqualTypeOf<Date>();
    expect(day.getUTCFullYear()).toBe(2026);
    const raw = await alice.request('bob', { count: 3 }, { reply: countJson });
    expectTypeOf(raw).toEqualTypeOf<unknown>();
    expect(raw).toEqual({ count: 3 });
    const unchecked = await alice.request('bob', 1, { timeoutMs: 1_000 });
    expectTypeOf(unchecked).toEqualTypeOf<unknown>();
    expect(unchecked).toBe(1);
  });

  it('rejects an answer that does not match, and names each fault [WK.A1]', async () => {
    const { alice, bob } = await start();
    bob.onRequest(({ payload }) => payload);
    const faultsOf = (reply: typeof Count | typeof countJson | typeof Length, payload: unknown) =>
      alice.request('bob', payload, { reply }).then(
        () => undefined,
        ({ code, message, details }) => ({ code, message, faults: details.faults }),
      );
    const wrong = await faultsOf(Count, { count: 'three', unit: 4 });
    expect(wrong).toMatchObject({
      code: 'INVALID_RESULT',
      faults: [expect.stringMatching(/^count: /), expect.stringMatching(/^unit: /)],
    });
    expect(wrong?.message).toMatch(/^the answer of bob does not match its schema: count: .*; unit: /);
    expect(await faultsOf(countJson, {})).toMatchObject({
      code: 'INVALID_RESULT',
      faults: [expect.stringContaining('count')],
    });
    expect(await faultsOf(Length, 4)).toMatchObject({ code: 'INVALID_RESULT', faults: ['at.0: no text'] });
  });

  it('keeps the errors of the request itself, and refuses something that is no schema before it sends', async () => {
    const { alice, bob } = await start();
    const asked: unknown[] = [];
    bob.onRequest(({ payload }) => asked.push(payload));
    await expect(alice.request('nobody', 1, { reply: Count })).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
    const none = 'text' as unknown as typeof countJson;
    await expect(alice.request('bob', 1, { reply: none })).rejects.toMatchObject({ code: 'INVALID_TOOL' });
    expect(asked).toEqual([]);
    const throwing: StandardSchema<string> = {
      '~standard': {
        version: 1,
        vendor: 'own',
        validate: () => {
          throw new TypeError('broken');
        },
      },
    };
    await expect(alice.request('bob', 1, { reply: throwing })).rejects.toMatchObject({
      code: 'INVALID_RESULT',
      message: 'the answer of bob could not be checked: broken',
    });
  });
});

describe('a tool call with an output schema', () => {
  it('resolves with the structured content, in the schema’s type [WK.A2]', async () => {
    const { alice, bob } = await start();
    bob.tool('count', { outputSchema: z.object({ count: z.number() }) }, () => ({ count: 3 }));
    bob.tool('plain', {}, () => 5);
    bob.tool('text', {}, () => '5');
    bob.tool('nothing', {}, () => undefined);
    const counted = await alice.mcp.call('bob.count', {}, { output: Count });
    expectTypeOf(counted).toEqualTypeOf<{ count: number; unit: string }>();
    expect(counted).toEqual({ count: 3, unit: 'pieces' });
    expect(await alice.mcp.call('bob.plain', {}, { output: z.number() })).toBe(5);
    expect(await alice.mcp.call('bob.text', {}, { output: z.string() })).toBe('5');
    expect(await alice.mcp.call('bob.nothing', {}, { output: z.null() })).toBeNull();
    const raw = await alice.mcp.call('bob.count', {}, { output: countJson, timeoutMs: 1_000 });
    expectTypeOf(raw).toEqualTypeOf<unknown>();
    expect(raw).toEqual({ count: 3 });
    const whole = await alice.mcp.call('bob.count');
    expect(whole.structuredContent).toEqual({ count: 3 });
  });

  it('rejects a result that does not match, and a result that reports a failure [WK.A2]', async () => {
    const { alice, bob } = await start();
    bob.tool('count', {}, () => ({ count: 'many' }));
    bob.tool('words', {}, () => 'many');
    bob.tool('picture', {}, () => ({ content: [{ type: 'image', data: 'AA==', mimeType: 'image/png' }] }));
    bob.tool('fails', {}, () => ({ content: [{ type: 'text', text: 'no more paper' }], isError: true }));
    const failure = (tool: string) =>
      alice.mcp.call(`bob.${tool}`, {}, { output: Count }).then(
        () => undefined,
        ({ code, message }) => ({ code, message }),
      );
    expect(await failure('count')).toEqual({
      code: 'INVALID_RESULT',
      message: expect.stringMatching(/^the result of bob.count does not match its schema: count: /),
    });
    expect(await failure('words')).toMatchObject({ code: 'INVALID_RESULT' });
    expect(await failure('picture')).toMatchObject({
      code: 'INVALID_RESULT',
      message: expect.stringContaining('no structured content'),
    });
    expect(await failure('fails')).toEqual({ code: 'HANDLER_FAILED', message: 'no more paper' });
    expect(await failure('missing')).toMatchObject({ code: 'TOOL_NOT_FOUND' });
  });
});
