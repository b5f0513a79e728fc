import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arbA2AEnvelope, arbAgentId, arbJson, arbMessageType } from '../../test/generators.js';
import { EclipticError } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { serializeEnvelope } from './codec.js';
import { checkEnvelope, EnvelopeFactory, type EnvelopeInit, ValidEnvelope } from './envelope.js';
import { LIMITS } from './limits.js';
import { type A2AEnvelope, A2AEnvelopeSchema, type A2AMessageType, A2AMessageTypeSchema } from './schemas.js';

const MESSAGE_TYPES: readonly A2AMessageType[] = [
  'request',
  'response',
  'notification',
  'task-proposal',
  'task-accept',
  'task-reject',
  'stream-start',
  'stream-data',
  'stream-end',
  'error',
];

function newFactory(seed = 1): EnvelopeFactory {
  return new EnvelopeFactory(new SimulatedRuntime({ seed }));
}

function init(fields: object = {}): EnvelopeInit {
  return { sender: 'sun', recipient: 'mars', type: 'request', payload: { task: 1 }, ...fields };
}

/** Plain data that is a valid envelope but for the given fields. */
function plain(fields: object = {}): A2AEnvelope {
  return { id: 'E1', schemaVersion: 1, timestamp: 1, ...init(), ...fields } as A2AEnvelope;
}

/** The typed error that the action ends with; anything else fails the test. */
function refusal(action: () => unknown): EclipticError {
  try {
    action();
  } catch (error) {
    if (error instanceof EclipticError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

function faultsOf(error: EclipticError): string[] {
  return error.details.faults as string[];
}

function faultyFields(error: EclipticError): Set<string> {
  return new Set(faultsOf(error).map((fault) => fault.slice(0, fault.indexOf(':'))));
}

function nested(levels: number): unknown {
  let value: unknown = 'core';
  for (let level = 0; level < levels; level++) value = level % 2 === 0 ? [value] : { deeper: value };
  return value;
}

describe('making an envelope', () => {
  it('Feature: a2a-mcp-protocols, Property 6: A2A Envelope structure and uniqueness [P6 R2.1 R2.2 R13.6]', () => {
    const arbInit = fc.record(
      {
        sender: arbAgentId(),
        recipient: fc.oneof(arbAgentId(), fc.constant('*')),
        type: arbMessageType(),
        payload: arbJson(),
        correlationId: fc.stringMatching(/^[0-9A-Z]{1,26}$/),
      },
      { requiredKeys: ['sender', 'recipient', 'type', 'payload'] },
    );
    fc.assert(
      fc.property(fc.array(arbInit, { minLength: 2, maxLength: 50 }), fc.integer(), (inits, seed) => {
        const factory = newFactory(seed);
        const envelopes = inits.map((each) => factory.create(each));
        expect(new Set(envelopes.map(({ id }) => id)).size).toBe(inits.length);
        envelopes.forEach((envelope, index) => {
          expect(envelope).toMatchObject({ ...inits[index], schemaVersion: 1 });
          expect(envelope.timestamp).toBeGreaterThan(0);
          expect(A2AEnvelopeSchema.safeParse(envelope).success).toBe(true);
        });
      }),
      { numRuns: 150 },
    );
  });

  it('carries everything that it was given [R2.1]', () => {
    const metadata = { tier: 0, sandboxId: 'red', durable: false, ttlMs: 5, traceparent: '00-a-b-01' } as const;
    const envelope = newFactory().create(init({ recipient: '*', correlationId: 'C1', metadata }));
    expect({ ...envelope }).toEqual({
      id: envelope.id,
      schemaVersion: 1,
      sender: 'sun',
      recipient: '*',
      correlationId: 'C1',
      type: 'request',
      timestamp: 1_577_836_800_000,
      payload: { task: 1 },
      metadata,
    });
  });

  it('gives each envelope the present time and an id that sorts after all earlier ones [R2.2]', async () => {
    const runtime = new SimulatedRuntime({ start: 1_000 });
    const factory = new EnvelopeFactory(runtime);
    const envelopes = [factory.create(init()), factory.create(init())];
    await runtime.advance(250);
    envelopes.push(factory.create(init()));
    expect(envelopes.map(({ timestamp }) => timestamp)).toEqual([1_000, 1_000, 1_250]);
    const ids = envelopes.map(({ id }) => id);
    expect([...ids].sort()).toEqual(ids);
    expect(new Set(ids).size).toBe(3);
  });

  it('does not let callers choose the id, version or time of a new envelope [R2.2]', () => {
    const envelope = newFactory().create(init({ id: 'mine', schemaVersion: 9, timestamp: 5 }));
    expect(envelope.id).not.toBe('mine');
    expect(envelope.schemaVersion).toBe(1);
    expect(envelope.timestamp).toBe(1_577_836_800_000);
  });

  it('accepts every address that means an agent, and every recipient that could be one [R2.1]', () => {
    const factory = newFactory();
    for (const sender of ['a', 'A-b_9', 'mars@node1', 'm'.repeat(LIMITS.nameChars)]) {
      expect(factory.create(init({ sender })).sender).toBe(sender);
    }
    for (const recipient of ['*', 'codegen.react', 'mars@node1', 'x'.repeat(LIMITS.nameChars)]) {
      expect(factory.create(init({ recipient })).recipient).toBe(recipient);
    }
  });

  it('generates only envelopes that both checks accept as they are [GEN.arbA2AEnvelope]', () => {
    fc.assert(
      fc.property(arbA2AEnvelope(), (envelope) => {
        expect(A2AEnvelopeSchema.parse(envelope)).toEqual(envelope);
        expect(checkEnvelope(envelope)).toMatchObject(envelope);
      }),
      { numRuns: 300 },
    );
  });

  it('generates envelopes of every type, to one and to all, with and without thread and metadata [GEN.arbA2AEnvelope]', () => {
    const envelopes = fc.sample(arbA2AEnvelope(), { numRuns: 500, seed: 7 });
    expect(new Set(envelopes.map(({ type }) => type))).toEqual(new Set(MESSAGE_TYPES));
    expect(new Set(envelopes.map(({ recipient }) => recipient === '*')).size).toBe(2);
    expect(new Set(envelopes.map(({ correlationId }) => correlationId === undefined)).size).toBe(2);
    expect(new Set(envelopes.map(({ metadata }) => metadata === undefined)).size).toBe(2);
  });
});

describe('message types', () => {
  it('knows exactly the ten types of the specification [R2.5 P9]', () => {
    expect(A2AMessageTypeSchema.options).toEqual(MESSAGE_TYPES);
  });

  it('Feature: a2a-mcp-protocols, Property 9: Message type validation [P9 R2.5]', () => {
    const factory = newFactory();
    const arbOther = fc.oneof(
      fc.string().filter((text) => !(MESSAGE_TYPES as readonly string[]).includes(text)),
      arbMessageType().map((type) => type.toUpperCase()),
      arbMessageType().map((type) => `${type} `),
      arbMessageType().map((type) => [type]),
      fc.constantFrom(undefined, null, 0, true, {}, '__proto__', 'constructor', 'toString'),
    );
    fc.assert(
      fc.property(arbA2AEnvelope(), arbMessageType(), arbOther, (envelope, type, other) => {
        expect(checkEnvelope({ ...envelope, type }).type).toBe(type);
        expect(A2AEnvelopeSchema.safeParse({ ...envelope, type }).success).toBe(true);
        expect(factory.create({ ...envelope, type }).type).toBe(type);
        const wrong = { ...envelope, type: other } as unknown as A2AEnvelope;
        for (const enter of [() => checkEnvelope(wrong), () => factory.create(wrong)]) {
          const error = refusal(enter);
          expect(error.code).toBe('INVALID_ENVELOPE');
          expect(faultyFields(error)).toEqual(new Set(['type']));
        }
        expect(A2AEnvelopeSchema.safeParse(wrong).success).toBe(false);
      }),
      { numRuns: 500 },
    );
  });
});

describe('refusing values that are not envelopes', () => {
  it('names every fault of a draft, not only the first [R2.1]', () => {
    const broken = init({
      sender: 'not an address',
      recipient: '',
      type: 'shout',
      correlationId: '',
      payload: undefined,
      metadata: { tier: 4, ttlMs: 0 },
    });
    const error = refusal(() => newFactory().create(broken));
    expect(error.code).toBe('INVALID_ENVELOPE');
    expect(faultyFields(error)).toEqual(
      new Set(['sender', 'recipient', 'type', 'correlationId', 'payload', 'metadata.tier', 'metadata.ttlMs']),
    );
  });

  it.each([
    ['a sender that is everyone', 'sender', { sender: '*' }],
    ['a sender with a space', 'sender', { sender: 'sun ' }],
    ['a sender with a line break', 'sender', { sender: 'sun\n' }],
    ['a sender without an id', 'sender', { sender: '@node1' }],
    ['a sender without a node', 'sender', { sender: 'sun@' }],
    ['a sender with two nodes', 'sender', { sender: 'sun@node1@node2' }],
    ['a sender of 257 characters', 'sender', { sender: 'a'.repeat(257) }],
    ['a sender that is no text', 'sender', { sender: 7 }],
    ['no recipient', 'recipient', { recipient: undefined }],
    ['a recipient of 257 characters', 'recipient', { recipient: 'a'.repeat(257) }],
    ['an empty correlation id', 'correlationId', { correlationId: '' }],
    ['a correlation id of 129 characters', 'correlationId', { correlationId: 'a'.repeat(129) }],
    ['a null correlation id', 'correlationId', { correlationId: null }],
    ['no payload', 'payload', { payload: undefined }],
    ['metadata that is null', 'metadata', { metadata: null }],
    ['metadata that is text', 'metadata', { metadata: 'x' }],
    ['metadata that is a list', 'metadata', { metadata: [] }],
    ['an unknown routing hint', 'metadata.routingHint', { metadata: { routingHint: 'nearest' } }],
    ['an empty sandbox', 'metadata.sandboxId', { metadata: { sandboxId: '' } }],
    [
      'a justification of 4,097 characters',
      'metadata.escalationJustification',
      { metadata: { escalationJustification: 'a'.repeat(4_097) } },
    ],
    ['a word for durable', 'metadata.durable', { metadata: { durable: 'yes' } }],
    ['an endless time to live', 'metadata.ttlMs', { metadata: { ttlMs: Number.POSITIVE_INFINITY } }],
    ['a negative time to live', 'metadata.ttlMs', { metadata: { ttlMs: -1 } }],
    ['an empty traceparent', 'metadata.traceparent', { metadata: { traceparent: '' } }],
    ['a tracestate of 257 characters', 'metadata.tracestate', { metadata: { tracestate: 'a'.repeat(257) } }],
  ])('refuses %s, when made and when received [R2.1]', (_, field, fields) => {
    for (const enter of [() => newFactory().create(init(fields)), () => checkEnvelope(plain(fields))]) {
      const error = refusal(enter);
      expect(error.code).toBe('INVALID_ENVELOPE');
      expect(faultyFields(error)).toEqual(new Set([field]));
    }
  });

  it.each([
    ['no id', 'id', { id: undefined }],
    ['an empty id', 'id', { id: '' }],
    ['an id of 129 characters', 'id', { id: 'a'.repeat(129) }],
    ['no time', 'timestamp', { timestamp: undefined }],
    ['a time before all time', 'timestamp', { timestamp: -1 }],
    ['a time that is no number', 'timestamp', { timestamp: Number.NaN }],
    ['a time without end', 'timestamp', { timestamp: Number.POSITIVE_INFINITY }],
    ['a time written as text', 'timestamp', { timestamp: '2020-01-01' }],
    ['no version', 'schemaVersion', { schemaVersion: undefined }],
    ['a version written as text', 'schemaVersion', { schemaVersion: '1' }],
  ])('refuses an envelope with %s [R2.1]', (_, field, fields) => {
    const error = refusal(() => checkEnvelope(plain(fields)));
    expect(error.code).toBe('INVALID_ENVELOPE');
    expect(faultyFields(error)).toEqual(new Set([field]));
  });

  it.each([
    ['null', null],
    ['undefined', undefined],
    ['text', 'envelope'],
    ['a number', 7],
    ['a bigint', 7n],
    ['a symbol', Symbol('envelope')],
    ['a function', () => plain()],
    ['an empty list', []],
    ['a list with the fields of an envelope', Object.assign([], plain())],
    ['an empty object', {}],
  ])('refuses %s [R2.1]', (_, value) => {
    expect(refusal(() => checkEnvelope(value)).code).toBe('INVALID_ENVELOPE');
  });
});

describe('payloads', () => {
  class Point {
    x = 1;
  }

  const cycle: Record<string, unknown> = {};
  cycle.again = { here: cycle };

  it.each([
    ['a Date', new Date(0)],
    ['a Map', new Map([['k', 1]])],
    ['a Set', new Set([1])],
    ['a class instance', new Point()],
    ['an Error', new Error('no')],
    ['a Buffer', Buffer.from('no')],
    ['a boxed string', Object('no')],
    ['a function', () => 1],
    ['a symbol', Symbol('no')],
    ['a bigint', 1n],
    ['NaN', Number.NaN],
    ['infinity', Number.NEGATIVE_INFINITY],
    ['undefined in a list', undefined],
    ['an object with an object above it', Object.create({ inherited: 1 })],
  ])('refuses %s, and says where it is [R2.1]', (_, value) => {
    const payload = { list: ['fine', { deep: [0, value] }] };
    for (const enter of [() => newFactory().create(init({ payload })), () => checkEnvelope(plain({ payload }))]) {
      const error = refusal(enter);
      expect(error.code).toBe('INVALID_ENVELOPE');
      expect(faultsOf(error)).toHaveLength(1);
      expect(faultsOf(error)[0]).toMatch(/^payload: list\[1\]\.deep\[1\] /);
    }
  });

  it('refuses such a value as the whole payload, too [R2.1]', () => {
    for (const payload of [new Date(0), () => 1, 1n, Number.NaN, Symbol('no'), new Point()]) {
      expect(faultyFields(refusal(() => newFactory().create(init({ payload }))))).toEqual(new Set(['payload']));
    }
  });

  it('refuses a payload that refers back to itself, and says where [R2.1]', () => {
    const error = refusal(() => newFactory().create(init({ payload: { cycle } })));
    expect(error.code).toBe('INVALID_ENVELOPE');
    expect(faultsOf(error)[0]).toMatch(/^payload: cycle\.again\.here /);
    const list: unknown[] = [];
    list.push(list);
    expect(faultsOf(refusal(() => newFactory().create(init({ payload: list }))))[0]).toMatch(/^payload: \[0\] /);
  });

  it('refuses a key that poisons prototypes, and says where [R2.1]', () => {
    const payload = JSON.parse('{"a":[{"__proto__":{"polluted":true}}]}');
    const error = refusal(() => newFactory().create(init({ payload })));
    expect(error.code).toBe('INVALID_ENVELOPE');
    expect(faultsOf(error)[0]).toMatch(/^payload: a\[0\]\.__proto__ /);
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  it('looks no further than the first fault [R2.1]', () => {
    let reads = 0;
    const payload = new Proxy(new Array(100_000), {
      get(target, key, receiver) {
        reads++;
        return Reflect.get(target, key, receiver);
      },
    });
    expect(faultsOf(refusal(() => newFactory().create(init({ payload }))))[0]).toMatch(/^payload: \[0\] /);
    expect(reads).toBeLessThan(1_000);
  });

  it('takes a member that is undefined for one that is absent [R2.1]', () => {
    const envelope = newFactory().create(init({ payload: { here: 1, absent: undefined } }));
    expect(JSON.parse(serializeEnvelope(envelope)).payload).toEqual({ here: 1 });
  });

  it('takes the same object twice where it is not inside itself [R2.1]', () => {
    const shared = { x: 1 };
    expect(newFactory().create(init({ payload: [shared, shared, { shared }] })).payload).toEqual([
      { x: 1 },
      { x: 1 },
      { shared: { x: 1 } },
    ]);
  });

  it('takes any JSON value, falsy ones included [R2.1]', () => {
    for (const payload of [null, 0, -1.5e300, '', false, true, [], {}, [null], Object.create(null)]) {
      expect(newFactory().create(init({ payload })).payload).toBe(payload);
    }
  });

  it('takes 64 levels and refuses 65 as PAYLOAD_TOO_LARGE [R2.1]', () => {
    expect(newFactory().create(init({ payload: nested(64) })).payload).toEqual(nested(64));
    expect(checkEnvelope(plain({ payload: nested(64) })).payload).toEqual(nested(64));
    for (const levels of [65, 66, 5_000]) {
      expect(refusal(() => newFactory().create(init({ payload: nested(levels) }))).code).toBe('PAYLOAD_TOO_LARGE');
      expect(refusal(() => checkEnvelope(plain({ payload: nested(levels) }))).code).toBe('PAYLOAD_TOO_LARGE');
    }
  });

  const quotes = 2;
  it.each([
    ['plain characters', 'x'.repeat(LIMITS.payloadBytes - quotes), 'x'],
    ['characters of three bytes', `${'€'.repeat((LIMITS.payloadBytes - 4) / 3)}xx`, 'x'],
    ['characters that JSON escapes', `${'\n'.repeat((LIMITS.payloadBytes - quotes) / 2)}`, 'x'],
    ['characters that JSON writes as six', `${'\u0001'.repeat((LIMITS.payloadBytes - 4) / 6)}xx`, 'x'],
  ])('takes exactly 1 MiB of %s and refuses one byte more as PAYLOAD_TOO_LARGE [R2.1]', (_, largest, more) => {
    expect(Buffer.byteLength(JSON.stringify(largest))).toBe(LIMITS.payloadBytes);
    expect(newFactory().create(init({ payload: largest })).payload).toBe(largest);
    expect(checkEnvelope(plain({ payload: largest })).payload).toBe(largest);
    const payload = largest + more;
    expect(refusal(() => newFactory().create(init({ payload }))).code).toBe('PAYLOAD_TOO_LARGE');
    expect(refusal(() => checkEnvelope(plain({ payload }))).code).toBe('PAYLOAD_TOO_LARGE');
  });

  it.each([
    ['digits', 7],
    ['truths', true],
    ['empty lists', []],
    ['nulls', null],
    ['empty objects', {}],
    ['empty texts', ''],
    ['long numbers', -Number.MAX_VALUE],
  ])('measures a list of %s by its JSON, to the byte [R2.1]', (_, member) => {
    const each = JSON.stringify(member).length + 1;
    const payload = new Array(Math.floor((LIMITS.payloadBytes - 1) / each)).fill(member);
    expect(Buffer.byteLength(JSON.stringify(payload))).toBeLessThanOrEqual(LIMITS.payloadBytes);
    expect(newFactory().create(init({ payload })).payload).toBe(payload);
    const larger = [...payload, member];
    expect(Buffer.byteLength(JSON.stringify(larger))).toBeGreaterThan(LIMITS.payloadBytes);
    expect(refusal(() => newFactory().create(init({ payload: larger }))).code).toBe('PAYLOAD_TOO_LARGE');
  });

  it('refuses a payload that is small in memory but vast as JSON [R2.1]', () => {
    let payload: unknown = ['leaf'];
    for (let level = 0; level < 60; level++) payload = [payload, payload];
    expect(refusal(() => newFactory().create(init({ payload }))).code).toBe('PAYLOAD_TOO_LARGE');
  });

  it('prefers to say that a payload is too large when other fields are wrong as well [R2.1]', () => {
    const payload = 'x'.repeat(LIMITS.payloadBytes);
    expect(refusal(() => newFactory().create(init({ sender: '*', payload }))).code).toBe('PAYLOAD_TOO_LARGE');
  });
});

describe('proof of validity', () => {
  it('returns a valid envelope as it is, and checks a copy again [R2.1]', () => {
    const envelope = newFactory().create(init());
    expect(checkEnvelope(envelope)).toBe(envelope);
    const copy = { ...envelope };
    expect(copy).not.toBeInstanceOf(ValidEnvelope);
    const checked = checkEnvelope(copy);
    expect(checked).toBeInstanceOf(ValidEnvelope);
    expect(checked).not.toBe(envelope);
    expect(checked).toEqual(envelope);
  });

  it('refuses a copy that was made wrong [R2.1]', () => {
    const envelope = newFactory().create(init());
    const wrong = [
      { sender: '*' },
      { type: 'shout' },
      { payload: { when: new Date(0) } },
      { id: '' },
      { timestamp: -1 },
      { metadata: { tier: 9 } },
    ];
    for (const fields of wrong) {
      const copy = { ...envelope, ...fields } as unknown as A2AEnvelope;
      expect(refusal(() => checkEnvelope(copy)).code).toBe('INVALID_ENVELOPE');
    }
  });

  it('is not fooled by an object that only has a valid envelope above it [R2.1]', () => {
    const envelope = newFactory().create(init());
    const forged = Object.create(envelope, { type: { value: 'shout', enumerable: true } });
    expect(refusal(() => checkEnvelope(forged)).code).toBe('INVALID_ENVELOPE');
  });

  it('keeps of a stranger’s envelope only what this release knows [R2.1]', () => {
    const checked = checkEnvelope(plain({ admin: true, metadata: { tier: 1, admin: true, sandboxId: undefined } }));
    expect('admin' in checked).toBe(false);
    expect(checked.metadata).toStrictEqual({ tier: 1 });
  });

  it('keeps of given metadata only what this release knows, so that every envelope made can be written [R2.1 R13.1]', () => {
    const envelope = newFactory().create(init({ metadata: { tier: 1, stray: 1n } }));
    expect(JSON.parse(serializeEnvelope(envelope)).metadata).toEqual({ tier: 1 });
  });

  it('does not follow metadata that its maker changes afterwards [R2.1]', () => {
    const metadata = { tier: 3 as 0 | 3 };
    const envelope = newFactory().create(init({ metadata }));
    const received = checkEnvelope(plain({ metadata }));
    metadata.tier = 0;
    expect(received.metadata).toEqual({ tier: 3 });
    expect(envelope.metadata).toEqual({ tier: 3 });
  });

  it('renames the ends of an envelope, or empties it, and leaves the rest and the original alone [R2.1]', () => {
    const envelope = newFactory().create(init({ correlationId: 'C1', metadata: { tier: 0 } }));
    const before = { ...envelope };
    expect({ ...envelope.readdress('sun@node1', 'mars@node2') }).toEqual({
      ...before,
      sender: 'sun@node1',
      recipient: 'mars@node2',
    });
    expect({ ...envelope.withoutPayload() }).toEqual({ ...before, payload: null });
    expect({ ...envelope }).toEqual(before);
    expect(checkEnvelope(envelope.withoutPayload())).toBeInstanceOf(ValidEnvelope);
  });
});

describe('the hand-written check', () => {
  const fields = [
    'id',
    'schemaVersion',
    'sender',
    'recipient',
    'correlationId',
    'type',
    'timestamp',
    'payload',
    'metadata',
  ];
  const metadataFields = [
    'tier',
    'sandboxId',
    'routingHint',
    'escalationJustification',
    'durable',
    'ttlMs',
    'traceparent',
    'tracestate',
  ];
  /** Values at and around every limit, and of every kind. */
  const arbValue = fc.oneof(
    fc.constantFrom<unknown>(
      undefined,
      null,
      true,
      false,
      '',
      '*',
      '@',
      'sun',
      'sun@node',
      'sun@',
      '@node',
      'sun@a@b',
      'sun\n',
      '_sun',
      '-',
      'capability',
      'request',
      '__proto__',
      0,
      -0,
      1,
      2,
      3,
      4,
      -1,
      1.5,
      5e-324,
      Number.MAX_VALUE,
      Number.NaN,
      Number.POSITIVE_INFINITY,
      1n,
      Symbol('s'),
      () => 1,
      new Date(0),
      new Map(),
      Object('text'),
      Object(1),
      Object(true),
      [],
      {},
      Object.create(null),
      ['request'],
    ),
    fc.constantFrom(64, 65, 128, 129, 256, 257, 4_096, 4_097).map((length) => 'a'.repeat(length)),
    fc.anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true, withSparseArray: true }),
    fc.string(),
    fc.double(),
  );
  const arbChange = fc.oneof(
    fc.record({ in: fc.constant('envelope' as const), field: fc.constantFrom(...fields, 'stray'), value: arbValue }),
    fc.record({
      in: fc.constant('metadata' as const),
      field: fc.constantFrom(...metadataFields, 'stray'),
      value: arbValue,
    }),
    fc.record({
      in: fc.constant('nothing' as const),
      field: fc.constantFrom(...fields),
      value: fc.constant(undefined),
    }),
  );

  function mutate(envelope: A2AEnvelope, changes: readonly { in: string; field: string; value: unknown }[]): unknown {
    const mutant: Record<string, unknown> = { ...envelope };
    for (const change of changes) {
      if (change.in === 'nothing') delete mutant[change.field];
      else if (change.in === 'envelope') mutant[change.field] = change.value;
      else mutant.metadata = { ...(mutant.metadata as object | undefined), [change.field]: change.value };
    }
    return mutant;
  }

  function expectAgreement(value: unknown): void {
    const parsed = A2AEnvelopeSchema.safeParse(value);
    if (parsed.success) {
      expect(JSON.parse(JSON.stringify(checkEnvelope(value)))).toEqual(JSON.parse(JSON.stringify(parsed.data)));
    } else {
      expect(['INVALID_ENVELOPE', 'PAYLOAD_TOO_LARGE', 'SCHEMA_VERSION_MISMATCH']).toContain(
        refusal(() => checkEnvelope(value)).code,
      );
    }
  }

  it('agrees with the schema on valid and on changed envelopes [R2.1 R2.5 P9]', () => {
    fc.assert(
      fc.property(arbA2AEnvelope(), fc.array(arbChange, { maxLength: 2 }), (envelope, changes) => {
        expectAgreement(mutate(envelope, changes));
      }),
      { numRuns: 5_000 },
    );
  });

  it('agrees with the schema on anything at all [R2.1]', () => {
    fc.assert(
      fc.property(
        fc.anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true }),
        (value) => {
          expectAgreement(value);
        },
      ),
      { numRuns: 1_000 },
    );
  });

  it('refuses a draft exactly when the schema would refuse the envelope made of it [R2.1 R2.5]', () => {
    const arbDraftChange = arbChange.filter(({ field }) => !['id', 'schemaVersion', 'timestamp'].includes(field));
    const factory = newFactory();
    fc.assert(
      fc.property(arbA2AEnvelope(), fc.array(arbDraftChange, { maxLength: 2 }), (envelope, changes) => {
        const draft = mutate(envelope, changes) as A2AEnvelope;
        if (A2AEnvelopeSchema.safeParse(draft).success) expect(factory.create(draft)).toBeInstanceOf(ValidEnvelope);
        else {
          expect(['INVALID_ENVELOPE', 'PAYLOAD_TOO_LARGE']).toContain(refusal(() => factory.create(draft)).code);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});
