import { deserializeEnvelope, envelopeText, serializeEnvelope, unpackEnvelope } from '../../../src/mesh/codec.js';
import { checkEnvelope } from '../../../src/mesh/envelope.js';
import { type FuzzTarget, must, mustEqual, unlessRefused } from '../fuzz-target.js';
import { jsonOf } from '../shaped-input.js';

const ENVELOPES = [
  { schemaVersion: 1, id: 'e1', sender: 'sun', recipient: 'mars', type: 'request', timestamp: 1, payload: { a: [1] } },
  {
    schemaVersion: 1,
    id: 'e2',
    sender: 'sun',
    recipient: '*',
    type: 'notification',
    timestamp: 2.5,
    payload: 'é\u2028',
    correlationId: 't',
    metadata: { durable: true, ttlMs: 1_000, justification: 'because', traceparent: 'x' },
  },
  ['m', 1, 'e3', 'sun', 'mars', 'response', 1, null, 'thread', { sandboxOverride: 'a' }],
];

/** Both forms of an envelope hold the same, and what one reader takes, the other takes. */
export const target: FuzzTarget = {
  name: 'envelope',
  about: 'envelopes, as objects and packed',
  seeds: ['\0', '\x01', '\x02', JSON.stringify(ENVELOPES[0]), JSON.stringify(ENVELOPES[1])],
  run(input) {
    const value = jsonOf(input, ENVELOPES);
    const envelope = Array.isArray(value) ? unpackEnvelope(value, 1) : checkEnvelope(value);
    const again = deserializeEnvelope(serializeEnvelope(envelope));
    mustEqual(again, envelope, 'an envelope serialized and read');
    const unpacked = unlessRefused(() => unpackEnvelope(JSON.parse(envelopeText(envelope)) as unknown[]));
    must(unpacked !== undefined, () => `packed envelope refused: ${envelopeText(envelope).slice(0, 500)}`);
    mustEqual(unpacked, envelope, 'an envelope packed and unpacked');
  },
};
