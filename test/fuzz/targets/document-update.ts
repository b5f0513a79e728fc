import * as Y from 'yjs';
import { Segment } from '../../../src/documents/segment.js';
import { readMessage } from '../../../src/documents/sync-message.js';
import { Identity } from '../../../src/network/membership/identity.js';
import { type FuzzTarget, must, mustEqual, unlessRefused } from '../fuzz-target.js';
import { jsonOf } from '../shaped-input.js';

const node = Identity.fromSeed(Buffer.alloc(32, 6));
const thread = 'state:board';
const document = new Y.Doc();
document.clientID = 1;
document.getMap('m').set('a', 1);
const segment = new Segment({
  stream: `sun@${node.key}/abc`,
  first: 1,
  number: 1,
  after: {},
  update: Y.encodeStateAsUpdate(document),
});
segment.sign(thread, node);
const genuine = JSON.stringify(segment.wire());
const around = { sourceAgentId: 'sun', vectorClock: { [segment.stream]: 1 }, timestamp: 1 };
const SEEDS: unknown[] = [
  segment.wire(),
  { ...around, payload: { kind: 'update', segments: [segment.wire()] } },
  { ...around, payload: { kind: 'have', presence: { at: 1 }, sums: { a: 'b' }, quarantined: { a: 1 } } },
  { ...around, payload: { kind: 'want' } },
  { ...around, payload: { kind: 'claims', stream: segment.stream, claims: [segment.claim()] } },
  { ...around, payload: { kind: 'merged', stream: segment.stream, first: 1, number: 1, signature: 'x' } },
];

/** Only the author's own update counts as signed; whatever is read is the same when it is written again. */
export const target: FuzzTarget = {
  name: 'document-update',
  about: 'updates of shared documents',
  seeds: [...SEEDS.map((_, index) => Buffer.of(index)), genuine],
  run(input) {
    const value = jsonOf(input, SEEDS);
    const message = unlessRefused(() => readMessage(value));
    if (message) mustEqual(readMessage(JSON.parse(JSON.stringify(message))), message, 'a message read twice');
    const read = Segment.read(value);
    mustEqual(Segment.read(JSON.parse(JSON.stringify(read.wire()))).wire(), read.wire(), 'a segment read twice');
    if (read.isSigned(thread)) must(JSON.stringify(read.wire()) === genuine, () => 'a forged update counts as signed');
  },
};
