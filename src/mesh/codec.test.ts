import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arbA2AEnvelope } from '../../test/generators.js';
import { EclipticError } from '../runtime/errors.js';
import { SimulatedRuntime } from '../runtime/simulated-runtime.js';
import { deserializeEnvelope, serializeEnvelope } from './codec.js';
import { EnvelopeFactory, type EnvelopeInit, ValidEnvelope } from './envelope.js';
import { LIMITS } from './limits.js';
import { type A2AEnvelope, A2AEnvelopeSchema } from './schemas.js';

function make(fields: Partial<EnvelopeInit> = {}): ValidEnvelope {
  const factory = new EnvelopeFactory(new SimulatedRuntime());
  return factory.create({ sender: 'sun', recipient: 'mars', type: 'request', payload: { task: 1 }, ...fields });
}

/** The text of a valid envelope but for the given fields. */
function textOf(fields: object): string {
  return JSON.stringify({ ...make(), ...fields });
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

describe('writing an envelope as JSON and reading it back', () => {
  it('Feature: a2a-mcp-protocols, Property 7: A2A Envelope serialization round trip [P7 R2.3 R13.1 R13.2 R13.3]', () => {
    fc.assert(
      fc.property(arbA2AEnvelope(), (envelope) => {
        const read = deserializeEnvelope(serializeEnvelope(envelope));
        expect({ ...read }).toEqual(envelope);
        expect(read.schemaVersion).toBe(1);
        expect(read).toBeInstanceOf(ValidEnvelope);
      }),
      { numRuns: 500 },
    );
  });

  it('serializes a deserialized envelope to the same text [R2.3 R13.3]', () => {
    fc.assert(
      fc.property(arbA2AEnvelope(), (envelope) => {
        const text = serializeEnvelope(envelope);
        expect(serializeEnvelope(deserializeEnvelope(text))).toBe(text);
      }),
      { numRuns: 200 },
    );
  });

  it('gives back an envelope of the factory with all it carries [R2.3 R13.2]', () => {
    const envelope = make({
      recipient: '*',
      correlationId: 'C1',
      type: 'task-proposal',
      payload: { text: 'ünïcödé \u2028 \u0000 "quoted" 🪐', numbers: [0, -1.5, 1e21], nothing: null },
      metadata: { tier: 0, sandboxId: 'red', routingHint: 'capability', durable: true, ttlMs: 0.5 },
    });
    expect(deserializeEnvelope(serializeEnvelope(envelope))).toEqual(envelope);
  });

  it('writes JSON that holds the schema version and every required field [R13.1 R13.6]', () => {
    fc.assert(
      fc.property(arbA2AEnvelope(), (envelope) => {
        const parsed = JSON.parse(serializeEnvelope(envelope));
        expect(parsed.schemaVersion).toBe(1);
        expect(Object.keys(parsed)).toEqual(
          expect.arrayContaining(['id', 'sender', 'recipient', 'type', 'timestamp', 'payload']),
        );
        expect(A2AEnvelopeSchema.safeParse(parsed).success).toBe(true);
      }),
      { numRuns: 200 },
    );
  });

  it('writes only valid envelopes [R13.1]', () => {
    const wrong = { ...make(), type: 'shout' } as unknown as A2AEnvelope;
    expect(refusal(() => serializeEnvelope(wrong)).code).toBe('INVALID_ENVELOPE');
    const newer = { ...make(), schemaVersion: 2 } as unknown as A2AEnvelope;
    expect(refusal(() => serializeEnvelope(newer)).code).toBe('SCHEMA_VERSION_MISMATCH');
    const unwritable = { ...make(), payload: { at: new Date(0) } };
    expect(refusal(() => serializeEnvelope(unwritable)).code).toBe('INVALID_ENVELOPE');
  });

  it('reads whatever it can write, up to the largest envelope [R13.3]', () => {
    const worst = '\u0001';
    const largest = make({
      sender: 'a'.repeat(LIMITS.nameChars),
      recipient: worst.repeat(LIMITS.nameChars),
      correlationId: worst.repeat(LIMITS.idChars),
      payload: 'x'.repeat(LIMITS.payloadBytes - 2),
      metadata: {
        tier: 3,
        sandboxId: worst.repeat(LIMITS.idChars),
        routingHint: 'capability',
        escalationJustification: worst.repeat(LIMITS.textChars),
        durable: false,
        ttlMs: Number.MAX_VALUE,
        traceparent: worst.repeat(LIMITS.nameChars),
        tracestate: worst.repeat(LIMITS.nameChars),
      },
    });
    expect(deserializeEnvelope(serializeEnvelope(largest))).toEqual(largest);
  });

  it('ignores fields that it does not know, so that newer peers may add some [R13.2 R13.6]', () => {
    const read = deserializeEnvelope(textOf({ added: 1, metadata: { tier: 1, added: 1 } }));
    expect('added' in read).toBe(false);
    expect(read.metadata).toEqual({ tier: 1 });
  });
});

describe('schema versions', () => {
  it.each([0, 2, 3, -1, 1_000_000])(
    'refuses version %i as SCHEMA_VERSION_MISMATCH, with the expected and the found one [R13.7 UT2 E.SCHEMA_VERSION_MISMATCH]',
    (schemaVersion) => {
      const error = refusal(() => deserializeEnvelope(textOf({ schemaVersion })));
      expect(error.code).toBe('SCHEMA_VERSION_MISMATCH');
      expect(error.details).toEqual({ expected: 1, found: schemaVersion });
    },
  );

  it('refuses every version but its own, whatever else the envelope holds [R13.7 E.SCHEMA_VERSION_MISMATCH]', () => {
    const arbVersion = fc.integer().filter((version) => version !== 1);
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), arbVersion, (fields, schemaVersion) => {
        const error = refusal(() => deserializeEnvelope(JSON.stringify({ ...fields, schemaVersion })));
        expect(error.code).toBe('SCHEMA_VERSION_MISMATCH');
        expect(error.details).toEqual({ expected: 1, found: schemaVersion });
      }),
      { numRuns: 200 },
    );
  });

  it.each([['1'], [null], [1.5], [true], [{ toString: 'none' }], [undefined]])(
    'refuses %j, which is no version, as a malformed envelope [R13.2 R13.6]',
    (schemaVersion) => {
      const error = refusal(() => deserializeEnvelope(textOf({ schemaVersion })));
      expect(error.code).toBe('INVALID_ENVELOPE');
      expect(error.details.faults).toHaveLength(1);
    },
  );
});

describe('text that is no envelope', () => {
  it.each([
    ['nothing', ''],
    ['words', 'hello'],
    ['half an envelope', textOf({}).slice(0, -1)],
    ['an envelope and more', `${textOf({})}x`],
    ['a JavaScript object', '{id:1}'],
    ['NaN', 'NaN'],
  ])('refuses %s as not JSON, and keeps the cause [R13.2]', (_, text) => {
    const error = refusal(() => deserializeEnvelope(text));
    expect(error.code).toBe('INVALID_ENVELOPE');
    expect(error.cause).toBeInstanceOf(SyntaxError);
  });

  it.each([['null'], ['[]'], ['{}'], ['7'], ['"text"'], ['true'], [JSON.stringify([make()])]])(
    'refuses %s, which is JSON but no envelope [R13.2]',
    (text) => {
      expect(refusal(() => deserializeEnvelope(text)).code).toBe('INVALID_ENVELOPE');
    },
  );

  it.each([[undefined], [null], [7], [{}], [Buffer.from(textOf({}))]])(
    'refuses a value that is not text: %j [R13.2]',
    (value) => {
      expect(refusal(() => deserializeEnvelope(value as unknown as string)).code).toBe('INVALID_ENVELOPE');
    },
  );

  it('names every fault of an envelope that it refuses [R13.2]', () => {
    const error = refusal(() => deserializeEnvelope(textOf({ sender: '*', type: 'shout', timestamp: -1 })));
    expect(error.code).toBe('INVALID_ENVELOPE');
    const fields = (error.details.faults as string[]).map((fault) => fault.slice(0, fault.indexOf(':')));
    expect(new Set(fields)).toEqual(new Set(['sender', 'type', 'timestamp']));
  });

  it('refuses a key that poisons prototypes inside a payload, and drops one outside [R13.2]', () => {
    const text = textOf({});
    const inside = text.replace('"task":1', '"__proto__":{"polluted":true}');
    expect(refusal(() => deserializeEnvelope(inside)).code).toBe('INVALID_ENVELOPE');
    const outside = text.replace('{', '{"__proto__":{"polluted":true},');
    expect({ ...deserializeEnvelope(outside) }).toEqual({ ...deserializeEnvelope(text) });
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  it('refuses text above the limit unread, and reads text at the limit [R13.2]', () => {
    const text = textOf({});
    const atLimit = text.padEnd(LIMITS.envelopeChars, ' ');
    expect(deserializeEnvelope(atLimit).sender).toBe('sun');
    expect(refusal(() => deserializeEnvelope(`${atLimit} `)).code).toBe('PAYLOAD_TOO_LARGE');
    expect(refusal(() => deserializeEnvelope('['.repeat(LIMITS.envelopeChars + 1))).code).toBe('PAYLOAD_TOO_LARGE');
  });

  it('refuses a payload above 1 MiB within text that is short enough [R13.2]', () => {
    const text = textOf({ payload: 'x'.repeat(LIMITS.payloadBytes - 1) });
    expect(text.length).toBeLessThan(LIMITS.envelopeChars);
    expect(refusal(() => deserializeEnvelope(text)).code).toBe('PAYLOAD_TOO_LARGE');
  });

  it('survives nesting as deep as the limit on text allows [R13.2]', () => {
    const levels = LIMITS.envelopeChars / 2 - 1_000;
    const deep = `${'['.repeat(levels)}${']'.repeat(levels)}`;
    expect(refusal(() => deserializeEnvelope(deep)).code).toBe('INVALID_ENVELOPE');
    const within = textOf({ payload: 'HERE' }).replace('"HERE"', deep);
    expect(refusal(() => deserializeEnvelope(within)).code).toBe('PAYLOAD_TOO_LARGE');
    const beside = textOf({ metadata: { tier: 'HERE' } }).replace('"HERE"', deep);
    expect(refusal(() => deserializeEnvelope(beside)).code).toBe('INVALID_ENVELOPE');
  });
});
