import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fromProto, toProto } from './grpc-service.js';

describe('JSON and protobuf', () => {
  it('hold the same data and metadata, for any JSON', () => {
    const json = fc.jsonValue({ maxDepth: 4 }).map((value) => JSON.parse(JSON.stringify(value)) as unknown);
    const fields = fc.dictionary(
      fc.string().filter((key) => key !== '__proto__'),
      json,
    );
    fc.assert(
      fc.property(json, fields, (data, metadata) => {
        const part = { parts: [{ data, metadata }], metadata };
        expect(fromProto(toProto(part))).toEqual(part);
      }),
    );
  });

  it('hold the same times, to the millisecond', () => {
    const times = fc.date({ min: new Date('0001-01-01'), max: new Date('9999-12-31'), noInvalidDate: true });
    fc.assert(
      fc.property(times, (time) => {
        const status = { timestamp: time.toISOString() };
        expect(fromProto(toProto(status))).toEqual(status);
      }),
    );
    expect(toProto({ timestamp: '1969-12-31T23:59:59.999Z' })).toEqual({
      timestamp: { seconds: -1, nanos: 999_000_000 },
    });
    expect(() => fromProto({ timestamp: { seconds: 1e300 } })).toThrow('must be a time');
  });

  it('keep the keys of user data', () => {
    const card = { securitySchemes: { data: { httpAuthSecurityScheme: { scheme: 'Bearer' } }, metadata: {} } };
    expect(toProto(card)).toEqual(card);
    expect(toProto({ securityRequirements: [{ schemes: { timestamp: { list: ['tasks'] } } }] })).toEqual({
      securityRequirements: [{ schemes: { timestamp: { list: ['tasks'] } } }],
    });
  });
});
