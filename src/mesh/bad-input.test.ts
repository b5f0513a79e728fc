import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arbA2AEnvelope, arbAgentCard, arbNodeKey } from '../../test/generators.js';
import { createNode, type EclipticNode } from '../node/compose.js';
import { EclipticError, type ErrorCode, isErrorCode } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { deserializeEnvelope, serializeEnvelope } from './codec.js';
import { EnvelopeFactory, type EnvelopeInit } from './envelope.js';
import { LIMITS } from './limits.js';
import { AgentRegistry } from './registry.js';
import { type A2AEnvelope, A2AEnvelopeSchema, type AgentCard, AgentCardSchema } from './schemas.js';

const HUGE = 'x'.repeat(LIMITS.payloadBytes + 1);

/** What a stranger may put anywhere in JSON: deep, large, and named to confuse. */
const arbAwkwardJson = fc.oneof(
  { weight: 20, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
  {
    weight: 20,
    arbitrary: fc
      .constantFrom(
        '{"__proto__":{"polluted":true}}',
        '{"constructor":{"prototype":{"polluted":true}}}',
        '[{"a":{"__proto__":[]}}]',
        '{"toString":1,"valueOf":null}',
        '{"toJSON":"x","then":1,"length":1e9}',
        '{"id":{"id":{"id":[]}}}',
      )
      .map((text) => JSON.parse(text) as unknown),
  },
  { weight: 10, arbitrary: fc.integer({ min: 1, max: 3_000 }).map(nested) },
  { weight: 10, arbitrary: fc.constantFrom('', '*', '@', 'sun', 'mars@', '__proto__', 'toString', 'capability') },
  { weight: 10, arbitrary: fc.constantFrom<unknown>(-1, 0, 4, 1.5, 2 ** 53, 1e308, null, true, [], {}, [[]], [null]) },
  { weight: 5, arbitrary: fc.constantFrom(65, 129, 257, 4_097, 70_000).map((length) => 'a'.repeat(length)) },
  { weight: 1, arbitrary: fc.constant(HUGE) },
);

/** The same, and everything that JavaScript has beyond JSON. */
const arbAwkward: fc.Arbitrary<unknown> = fc.oneof(
  fc.anything({
    maxDepth: 3,
    withBigInt: true,
    withBoxedValues: true,
    withDate: true,
    withMap: true,
    withSet: true,
    withNullPrototype: true,
    withObjectString: true,
    withSparseArray: true,
    withTypedArray: true,
  }),
  fc.constantFrom<unknown>(undefined, Number.NaN, Symbol('s'), () => 1, 1n, new Date(Number.NaN), /x/, Promise),
  arbAwkwardJson,
);

function nested(levels: number): unknown {
  let value: unknown = 0;
  for (let level = 0; level < levels; level++) value = level % 2 === 0 ? [value] : { deeper: value };
  return value;
}

/** The valid value with one to three members, at any depth, dropped, replaced, swapped for another, buried or added. */
function arbMutant(arbValid: fc.Arbitrary<unknown>, arbReplacement: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  const arbMutation = fc.record({
    path: fc.array(fc.nat(), { minLength: 1, maxLength: 3 }),
    kind: fc.constantFrom('drop' as const, 'replace' as const, 'duplicate' as const, 'bury' as const, 'add' as const),
    replacement: arbReplacement,
  });
  return fc
    .tuple(arbValid, fc.array(arbMutation, { minLength: 1, maxLength: 3 }))
    .map(([valid, mutations]) => mutations.reduce<unknown>((value, mutation) => mutate(value, mutation), valid));
}

interface Mutation {
  path: readonly number[];
  kind: 'drop' | 'replace' | 'duplicate' | 'bury' | 'add';
  replacement: unknown;
}

function mutate(value: unknown, mutation: Mutation): unknown {
  const { path, kind, replacement } = mutation;
  if (typeof value !== 'object' || value === null) return replacement;
  const keys = Object.keys(value);
  if (keys.length === 0) return replacement;
  const key = keys[path[0]! % keys.length]!;
  const copy = (Array.isArray(value) ? [...value] : { ...value }) as Record<string, unknown>;
  if (path.length > 1) copy[key] = mutate(copy[key], { ...mutation, path: path.slice(1) });
  else if (kind === 'drop') delete copy[key];
  else if (kind === 'replace') copy[key] = replacement;
  else if (kind === 'duplicate') copy[key] = copy[keys[(path[0]! + 1) % keys.length]!];
  else if (kind === 'bury') copy[key] = { [key]: [copy[key]] };
  else copy[`${key}s`] = replacement;
  return copy;
}

/** Texts: of the values, damaged ones, and such as were never JSON. */
function arbText(arbValue: fc.Arbitrary<unknown>): fc.Arbitrary<string> {
  const arbWhole = arbValue.map((value) => JSON.stringify(value) ?? '');
  const arbDamaged = fc
    .tuple(arbWhole, fc.nat(), fc.nat(20), fc.constantFrom('', '"', '}', ']', ',', '\\', '\u0000', '1e999', '{"a":'))
    .map(([text, at, gone, instead]) => {
      const from = at % (text.length + 1);
      return text.slice(0, from) + instead + text.slice(from + gone);
    });
  return fc.oneof(
    { weight: 12, arbitrary: arbWhole },
    { weight: 6, arbitrary: arbDamaged },
    { weight: 2, arbitrary: fc.string() },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: 100_000 }).map((length) => '['.repeat(length)) },
  );
}

/** Everything that an intruder could change for everyone. */
function sharedState(): readonly PropertyKey[] {
  return [Object, Array, Function, String, Number, Map].flatMap(({ prototype }) => Reflect.ownKeys(prototype));
}

const untouched = sharedState();

/** What came of the action: its value, or the typed error. Anything else that it throws fails the test. */
function outcomeOf<T>(action: () => T, allowed: readonly ErrorCode[]): T | EclipticError {
  try {
    return action();
  } catch (error) {
    if (!(error instanceof EclipticError)) throw error;
    expect(allowed).toContain(error.code);
    return error;
  } finally {
    expect(sharedState()).toEqual(untouched);
  }
}

const ENVELOPE_CODES: readonly ErrorCode[] = ['INVALID_ENVELOPE', 'PAYLOAD_TOO_LARGE', 'SCHEMA_VERSION_MISMATCH'];
const CARD_CODES: readonly ErrorCode[] = ['INVALID_CARD'];

describe('whatever comes in, the envelope factory', () => {
  const arbDraft = fc.oneof(arbAwkward, arbMutant(arbA2AEnvelope(), arbAwkward));

  it('makes a valid envelope or throws a typed error [R2.1 R2.2]', () => {
    const factory = new EnvelopeFactory(new SimulatedRuntime());
    fc.assert(
      fc.property(arbDraft, (draft) => {
        const outcome = outcomeOf(() => factory.create(draft as EnvelopeInit), ENVELOPE_CODES);
        if (outcome instanceof EclipticError) return;
        expect(A2AEnvelopeSchema.safeParse(outcome).success).toBe(true);
        expect(typeof serializeEnvelope(outcome)).toBe('string');
      }),
      { numRuns: 3_000 },
    );
  });
});

describe('whatever comes in, the codec', () => {
  const arbJsonEnvelope = fc.oneof(arbAwkwardJson, arbMutant(arbA2AEnvelope(), arbAwkwardJson));

  it('reads a valid envelope or throws a typed error [R13.2 R13.7]', () => {
    fc.assert(
      fc.property(arbText(arbJsonEnvelope), (text) => {
        const outcome = outcomeOf(() => deserializeEnvelope(text), ENVELOPE_CODES);
        if (outcome instanceof EclipticError) return;
        expect(A2AEnvelopeSchema.safeParse(outcome).success).toBe(true);
        expect(deserializeEnvelope(serializeEnvelope(outcome))).toEqual(outcome);
      }),
      { numRuns: 3_000 },
    );
  });

  it('reads only text [R13.2]', () => {
    fc.assert(
      fc.property(arbAwkward, (value) => {
        const outcome = outcomeOf(() => deserializeEnvelope(value as string), ENVELOPE_CODES);
        expect(outcome).toBeInstanceOf(EclipticError);
      }),
      { numRuns: 500 },
    );
  });

  it('writes a valid envelope or throws a typed error [R13.1]', () => {
    fc.assert(
      fc.property(fc.oneof(arbAwkward, arbMutant(arbA2AEnvelope(), arbAwkward)), (value) => {
        const outcome = outcomeOf(() => serializeEnvelope(value as A2AEnvelope), ENVELOPE_CODES);
        if (typeof outcome === 'string') expect(A2AEnvelopeSchema.safeParse(JSON.parse(outcome)).success).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('whatever comes in, the registry', () => {
  const resident = fc.sample(arbAgentCard(), { numRuns: 1, seed: 1 })[0]!;
  const arbCard = fc.oneof(arbAwkward, arbMutant(arbAgentCard(), arbAwkward));

  /** A registry that one agent lives in, with its texts before and after the action. */
  function enter(action: (registry: AgentRegistry) => AgentCard): void {
    const registry = new AgentRegistry({ nodeKey: 'homenode' });
    registry.register(resident);
    const before = registry.serialize();
    const outcome = outcomeOf(() => action(registry), CARD_CODES);
    if (outcome instanceof EclipticError) {
      expect(outcome.details.faults).not.toEqual([]);
      expect(registry.serialize()).toBe(before);
      expect(registry.size).toBe(1);
    } else {
      expect(AgentCardSchema.safeParse(outcome).success).toBe(true);
      expect(registry.listAll()).toContain(outcome);
    }
  }

  it('registers a valid card, or throws a typed error and stores nothing [R1.4 E.INVALID_CARD]', () => {
    fc.assert(
      fc.property(arbCard, (value) => enter((registry) => registry.register(value as AgentCard))),
      { numRuns: 2_500 },
    );
  });

  it('merges a valid card, or throws a typed error and stores nothing [R1.4 E.INVALID_CARD]', () => {
    const arbNode = fc.oneof({ weight: 3, arbitrary: arbNodeKey() }, { weight: 1, arbitrary: arbAwkward });
    fc.assert(
      fc.property(arbCard, arbNode, (value, node) =>
        enter((registry) => registry.mergeRemote(value as AgentCard, node as string)),
      ),
      { numRuns: 2_500 },
    );
  });

  it('is read from valid text, or not at all [R1.4 R1.6 E.INVALID_CARD]', () => {
    const arbStored = fc.array(arbAgentCard(), { maxLength: 2 }).map((cards): unknown => ({ schemaVersion: 1, cards }));
    const arbStoredText = arbText(fc.oneof(arbAwkwardJson, arbMutant(arbStored, arbAwkwardJson)));
    fc.assert(
      fc.property(fc.oneof({ weight: 9, arbitrary: arbStoredText }, arbAwkward), (text) => {
        const codes: readonly ErrorCode[] = ['INVALID_CARD', 'SCHEMA_VERSION_MISMATCH'];
        const outcome = outcomeOf(() => AgentRegistry.deserialize(text as string), codes);
        if (outcome instanceof EclipticError) return;
        for (const card of outcome.listAll()) expect(AgentCardSchema.safeParse(card).success).toBe(true);
      }),
      { numRuns: 2_500 },
    );
  });
});

describe('whatever comes in, the router', () => {
  interface Town {
    node: EclipticNode;
    handled: () => number;
  }

  /** Two agents that listen, and a count of what reached them. */
  async function newTown(): Promise<Town> {
    const node = await createNode({ runtime: new SimulatedRuntime(), nodeKey: 'homenode' });
    let handled = 0;
    for (const [id, tier] of [['sun', 0] as const, ['mars', 2] as const]) {
      node.registry.register({ ...fc.sample(arbAgentCard(), { numRuns: 1, seed: tier })[0]!, id, tier });
      node.router.onReceive(id, () => {
        handled++;
      });
    }
    return { node, handled: () => handled };
  }

  /** Sends it, and checks that it was delivered and counted, or refused by type and not counted. */
  async function send({ node, handled }: Town, value: unknown): Promise<void> {
    const before = { sent: node.observability.getMetrics().totalMessagesSent, handled: handled() };
    const outcome = await node.router.send(value as A2AEnvelope).catch((error: unknown) => error);
    const after = { sent: node.observability.getMetrics().totalMessagesSent, handled: handled() };
    expect(node.registry.size).toBe(2);
    expect(sharedState()).toEqual(untouched);
    if (outcome instanceof EclipticError) {
      expect(ENVELOPE_CODES).toContain(outcome.code);
      expect(after).toEqual(before);
    } else if (outcome instanceof Error) {
      throw outcome;
    } else {
      const { delivered, error } = outcome as { delivered: boolean; error?: string };
      expect(A2AEnvelopeSchema.safeParse(value).success).toBe(true);
      expect(delivered).toBe(!isErrorCode(error));
      expect(after).toEqual({ sent: before.sent + Number(delivered), handled: before.handled + Number(delivered) });
    }
  }

  const arbLocalEnvelope = fc
    .tuple(arbA2AEnvelope(), fc.constantFrom('mars', 'mars', '*', 'nobody', 'mars@homenode', 'mars@elsewhere'))
    .map(([envelope, recipient]) => ({ ...envelope, sender: 'sun', recipient }));

  it('delivers a valid envelope, or answers with a typed refusal and leaves no trace [R2.1 R4.1]', async () => {
    const town = await newTown();
    await fc.assert(
      fc.asyncProperty(fc.oneof(arbAwkward, arbMutant(arbLocalEnvelope, arbAwkward)), (value) => send(town, value)),
      { numRuns: 3_000 },
    );
    await town.node.stop();
  });

  it.each([
    ['undefined', () => undefined],
    [
      'an envelope whose field throws when read',
      () => ({
        ...valid(),
        get sender() {
          throw new Error('boo');
        },
      }),
    ],
    [
      'an envelope that hides behind a valid one',
      (made: A2AEnvelope) => Object.create(made, { type: { value: 'no' } }),
    ],
    ['an envelope borrowed from nothing', (made: A2AEnvelope) => Object.create(Object.getPrototypeOf(made))],
    [
      'a payload that throws when read',
      () => ({
        ...valid(),
        payload: {
          get x() {
            throw new Error('boo');
          },
        },
      }),
    ],
    ['a payload behind a closed door', () => ({ ...valid(), payload: closedDoor() })],
    ['a list that hides its members', () => ({ ...valid(), payload: Object.assign([Number.NaN], { keys: 1 }) })],
    ['an object of a class without a readable name', () => ({ ...valid(), payload: new Nameless() })],
  ])('answers %s with a typed refusal [R2.1]', async (_, build) => {
    const { node, handled } = await newTown();
    const made = node.envelopes.create(valid());
    await expect(node.router.send(build(made) as A2AEnvelope)).rejects.toSatisfy(
      (error) => error instanceof EclipticError && error.code === 'INVALID_ENVELOPE',
    );
    expect(handled()).toBe(0);
    expect(node.observability.getMetrics().totalMessagesSent).toBe(0);
    await node.stop();
  });

  function valid(): A2AEnvelope {
    return { id: 'E', schemaVersion: 1, sender: 'sun', recipient: 'mars', type: 'request', timestamp: 1, payload: 1 };
  }

  function closedDoor(): object {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    return proxy;
  }

  class Nameless {
    readonly x = 1;
  }
  Object.defineProperty(Nameless, 'name', { value: Symbol('none') });
});
