import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arbAgentId, arbJson } from '../../test/generators.js';
import { SCHEMA_VERSION } from '../mesh/schemas.js';
import { deserializeInvocation, type InvocationRecord, redact, serializeInvocation } from './invocations.js';

const arbOutcome = fc.oneof(
  fc.record({ result: arbJson() }),
  fc.record({ error: fc.record({ code: fc.string(), message: fc.string(), agent: arbAgentId() }) }),
);

const arbRecord = fc
  .record({
    id: fc.string({ minLength: 1 }),
    tool: fc.string({ minLength: 1 }),
    agent: arbAgentId(),
    caller: arbAgentId(),
    arguments: fc.dictionary(
      fc.string().filter((key) => key !== '__proto__'),
      arbJson(),
    ),
    startedAt: fc.nat(),
    durationMs: fc.double({ min: 0, max: 1e9, noNaN: true }).map((ms) => ms + 0),
    outcome: arbOutcome,
  })
  .map(({ outcome, ...rest }) => ({ schemaVersion: SCHEMA_VERSION, ...rest, ...outcome }) as InvocationRecord);

const RECORD: InvocationRecord = {
  schemaVersion: SCHEMA_VERSION,
  id: '1',
  tool: 'mars.build',
  agent: 'mars',
  caller: 'sun',
  arguments: {},
  result: null,
  startedAt: 0,
  durationMs: 0,
};

describe('the record of a tool call', () => {
  it('Feature: a2a-mcp-protocols, Property 34: MCP invocation record serialization round trip [P34 R13.4 R13.5]', () => {
    fc.assert(
      fc.property(arbRecord, (record) => {
        expect(deserializeInvocation(serializeInvocation(record))).toEqual(record);
      }),
      { numRuns: 100 },
    );
  });

  it.each([
    ['no JSON', '{', 'INVALID_ENVELOPE'],
    ['nothing', 'null', 'SCHEMA_VERSION_MISMATCH'],
    ['a record of another version', JSON.stringify({ ...RECORD, schemaVersion: 2 }), 'SCHEMA_VERSION_MISMATCH'],
    ['a record without a tool', JSON.stringify({ ...RECORD, tool: undefined }), 'INVALID_ENVELOPE'],
    ['a record with something more', JSON.stringify({ ...RECORD, more: 1 }), 'INVALID_ENVELOPE'],
    ['a negative duration', JSON.stringify({ ...RECORD, durationMs: -1 }), 'INVALID_ENVELOPE'],
  ])('is not made of %s', (_, text, code) => {
    expect(() => deserializeInvocation(text)).toThrow(expect.objectContaining({ code }));
  });

  it('reports which field is invalid', () => {
    const text = JSON.stringify({ ...RECORD, error: { code: 1 } });
    expect(() => deserializeInvocation(text)).toThrow(/error\.code/);
  });

  it('contains no value of a secret argument', () => {
    fc.assert(
      fc.property(arbJson(), arbJson(), (secret, open) => {
        expect(redact({ password: secret, open }, ['password', 'absent'])).toEqual({ password: '[redacted]', open });
      }),
    );
    const args = { open: 1 };
    expect(redact(args, undefined)).toBe(args);
  });
});
